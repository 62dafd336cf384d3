// Tools that a page runs while the stream stays open: the server waits, the page acknowledges.

import assert from "node:assert/strict";

import { lastAssistantMessageIsCompleteWithToolCalls } from "ai";

import { ClientToolsManager, FrontendToolExecutor } from "../../sdk/typescript/dist/node.js";
import { Page, partsOf, post, stored, story, textOf } from "../support/page.js";
import { Log, test, within } from "../support/patience.js";
import { Server } from "../support/server.js";

const URL = "https://example.com/";
const OPEN = `call open-url {"url": "${URL}"}`;
/** What pages with tools of their own say: here it must never be the case that a page has to go on by itself. */
const sendAutomaticallyWhen = lastAssistantMessageIsCompleteWithToolCalls;

/**
 * A page that acknowledges each call like that, as soon as it is told of it.
 *
 * @param {import("node:test").TestContext} test
 * @param {Server} server
 * @param {(input: any) => object | undefined} ackFor nothing is said to a call that gets none
 */
function open(test, server, ackFor) {
  /** @type {Log<{ toolCall: any, answer: { status: number, body: any } | undefined }>} */
  const acks = new Log();
  const page = new Page(test, server, {
    id: "chat",
    sendAutomaticallyWhen,
    onToolCall: ({ toolCall }) => {
      const { toolCallId, input } = toolCall;
      const ack = ackFor(input);
      if (ack === undefined) return acks.add({ toolCall, answer: undefined });
      post(server, "/api/tools/ack", { toolCallId, ...ack }).then(
        (answer) => acks.add({ toolCall, answer }),
        (error) => acks.fail(error),
      );
    },
  });
  return { page, acks };
}

test("ai: a held call that succeeds: one request, one message, and the model goes on", async (test) => {
  const server = await Server.start(test);
  const output = { url: URL, viewKey: "main" };
  const requestedAt = "2026-01-02T03:04:05Z";
  const { page, acks } = open(test, server, () => ({ status: "success", output, requestedAt }));

  await page.say(OPEN);

  const [{ toolCall, answer }, ...more] = acks.all;
  assert.deepEqual([toolCall.toolName, toolCall.input, more], ["open-url", { url: URL }, []]);
  assert.deepEqual(answer, { status: 200, body: { ok: true } });
  assert.deepEqual([page.sent, page.status, page.messages.length], [["POST /api/chat"], "ready", 2]);
  const given = { status: "success", output, requestedAt };
  assert.deepEqual(partsOf(page.answer), [
    "step-start",
    ["open-url", "output-available", given],
    "step-start",
    `The tool \`open-url\` answered: ${JSON.stringify(given)}`,
  ]);
  assert.deepEqual(story(page.requests[0]), [
    "start",
    "start-step",
    "tool-input-start",
    "tool-input-delta",
    "tool-input-available",
    "tool-output-available",
    "finish-step",
    "start-step",
    "text-start",
    "text-delta",
    "text-end",
    "finish-step",
    "finish",
    "the end",
  ]);
  assert.deepEqual((await stored(server, "chat")).map(partsOf), page.messages.map(partsOf));
});

test("ai: a held call that fails: the model reads why, and goes on", async (test) => {
  const server = await Server.start(test);
  const { page } = open(test, server, () => ({ status: "failed", errorText: "the pop-up was blocked" }));

  await page.say(OPEN);

  const [, call, , text] = partsOf(page.answer);
  assert.deepEqual(call, ["open-url", "output-error", "the pop-up was blocked"]);
  assert.match(text, /the pop-up was blocked/);
  assert.deepEqual([page.sent, page.status], [["POST /api/chat"], "ready"]);
});

for (const who of ["server", "page"]) {
  test(`ai: a held call that times out, by the ${who}'s clock: an answer like any other`, async (test) => {
    const server = await Server.start(test);
    const { page, acks } = open(test, server, () => (who === "page" ? { status: "timeout" } : undefined));

    await page.say(`call open-url {"url": "${URL}", "timeoutSec": ${who === "page" ? 60 : 1}}`);

    const [, call, , text] = partsOf(page.answer);
    assert.deepEqual(call, ["open-url", "output-available", { status: "timeout" }]);
    assert.match(text, /timeout/);
    assert.deepEqual([page.sent, page.status], [["POST /api/chat"], "ready"]);
    const { toolCallId } = acks.all[0].toolCall;
    const late = await post(server, "/api/tools/ack", { toolCallId, status: "success" });
    const expected =
      who === "page"
        ? { status: 409, body: { ok: false, reason: "conflict" } }
        : { status: 410, body: { ok: false, reason: "expired" } };
    assert.deepEqual(late, expected);
  });
}

