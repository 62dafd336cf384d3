// Calls that somebody has to allow: asked about on a stream that stays open, or on one that ends with the question.

import assert from "node:assert/strict";

import { lastAssistantMessageIsCompleteWithApprovalResponses, lastAssistantMessageIsCompleteWithToolCalls } from "ai";

import { ClientToolsManager } from "../../sdk/typescript/dist/node.js";
import { Page, partsOf, post, stored, story, textOf } from "../support/page.js";
import { test, until, within } from "../support/patience.js";
import { Server } from "../support/server.js";

const config = `
[agents.default.permission]
client_tools = "ask"
`;
const OPEN = 'call open-url {"url": "https://example.com/"}';

/** What a page with tools and questions says. */
const sendAutomaticallyWhen = (/** @type {{ messages: import("ai").UIMessage[] }} */ chat) =>
  lastAssistantMessageIsCompleteWithToolCalls(chat) || lastAssistantMessageIsCompleteWithApprovalResponses(chat);

/**
 * A page that acknowledges each call that it is handed.
 *
 * @param {import("node:test").TestContext} test
 * @param {Partial<import("../support/page.js").Settings>} [settings]
 */
async function open(test, settings) {
  const server = await Server.start(test, { config });
  /** @type {string[]} */
  const run = [];
  const page = new Page(test, server, {
    id: "chat",
    sendAutomaticallyWhen,
    onToolCall: ({ toolCall: { toolCallId } }) => {
      run.push(toolCallId);
      void post(server, "/api/tools/ack", { toolCallId, status: "success", output: "opened" });
    },
    ...settings,
  });
  return { server, page, run };
}

test("ai: an ask on an open stream, allowed over HTTP: the page runs the call, then", async (test) => {
  const { server, page, run } = await open(test);

  const said = page.say(OPEN);
  const { approval, toolCallId } = await page.call("open-url", "approval-requested");
  assert.deepEqual([run, page.status], [[], "streaming"]);
  const early = await post(server, "/api/tools/ack", { toolCallId, status: "success" });
  assert.deepEqual(early, { status: 409, body: { ok: false, reason: "awaiting-approval" } });
  assert.equal((await post(server, `/permission/${approval.id}/reply`, { reply: "once" })).status, 200);
  await said;

  assert.deepEqual(run, [toolCallId]);
  assert.deepEqual(partsOf(page.answer).slice(0, 3), [
    "step-start",
    ["open-url", "output-available", { status: "success", output: "opened" }],
    "step-start",
  ]);
  assert.deepEqual([page.sent, page.status], [["POST /api/chat"], "ready"]);
  assert.deepEqual(story(page.requests[0]).slice(2, 9), [
    "tool-input-start",
    "tool-input-delta",
    "tool-approval-request",
    "tool-approval-response",
    "tool-input-available",
    "tool-output-available",
    "finish-step",
  ]);
});

test("ai: an ask on an open stream, denied over HTTP: nothing runs, and the model is told", async (test) => {
  const { server, page, run } = await open(test);

  const said = page.say(OPEN);
  const { approval } = await page.call("open-url", "approval-requested");
  const reply = { response: "reject" };
  assert.equal((await post(server, `/session/chat/permissions/${approval.id}`, reply)).status, 200);
  await said;

  assert.deepEqual(partsOf(page.answer).slice(0, 3), ["step-start", ["open-url", "output-denied"], "step-start"]);
  assert.match(textOf(page.answer), /\S/);
  assert.deepEqual([run, page.sent, page.status], [[], ["POST /api/chat"], "ready"]);
});

test("ai: an ask that ends the stream, allowed by addToolApprovalResponse", async (test) => {
  const { page, run, server } = await open(test, { body: { approvals: "yield" } });

  await page.say(OPEN);

  const { approval, toolCallId } = await page.call("open-url", "approval-requested");
  assert.deepEqual([page.status, page.sent.length, run], ["ready", 1, []]);
  await page.addToolApprovalResponse({ id: approval.id, approved: true });
  await page.answered(/opened/);

  assert.deepEqual([run, page.sent.length, page.messages.length], [[toolCallId], 2, 2]);
  assert.deepEqual(partsOf(page.answer).slice(0, 3), [
    "step-start",
    ["open-url", "output-available", { status: "success", output: "opened" }],
    "step-start",
  ]);
  assert.deepEqual((await stored(server, "chat")).map(partsOf), page.messages.map(partsOf));
});

test("ai: an ask that ends the stream, denied by addToolApprovalResponse", async (test) => {
  const { page, run } = await open(test, { body: { approvals: "yield" } });

  await page.say(OPEN);
  const { approval } = await page.call("open-url", "approval-requested");
  await page.addToolApprovalResponse({ id: approval.id, approved: false, reason: "not on my machine" });
  await page.answered(/not on my machine/);

  assert.deepEqual(partsOf(page.answer).slice(0, 3), ["step-start", ["open-url", "output-denied"], "step-start"]);
  assert.deepEqual([run, page.sent.length, page.messages.length], [[], 2, 2]);
});

