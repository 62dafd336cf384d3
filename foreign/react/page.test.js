// `useChat` of `@ai-sdk/react`, in a page in a real Chromium, in React's strict mode.

import assert from "node:assert/strict";
import { join } from "node:path";

import { stored, textOf } from "../support/page.js";
import { test, within } from "../support/patience.js";
import { Provider } from "../support/provider.js";
import { answered, picture, say, Tabs } from "../support/tabs.js";
import { Upstream } from "../support/upstream.js";

const PICK_COLOR = `
[tools.pick_color]
executionMode = "frontend"
description = "Lets the user pick a color"
`;
const SOURCE = join(import.meta.dirname, "page.tsx");

/** Pages ask for a chat that is not there yet, and claim what another has. */
const COMPLAINTS = /status of (404|409)/;

/**
 * @param {import("node:test").TestContext} test
 * @param {{ config?: string, model?: string }} [settings]
 */
const open = (test, { config = PICK_COLOR, model } = {}) =>
  Tabs.open(test, SOURCE, { config, page: { chat: "chat", model }, complaints: COMPLAINTS });

test("react: open-url opens an address beside the page, in one request", async (test) => {
  const tabs = await open(test);
  const page = await tabs.add();
  const opening = within("a page is opened", tabs.context.waitForEvent("page"));

  await say(page, `call open-url {"url": "${tabs.server.url}/healthz"}`);

  const opened = await opening;
  await opened.waitForURL(`${tabs.server.url}/healthz`);
  await answered(page, '"status":"success"');
  await page.waitForSelector("[data-tool=open-url][data-state=output-available][data-phase=done]");
  await picture(page, "open-url");
  const counts = ["POST /api/chat", "POST /api/tools/claim", "POST /api/tools/ack"].map((what) => tabs.count(what));
  assert.deepEqual(counts, [1, 1, 1]);
});

test("react: page tools of one step, one that answers at once and one that the user answers", async (test) => {
  const tabs = await open(test);
  const page = await tabs.add();
  await say(page, "call locate {}\ncall confirm {}");
  await page.waitForSelector("[data-tool=locate][data-state=output-available]");
  await page.waitForSelector("output:text-is('ready')");
  assert.equal(tabs.count("POST /api/chat"), 1);

  await page.click("text=Yes");
  await answered(page, "yes");
  assert.equal(tabs.count("POST /api/chat"), 2);

  await say(page, "call confirm {}");
  await page.click("text=Not now");
  await page.waitForSelector("[data-tool=confirm][data-state=output-error]");
  await answered(page, "not now");
  await picture(page, "page-tools");
  assert.deepEqual([tabs.count("POST /api/chat"), await page.locator("article").count()], [4, 4]);
});

test("react: a held call, one of the page and one that does not fit, in one step", async (test) => {
  const tabs = await open(test);
  const page = await tabs.add();
  await say(page, 'call pick_color {}\ncall locate {}\ncall open-url {"url": 7}');
  await page.waitForSelector("[data-tool=open-url][data-state=output-error]");

  await page.click("text=Teal");

  await answered(page, "Oslo");
  await picture(page, "mixed");
  for (const tool of ["pick_color", "locate"])
    await page.waitForSelector(`[data-tool=${tool}][data-state=output-available]`);
  assert.deepEqual([tabs.count("POST /api/chat"), tabs.count("POST /api/tools/ack")], [2, 1]);
});

test("react: a turn that fails is shown, and the chat goes on", async (test) => {
  const upstream = await Upstream.start(test);
  upstream.says("fail", { error: { message: "the model is on holiday", type: "invalid_request_error" }, status: 400 });
  upstream.says("well?", { content: "I am back" });
  const tabs = await open(test, { config: upstream.config, model: "mock/some-model" });
  const page = await tabs.add();

  await say(page, "fail");

  await page.waitForSelector("output:text-is('error')");
  await picture(page, "error");
  assert.match((await page.textContent("[role=alert]")) ?? "", /the model is on holiday/);

  await say(page, "well?");

  await answered(page, "I am back");
  assert.equal(await page.textContent("[role=alert]"), "");
});

test("react: a reload while a call is held: the page is asked again, and its answer counts", async (test) => {
  const tabs = await open(test);
  const page = await tabs.add();
  await say(page, "call pick_color {}");
  await page.waitForSelector("text=Teal");

  await page.reload();
  await page.waitForSelector("text=Teal");
  await picture(page, "reload-held");
  assert.deepEqual([await page.locator("article").count(), await page.textContent("output")], [2, "streaming"]);
  await page.click("text=Teal");
  await answered(page, "teal");

  assert.deepEqual([tabs.count("POST /api/chat"), tabs.count("POST /api/tools/ack")], [1, 1]);
  assert.equal(await page.locator("[data-tool=pick_color]").count(), 1);
});

test("react: a reload while text streams: all of it is there, once", async (test) => {
  const provider = await Provider.start(test);
  const tabs = await open(test, { config: provider.config, model: "local/any" });
  const page = await tabs.add();
  await say(page, "tell me a story");
  const speech = await provider.asked();
  speech.says("Once upon ");
  await page.waitForSelector("p:has-text('Once upon')");

  await page.reload();
  await page.waitForSelector("p:has-text('Once upon')");
  await page.waitForSelector("output:text-is('streaming')");
  speech.says("a time.");
  speech.ends();
  await answered(page, "Once upon a time.");

  await picture(page, "reload-text");
  assert.deepEqual(await page.locator("article p").allTextContents(), ["tell me a story", "Once upon a time."]);
  assert.equal(tabs.count("POST /api/chat"), 1);
  assert.deepEqual((await stored(tabs.server, "chat")).map(textOf), ["tell me a story", "Once upon a time."]);
});

test("react: a reload when all is said: the conversation is there, and nothing is run again", async (test) => {
  const tabs = await open(test);
  const page = await tabs.add();
  await say(page, "call pick_color {}");
  await page.click("text=Teal");
  await answered(page, "teal");
  const shown = () => page.locator("article b, article p, article code").allTextContents();
  const before = await shown();

  await page.reload();
  await answered(page, "teal");

  assert.deepEqual(await shown(), before);
  assert.deepEqual([tabs.count("POST /api/chat"), tabs.count("POST /api/tools/claim")], [1, 1]);
});

test("react: two tabs of one chat: both show the call, one runs it", async (test) => {
  const tabs = await open(test);
  const one = await tabs.add();
  await say(one, "call pick_color {}");
  await one.waitForSelector("text=Teal");
  const two = await tabs.add();
  await two.waitForSelector("[data-tool=pick_color][data-phase=elsewhere]");
  await picture(two, "second-tab");
  assert.equal(await two.locator("text=Teal").count(), 0);

  await one.click("text=Teal");

  await answered(one, "teal");
  await answered(two, "teal");
  assert.deepEqual([tabs.count("POST /api/chat"), tabs.count("POST /api/tools/ack")], [1, 1]);
});