test("ai: held calls of one step are open at the same time, and each ends alone", async (test) => {
  const server = await Server.start(test);
  const { page, acks } = open(test, server, () => undefined);
  const said = page.say(`${OPEN}\n${OPEN.replace("example.com", "example.org")}`);
  await acks.until("the second call is there", () => acks.all.length === 2);
  const [first, second] = acks.all.map(({ toolCall }) => toolCall.toolCallId);

  // The second is the first to end.
  const failed = { toolCallId: second, status: "failed", errorText: "blocked" };
  assert.deepEqual(await post(server, "/api/tools/ack", failed), { status: 200, body: { ok: true } });
  await page.call("open-url", "output-error");
  assert.deepEqual([page.status, page.sent.length], ["streaming", 1]);
  assert.deepEqual(await post(server, "/ai/tools/ack", { toolCallId: first, status: "success" }), {
    status: 200,
    body: { ok: true },
  });
  await said;

  assert.deepEqual(partsOf(page.answer).slice(0, 4), [
    "step-start",
    ["open-url", "output-available", { status: "success" }],
    ["open-url", "output-error", "blocked"],
    "step-start",
  ]);
  assert.deepEqual(page.sent, ["POST /api/chat"]);
});

test("ai: input that does not fit is told, and never handed to the page", async (test) => {
  const server = await Server.start(test);
  const { page, acks } = open(test, server, () => ({ status: "success" }));

  await page.say('call open-url {"url": 7}');

  const [, call, , text] = partsOf(page.answer);
  assert.deepEqual(call, ["open-url", "output-error", 'Invalid input: at /url: 7 is not of type "string"']);
  assert.match(text, /Invalid input/);
  assert.deepEqual([acks.all, page.sent], [[], ["POST /api/chat"]]);
});

test("ai: a tool of one's own in the configuration", async (test) => {
  const config = `
    [tools.pick_color]
    executionMode = "frontend"
    description = "Lets the user pick a color"
    parameters = { type = "object", properties = { title = { type = "string" } }, required = ["title"] }
    timeoutSec = 600
  `;
  const server = await Server.start(test, { config });
  const { page } = open(test, server, ({ title }) => ({ status: "success", output: { title, color: "teal" } }));

  await page.say('call pick_color {"title": "A color?"}');

  const [, call] = partsOf(page.answer);
  assert.deepEqual(call, [
    "pick_color",
    "output-available",
    { status: "success", output: { title: "A color?", color: "teal" } },
  ]);
});

test("ai: the executor of the SDK executes what onToolCall tells of, once", async (test) => {
  const server = await Server.start(test);
  const executor = new FrontendToolExecutor({ baseUrl: server.url });
  /** @type {string[]} */
  const opened = [];
  executor.register("open-url", (/** @type {{ url: string }} */ { url }) => {
    opened.push(url);
    return { url, viewKey: "main" };
  });
  const page = new Page(test, server, { id: "chat", sendAutomaticallyWhen, onToolCall: executor.onToolCall });

  await page.say(OPEN);

  assert.deepEqual(opened, [URL]);
  const [, [, state, { status, output }]] = partsOf(page.answer);
  assert.deepEqual([state, status, output], ["output-available", "success", { url: URL, viewKey: "main" }]);
  assert.deepEqual(page.sent, ["POST /api/chat"]);
  const [call] = executor.getSnapshot().values();
  assert.deepEqual([call.phase, call.outcome, call.counted], ["done", "success", true]);
});

test("ai: a tool of the SDK's client runs in the same chat, and the page leaves it alone", async (test) => {
  const server = await Server.start(test);
  const tools = new ClientToolsManager("laptop", server.url);
  test.after(() => tools.disconnect());
  const parameters = /** @type {const} */ ({
    type: "object",
    properties: { name: { type: "string" } },
    required: ["name"],
  });
  await tools.register("greet", { description: "Greets somebody", parameters }, ({ name }) => `Hello, ${name}!`);
  await within("the tools are connected", tools.connect());
  /** @type {string[]} */
  const told = [];
  const page = new Page(test, server, {
    id: "chat",
    body: { clientID: "laptop" },
    sendAutomaticallyWhen,
    onToolCall: ({ toolCall }) => {
      told.push(toolCall.toolName);
      void post(server, "/api/tools/ack", { toolCallId: toolCall.toolCallId, status: "success" });
    },
  });

  await page.say(`call greet {"name": "Ada"}\n${OPEN}`);

  assert.deepEqual(told, ["open-url"]);
  assert.deepEqual(partsOf(page.answer).slice(0, 3), [
    "step-start",
    ["client_laptop_greet", "output-available", "Hello, Ada!"],
    ["open-url", "output-available", { status: "success" }],
  ]);
  assert.match(textOf(page.answer), /Hello, Ada!/);
  assert.deepEqual(page.sent, ["POST /api/chat"]);
  await tools.disconnect();
});
