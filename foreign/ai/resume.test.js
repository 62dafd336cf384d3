// Chats that are stopped, left and come back to, and servers that are.

import assert from "node:assert/strict";

import { lastAssistantMessageIsCompleteWithToolCalls } from "ai";

import { Page, partsOf, post, stored, story, textOf } from "../support/page.js";
import { Log, test, within } from "../support/patience.js";
import { Provider } from "../support/provider.js";
import { Server } from "../support/server.js";

const sendAutomaticallyWhen = lastAssistantMessageIsCompleteWithToolCalls;
const OPEN = 'call open-url {"url": "https://example.com/"}';
const body = { model: "local/any" };
const says =
  (/** @type {string} */ text) =>
  (/** @type {import("../support/page.js").Shown} */ { messages }) =>
    messages.some((message) => message.role === "assistant" && textOf(message) === text);

/**
 * A page that only notes the calls that it is handed.
 *
 * @param {import("node:test").TestContext} test
 * @param {Server} server
 * @param {Partial<import("../support/page.js").Settings>} [settings]
 */
function open(test, server, settings) {
  /** @type {Log<any>} */
  const calls = new Log();
  const onToolCall = (/** @type {{ toolCall: any }} */ { toolCall }) => calls.add(toolCall);
  return { calls, page: new Page(test, server, { id: "chat", sendAutomaticallyWhen, onToolCall, ...settings }) };
}

test("ai: stop lets go of the stream, abort stops the turn, and the chat goes on", async (test) => {
  const server = await Server.start(test);
  const { page, calls } = open(test, server);
  const said = page.say(OPEN);
  const { toolCallId } = await calls.until("it is called", () => true);

  await within("the page has stopped", page.stop());
  await said;

  assert.deepEqual([page.status, page.error], ["ready", undefined]);
  // The turn goes on without the page, until it is told to stop.
  const [call] = await callsOf(server);
  assert.deepEqual([call.requestID, call.state], [toolCallId, "offered"]);
  assert.deepEqual(await post(server, "/api/chat/chat/abort"), { status: 200, body: { ok: true } });
  const late = await post(server, "/api/tools/ack", { toolCallId, status: "success" });
  assert.deepEqual(late, { status: 410, body: { ok: false, reason: "expired" } });

  await page.say("call list_tools {}");
  assert.match(textOf(page.answer), /open-url/);
  assert.deepEqual([page.status, page.messages.length], ["ready", 4]);
});

test("ai: abort ends the stream of whoever follows, and says so", async (test) => {
  const provider = await Provider.start(test);
  const server = await Server.start(test, { config: provider.config });
  /** @type {any[]} */
  const finished = [];
  const { page } = open(test, server, {
    body,
    onFinish: ({ message, isError, isAbort }) => finished.push([textOf(message), isError, isAbort]),
  });
  const said = page.say("tell me a story");
  (await provider.asked()).says("Once upon");
  await page.until("it begins", says("Once upon"));

  assert.deepEqual(await post(server, "/api/chat/chat/abort"), { status: 200, body: { ok: true } });
  await said;

  assert.deepEqual([page.status, page.error, textOf(page.answer)], ["ready", undefined, "Once upon"]);
  assert.deepEqual(finished, [["Once upon", false, false]]);
  assert.deepEqual(story(page.requests[0]).slice(-3), ["finish", "abort", "the end"]);
  assert.deepEqual([page.sent, await idle(server)], [["POST /api/chat"], true]);
});

test("ai: abort while a call is held: the page does not go on by itself, and may ask anew", async (test) => {
  const server = await Server.start(test);
  const { page, calls } = open(test, server);
  const said = page.say(OPEN);
  await calls.until("it is called", () => true);

  assert.deepEqual(await post(server, "/api/chat/chat/abort"), { status: 200, body: { ok: true } });
  await said;

  assert.deepEqual([page.sent, page.status, await idle(server)], [["POST /api/chat"], "ready", true]);
  const [, call] = partsOf(page.answer);
  assert.deepEqual(call, ["open-url", "output-error", "Not finished: The turn was aborted; it may have run"]);

  const regenerated = page.regenerate();
  await calls.until("it is called again", () => calls.all.length === 2);
  const { toolCallId } = calls.all[1];
  await post(server, "/api/tools/ack", { toolCallId, status: "success", output: "opened" });
  await within("it is regenerated", regenerated);
  assert.match(textOf(page.answer), /opened/);
  assert.deepEqual([page.messages.length, page.sent.length], [2, 2]);
});

