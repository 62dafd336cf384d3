// Threads and runs, as Soliplex serves them: with plain `fetch`, and with the published clients pointed at a run.

import assert from "node:assert/strict";

import { AguiPage, CLIENTS } from "../support/agui.js";
import { GREET, Laptop } from "../support/laptop.js";
import { test, within } from "../support/patience.js";
import { Provider } from "../support/provider.js";
import { Server } from "../support/server.js";
import { Tap } from "../support/stream.js";
import { Upstream } from "../support/upstream.js";
import { TEXT, TOOLS, ask, call, results, start } from "./setup.js";

const ROOM = "/api/v1/rooms/default/agui";

/**
 * Posts JSON, and gives the answer.
 *
 * @param {Server} server
 * @param {string} path
 * @param {object} [body]
 */
const post = (server, path, body = {}) =>
  ask(server, path, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) });

/**
 * Makes a thread, and gives it with the id of its first run.
 *
 * @param {Server} server
 */
async function newThread(server) {
  const { status, body: thread } = await post(server, ROOM, { metadata: { name: "A thread", description: "of talk" } });
  assert.equal(status, 200);
  const [runId] = Object.keys(thread.runs);
  return { thread, threadId: thread.thread_id, runId };
}

/**
 * What a run is started with.
 *
 * @param {string} threadId
 * @param {string} runId
 * @param {string} content
 */
const input = (threadId, runId, content) => ({
  threadId,
  runId,
  state: {},
  messages: [{ id: `said in ${runId}`, role: "user", content }],
  tools: [],
  context: [],
  forwardedProps: {},
});

test("threads: rooms are the agents", async (test) => {
  const server = await Server.start(test, { config: '[agents.pirate]\nsystem = "Talk like a pirate."' });

  const { status, body } = await ask(server, "/api/v1/rooms");

  assert.equal(status, 200);
  assert.deepEqual(
    Object.entries(body).map(([key, { id }]) => [key, id]),
    [
      ["default", "default"],
      ["pirate", "pirate"],
    ],
  );
});

test("threads: a thread is made with its first run, listed, read and deleted", async (test) => {
  const server = await Server.start(test);
  const { thread, threadId, runId } = await newThread(server);

  assert.deepEqual(
    [thread.room_id, thread.metadata, Object.keys(thread.runs).length],
    ["default", { name: "A thread", description: "of talk" }, 1],
  );
  const { created, ...first } = thread.runs[runId];
  assert.ok(Date.parse(created) > 0, created);
  const { run_input, ...rest } = first;
  assert.deepEqual(rest, {
    run_id: runId,
    thread_id: threadId,
    parent_run_id: null,
    finished: null,
    events: [],
    metadata: null,
    usage: null,
  });
  assert.deepEqual([run_input.threadId, run_input.runId, run_input.messages], [threadId, runId, []]);

  const { body: list } = await ask(server, ROOM);
  assert.deepEqual(list, { threads: [{ ...thread, runs: null }] });
  const { body: read } = await ask(server, `${ROOM}/${threadId}`);
  assert.deepEqual([read.thread_id, Object.keys(read.runs), read.runs[runId].events], [threadId, [runId], null]);

  const { status, body: second } = await post(server, `${ROOM}/${threadId}`, { parent_run_id: runId });
  assert.deepEqual(
    [status, second.thread_id, second.parent_run_id, second.run_input, second.events],
    [200, threadId, runId, null, []],
  );

  assert.equal((await ask(server, `${ROOM}/${threadId}`, { method: "DELETE" })).status, 204);
  assert.equal((await ask(server, `${ROOM}/${threadId}`)).status, 404);
  assert.deepEqual((await ask(server, ROOM)).body, { threads: [] });
});

