// The example page, as a reader opens it.

import assert from "node:assert/strict";
import { mkdir } from "node:fs/promises";
import { join, resolve } from "node:path";
import type { TestContext } from "node:test";

import type { Page } from "playwright-core";

import { createHandbackClient } from "../../src/node.js";
import { test } from "../support/patience.js";
import { Server } from "../support/server.js";
import { until } from "../support/until.js";
import { newContext, siteUrl, UNREACHABLE } from "./browser.js";

/** What the page looks like, to be looked at. */
const PICTURES = resolve(import.meta.dirname, "../../test-output");

async function open(test: TestContext, expected?: RegExp): Promise<{ page: Page; server: Server }> {
  // What is opened first is closed first: the page does not see the server go.
  const context = await newContext(test, expected);
  const server = await Server.start(test);
  const page = await context.newPage();
  await page.goto(`${await siteUrl()}/?server=${server.url}`);
  await shows(page, "#state", "open");
  return { page, server };
}

async function shows(page: Page, selector: string, text: string): Promise<void> {
  await until(`${selector} shows ${text}`, async () => (await page.textContent(selector)) === text);
}

async function picture(page: Page, name: string): Promise<void> {
  await mkdir(PICTURES, { recursive: true });
  await page.screenshot({ path: join(PICTURES, `${name}.png`), animations: "disabled" });
}

test("the example page: a model paints it and tells its time, by keyboard alone", async (test) => {
  const { page, server } = await open(test);
  await picture(page, "light");

  const { keyboard } = page;
  await keyboard.press("Tab");
  await keyboard.press("ControlOrMeta+A");
  await keyboard.type('call paint_page {"colour": "teal", "title": "Painted"}');
  await keyboard.press("Enter");
  await shows(page, "#answer", "The tool `paint_page` answered: The page is teal now.");
  assert.deepEqual([await page.title(), await page.textContent("h1")], ["Painted", "Painted"]);
  assert.equal(await page.evaluate(() => document.documentElement.style.getPropertyValue("--tint")), "teal");

  await keyboard.press("ControlOrMeta+A");
  await keyboard.type("What is the local time?");
  await keyboard.press("Enter");
  const zone = await page.evaluate(() => new Intl.DateTimeFormat().resolvedOptions().timeZone);
  await until("the time is told", async () => (await page.textContent("#answer"))?.endsWith(`(${zone})`) ?? false);

  await keyboard.press("ControlOrMeta+A");
  await keyboard.type('call paint_page {"colour": "url(javascript:1)"}');
  await keyboard.press("Enter");
  await until("it is refused", async () => (await page.textContent("#answer"))?.includes("is not a colour") ?? false);
  const lines = await page.locator("#calls li").allTextContents();
  assert.deepEqual(lines.map((line) => line.replace(/^[\d:]+( [AP]M)? /, "").replace(/\d+ ms/, "no time")), [
    "paint_page started",
    "paint_page finished in no time",
    "local_time started",
    "local_time finished in no time",
    "paint_page started",
    "paint_page finished in no time url(javascript:1) is not a colour",
  ]);
  await picture(page, "light-painted");
  await page.emulateMedia({ colorScheme: "dark" });
  await picture(page, "dark-painted");
  await page.setViewportSize({ width: 360, height: 740 });
  await picture(page, "dark-narrow");

  // From the field to the button that sends, and on to the one that disconnects.
  await keyboard.press("Tab");
  await keyboard.press("Tab");
  await keyboard.press("Enter");
  await shows(page, "#state", "closed");
  assert.deepEqual(await server.get("clients"), []);
  await keyboard.press("Space");
  await shows(page, "#state", "open");
});

test("the example page: a session elsewhere calls its tools, also after the server was restarted", async (test) => {
  const { page, server } = await open(test, UNREACHABLE);
  const [, clientID = ""] = / --client (\S+) /.exec((await page.textContent("#command")) ?? "") ?? [];
  const paint = async (colour: string) => {
    const client = createHandbackClient({ baseUrl: server.url, clientID });
    const session = await client.startSession({ tools: false });
    const { text } = await session.prompt(`Paint the page "${colour}"`);
    assert.equal(text, `The tool \`paint_page\` answered: The page is ${colour} now.`);
    await session.close();
  };
  await paint("crimson");
  await server.stop();
  await shows(page, "#state", "retrying");
  await picture(page, "retrying");
  await server.restart();
  await shows(page, "#state", "open");
  await paint("gold");
  await picture(page, "light-gold");
});