test("ai: several asks of one step end the stream once, and are answered with one request", async (test) => {
  const { page, run } = await open(test, { body: { approvals: "yield" } });
  const asked = (/** @type {import("ai").UIMessage | undefined} */ message) =>
    (message?.parts ?? []).flatMap((/** @type {any} */ part) =>
      part.state === "approval-requested" ? [part.approval.id] : [],
    );

  await page.say(`${OPEN}\n${OPEN.replace(".com", ".org")}`);

  const [first, second] = asked(page.answer);
  assert.deepEqual([page.status, page.sent.length, asked(page.answer).length], ["ready", 1, 2]);
  await page.addToolApprovalResponse({ id: first, approved: true });
  assert.equal(page.sent.length, 1);
  await page.addToolApprovalResponse({ id: second, approved: false });
  await page.answered(/opened/);

  assert.deepEqual(partsOf(page.answer).slice(0, 4), [
    "step-start",
    ["open-url", "output-available", { status: "success", output: "opened" }],
    ["open-url", "output-denied"],
    "step-start",
  ]);
  assert.deepEqual([run.length, page.sent.length], [1, 2]);
});

for (const approved of [true, false]) {
  const what = approved ? "allowed" : "denied";

  test(`ai: an ask that was ${what} elsewhere meanwhile: the page is told what came of the call`, async (test) => {
    const { server, page } = await open(test, { body: { approvals: "yield" } });
    await page.say(OPEN);
    const { approval, toolCallId } = await page.call("open-url", "approval-requested");
    assert.equal(
      (await post(server, `/permission/${approval.id}/reply`, { reply: approved ? "once" : "reject" })).status,
      200,
    );
    if (approved) await acknowledge(server, toolCallId);
    await turnOver(server);

    await page.addToolApprovalResponse({ id: approval.id, approved });
    await page.answered(/./);

    const call = approved
      ? ["open-url", "output-available", { status: "success", output: "opened" }]
      : ["open-url", "output-denied"];
    assert.deepEqual(partsOf(page.answer).slice(0, 3), ["step-start", call, "step-start"]);
    assert.deepEqual([page.sent.length, page.messages.length], [2, 2]);
  });
}

test("ai: a page that was reloaded is asked again, and its answer counts", async (test) => {
  const { server, page: before } = await open(test, { body: { approvals: "yield" } });
  await before.say(OPEN);

  const page = new Page(test, server, {
    id: "chat",
    body: { approvals: "yield" },
    sendAutomaticallyWhen,
    messages: await stored(server, "chat"),
    onToolCall: ({ toolCall: { toolCallId } }) => {
      void post(server, "/api/tools/ack", { toolCallId, status: "success", output: "opened" });
    },
  });
  await within("the stream ends with the question", page.resumeStream());
  const { approval } = await page.call("open-url", "approval-requested");
  assert.equal((await post(server, `/permission/${approval.id}/reply`, { reply: "once" })).status, 200);
  await within("the stream is over", page.resumeStream());
  await page.answered(/opened/);

  assert.equal(page.messages.length, 2);
});

test("ai: a page that was reloaded and wants the stream to end with questions answers with addToolApprovalResponse", async (test) => {
  const { server, page: before } = await open(test, { body: { approvals: "yield" } });
  await before.say(OPEN);

  const page = new Page(test, server, {
    id: "chat",
    body: { approvals: "yield" },
    sendAutomaticallyWhen,
    messages: await stored(server, "chat"),
    onToolCall: ({ toolCall: { toolCallId } }) => {
      void post(server, "/api/tools/ack", { toolCallId, status: "success", output: "opened" });
    },
  });
  await within("the stream ends with the question, again, or there is none", page.resumeStream());
  const [, part] = /** @type {any[]} */ (page.answer.parts);
  assert.deepEqual([part.state, part.input], ["approval-requested", { url: "https://example.com/" }]);
  await page.addToolApprovalResponse({ id: part.approval.id, approved: true });
  await page.answered(/opened/);

  assert.equal(page.messages.length, 2);
});

test("ai: a chat that is loaded shows what it asks, and what was denied, as the page that was asked does", async (test) => {
  const { server, page } = await open(test);
  const callsOf = (/** @type {import("ai").UIMessage} */ { parts }) =>
    parts.flatMap((/** @type {any} */ { state, input, approval }) => (approval ? [{ state, input, approval }] : []));
  const said = page.say(OPEN);
  const { approval } = await page.call("open-url", "approval-requested");

  const whileAsked = callsOf((await stored(server, "chat"))[1]);
  const shown = callsOf(page.answer);
  await post(server, `/permission/${approval.id}/reply`, { reply: "reject" });
  await said;

  assert.deepEqual(whileAsked, shown);
  assert.deepEqual(callsOf((await stored(server, "chat"))[1]), callsOf(page.answer));
});

test("ai: a tool of a client is asked for, too, and runs at the client", async (test) => {
  const { server, page, run } = await open(test, { body: { approvals: "yield", clientID: "laptop" } });
  const tools = new ClientToolsManager("laptop", server.url);
  test.after(() => tools.disconnect());
  await tools.register("hello", { description: "Says hello" }, () => "Hello from the laptop");
  await within("the tools are connected", tools.connect());

  await page.say("call hello {}");
  const { approval } = await page.call("client_laptop_hello", "approval-requested");
  await page.addToolApprovalResponse({ id: approval.id, approved: true });
  await page.answered(/Hello from the laptop/);

  assert.deepEqual([run, page.sent.length, page.messages.length], [[], 2, 2]);
  await tools.disconnect();
});

/**
 * Acknowledges a call as soon as it is allowed.
 *
 * @param {Server} server
 * @param {string} toolCallId
 */
function acknowledge(server, toolCallId) {
  return until(
    "the ack is taken",
    async () =>
      (await post(server, "/api/tools/ack", { toolCallId, status: "success", output: "opened" })).status === 200,
  );
}

/** @param {Server} server */
function turnOver(server) {
  return until("the turn is over", async () => (await fetch(`${server.url}/api/chat/chat/stream`)).status === 204);
}