test("ai: what another page says meanwhile is answered when its turn comes", async (test) => {
  const server = await Server.start(test);
  const { page: one, calls } = open(test, server);
  const said = one.say(OPEN);
  const { toolCallId } = await calls.until("it is called", () => true);
  const { page: two } = open(test, server, { messages: await stored(server, "chat") });

  const meanwhile = two.say("call list_tools {}");
  await two.until("it is sent", ({ status }) => status === "submitted");
  await post(server, "/api/tools/ack", { toolCallId, status: "success", output: "opened" });
  await said;
  await meanwhile;

  assert.match(textOf(one.answer), /opened/);
  assert.match(textOf(two.answer), /open-url/);
  assert.deepEqual(
    (await stored(server, "chat")).map(({ role }) => role),
    ["user", "assistant", "user", "assistant"],
  );
});

test("ai: nothing is to be resumed in a chat that is idle, or that nobody knows", async (test) => {
  const server = await Server.start(test);
  const { page } = open(test, server);
  await within("there is nothing to resume", page.resumeStream());
  await page.say("hello");
  const before = page.messages;

  await within("there is nothing to resume any more", page.resumeStream());

  assert.deepEqual([page.status, page.messages], ["ready", before]);
  assert.deepEqual(page.sent, ["GET /api/chat/chat/stream", "POST /api/chat", "GET /api/chat/chat/stream"]);
});

test("ai: a page that is reloaded while text streams has all of it, once", async (test) => {
  const provider = await Provider.start(test);
  const server = await Server.start(test, { config: provider.config });
  const { page: before } = open(test, server, { body });
  const said = before.say("tell me a story");
  const speech = await provider.asked();
  speech.says("Once upon ");
  await before.until("it begins", says("Once upon "));
  await before.stop();
  await said;

  const { page } = open(test, server, { body, messages: await stored(server, "chat") });
  const resumed = page.resumeStream();
  await page.until("what was said is there", says("Once upon "));
  speech.says("a time.");
  speech.ends();
  await within("the stream is over", resumed);

  assert.deepEqual(page.messages.map(textOf), ["tell me a story", "Once upon a time."]);
  assert.deepEqual([page.status, page.answer.id], ["ready", before.answer.id]);
  assert.deepEqual(page.sent, ["GET /api/chat/chat/stream"]);
  assert.deepEqual((await stored(server, "chat")).map(partsOf), page.messages.map(partsOf));
});

test("ai: a page that is reloaded while a call is held is handed it again, and its ack counts", async (test) => {
  const server = await Server.start(test);
  const { page: before, calls: handed } = open(test, server);
  const said = before.say(OPEN);
  const { toolCallId } = await handed.until("it is called", () => true);
  await before.stop();
  await said;

  const { page, calls } = open(test, server, { messages: await stored(server, "chat") });
  const resumed = page.resumeStream();
  const again = await calls.until("it is called again", () => true);
  assert.deepEqual([again.toolCallId, again.input], [toolCallId, { url: "https://example.com/" }]);
  await post(server, "/api/tools/ack", { toolCallId, status: "success", output: "opened" });
  await within("the stream is over", resumed);

  assert.deepEqual([calls.all.length, page.messages.length, page.sent], [1, 2, ["GET /api/chat/chat/stream"]]);
  assert.match(textOf(page.answer), /opened/);
  assert.deepEqual((await stored(server, "chat")).map(partsOf), page.messages.map(partsOf));
});

