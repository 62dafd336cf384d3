// What docs/chat.md shows is what happens: its pages are type-checked and used in a real Chromium, its table is compared with
// a server.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { promisify } from "node:util";

import { newContext, OUTPUT, servePage } from "../support/browser.js";
import { Page, post } from "../support/page.js";
import { test, within } from "../support/patience.js";
import { Server } from "../support/server.js";

const FOREIGN = resolve(import.meta.dirname, "..");
const GUIDE = await readFile(resolve(FOREIGN, "../docs/chat.md"), "utf8");
const RENDER = `
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
createRoot(document.querySelector("#root")!).render(<StrictMode><Chat /></StrictMode>);
`;

/**
 * The blocks of a language, in order.
 *
 * @param {string} language
 * @param {string} [text]
 */
const blocksOf = (language, text = GUIDE) =>
  [...text.matchAll(new RegExp(`^\`\`\`${language}\\n(.*?)^\`\`\`$`, "gms"))].map(([, block]) => block);

/** What stands under a heading. @param {string} heading */
function section(heading) {
  const found = GUIDE.split(/^## /m).find((section) => section.startsWith(`${heading}\n`));
  return found ?? assert.fail(`there is no section "${heading}"`);
}

/**
 * The page that a section shows, opened in a browser.
 *
 * @param {import("node:test").TestContext} test
 * @param {string} heading
 * @param {string} [config]
 */
async function openPage(test, heading, config) {
  // Nobody else's site is asked for in a test; a chat that is new is asked for, and not there.
  const context = await newContext(test, /status of 404/);
  await context.route("https://example.com/**", (route) => route.fulfill({ body: "An example" }));
  const server = await Server.start(test, { config });
  const [block = assert.fail("there is no page")] = blocksOf("tsx", section(heading));
  const source = `${block}${RENDER}`.replaceAll("http://127.0.0.1:4096", server.url);
  const page = await context.newPage();
  await page.goto(await servePage(test, source, heading));
  return { context, server, page };
}

test("guide: all TypeScript is type-checked", async (test) => {
  const pages = blocksOf("tsx");
  const others = blocksOf("ts");
  assert.deepEqual([pages.length, others.length], [5, 1], "the blocks were not found");
  const folder = join(OUTPUT, "guide");
  await mkdir(folder, { recursive: true });
  test.after(() => rm(folder, { recursive: true, force: true }));
  for (const [number, page] of pages.entries()) await writeFile(join(folder, `page-${number}.tsx`), page);
  for (const [number, other] of others.entries())
    await writeFile(join(folder, `other-${number}.ts`), `${other}export { stop };\n`);
  const [registration] =
    /`(executor\.register\("pick_color".*?)`/.exec(GUIDE)?.slice(1) ?? assert.fail("the registration is gone");
  const before =
    'import { FrontendToolExecutor } from "@handback/client";\ndeclare const executor: FrontendToolExecutor;\ndeclare function pick(title: string): Promise<string>;\n';
  await writeFile(join(folder, "register.ts"), `${before}${registration};\n`);
  const compilerOptions = {
    noImplicitAny: true,
    paths: { "@handback/client": ["../../../sdk/typescript/dist/node.d.ts"] },
  };
  await writeFile(
    join(folder, "tsconfig.json"),
    JSON.stringify({ extends: "../../tsconfig.json", compilerOptions, include: ["."] }),
  );

  const tsc = join(FOREIGN, "node_modules/.bin/tsc");
  const { stdout, code } = await promisify(execFile)(tsc, ["--project", folder]).catch((error) => error);

  assert.deepEqual([stdout, code], ["", undefined]);
});

test("guide: a page with a frontend tool, in a few lines", async (test) => {
  const heading = "A tool of the server that the page runs";
  const { context, page } = await openPage(test, heading);
  const opening = within("a page is opened", context.waitForEvent("page"));

  await page.click("text=Open");

  await (await opening).waitForURL("https://example.com/");
  await page.waitForSelector('button:has-text("success")');
  const lines = blocksOf("tsx", section(heading))[0]
    .split("\n")
    .filter((line) => line.trim() !== "");
  assert.ok(lines.length <= 11, `${lines.length} lines`);
});

test("guide: a page with a tool of its own", async (test) => {
  const { page } = await openPage(test, "A tool of the page");
  await page.click("text=Ask");
  await page.waitForSelector(`button:has-text("${await page.evaluate(() => navigator.language)}")`);
});

test("guide: two tabs of a page that is a client, and each runs what is asked in it", async (test) => {
  const { context, page } = await openPage(test, "A tool of a client");
  const other = await context.newPage();
  await other.goto(page.url());
  const tabs = { "the first": page, "the second": other };
  for (const [title, tab] of Object.entries(tabs)) await tab.evaluate((title) => (document.title = title), title);
  for (let round = 0; round < 3; round += 1) {
    for (const [title, tab] of Object.entries(tabs)) {
      await tab.click("button");
      await tab.waitForSelector(`button:has-text("answered: ${title}")`);
      // The question of the next round takes its place.
      await tab.reload();
      await tab.waitForSelector("text=Ask");
      await tab.evaluate((title) => (document.title = title), title);
    }
  }
});

test("guide: a page that comes back", async (test) => {
  const { page } = await openPage(test, "Coming back");
  // All of the answer: while it is being written, what is shown grows.
  const answered = () => page.waitForFunction(() => /^Hello\n[^]*configuration\.$/.test(document.querySelector("pre")?.textContent ?? ""));
  await page.click("text=Say hello");
  await answered();
  const shown = await page.textContent("pre");
  await page.reload();
  await answered();
  assert.equal(await page.textContent("pre"), shown);
});

test("guide: a page that asks", async (test) => {
  const { context, page } = await openPage(
    test,
    "Asking before a call runs",
    '[agents.default.permission]\nclient_tools = "ask"\n',
  );
  const opening = within("a page is opened", context.waitForEvent("page"));
  await page.click("text=Open");
  await page.click("text=Allow");
  await (await opening).waitForURL("https://example.com/");
  await page.waitForSelector('button:has-text("success")');
});

test("guide: a tool in the configuration", async (test) => {
  const [config] = blocksOf("toml");
  const server = await Server.start(test, { config });
  const page = new Page(test, server, {
    id: "chat",
    onToolCall: ({ toolCall: { toolCallId } }) =>
      void post(server, "/api/tools/ack", { toolCallId, status: "success", output: "teal" }),
  });
  await page.say('call pick_color {"title": "A color?"}');
  const { output } = await page.call("pick_color", "output-available");
  assert.deepEqual(output, { status: "success", output: "teal" });
});

test("guide: every row of the table of acks", async (test) => {
  const rows = [...section("The ack").matchAll(/^\| (.*?) \| (\d{3}) `(.*)` \|$/gm)];
  const shown = Object.fromEntries(
    rows.map(([, when, status, body]) => [when, { status: Number(status), body: JSON.parse(body) }]),
  );
  const config = '[agents.default.permission.tools]\n"asked" = "ask"\n[tools.asked]\nexecutionMode = "frontend"\n';
  const server = await Server.start(test, { config });
  const ack = (/** @type {string} */ toolCallId, /** @type {object} */ more = {}) =>
    post(server, "/api/tools/ack", { toolCallId, status: "success", ...more });
  /** A call that is open, in a chat of its own. */
  const call = async (/** @type {string} */ id, tool = "open-url", state = "input-available") => {
    const page = new Page(test, server, { id });
    void page.sendMessage({ text: `call ${tool} {"url": "https://example.com/"}` });
    return (await page.call(tool, state)).toolCallId;
  };
  const open = await call("open");
  const cancelled = await call("cancelled");
  await post(server, "/api/chat/cancelled/abort");
  const claimed = await call("claimed");
  await post(server, "/api/tools/claim", { toolCallId: claimed, claimant: "another" });
  const asked = await call("asked", "asked", "approval-requested");

  assert.deepEqual(shown, {
    "the call is open": await ack(open),
    "the same ack again": await ack(open),
    "another one after it": await ack(open, { output: "another" }),
    "its time was over, or it was cancelled": await ack(cancelled),
    "nobody knows that call": await ack("nobody"),
    "it still waits to be allowed": await ack(asked),
    "another tab has claimed it": await ack(claimed),
  });
});
