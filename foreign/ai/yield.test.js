// Tools that the page brings along: the stream ends with the open call, and the page's next request brings the result.

import assert from "node:assert/strict";

import { lastAssistantMessageIsCompleteWithToolCalls } from "ai";

import { Page, partsOf, post, stored, story, textOf } from "../support/page.js";
import { test, within } from "../support/patience.js";
import { Server } from "../support/server.js";
import { Upstream } from "../support/upstream.js";

const sendAutomaticallyWhen = lastAssistantMessageIsCompleteWithToolCalls;
const tools = [
  {
    name: "pick",
    description: "Lets the user pick",
    parameters: { type: "object", properties: { title: { type: "string" } }, required: ["title"] },
  },
  { name: "locate", description: "Where the user is" },
];

/**
 * A page with tools of its own.
 *
 * @param {import("node:test").TestContext} test
 * @param {Server} server
 * @param {Partial<import("../support/page.js").Settings>} [settings]
 */
function open(test, server, settings) {
  return new Page(test, server, { id: "chat", body: { tools }, sendAutomaticallyWhen, ...settings });
}

test("ai: a page tool: the stream ends, addToolOutput goes on, in the same message", async (test) => {
  const server = await Server.start(test);
  const page = open(test, server);

  await page.say('call pick {"title": "A color?"}');

  const { toolCallId, input } = await page.call("pick", "input-available");
  assert.deepEqual([input, page.status, page.sent.length], [{ title: "A color?" }, "ready", 1]);
  const { id } = page.answer;
  assert.deepEqual(story(page.requests[0]), [
    "start",
    "start-step",
    "tool-input-start",
    "tool-input-delta",
    "tool-input-available",
    "finish-step",
    "finish",
    "the end",
  ]);

  await page.addToolOutput({ tool: "pick", toolCallId, output: { color: "teal" } });
  await page.answered(/teal/);

  assert.deepEqual([page.sent.length, page.messages.length, page.answer.id], [2, 2, id]);
  assert.deepEqual(partsOf(page.answer), [
    "step-start",
    ["pick", "output-available", { color: "teal" }],
    "step-start",
    'The tool `pick` answered: {"color":"teal"}',
  ]);
  assert.deepEqual((await stored(server, "chat")).map(partsOf), page.messages.map(partsOf));
});

test("ai: a page tool that fails: the model reads why", async (test) => {
  const server = await Server.start(test);
  const page = open(test, server);
  await page.say('call pick {"title": "A color?"}');
  const { toolCallId } = await page.call("pick", "input-available");

  await page.addToolOutput({ tool: "pick", toolCallId, state: "output-error", errorText: "the user has gone" });
  await page.answered(/./);

  assert.deepEqual(partsOf(page.answer)[1], ["pick", "output-error", "the user has gone"]);
  assert.match(textOf(page.answer), /the user has gone/);
  assert.equal(page.sent.length, 2);
});

test("ai: a page tool that answers at once, from onToolCall, goes on when the stream is over", async (test) => {
  const server = await Server.start(test);
  const page = open(test, server, {
    onToolCall: ({ toolCall: { toolName, toolCallId } }) => {
      void page.addToolOutput({ tool: toolName, toolCallId, output: "Oslo" });
    },
  });

  await page.say("call locate {}");

  assert.match(textOf(page.answer), /Oslo/);
  assert.deepEqual([page.sent.length, page.messages.length, page.status], [2, 2, "ready"]);
});

test("ai: page tools of one step: all results go with one request", async (test) => {
  const server = await Server.start(test);
  const page = open(test, server);
  await page.say('call pick {"title": "A color?"}\ncall locate {}');
  const { toolCallId: pick } = await page.call("pick", "input-available");
  const { toolCallId: locate } = await page.call("locate", "input-available");

  await page.addToolOutput({ tool: "locate", toolCallId: locate, output: "Oslo" });
  assert.equal(page.sent.length, 1);
  await page.addToolOutput({ tool: "pick", toolCallId: pick, state: "output-error", errorText: "no color" });
  await page.answered(/Oslo/);

  assert.deepEqual(partsOf(page.answer).slice(0, 4), [
    "step-start",
    ["pick", "output-error", "no color"],
    ["locate", "output-available", "Oslo"],
    "step-start",
  ]);
  assert.match(textOf(page.answer), /no color/);
  assert.equal(page.sent.length, 2);
});