test("threads: what is not there, or belongs elsewhere", async (test) => {
  const server = await Server.start(test, { config: '[agents.pirate]\nsystem = "Talk like a pirate."' });
  const { threadId, runId } = await newThread(server);
  const tap = new Tap(test, server);
  const nobody = "00000000-0000-4000-8000-000000000000";
  const said = input(threadId, runId, "Hello");
  const refused = [
    [404, await ask(server, "/api/v1/rooms/nowhere/agui")],
    [404, await ask(server, `${ROOM}/${nobody}`)],
    [404, await ask(server, `${ROOM}/${threadId}/${nobody}`)],
    [400, await ask(server, `/api/v1/rooms/pirate/agui/${threadId}`)],
    [400, await post(server, `${ROOM}/${threadId}`, { parent_run_id: nobody })],
    [400, await tap.post(`${ROOM}/${threadId}/${runId}`, { ...said, runId: nobody })],
    [400, await tap.post(`${ROOM}/${threadId}/${runId}`, { ...said, threadId: nobody })],
    [400, await tap.post(`${ROOM}/${threadId}/${runId}`, { ...said, messages: [] })],
    [400, await tap.post(`${ROOM}/${threadId}/${runId}`, { ...said, tools: [{ name: "list_tools" }] })],
  ];

  for (const [place, [expected, { status, body }]] of /** @type {[number, any][]} */ ([...refused.entries()])) {
    assert.deepEqual([place, status, Object.keys(body)], [place, expected, ["detail", "request"]]);
  }
  // Nothing of that has started the run.
  const { run } = await tap.post(`${ROOM}/${threadId}/${runId}`, said);
  await run.over;
  assert.equal(run.last.type, "RUN_FINISHED");
});

test("threads: a run is executed once, and told again to whoever says where it left off", async (test) => {
  const { server, upstream } = await start(test);
  upstream.says("Hello", { content: "Hello to you." });
  const { threadId, runId } = await newThread(server);
  const path = `${ROOM}/${threadId}/${runId}`;
  const said = input(threadId, runId, "Hello");
  const tap = new Tap(test, server);

  const { run } = await tap.post(path, said);
  await run.over;

  assert.deepEqual(run.story, ["RUN_STARTED", ...TEXT, "RUN_FINISHED"]);
  const ids = run.events.all.map((_, n) => `${runId}:${n}`);
  assert.deepEqual(run.ids, ids);
  const again = await tap.post(path, said);
  assert.deepEqual([again.status, Object.keys(again.body)], [400, ["detail", "request"]]);

  for (const n of [0, 2]) {
    const { run: replay } = await tap.post(path, said, { headers: { "last-event-id": `${runId}:${n}` } });
    await replay.over;
    assert.deepEqual([replay.ids, replay.events.all], [ids.slice(n + 1), run.events.all.slice(n + 1)]);
  }
  const { status } = await tap.post(path, said, { headers: { "last-event-id": "another:0" } });
  assert.equal(status, 400);
  assert.equal(upstream.asked.all.length, 1);

  const { body: stored } = await ask(server, path);
  assert.deepEqual(stored.events, run.events.all);
  assert.deepEqual([stored.run_input.messages, stored.usage.requests], [said.messages, 1]);
});

test("threads: a run is finished when RUN_FINISHED arrives", async (test) => {
  const { server, upstream } = await start(test);
  upstream.says("Hello", { content: "Hello to you." });
  const tap = new Tap(test, server);
  const { threadId, runId } = await newThread(server);
  const path = `${ROOM}/${threadId}/${runId}`;

  const { run } = await tap.post(path, input(threadId, runId, "Hello"));
  await run.until("RUN_FINISHED");
  const { body: stored } = await ask(server, path);

  assert.ok(Date.parse(stored.finished) > 0, stored.finished);
  assert.equal(stored.events.at(-1).type, "RUN_FINISHED");
});

test("threads: a run goes on when its reader leaves, and another reads on where it left off", async (test) => {
  const provider = await Provider.start(test);
  const server = await Server.start(test, { config: `model = "local/any"\n${provider.config}` });
  const tap = new Tap(test, server);
  const { threadId, runId } = await newThread(server);
  const path = `${ROOM}/${threadId}/${runId}`;
  const said = input(threadId, runId, "Hello");

  const leaving = new AbortController();
  const { run: first } = await tap.post(path, said, { signal: leaving.signal });
  const speech = await provider.asked();
  speech.says("Hello ");
  await first.until("TEXT_MESSAGE_CONTENT");
  leaving.abort();
  await first.over;
  const lastSeen = first.ids.at(-1) ?? "";
  const { run: second } = await tap.post(path, said, { headers: { "last-event-id": lastSeen } });
  speech.says("to you.");
  await second.until("TEXT_MESSAGE_CONTENT");
  speech.ends();
  await second.over;

  const events = [...first.events.all, ...second.events.all];
  assert.equal(
    events.flatMap(({ type, delta }) => (type === "TEXT_MESSAGE_CONTENT" ? delta : [])).join(""),
    "Hello to you.",
  );
  assert.equal(second.last.type, "RUN_FINISHED");
  assert.deepEqual((await ask(server, path)).body.events, events);
});

