// assistant-ui in a page in a real Chromium, in React's strict mode, with both of its ways to a server: the AI SDK's chat
// (`@assistant-ui/react-ai-sdk`) and AG-UI (`@assistant-ui/react-ag-ui`).

import assert from "node:assert/strict";
import { join } from "node:path";

import { test } from "../support/patience.js";
import { answered, picture, say, Tabs } from "../support/tabs.js";

const SOURCE = join(import.meta.dirname, "page.tsx");

/** The two ways, and how each says that the page has no tools: a chat's tools are an object with their names as keys. */
const WIRES = [
  { wire: "chat", path: "/api/chat", noTools: {} },
  { wire: "agui", path: "/agui", noTools: [] },
];

/** What the page shows: all texts, and what came of each call. @param {import("playwright-core").Page} page */
const shown = (page) => page.locator("article p, [data-tool] code:last-child").allTextContents();

for (const { wire, path, noTools } of WIRES) {
  const sent = `POST ${path}`;

  test(`assistant-ui, ${wire}: a plain answer to a page without tools`, async (test) => {
    const tabs = await Tabs.open(test, SOURCE, { page: { wire } });
    const page = await tabs.add();
    const asking = page.waitForRequest(tabs.server.url + path);

    await say(page, "Hello");

    await answered(page, "I am the scripted demo model.");
    assert.deepEqual((await asking).postDataJSON().tools, noTools);
    assert.deepEqual(tabs.sent, [sent]);
  });

  test(`assistant-ui, ${wire}: a tool of the page, and again in a second message of the thread`, async (test) => {
    const tabs = await Tabs.open(test, SOURCE, { page: { wire, tools: true } });
    const page = await tabs.add();
    const conversation = [];

    for (const who of ["Ada", "Eve"]) {
      const message = `call locate {"who": "${who}"}`;
      await say(page, message);
      await answered(page, `${who} is in Oslo`);
      conversation.push(message, `"${who} is in Oslo"`, `The tool \`locate\` answered: ${who} is in Oslo`);
    }

    await picture(page, `assistant-ui-${wire}`);
    assert.deepEqual(await shown(page), conversation);
    assert.deepEqual(tabs.sent, [sent, sent, sent, sent]);
    const sessions = await (await fetch(`${tabs.server.url}/session`)).json();
    assert.equal(sessions.length, 1, "both messages are of one thread");
  });

  test(`assistant-ui, ${wire}: two calls in one message, answered in one request`, async (test) => {
    const tabs = await Tabs.open(test, SOURCE, { page: { wire, tools: true } });
    const page = await tabs.add();
    const message = 'call locate {"who": "Ada"}\ncall measure {}';

    await say(page, message);

    const width = await page.evaluate(() => JSON.stringify({ width: innerWidth }));
    await answered(page, width);
    const answer = `The tool \`locate\` answered: Ada is in Oslo\n\nThe tool \`measure\` answered: ${width}`;
    assert.deepEqual(await shown(page), [message, '"Ada is in Oslo"', width, answer]);
    assert.deepEqual(tabs.sent, [sent, sent]);
  });
}