test("ai: a held call and one of the page in one step: the stream ends when the held one is over", async (test) => {
  const server = await Server.start(test);
  const page = open(test, server, {
    onToolCall: ({ toolCall: { toolName, toolCallId } }) => {
      if (toolName === "open-url")
        void post(server, "/api/tools/ack", { toolCallId, status: "success", output: "opened" });
    },
  });

  await page.say('call open-url {"url": "https://example.com/"}\ncall locate {}');

  assert.deepEqual(partsOf(page.answer), [
    "step-start",
    ["open-url", "output-available", { status: "success", output: "opened" }],
    ["locate", "input-available"],
  ]);
  assert.deepEqual([page.status, page.sent.length], ["ready", 1]);

  const { toolCallId } = await page.call("locate", "input-available");
  await page.addToolOutput({ tool: "locate", toolCallId, output: "Oslo" });
  await page.answered(/Oslo/);

  assert.match(textOf(page.answer), /opened/);
  assert.equal(page.sent.length, 2);
});

test("ai: a turn that goes on three times is one message", async (test) => {
  const upstream = await Upstream.start(test);
  const server = await Server.start(test, { config: upstream.config });
  const call = (/** @type {number} */ n) => ({
    toolCalls: [{ id: `call_${n}`, name: "pick", arguments: `{"title": "${n}"}` }],
  });
  upstream.says("begin", { content: "Let me see.", ...call(1) });
  upstream.says("output 1", call(2));
  upstream.says("output 2", call(3));
  upstream.says("output 3", { content: "I have seen it." });
  const page = open(test, server, {
    body: { tools, model: "mock/some-model" },
    onToolCall: ({ toolCall: { toolName, toolCallId, input } }) => {
      const output = `output ${/** @type {any} */ (input).title}`;
      void page.addToolOutput({ tool: toolName, toolCallId, output });
    },
  });

  await page.say("begin");

  assert.deepEqual([page.sent.length, page.messages.length, page.status], [4, 2, "ready"]);
  const steps = [1, 2, 3].flatMap((n) => [
    "step-start",
    ...(n === 1 ? ["Let me see."] : []),
    ["pick", "output-available", `output ${n}`],
  ]);
  assert.deepEqual(partsOf(page.answer), [...steps, "step-start", "I have seen it."]);
  assert.deepEqual((await stored(server, "chat")).map(partsOf), page.messages.map(partsOf));
  const results = upstream.asked.all[3].body.messages.filter(({ role }) => role === "tool");
  assert.deepEqual(
    results.map(({ tool_call_id, content }) => [tool_call_id, content]),
    [1, 2, 3].map((n) => [`call_${n}`, `output ${n}`]),
  );
});

test("ai: after a reload, a call of the page is open still, and is answered", async (test) => {
  const server = await Server.start(test);
  const before = open(test, server);
  await before.say('call pick {"title": "A color?"}');

  const page = open(test, server, { messages: await stored(server, "chat") });
  assert.deepEqual(partsOf(page.answer), ["step-start", ["pick", "input-available"]]);
  await within("nothing is to be resumed", page.resumeStream());
  const [, part] = /** @type {any[]} */ (page.answer.parts);
  await page.addToolOutput({ tool: "pick", toolCallId: part.toolCallId, output: "teal" });
  await page.answered(/teal/);

  assert.deepEqual(page.sent, ["GET /api/chat/chat/stream", "POST /api/chat"]);
  assert.equal(page.messages.length, 2);
});

test("ai: a user who says something else leaves the open call behind", async (test) => {
  const server = await Server.start(test);
  const page = open(test, server);
  await page.say('call pick {"title": "A color?"}');

  await page.say("call list_tools {}");

  assert.match(textOf(page.answer), /open-url/);
  assert.deepEqual([page.messages.length, page.status], [4, "ready"]);
});