test("threads: a run is told to all who read along", async (test) => {
  const provider = await Provider.start(test);
  const server = await Server.start(test, { config: `model = "local/any"\n${provider.config}` });
  const tap = new Tap(test, server);
  const { threadId, runId } = await newThread(server);
  const path = `${ROOM}/${threadId}/${runId}`;
  const said = input(threadId, runId, "Hello");

  const { run: first } = await tap.post(path, said);
  const speech = await provider.asked();
  speech.says("Hello ");
  const { run: second } = await tap.post(path, said, { headers: { "last-event-id": `${runId}:0` } });
  await second.until("TEXT_MESSAGE_CONTENT");
  speech.says("to you.");
  speech.ends();
  await Promise.all([first.over, second.over]);

  assert.deepEqual(second.events.all, first.events.all.slice(1));
  // Whoever has seen all of it, or says so, is told its end again: no stream is without one.
  for (const seen of [first.ids.at(-1) ?? "", `${runId}:1000`]) {
    const { run } = await tap.post(path, said, { headers: { "last-event-id": seen } });
    await run.over;
    assert.deepEqual([run.ids, run.events.all], [first.ids.slice(-1), first.events.all.slice(-1)]);
  }
});

test("threads: a thread that is deleted takes its run along", async (test) => {
  const provider = await Provider.start(test);
  const server = await Server.start(test, { config: `model = "local/any"\n${provider.config}` });
  const tap = new Tap(test, server);
  const { threadId, runId } = await newThread(server);
  const { run } = await tap.post(`${ROOM}/${threadId}/${runId}`, input(threadId, runId, "Hello"));
  const speech = await provider.asked();
  speech.says("Hello ");
  await run.until("TEXT_MESSAGE_CONTENT");

  assert.equal((await ask(server, `${ROOM}/${threadId}`, { method: "DELETE" })).status, 204);
  await within("the run ends", run.over);

  assert.deepEqual([run.last.type, run.last.code], ["RUN_ERROR", "cancelled"]);
  assert.equal((await ask(server, `${ROOM}/${threadId}/${runId}`)).status, 404);
});

test("threads: a call that has to be allowed: the run ends with the question, the next answers it", async (test) => {
  const { server, upstream } = await start(test, '[agents.default.permission]\nclient_tools = "ask"');
  const laptop = await Laptop.connect(test, server, "laptop", { greet: GREET });
  upstream.says("Greet.", { toolCalls: [call("call_1", "client_laptop_greet", { name: "Ada" })] });
  upstream.says("Hello, Ada!", { content: "Greeted." });
  const tap = new Tap(test, server);
  const { threadId, runId } = await newThread(server);
  const forwardedProps = { clientID: "laptop" };

  const { run: asking } = await tap.post(`${ROOM}/${threadId}/${runId}`, {
    ...input(threadId, runId, "Greet."),
    forwardedProps,
  });
  await asking.over;
  const [{ id: interruptId }] = asking.last.outcome.interrupts;
  const { body: next } = await post(server, `${ROOM}/${threadId}`, { parent_run_id: runId });
  const { run: answering } = await tap.post(`${ROOM}/${threadId}/${next.run_id}`, {
    ...input(threadId, next.run_id, "Greet."),
    messages: asking.input.messages,
    forwardedProps,
    resume: [{ interruptId, status: "resolved", payload: { approved: true } }],
  });
  await answering.over;

  assert.deepEqual(answering.story, ["RUN_STARTED", "TOOL_CALL_RESULT", ...TEXT, "RUN_FINISHED"]);
  assert.equal(laptop.calls.all.length, 1);
});

test("threads: a run is stored, and told again after a restart", async (test) => {
  const upstream = await Upstream.start(test);
  upstream.says("Hello", { content: "Hello to you." });
  const config = `model = "mock/some-model"\n${upstream.config}`;
  const server = await Server.start(test, { config, isLasting: true });
  const { threadId, runId } = await newThread(server);
  const path = `${ROOM}/${threadId}/${runId}`;
  const said = input(threadId, runId, "Hello");
  const tap = new Tap(test, server);
  const { run } = await tap.post(path, said);
  await run.over;

  await server.restart("SIGTERM");

  assert.equal((await tap.post(path, said)).status, 400);
  const { run: replay } = await tap.post(path, said, { headers: { "last-event-id": `${runId}:0` } });
  await replay.over;
  assert.deepEqual(replay.events.all, run.events.all.slice(1));
});

