// Two tabs of one page, which are one client by default: what is said in a tab has its calls run there.

import assert from "node:assert/strict";
import type { TestContext } from "node:test";

import type { BrowserContext, Page } from "playwright-core";

import type { MessageWithParts } from "../../src/index.js";
import { test, within } from "../support/patience.js";
import { Server } from "../support/server.js";
import { until } from "../support/until.js";
import { newContext, servePage } from "./browser.js";

const ROUNDS = 8;

/** What the page has for the test. */
interface Hands {
  sessionID: string;
  ask(text: string): Promise<string>;
  /** The calls that wait in this tab. */
  waiting: number;
}

const PAGE = `<!doctype html>
<title>A tab</title>
<link rel="icon" href="data:,">
<script type="importmap">{ "imports": {
  "@handback/client": "/dist/index.js",
  "eventsource-parser": "/node_modules/eventsource-parser/dist/index.js"
} }</script>
<script type="module">
  import { createHandbackClient } from "@handback/client";
  const { name, baseUrl, sessionID } = JSON.parse(decodeURIComponent(location.hash.slice(1)));
  const client = createHandbackClient({ baseUrl });
  window.waiting = 0;
  await client.clientTools.register("where", { description: "Tells the tab", effect: "read" }, () => name);
  await client.clientTools.register("wait", { description: "Waits in the first tab", effect: "read" }, async () => {
    if (name === "one") await new Promise(() => (window.waiting += 1));
    return name;
  });
  const session = await client.startSession({ sessionID });
  window.sessionID = session.session.id;
  window.ask = async (text) => (await session.prompt(text)).text;
</script>`;

async function open(context: BrowserContext, url: string, settings: Record<string, string | undefined>): Promise<Page> {
  const page = await context.newPage();
  await page.goto(`${url}#${encodeURIComponent(JSON.stringify(settings))}`);
  await page.waitForFunction(() => "ask" in globalThis);
  return page;
}

function ask(page: Page, text: string): Promise<string> {
  return page.evaluate((text) => (globalThis as unknown as Hands).ask(text), text);
}

async function openTwo(test: TestContext) {
  const context = await newContext(test);
  const server = await Server.start(test);
  const url = await servePage(test, "/prompting.html", PAGE);
  const one = await open(context, url, { name: "one", baseUrl: server.url });
  const sessionID = await one.evaluate(() => (globalThis as unknown as Hands).sessionID);
  return { context, server, url, one, sessionID };
}

test("what is said in a tab is done in that tab, again and again", async (test) => {
  const { context, server, url, one, sessionID } = await openTwo(test);
  // Of the same client: one in a conversation of its own, one in that of the first.
  const others = { two: {}, three: { sessionID } };
  const tabs: [string, Page][] = [["one", one]];
  for (const [name, more] of Object.entries(others)) {
    tabs.push([name, await open(context, url, { name, baseUrl: server.url, ...more })]);
  }
  assert.equal((await server.get<{ connections: number }[]>("clients")).map(({ connections }) => connections).join(), "3");
  for (let round = 0; round < ROUNDS; round += 1) {
    const answers = await Promise.all(tabs.map(([, page]) => within("an answer", ask(page, "call where {}"))));
    assert.deepEqual(answers, tabs.map(([name]) => `The tool \`where\` answered: ${name}`), `round ${round}`);
  }
});

test("another tab takes over when the one that it was said in is closed", async (test) => {
  const { context, server, url, one, sessionID } = await openTwo(test);
  const two = await open(context, url, { name: "two", baseUrl: server.url });
  void ask(one, "call wait {}").catch(() => undefined);
  await one.waitForFunction(() => (globalThis as unknown as Hands).waiting === 1);
  await one.close();
  const read = async () => {
    const messages = (await (await fetch(`${server.url}/session/${sessionID}/message`)).json()) as MessageWithParts[];
    return messages.flatMap(({ parts }) => parts.flatMap((part) => (part.type === "text" ? [part.text] : []))).at(-1);
  };
  await until("the other tab has answered", async () => (await read()) === "The tool `wait` answered: two");
  assert.equal(await within("an answer", ask(two, "call where {}")), "The tool `where` answered: two");
});
