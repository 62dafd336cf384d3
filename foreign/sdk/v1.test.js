// `@opencode-ai/sdk` as it is published, against a real server.

import assert from "node:assert/strict";

import { createOpencodeClient } from "@opencode-ai/sdk";

import { listen, story } from "../support/events.js";
import { GREET, Laptop, NEVER_DONE } from "../support/laptop.js";
import { Log, test } from "../support/patience.js";
import { Server } from "../support/server.js";

const GREET_POLITELY = {
  ...GREET,
  run: ({ name }) => ({ title: "A greeting", output: `Hello, ${name}!`, metadata: { polite: true } }),
};
const ASK = `
[agents.default.permission]
client_tools = "ask"
`;

/**
 * A server, and the SDK set up for it.
 *
 * @param {import("node:test").TestContext} test
 * @param {import("../support/server.js").Settings} [settings]
 */
async function start(test, settings) {
  const server = await Server.start(test, settings);
  const client = createOpencodeClient({ baseUrl: server.url, directory: "/home/ada/a project", throwOnError: true });
  return { server, client, listen: () => listen(server, (signal) => client.event.subscribe({ signal })) };
}

/** @typedef {Awaited<ReturnType<typeof start>>["client"]} Client */

/**
 * A session of the laptop. The SDK's types do not know `clientID`; its requests carry it all the same.
 *
 * @param {Client} client
 */
async function session(client) {
  const body = { title: "A test", clientID: "laptop" };
  return (await client.session.create({ body, throwOnError: true })).data;
}

/** @param {string} text */
const say = (text) => ({ parts: [{ type: /** @type {const} */ ("text"), text }] });

test("v1: a prompt runs a tool on the client, and events tell it in order", async (test) => {
  const { server, client, listen } = await start(test);
  const laptop = await Laptop.connect(test, server, "laptop", { greet: GREET });
  const events = await listen();
  const { id } = await session(client);

  const answer = await client.session.prompt({
    path: { id },
    body: say('call greet {"name": "Ada"}'),
    throwOnError: true,
  });

  const [call] = laptop.calls.all;
  assert.deepEqual([call.tool, call.input, call.sessionID], ["client_laptop_greet", { name: "Ada" }, id]);
  const text = answer.data.parts.find((part) => part.type === "text");
  assert.match(text?.text ?? "", /Hello, Ada!/);
  assert.equal(answer.data.info.finish, "stop");

  await events.until("the session is idle", (event) => event.type === "session.idle");
  assert.deepEqual(story(events, id), [
    "session.created",
    "session.updated",
    "message.updated user",
    "message.part.updated text",
    "session.updated",
    "session.status busy",
    "message.updated assistant",
    "message.part.updated step-start",
    "message.part.updated tool pending",
    "message.part.updated tool running",
    "client-tool.request",
    "client-tool.executing",
    "client-tool.completed",
    "message.part.updated tool completed",
    "message.part.updated step-finish tool-calls",
    "message.updated assistant tool-calls",
    "message.updated assistant",
    "message.part.updated step-start",
    "message.part.delta",
    "message.part.updated text grows",
    "message.part.updated text",
    "message.part.updated step-finish stop",
    "message.updated assistant stop",
    "session.updated",
    "session.status idle",
    "session.idle",
  ]);
  let streamed = "";
  for (const event of events.all) {
    if (event.type === "message.part.updated") streamed += event.properties.delta ?? "";
  }
  assert.equal(streamed, text?.text);
});

test("v1: what was said can be read back", async (test) => {
  const { server, client } = await start(test);
  await Laptop.connect(test, server, "laptop", { greet: GREET_POLITELY });
  const { id } = await session(client);
  await client.session.prompt({ path: { id }, body: say('call greet {"name": "Ada"}') });

  const { data: messages } = await client.session.messages({ path: { id }, throwOnError: true });

  const kinds = messages.map(({ info, parts }) => [info.role, ...parts.map((part) => part.type)]);
  assert.deepEqual(kinds, [
    ["user", "text"],
    ["assistant", "step-start", "tool", "step-finish"],
    ["assistant", "step-start", "text", "step-finish"],
  ]);
  const tool = messages[1].parts[1];
  assert.ok(tool.type === "tool" && tool.state.status === "completed");
  const { time, ...state } = tool.state;
  assert.deepEqual(state, {
    status: "completed",
    input: { name: "Ada" },
    title: "A greeting",
    output: "Hello, Ada!",
    metadata: { polite: true },
  });
  assert.ok(time.start <= time.end);
  const user = messages[0].info;
  for (const { info } of messages.slice(1)) {
    assert.equal(info.role === "assistant" && info.parentID, user.id);
  }
  const last = await client.session.messages({ path: { id }, query: { limit: 1 }, throwOnError: true });
  assert.deepEqual(last.data, messages.slice(-1));
});