for (const signal of /** @type {const} */ (["SIGTERM", "SIGKILL"])) {
  test(`threads: a run that ${signal} breaks off goes on after a restart, and its reader comes back to it`, async (test) => {
    const provider = await Provider.start(test);
    const config = `model = "local/any"\n[limits]\ndrainTimeout = 100\n${provider.config}`;
    const server = await Server.start(test, { config, isLasting: true });
    const { threadId, runId } = await newThread(server);
    const path = `${ROOM}/${threadId}/${runId}`;
    const said = input(threadId, runId, "Hello");
    const tap = new Tap(test, server);
    const { run } = await tap.post(path, said);
    const speech = await provider.asked();
    speech.says("Hello ");
    await run.until("TEXT_MESSAGE_CONTENT");

    await server.restart(signal);

    const told = run.events.all;
    assert.equal(run.last.type, "TEXT_MESSAGE_CONTENT");
    const { run: replay } = await tap.post(path, said, { headers: { "last-event-id": `${runId}:0` } });
    const anew = await provider.asked();
    anew.says("Hello again.");
    anew.ends();
    await within("it ends", replay.over);
    assert.equal(replay.last.type, "RUN_FINISHED");
    // What was told before has been so; then comes what holds of it, which is what the user said.
    assert.deepEqual(replay.events.all.slice(0, told.length - 1), told.slice(1));
    const snapshot = replay.events.all.find(({ type }) => type === "MESSAGES_SNAPSHOT");
    assert.deepEqual(
      snapshot?.messages.map((/** @type {any} */ { role }) => role),
      ["user"],
    );
    const { body: stored } = await ask(server, path);
    assert.deepEqual([typeof stored.finished, stored.events.slice(1)], ["string", replay.events.all]);
    const { status, body: next } = await post(server, `${ROOM}/${threadId}`, { parent_run_id: runId });
    assert.equal(status, 200);
    const { run: again } = await tap.post(`${ROOM}/${threadId}/${next.run_id}`, {
      ...input(threadId, next.run_id, "Well?"),
    });
    const answer = await provider.asked();
    answer.says("I am back.");
    answer.ends();
    await again.over;
    assert.equal(again.last.type, "RUN_FINISHED");
  });
}

for (const client of CLIENTS) {
  const { name } = client;

  test(`threads: ${name}: a conversation with a tool of the page, one run after the other`, async (test) => {
    const { server, upstream } = await start(test);
    upstream.says("Where?", { toolCalls: [call("call_1", "locate")] });
    upstream.says("Oslo", { content: "In Oslo." });
    const { threadId, runId } = await newThread(server);
    const page = new AguiPage(test, server, client, { path: `${ROOM}/${threadId}/${runId}`, threadId, tools: TOOLS });

    page.add({ role: "user", content: "Where?" });
    await page.run({ runId });
    page.answer();
    const { body: next } = await post(server, `${ROOM}/${threadId}`, { parent_run_id: runId });
    page.agent.url = `${server.url}${ROOM}/${threadId}/${next.run_id}`;
    const run = await page.run({ runId: next.run_id });

    assert.deepEqual(page.said, ["user: Where?", "assistant: locate {}", "tool: Oslo", "assistant: In Oslo."]);
    assert.deepEqual(results(upstream.asked.all[1]), { call_1: "Oslo" });
    assert.deepEqual(
      run.ids,
      run.events.all.map((_, n) => `${next.run_id}:${n}`),
    );
    const { body: thread } = await ask(server, `${ROOM}/${threadId}`);
    assert.deepEqual(
      [next.run_id, runId].map((id) => [typeof thread.runs[id].finished, thread.runs[id].parent_run_id]),
      [
        ["string", runId],
        ["string", null],
      ],
    );
  });

  test(`threads: ${name}: a run whose reader aborts goes on`, async (test) => {
    const provider = await Provider.start(test);
    const server = await Server.start(test, { config: `model = "local/any"\n${provider.config}` });
    const { threadId, runId } = await newThread(server);
    const path = `${ROOM}/${threadId}/${runId}`;
    const page = new AguiPage(test, server, client, { path, threadId });

    page.add({ role: "user", content: "Hello" });
    const running = page.run({ runId });
    const speech = await provider.asked();
    speech.says("Hello ");
    await page.until("TEXT_MESSAGE_CONTENT");
    page.agent.abortRun();
    await running;
    const tap = new Tap(test, server);
    const lastSeen = { "last-event-id": `${runId}:0` };
    const { run } = await tap.post(path, page.lastRun.input, { headers: lastSeen });
    await run.until("TEXT_MESSAGE_CONTENT");
    speech.says("to you.");
    speech.ends();
    await run.over;

    assert.equal(run.last.type, "RUN_FINISHED");
    assert.deepEqual((await ask(server, path)).body.events.slice(1), run.events.all);
  });
}
