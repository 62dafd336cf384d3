// `@opencode-ai/sdk/v2` as it is published, against a real server.

import assert from "node:assert/strict";

import { createOpencodeClient } from "@opencode-ai/sdk/v2";

import { listen, story } from "../support/events.js";
import { GREET, Laptop, NEVER_DONE } from "../support/laptop.js";
import { Log, test } from "../support/patience.js";
import { Server } from "../support/server.js";

const ASK = `
[agents.default.permission]
client_tools = "ask"
`;
const OF_LAPTOP = { metadata: { clientID: "laptop", project: "a test" } };
const THROW = /** @type {const} */ ({ throwOnError: true });

/**
 * A server, and the SDK set up for it.
 *
 * @param {import("node:test").TestContext} test
 * @param {import("../support/server.js").Settings} [settings]
 */
async function start(test, settings) {
  const server = await Server.start(test, settings);
  const client = createOpencodeClient({ baseUrl: server.url, directory: "/home/ada/a project" });
  return { server, client, listen: () => listen(server, (signal) => client.event.subscribe({}, { signal })) };
}

/** @param {string} text */
const say = (text) => [{ type: /** @type {const} */ ("text"), text }];

/** @param {import("@opencode-ai/sdk/v2").Part[]} parts */
const textOf = (parts) => parts.map((part) => (part.type === "text" ? part.text : "")).join("");