test("ai: a call that is over is not handed to a page that comes back", async (test) => {
  const server = await Server.start(test);
  const { page: before, calls: handed } = open(test, server);
  const said = before.say(`${OPEN}\n${OPEN.replace(".com", ".org")}`);
  await handed.until("both are called", () => handed.all.length === 2);
  const [over, still] = handed.all.map(({ toolCallId }) => toolCallId);
  await post(server, "/api/tools/ack", { toolCallId: over, status: "success", output: "the first" });
  await before.call("open-url", "output-available");
  await before.stop();
  await said;

  const { page, calls } = open(test, server, { messages: await stored(server, "chat") });
  const resumed = page.resumeStream();
  await calls.until("the other is called", () => true);
  await post(server, "/api/tools/ack", { toolCallId: still, status: "success", output: "the second" });
  await within("the stream is over", resumed);

  assert.deepEqual(
    calls.all.map(({ toolCallId }) => toolCallId),
    [still],
  );
  assert.deepEqual(partsOf(page.answer).slice(0, 3), [
    "step-start",
    ["open-url", "output-available", { status: "success", output: "the first" }],
    ["open-url", "output-available", { status: "success", output: "the second" }],
  ]);
  assert.equal(page.sent.length, 1);
});

test("ai: two pages of one chat see the same turn, and either may acknowledge", async (test) => {
  const server = await Server.start(test);
  const { page: one, calls } = open(test, server);
  const said = one.say(OPEN);
  const { toolCallId } = await calls.until("it is called", () => true);
  const { page: two, calls: seen } = open(test, server, { messages: await stored(server, "chat") });
  const resumed = two.resumeStream();
  await seen.until("the other page is told, too", () => true);

  const claim = (/** @type {string} */ claimant) => post(server, "/api/tools/claim", { toolCallId, claimant });
  assert.deepEqual(await claim("two"), { status: 200, body: { ok: true } });
  assert.deepEqual(await claim("one"), { status: 409, body: { ok: false, reason: "claimed" } });
  const ack = { toolCallId, status: "success", output: "by two" };
  assert.deepEqual(await post(server, "/api/tools/ack", ack), { status: 409, body: { ok: false, reason: "claimed" } });
  assert.deepEqual(await post(server, "/api/tools/ack", { ...ack, claimant: "two" }), {
    status: 200,
    body: { ok: true },
  });
  await said;
  await within("the stream is over", resumed);

  assert.deepEqual(one.messages.map(partsOf), two.messages.map(partsOf));
  assert.match(textOf(one.answer), /by two/);
});

test("ai: a server that is restarted goes on with the turn, and the page comes back to it", async (test) => {
  const server = await Server.start(test, { isLasting: true });
  const { page, calls } = open(test, server);
  await page.say("hello");
  const said = page.say(OPEN);
  const { toolCallId } = await calls.until("it is called", () => true);
  await server.restart();
  await said;
  assert.equal(page.status, "error");

  const resumed = page.resumeStream();
  // A turn that is over by then cannot be resumed.
  await calls.until("it is called again", () => calls.all.length === 2);
  const ack = { toolCallId, status: "success", output: "opened" };
  assert.deepEqual(await post(server, "/api/tools/ack", ack), { status: 200, body: { ok: true } });
  await within("the turn is over", resumed);
  const known = await stored(server, "chat");
  assert.deepEqual(
    known.map(({ role }) => role),
    ["user", "assistant", "user", "assistant"],
  );
  const [, [name, state]] = partsOf(known[3]);
  assert.deepEqual([name, state], ["open-url", "output-available"]);
  assert.match(textOf(page.answer), /opened/);

  await page.say("call list_tools {}");
  assert.match(textOf(page.answer), /open-url/);
  assert.equal((await stored(server, "chat")).length, page.messages.length);
});

test("ai: a server that has lost everything takes the conversation from the page", async (test) => {
  const server = await Server.start(test);
  const { page } = open(test, server, {
    onToolCall: ({ toolCall: { toolCallId } }) =>
      void post(server, "/api/tools/ack", { toolCallId, status: "success" }),
  });
  await page.say("hello");
  await page.say(OPEN);
  await server.restart();

  await page.say("call list_tools {}");

  assert.match(textOf(page.answer), /open-url/);
  assert.deepEqual((await stored(server, "chat")).map(partsOf), page.messages.map(partsOf));
});

/**
 * @param {Server} server
 * @returns {Promise<any[]>}
 */
async function callsOf(server) {
  return (await fetch(`${server.url}/client-tools/calls?sessionID=chat`)).json();
}

/** @param {Server} server */
async function idle(server) {
  return (await fetch(`${server.url}/api/chat/chat/stream`)).status === 204;
}