test("v1: promptAsync answers at once, and the answer comes as events", async (test) => {
  const { server, client, listen } = await start(test);
  await Laptop.connect(test, server, "laptop", { greet: GREET });
  const events = await listen();
  const { id } = await session(client);

  const { response } = await client.session.promptAsync({ path: { id }, body: say('call greet {"name": "Bob"}') });

  assert.equal(response.status, 204);
  await events.until("the session is idle", (event) => event.type === "session.idle");
  const { data: messages } = await client.session.messages({ path: { id }, throwOnError: true });
  const text = messages.at(-1)?.parts.find((part) => part.type === "text");
  assert.match(text?.text ?? "", /Hello, Bob!/);
});

test("v1: sessions are listed, shown and deleted", async (test) => {
  const { client, listen } = await start(test);
  const events = await listen();
  const first = (await client.session.create({ throwOnError: true })).data;
  const second = (await client.session.create({ body: { title: "Second", parentID: first.id }, throwOnError: true }))
    .data;

  assert.deepEqual([second.title, second.parentID], ["Second", first.id]);
  assert.deepEqual((await client.session.list()).data, [second, first]);
  assert.deepEqual((await client.session.get({ path: { id: first.id } })).data, first);
  assert.deepEqual((await client.session.status()).data, {
    [first.id]: { type: "idle" },
    [second.id]: { type: "idle" },
  });
  assert.equal((await client.session.delete({ path: { id: first.id } })).data, true);
  assert.deepEqual((await client.session.list()).data, [second]);
  await events.until(
    "the session is gone",
    (event) => event.type === "session.deleted" && event.properties.info.id === first.id,
  );
});

test("v1: abort takes an open call back", async (test) => {
  const { server, client, listen } = await start(test);
  const laptop = await Laptop.connect(test, server, "laptop", { wait: NEVER_DONE });
  const events = await listen();
  const { id } = await session(client);
  const prompt = client.session.prompt({ path: { id }, body: say("call wait {}"), throwOnError: true });
  const call = await laptop.calls.until("the call comes", () => true);
  assert.deepEqual((await client.session.status()).data, { [id]: { type: "busy" } });

  assert.equal((await client.session.abort({ path: { id } })).data, true);

  const cancelled = await laptop.cancelled.until("the call is taken back", () => true);
  assert.equal(cancelled.requestID, call.requestID);
  const { info, parts } = (await prompt).data;
  assert.equal(info.error?.name, "MessageAbortedError");
  const tool = parts.find((part) => part.type === "tool");
  assert.equal(tool?.state.status, "error");
  await events.until("the session is idle", (event) => event.type === "session.idle");
  assert.deepEqual(story(events, id).slice(-6), [
    "session.error MessageAbortedError",
    "message.part.updated tool error",
    "message.updated assistant tool-calls MessageAbortedError",
    "session.updated",
    "session.status idle",
    "session.idle",
  ]);
});

test("v1: a call that has to be asked for waits for the answer", async (test) => {
  const { server, client, listen } = await start(test, { config: ASK });
  const laptop = await Laptop.connect(test, server, "laptop", { greet: GREET });
  const events = await listen();
  const { id } = await session(client);
  const prompt = client.session.prompt({ path: { id }, body: say('call greet {"name": "Ada"}'), throwOnError: true });
  const asked = await events.until("somebody is asked", (event) => event.type === "permission.updated");
  assert.ok(asked.type === "permission.updated");
  const ask = asked.properties;
  assert.deepEqual(
    [ask.type, ask.pattern, ask.sessionID, ask.metadata],
    ["client_tool", "client_laptop_greet", id, { tool: "client_laptop_greet", input: { name: "Ada" } }],
  );
  assert.equal(laptop.calls.all.length, 0);

  const answer = { path: { id, permissionID: ask.id }, body: { response: /** @type {const} */ ("once") } };
  assert.equal((await client.postSessionIdPermissionsPermissionId(answer)).data, true);

  const text = (await prompt).data.parts.find((part) => part.type === "text");
  assert.match(text?.text ?? "", /Hello, Ada!/);
  const replied = await events.until("the answer is told", (event) => event.type === "permission.replied");
  assert.ok(replied.type === "permission.replied");
  assert.deepEqual([replied.properties.permissionID, replied.properties.response], [ask.id, "once"]);
  const again = await client.postSessionIdPermissionsPermissionId({ ...answer, throwOnError: false });
  assert.equal(again.response.status, 404);
});