test("v2: a prompt runs a tool on the client, and events tell it in order", async (test) => {
  const { server, client, listen } = await start(test);
  const laptop = await Laptop.connect(test, server, "laptop", { greet: GREET });
  const events = await listen();
  const { data: session } = await client.session.create({ title: "A test", ...OF_LAPTOP }, THROW);
  assert.deepEqual([session.title, session.metadata], ["A test", OF_LAPTOP.metadata]);
  const sessionID = session.id;

  const answer = await client.session.prompt({ sessionID, parts: say('call greet {"name": "Ada"}') }, THROW);

  const [call] = laptop.calls.all;
  assert.deepEqual([call.tool, call.input, call.sessionID], ["client_laptop_greet", { name: "Ada" }, sessionID]);
  assert.match(textOf(answer.data.parts), /Hello, Ada!/);
  await events.until("the session is idle", (event) => event.type === "session.idle");
  assert.deepEqual(story(events, sessionID), [
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
  const deltas = events.all.flatMap((event) => (event.type === "message.part.delta" ? [event.properties] : []));
  assert.equal(deltas.map(({ delta }) => delta).join(""), textOf(answer.data.parts));
  const text = answer.data.parts.find((part) => part.type === "text");
  for (const { messageID, partID, field } of deltas) {
    assert.deepEqual([messageID, partID, field], [answer.data.info.id, text?.id, "text"]);
  }
});

test("v2: a session belongs to the client of the header, too, and to nobody else", async (test) => {
  const { server, client } = await start(test);
  const laptop = await Laptop.connect(test, server, "laptop", { greet: GREET });
  const other = await Laptop.connect(test, server, "other", { greet: GREET });
  const as = (clientID) => ({ headers: { "x-handback-client": clientID } });
  const { data: session } = await client.session.create({}, { ...as("laptop"), ...THROW });
  const sessionID = session.id;
  const parts = say('call greet {"name": "Ada"}');

  const refused = await client.session.prompt({ sessionID, parts }, as("other"));
  assert.equal(refused.response.status, 403);
  assert.deepEqual([laptop.calls.all, other.calls.all], [[], []]);

  const answer = await client.session.prompt({ sessionID, parts }, { ...as("laptop"), ...THROW });
  assert.match(textOf(answer.data.parts), /Hello, Ada!/);
  assert.deepEqual([laptop.calls.all.length, other.calls.all.length], [1, 0]);
});

test("v2: calls of one step run at the same time, and one that fails does so alone", async (test) => {
  const { server, client } = await start(test);
  /** @type {() => void} */
  let release = () => {};
  const both = new Promise((released) => (release = () => released(undefined)));
  await Laptop.connect(test, server, "laptop", {
    // The first call ends only when the second has come.
    first: { run: () => both.then(() => "the first is done") },
    second: {
      run: () => {
        release();
        throw new Error("the second is broken");
      },
    },
  });
  const { data: session } = await client.session.create(OF_LAPTOP, THROW);
  const sessionID = session.id;

  const answer = await client.session.prompt({ sessionID, parts: say("call first {}\ncall second {}") }, THROW);

  const { data: messages } = await client.session.messages({ sessionID }, THROW);
  const tools = messages.flatMap(({ parts }) => parts).filter((part) => part.type === "tool");
  const results = tools.map(({ tool, state }) => [
    tool,
    state.status === "completed" ? state.output : state.status === "error" && state.error,
  ]);
  assert.deepEqual(results, [
    ["client_laptop_first", "the first is done"],
    ["client_laptop_second", "the second is broken"],
  ]);
  assert.match(textOf(answer.data.parts), /the first is done[^]*the second is broken/);
});

test("v2: promptAsync, messages, list, get, status, delete", async (test) => {
  const { client, listen } = await start(test);
  const events = await listen();
  const { data: first } = await client.session.create({}, THROW);
  const { data: second } = await client.session.create(
    { parentID: first.id, agent: "default", model: { providerID: "demo", id: "scripted" } },
    THROW,
  );
  assert.deepEqual(
    [second.parentID, second.agent, second.model],
    [first.id, "default", { providerID: "demo", id: "scripted" }],
  );
  assert.deepEqual((await client.session.list()).data, [second, first]);
  assert.deepEqual((await client.session.list({ limit: 1 })).data, [second]);

  const sessionID = second.id;
  const accepted = await client.session.promptAsync(
    { sessionID, parts: say("What can you do?"), messageID: "msg_mine", system: "Be brief." },
    THROW,
  );
  assert.equal(accepted.response.status, 204);
  await events.until("the session is idle", (event) => event.type === "session.idle");
  const { data: messages } = await client.session.messages({ sessionID }, THROW);
  assert.deepEqual(
    messages.map(({ info }) => info.role),
    ["user", "assistant"],
  );
  const [{ info: user }, { info: assistant }] = messages;
  assert.ok(user.role === "user" && assistant.role === "assistant");
  assert.deepEqual(
    [user.id, user.system, user.model],
    ["msg_mine", "Be brief.", { providerID: "demo", modelID: "scripted" }],
  );
  assert.deepEqual([assistant.parentID, assistant.providerID, assistant.modelID], ["msg_mine", "demo", "scripted"]);

  const noted = await client.session.prompt({ sessionID, parts: say("Keep this in mind."), noReply: true }, THROW);
  assert.equal(textOf(noted.data.parts), "Keep this in mind.");
  assert.equal((await client.session.messages({ sessionID }, THROW)).data.length, 3);

  assert.deepEqual((await client.session.status()).data, {
    [first.id]: { type: "idle" },
    [second.id]: { type: "idle" },
  });
  assert.equal((await client.session.delete({ sessionID })).data, true);
  assert.equal((await client.session.get({ sessionID })).response.status, 404);
  assert.deepEqual((await client.session.list()).data, [first]);
});

test("v2: a tool can be switched off for a turn", async (test) => {
  const { server, client } = await start(test);
  const laptop = await Laptop.connect(test, server, "laptop", { greet: GREET });
  const { data: session } = await client.session.create(OF_LAPTOP, THROW);
  const sessionID = session.id;
  const parts = say('call greet {"name": "Ada"}');

  await client.session.prompt({ sessionID, parts, tools: { greet: false } }, THROW);
  assert.equal(laptop.calls.all.length, 0);
  await client.session.prompt({ sessionID, parts }, THROW);
  assert.equal(laptop.calls.all.length, 1);
});

test("v2: abort takes an open call back", async (test) => {
  const { server, client } = await start(test);
  const laptop = await Laptop.connect(test, server, "laptop", { wait: NEVER_DONE });
  const { data: session } = await client.session.create(OF_LAPTOP, THROW);
  const sessionID = session.id;
  const prompt = client.session.prompt({ sessionID, parts: say("call wait {}") }, THROW);
  const call = await laptop.calls.until("the call comes", () => true);

  assert.equal((await client.session.abort({ sessionID })).data, true);

  assert.equal((await laptop.cancelled.until("the call is taken back", () => true)).requestID, call.requestID);
  assert.equal((await prompt).data.info.error?.name, "MessageAbortedError");
});

test("v2: asks are listed, and answered with reply and respond", async (test) => {
  const { server, client, listen } = await start(test, { config: ASK });
  const laptop = await Laptop.connect(test, server, "laptop", { greet: GREET });
  const events = await listen();
  const { data: session } = await client.session.create(OF_LAPTOP, THROW);
  const sessionID = session.id;
  /** Has a call made that has to be asked for, answers the ask, and tells what came of it. */
  const prompt = async (/** @type {string} */ name, /** @type {(id: string) => Promise<unknown>} */ answer) => {
    const answered = client.session.prompt({ sessionID, parts: say(`call greet {"name": "${name}"}`) }, THROW);
    const asked = await events.until(
      "somebody is asked",
      (event) => event.type === "permission.asked" && isAbout(event, name),
    );
    assert.ok(asked.type === "permission.asked");
    const { id, permission, patterns, always } = asked.properties;
    const tool = ["client_laptop_greet"];
    assert.deepEqual([permission, patterns, always], ["client_tool", tool, tool]);
    const { data: open } = await client.permission.list({}, THROW);
    assert.deepEqual(open, [asked.properties]);
    await answer(id);
    const replied = await events.until(
      "the answer is told",
      (event) => event.type === "permission.replied" && event.properties.requestID === id,
    );
    assert.deepEqual((await client.permission.list({}, THROW)).data, []);
    return { replied, text: textOf((await answered).data.parts) };
  };
  const isAbout = (event, name) => event.properties.metadata.input.name === name;

  const rejected = await prompt("Ada", async (requestID) => {
    assert.equal((await client.permission.reply({ requestID, reply: "reject", message: "Not today." })).data, true);
  });
  assert.match(rejected.text, /Not today\./);
  assert.equal(laptop.calls.all.length, 0);

  const once = await prompt("Bob", async (permissionID) => {
    assert.equal((await client.permission.respond({ sessionID, permissionID, response: "once" })).data, true);
  });
  assert.match(once.text, /Hello, Bob!/);

  const always = await prompt("Cleo", async (requestID) => {
    assert.equal((await client.permission.reply({ requestID, reply: "always" })).data, true);
  });
  assert.ok(always.replied.type === "permission.replied");
  assert.deepEqual(always.replied.properties.reply, "always");

  const unasked = await client.session.prompt({ sessionID, parts: say('call greet {"name": "Dan"}') }, THROW);
  assert.match(textOf(unasked.data.parts), /Hello, Dan!/);
  assert.deepEqual(
    laptop.calls.all.map(({ input }) => input.name),
    ["Bob", "Cleo", "Dan"],
  );

  const gone = await client.permission.reply({ requestID: "per_none", reply: "once" });
  assert.equal(gone.response.status, 404);
});

test("v2: errors are returned, or thrown with what the server says", async (test) => {
  const { client } = await start(test);

  const unknown = await client.session.get({ sessionID: "ses_none" });
  assert.equal(unknown.response.status, 404);
  const requestOf = (/** @type {{ response: Response }} */ { response }) => response.headers.get("x-request-id");
  const missing = { message: "there is no session ses_none", request: requestOf(unknown) };
  assert.deepEqual(unknown.error, { name: "NotFoundError", data: missing });

  const { data: session } = await client.session.create({}, THROW);
  const empty = await client.session.prompt({ sessionID: session.id, parts: [] });
  assert.equal(empty.response.status, 400);
  const nothing = { message: "`parts`: there must be a text or a file", request: requestOf(empty) };
  assert.deepEqual(empty.error, { name: "BadRequest", data: nothing });

  await assert.rejects(client.session.create({ agent: "nobody" }, THROW), (error) => {
    assert.ok(error instanceof Error);
    assert.match(error.message, /nobody/);
    const { body, status } = /** @type {any} */ (error.cause);
    const { request } = body.data;
    assert.match(request, /^req_/);
    assert.deepEqual([status, body], [400, { name: "BadRequest", data: { message: error.message, request } }]);
    return true;
  });
});

test("v2: the stream of events goes on after the server was started anew", async (test) => {
  const { server, client } = await start(test);
  /** @type {unknown[]} */
  const errors = [];
  const quickly = { sseDefaultRetryDelay: 50, sseMaxRetryDelay: 200, onSseError: (error) => errors.push(error) };
  const events = await listen(server, (signal) => client.event.subscribe({}, { signal, ...quickly }));

  await server.restart("SIGTERM");

  await events.until("it is connected again", (event) => event.type === "server.connected" && event !== events.all[0]);
  assert.ok(errors.length > 0, "the stream was cut, not ended");
  const { data: session } = await client.session.create({}, THROW);
  await events.until(
    "the new server tells",
    (event) => event.type === "session.created" && event.properties.info.id === session.id,
  );
});

test("v2: what keeps the stream alive is no event", async (test) => {
  const { server, client } = await start(test, { env: { HANDBACK_CLIENT_TOOLS_KEEPALIVE_INTERVAL: "20" } });
  /** @type {Log<unknown>} */
  const frames = new Log();
  const onSseEvent = ({ data }) => frames.add(data ?? "none");
  const events = await listen(server, (signal) => client.event.subscribe({}, { signal, onSseEvent }));

  await frames.until("a frame without an event", (frame) => frame === "none");

  assert.equal(events.all.length, 1);
});
