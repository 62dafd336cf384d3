// Turns of a chat, as npm `ai` has them with a server of its own kind.

import assert from "node:assert/strict";

import { DefaultChatTransport, readUIMessageStream } from "ai";

import { Page, partsOf, stored, story, textOf } from "../support/page.js";
import { test, within } from "../support/patience.js";
import { Provider } from "../support/provider.js";
import { Server } from "../support/server.js";
import { Upstream } from "../support/upstream.js";

test("ai: a plain answer", async (test) => {
  const server = await Server.start(test);
  const page = new Page(test, server, { id: "a chat" });

  await page.say("Hello there");

  assert.deepEqual([page.status, page.error, page.messages.length], ["ready", undefined, 2]);
  assert.match(textOf(page.answer), /\S/);
  const [request, ...more] = page.requests;
  assert.deepEqual([request.method, request.path, more], ["POST", "/api/chat", []]);
  assert.deepEqual(story(request), [
    "start",
    "start-step",
    "text-start",
    "text-delta",
    "text-end",
    "finish-step",
    "finish",
    "the end",
  ]);
  // What the server keeps is what the page shows.
  assert.deepEqual((await stored(server, "a chat")).map(partsOf), page.messages.map(partsOf));
  assert.deepEqual(
    (await stored(server, "a chat")).map(({ id }) => id),
    page.messages.map(({ id }) => id),
  );
});

test("ai: what is said later knows what was said before", async (test) => {
  const upstream = await Upstream.start(test);
  const server = await Server.start(test, { config: upstream.config });
  const page = new Page(test, server, { id: "chat", body: { model: "mock/some-model" } });
  upstream.says("I am Ada", { content: "Hello, Ada." });
  upstream.says("Who am I?", { content: "You are Ada." });

  await page.say("I am Ada");
  await page.say("Who am I?");

  assert.deepEqual(page.messages.map(textOf), ["I am Ada", "Hello, Ada.", "Who am I?", "You are Ada."]);
  const [, asked] = upstream.asked.all;
  assert.deepEqual(saidTo(asked), ["user: I am Ada", "assistant: Hello, Ada.", "user: Who am I?"]);
});

test("ai: regenerate forgets the answer, an edit all that came after", async (test) => {
  const upstream = await Upstream.start(test);
  const server = await Server.start(test, { config: upstream.config });
  const page = new Page(test, server, { id: "chat", body: { model: "mock/some-model" } });
  upstream.says("first", { content: "to the first" });
  upstream.says("second", { content: "to the second" });
  upstream.says("other", { content: "to the other" });
  await page.say("first");
  await page.say("second");
  const [{ id: first }, , { id: second }, { id: before }] = page.messages;

  await within("it is regenerated", page.regenerate());

  assert.deepEqual(page.messages.map(textOf), ["first", "to the first", "second", "to the second"]);
  assert.notEqual(page.answer.id, before);
  assert.deepEqual(saidTo(upstream.asked.all[2]), ["user: first", "assistant: to the first", "user: second"]);

  await within("an earlier answer is regenerated", page.regenerate({ messageId: page.messages[1].id }));

  assert.deepEqual(page.messages.map(textOf), ["first", "to the first"]);
  assert.deepEqual(saidTo(upstream.asked.all[3]), ["user: first"]);

  await within("it is edited", page.sendMessage({ messageId: first, text: "other" }));

  assert.deepEqual(page.messages.map(textOf), ["other", "to the other"]);
  assert.deepEqual(saidTo(upstream.asked.all[4]), ["user: other"]);
  assert.equal(
    page.messages.some(({ id }) => id === second),
    false,
  );
  assert.deepEqual((await stored(server, "chat")).map(partsOf), page.messages.map(partsOf));
});

test("ai: an error of the provider is an error of the chat, and the next message is answered", async (test) => {
  const upstream = await Upstream.start(test);
  const server = await Server.start(test, { config: upstream.config });
  /** @type {string[]} */
  const errors = [];
  const onError = (/** @type {Error} */ { message }) => errors.push(message);
  const page = new Page(test, server, { id: "chat", body: { model: "mock/some-model" }, onError });
  upstream.says("fail", { error: { message: "the model is on holiday", type: "invalid_request_error" }, status: 400 });
  upstream.says("well?", { content: "I am back" });

  await page.say("fail");

  assert.equal(page.status, "error");
  assert.deepEqual([errors.length, page.error?.message], [1, errors[0]]);
  assert.match(errors[0], /the model is on holiday/);

  await page.say("well?");

  assert.deepEqual([page.status, page.error, textOf(page.answer)], ["ready", undefined, "I am back"]);
});

test("ai: a request that the server refuses is an error of the chat that says why", async (test) => {
  const server = await Server.start(test);
  const tools = [{ name: "open-url", parameters: { type: "object" } }];
  const page = new Page(test, server, { id: "chat", body: { tools } });

  await page.say("hello");

  assert.equal(page.status, "error");
  // The SDK takes the whole body for the message.
  const { error, code } = JSON.parse(page.error?.message ?? "");
  assert.deepEqual(
    [code, error],
    ["INVALID_REQUEST", `the page's tool "open-url" has the name of another; choose another name`],
  );
});

test("ai: two chats at the same time do not hear each other", async (test) => {
  const provider = await Provider.start(test);
  const server = await Server.start(test, { config: provider.config });
  const open = (/** @type {string} */ id) => new Page(test, server, { id, body: { model: "local/any" } });
  const [one, two] = [open("one"), open("two")];

  const saidToOne = one.say("hello one");
  const first = await provider.asked();
  const saidToTwo = two.say("hello two");
  const second = await provider.asked();
  second.says("this is two");
  await two.until("it says so", ({ messages }) => messages.length === 2 && textOf(messages[1]) === "this is two");
  first.says("this is one");
  first.ends();
  await saidToOne;
  assert.deepEqual([one.status, two.status], ["ready", "streaming"]);
  second.ends();
  await saidToTwo;

  assert.deepEqual(one.messages.map(textOf), ["hello one", "this is one"]);
  assert.deepEqual(two.messages.map(textOf), ["hello two", "this is two"]);
});

test("ai: readUIMessageStream reads a turn without a chat", async (test) => {
  const server = await Server.start(test);
  const transport = new DefaultChatTransport({ api: `${server.url}/api/chat` });
  const text = "call list_tools {}";
  const stream = await transport.sendMessages({
    chatId: "chat",
    trigger: "submit-message",
    messageId: undefined,
    messages: [{ id: "said", role: "user", parts: [{ type: "text", text }] }],
    abortSignal: undefined,
  });

  /** @type {import("ai").UIMessage | undefined} */
  let last;
  for await (const message of readUIMessageStream({ stream })) last = message;

  const [, answer] = await stored(server, "chat");
  assert.ok(last);
  assert.deepEqual([last.id, last.role, partsOf(last)], [answer.id, "assistant", partsOf(answer)]);
  assert.match(textOf(last), /open-url/);
});

/** @param {import("../support/upstream.js").Asked} asked */
function saidTo({ body }) {
  const said = body.messages.filter(({ role }) => role !== "system");
  return said.map(
    ({ role, content }) => `${role}: ${Array.isArray(content) ? content.map(({ text }) => text).join("") : content}`,
  );
}