test("v1: a call that is rejected is not made", async (test) => {
  const { server, client, listen } = await start(test, { config: ASK });
  const laptop = await Laptop.connect(test, server, "laptop", { greet: GREET });
  const events = await listen();
  const { id } = await session(client);
  const prompt = client.session.prompt({ path: { id }, body: say('call greet {"name": "Ada"}'), throwOnError: true });
  const asked = await events.until("somebody is asked", (event) => event.type === "permission.updated");
  assert.ok(asked.type === "permission.updated");

  const path = { id, permissionID: asked.properties.id };
  await client.postSessionIdPermissionsPermissionId({ path, body: { response: "reject" } });

  assert.equal((await prompt).data.info.finish, "stop");
  const { data: messages } = await client.session.messages({ path: { id }, throwOnError: true });
  const tool = messages.flatMap(({ parts }) => parts).find((part) => part.type === "tool");
  assert.equal(tool?.state.status, "error");
  assert.equal(laptop.calls.all.length, 0);
});

test("v1: errors are returned, or thrown with what the server says", async (test) => {
  const { server } = await start(test);
  const client = createOpencodeClient({ baseUrl: server.url });

  const unknown = await client.session.get({ path: { id: "ses_none" } });
  assert.equal(unknown.response.status, 404);
  const requestOf = (/** @type {{ response: Response }} */ { response }) => response.headers.get("x-request-id");
  const missing = { message: "there is no session ses_none", request: requestOf(unknown) };
  assert.deepEqual(unknown.error, { name: "NotFoundError", data: missing });

  const { id } = (await client.session.create({ throwOnError: true })).data;
  const empty = await client.session.prompt({ path: { id }, body: { parts: [] } });
  assert.equal(empty.response.status, 400);
  const nothing = { message: "`parts`: there must be a text or a file", request: requestOf(empty) };
  assert.deepEqual(empty.error, { name: "BadRequest", data: nothing });

  const unknownModel = { ...say("hello"), model: { providerID: "nobody", modelID: "nothing" } };
  await assert.rejects(
    client.session.prompt({ path: { id }, body: unknownModel, throwOnError: true }),
    (error) => error instanceof Error && /nobody/.test(error.message),
  );
});

test("v1: the stream of events goes on after the server was started anew", async (test) => {
  const { server } = await start(test);
  const client = createOpencodeClient({ baseUrl: server.url });
  /** @type {unknown[]} */
  const errors = [];
  const quickly = { sseDefaultRetryDelay: 50, sseMaxRetryDelay: 200, onSseError: (error) => errors.push(error) };
  const events = await listen(server, (signal) => client.event.subscribe({ signal, ...quickly }));

  await server.restart("SIGTERM");

  await events.until("it is connected again", (event) => event.type === "server.connected" && event !== events.all[0]);
  assert.ok(errors.length > 0, "the stream was cut, not ended");
  const { id } = (await client.session.create({ throwOnError: true })).data;
  await events.until(
    "the new server tells",
    (event) => event.type === "session.created" && event.properties.info.id === id,
  );
});

test("v1: what keeps the stream alive is no event", async (test) => {
  const { server, client } = await start(test, { env: { HANDBACK_CLIENT_TOOLS_KEEPALIVE_INTERVAL: "20" } });
  /** @type {Log<unknown>} */
  const frames = new Log();
  const onSseEvent = ({ data }) => frames.add(data ?? "none");
  const events = await listen(server, (signal) => client.event.subscribe({ signal, onSseEvent }));

  await frames.until("a frame without an event", (frame) => frame === "none");

  assert.equal(events.all.length, 1);
});
