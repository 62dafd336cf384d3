// A real Chromium, and pages in it that are bundled when a test needs them.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { createServer } from "node:http";
import { join, resolve } from "node:path";
import { after } from "node:test";

import { build } from "esbuild";
import { chromium } from "playwright-core";

const FOLDER = resolve(import.meta.dirname, "..");
/** Where screenshots are left. */
export const OUTPUT = join(FOLDER, "test-output");
const ARGUMENTS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"];
const HTML =
  '<!doctype html><title>A page</title><link rel="icon" href="data:,"><div id="root"></div><script type="module" src="/page.js"></script>';

/**
 * One for all tests of a file; each has a context of its own, which shares nothing with the others.
 * @type {Promise<import("playwright-core").Browser> | undefined}
 */
let browser;
after(async () => (await browser)?.close());

/**
 * A browser without a past. What its pages complain about fails the test, but for what it expects.
 *
 * @param {import("node:test").TestContext} test
 * @param {RegExp} [expected]
 */
export async function newContext(test, expected) {
  browser ??= chromium.launch({ executablePath: findChromium(), args: ARGUMENTS });
  const context = await (await browser).newContext({ viewport: { width: 700, height: 900 } });
  /** @type {string[]} */
  const complaints = [];
  context.on("console", (message) => {
    if (message.type() === "error" || message.type() === "warning") complaints.push(message.text());
  });
  context.on("weberror", (error) => complaints.push(String(error.error().stack)));
  test.after(async () => {
    await context.close();
    assert.deepEqual(
      complaints.filter((complaint) => !expected?.test(complaint)),
      [],
    );
  });
  return context;
}

/**
 * What was bundled for a test, by its source: the tests of a file share their page.
 * @type {Map<string, Promise<string>>}
 */
const bundles = new Map();

/**
 * Bundles a page and serves it at a port of its own, as a page of another origin.
 *
 * @param {import("node:test").TestContext} test
 * @param {string} source
 * @param {string} name how its errors call it
 */
export async function servePage(test, source, name) {
  const bundling = bundles.get(source) ?? bundle(source, name);
  bundles.set(source, bundling);
  const text = await bundling;
  const server = createServer(({ url }, response) => {
    const isScript = url === "/page.js";
    response
      .writeHead(200, { "content-type": isScript ? "text/javascript" : "text/html; charset=utf-8" })
      .end(isScript ? text : HTML);
  });
  await new Promise((listens) => server.listen(0, "127.0.0.1", () => listens(undefined)));
  test.after(() => {
    server.close();
    server.closeAllConnections();
  });
  const { port } = /** @type {import("node:net").AddressInfo} */ (server.address());
  return `http://127.0.0.1:${port}/`;
}

/**
 * @param {string} source
 * @param {string} name
 */
async function bundle(source, name) {
  const { outputFiles } = await build({
    stdin: { contents: source, loader: "tsx", resolveDir: FOLDER, sourcefile: name },
    bundle: true,
    write: false,
    format: "esm",
    jsx: "automatic",
    jsxDev: true,
    define: { "process.env.NODE_ENV": '"development"' },
    alias: { "@handback/client": resolve(FOLDER, "../sdk/typescript/dist/index.js") },
    logLevel: "error",
  });
  return outputFiles[0].text;
}

function findChromium() {
  const find = "command -v chromium || command -v chromium-browser || command -v google-chrome";
  return process.env.CHROMIUM ?? execFileSync("sh", ["-c", find], { encoding: "utf8" }).trim();
}
