// A real Chromium, and pages in it.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { accessSync, constants } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { delimiter, join, resolve } from "node:path";
import { after, type TestContext } from "node:test";

import { type Browser, type BrowserContext, chromium } from "playwright-core";

import { within } from "../support/patience.js";

const PACKAGE = resolve(import.meta.dirname, "../..");
const ARGUMENTS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"];

/** One for all tests; each has a context of its own, which shares nothing with the others. */
let browser: Promise<Browser> | undefined;
let site: Promise<{ url: string; close: () => Promise<void> }> | undefined;

after(async () => {
  await (await browser)?.close();
  await (await site)?.close();
});

/** Where the example is served, on a port that is not Handback's. */
export async function siteUrl(): Promise<string> {
  site ??= serve();
  return (await site).url;
}

/** Serves one more page beside the example, really: the browser asks where a page comes from before it lets it call. */
export async function servePage(test: TestContext, path: string, html: string): Promise<string> {
  const example = await siteUrl();
  const server = createServer(async ({ url = "/" }, response) => {
    if (url === path) return void response.writeHead(200, { "content-type": "text/html" }).end(html);
    const file = await fetch(`${example}${url}`);
    response.writeHead(file.status, { "content-type": file.headers.get("content-type") ?? "text/plain" });
    response.end(Buffer.from(await file.arrayBuffer()));
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  test.after(() => {
    server.close();
    server.closeAllConnections();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}${path}`;
}

/** A browser without a past. What pages complain about fails the test, but for the failures that it brings about. */
export async function newContext(test: TestContext, expected?: RegExp): Promise<BrowserContext> {
  browser ??= chromium.launch({ executablePath: findChromium(), args: ARGUMENTS });
  const context = await (await browser).newContext();
  const complaints: string[] = [];
  context.on("console", (message) => {
    if (message.type() === "error" || message.type() === "warning") complaints.push(message.text());
  });
  context.on("weberror", (error) => complaints.push(String(error.error().stack)));
  test.after(async () => {
    await context.close();
    assert.deepEqual(complaints.filter((complaint) => !expected?.test(complaint)), []);
  });
  return context;
}

/** What Chromium itself says about a server that is not there, or is back when a page asks why its socket failed: 426. */
export const UNREACHABLE = /net::ERR_|WebSocket connection to .* failed|status of 426|not connected, trying again/;

async function serve(): Promise<{ url: string; close: () => Promise<void> }> {
  const child = spawn(process.execPath, ["examples/browser/serve.mjs"], {
    cwd: PACKAGE,
    env: { ...process.env, PORT: "0" },
    stdio: ["ignore", "pipe", "inherit"],
  });
  const exited = new Promise<void>((exited) => child.once("close", () => exited()));
  process.once("exit", () => child.kill("SIGKILL"));
  const listens = new Promise<string>((listens, fails) => {
    let said = "";
    child.stdout.setEncoding("utf8").on("data", (text: string) => {
      said += text;
      const [, url] = /^open (http:\S+)\n/m.exec(said) ?? [];
      if (url) listens(url);
    });
    void exited.then(() => fails(new Error("the server of the page has ended")));
  });
  const close = async () => {
    child.kill("SIGKILL");
    await exited;
  };
  return { url: await within("the page is served", listens), close };
}

function findChromium(): string {
  const names = ["chromium", "chromium-browser", "google-chrome"];
  const folders = (process.env["PATH"] ?? "").split(delimiter);
  const candidates = folders.flatMap((folder) => names.map((name) => join(folder, name)));
  const found = process.env["CHROMIUM"] ?? candidates.find(isExecutable);
  if (found === undefined) throw new Error("there is no Chromium: install it, or say where it is with CHROMIUM");
  return found;
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
