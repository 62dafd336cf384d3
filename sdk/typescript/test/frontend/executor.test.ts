// Calls that a page executes: claimed, run once, acked.

import assert from "node:assert/strict";

import { FrontendToolExecutor, type FrontendToolRequest, type HandbackEvent } from "../../src/index.js";
import { deferred, test } from "../support/patience.js";
import { FakeStorage } from "../support/tabs.js";
import { startBackend } from "./backend.js";
import { openPage, phases, soon } from "./page.js";

test("a call is claimed, run and acked, and the page can see it", async (context) => {
  const page = await openPage(context, { claimant: "this tab" });
  const { backend, faults, executor, states } = page;
  const toolCallId = await backend.call();
  const given: unknown[] = [];
  executor.register("add", (input: { a: number; b: number }, call) => {
    given.push(input, call.toolCallId, call.toolName, call.signal.aborted);
    return { sum: input.a + input.b };
  });
  const before = Date.now();
  const state = await executor.execute({ toolCallId, toolName: "add", input: { a: 1, b: 2 } });

  const base = { toolCallId, toolName: "add", input: { a: 1, b: 2 } };
  const done = { ...base, phase: "done", outcome: "success", output: { sum: 3 }, counted: true, attempts: 1, ackStatus: 200 };
  assert.deepEqual(state, done);
  assert.equal(executor.state(toolCallId), state);
  assert.deepEqual(states.all, [
    { ...base, phase: "claiming", counted: false, attempts: 0 },
    { ...base, phase: "running", counted: false, attempts: 0 },
    { ...base, phase: "acking", outcome: "success", output: { sum: 3 }, counted: false, attempts: 0 },
    done,
  ]);
  assert.deepEqual(given, [{ a: 1, b: 2 }, toolCallId, "add", false]);
  const [claim, ack] = faults.asked.all.map(({ path, body }) => ({ path, body: JSON.parse(body) as Record<string, string> }));
  assert.deepEqual(claim, { path: "claim", body: { toolCallId, claimant: "this tab" } });
  const requestedAt = ack?.body["requestedAt"] ?? "";
  assert.deepEqual(ack, {
    path: "ack",
    body: { toolCallId, status: "success", output: { sum: 3 }, requestedAt, claimant: "this tab" },
  });
  assert.ok(Date.parse(requestedAt) >= before && Date.parse(requestedAt) <= Date.now(), requestedAt);
  assert.deepEqual(await backend.outcome(toolCallId), { status: "success", output: { sum: 3 }, requestedAt });
});

test("a call is run once, however often and wherever it is executed", async (context) => {
  const { backend, faults, executor } = await openPage(context);
  const toolCallId = await backend.call();
  const gate = deferred();
  let runs = 0;
  executor.register("once", async () => {
    runs += 1;
    await gate.promise;
    return runs;
  });
  const request = { toolCallId, toolName: "once", input: {} };
  // Whoever is told of a change may execute it right there, as a component that renders again does.
  executor.subscribe(() => void executor.execute(request));
  const first = [executor.execute(request), executor.execute({ ...request }), executor.execute(request)];
  await faults.count("claim", 1);
  gate.resolve();
  const states = await Promise.all([...first, executor.execute(request)]);
  states.push(await executor.execute(request));
  assert.equal(new Set(states).size, 1);
  assert.equal(states[0]?.output, 1);
  assert.deepEqual(faults.asked.all.map(({ path }) => path), ["claim", "ack"]);
});

for (const claimant of [undefined, "the same name"]) {
  const named = claimant === undefined ? "" : ", also if both are given one name";
  test(`two executors of one page do not both run a call${named}`, async (context) => {
    const storage = new FakeStorage();
    const first = await openPage(context, { storage, claimant });
    const { backend } = first;
    const second = await openPage(context, { storage, claimant, backend });
    const toolCallId = await backend.call();
    const gate = deferred();
    let runs = 0;
    for (const { executor } of [first, second]) {
      executor.register("once", async () => {
        runs += 1;
        await gate.promise;
      });
    }
    const request = { toolCallId, toolName: "once", input: {} };
    const executions = [first, second].map(({ executor }) => executor.execute(request));
    const early = await Promise.race(executions);
    assert.equal(early?.phase, "elsewhere");
    gate.resolve();
    const phases = (await Promise.all(executions)).map((state) => state?.phase);
    assert.deepEqual(phases.sort(), ["done", "elsewhere"]);
    assert.equal(runs, 1);
  });
}

test("calls run in parallel", async (context) => {
  const { backend, executor } = await openPage(context);
  const all = deferred();
  let running = 0;
  executor.register("meet", async () => {
    running += 1;
    if (running === 10) all.resolve();
    await all.promise;
  });
  const ids = await Promise.all(Array.from({ length: 10 }, () => backend.call()));
  const states = await Promise.all(ids.map((toolCallId) => executor.execute({ toolCallId, toolName: "meet", input: {} })));
  assert.deepEqual(states.map((state) => [state?.toolCallId, state?.phase]), ids.map((id) => [id, "done"]));
});

test("without a toolCallId nothing runs and nothing is sent", async (context) => {
  const { faults, executor, states } = await openPage(context);
  let runs = 0;
  executor.register("tool", () => (runs += 1));
  for (const toolCallId of [undefined, null, "", 7, {}, []]) {
    const request = { toolCallId, toolName: "tool", input: {} } as unknown as FrontendToolRequest;
    assert.equal(await executor.execute(request), undefined);
    assert.equal(await executor.retry(request), undefined);
    executor.onToolCall({ toolCall: request });
  }
  assert.deepEqual([runs, faults.asked.all, states.all, executor.getSnapshot().size], [0, [], [], 0]);
});

test("a tool that the page does not have is acked as failed, with its name", async (context) => {
  const { backend, executor } = await openPage(context);
  executor.register("gone", () => "here");
  executor.unregister("gone");
  const toolCallId = await backend.call();
  const state = await executor.execute({ toolCallId, toolName: "gone", input: {} });
  assert.deepEqual([state?.phase, state?.outcome, state?.counted], ["done", "failed", true]);
  const { status, errorText } = (await backend.outcome(toolCallId)) as Record<string, string>;
  assert.deepEqual([status, errorText], ["failed", 'this page has no tool "gone"']);
});

test("what another page has is left to it, also a tool that this one does not know", async (context) => {
  const other = await openPage(context);
  const { backend } = other;
  const page = await openPage(context, { backend });
  page.executor.register("tool", () => assert.fail("it was run twice"));
  for (const toolName of ["tool", "not here"]) {
    const gate = deferred<string>();
    other.executor.register(toolName, () => gate.promise);
    const toolCallId = await backend.call();
    const request = { toolCallId, toolName, input: {} };
    const execution = other.executor.execute(request);
    await other.states.until("it runs", ({ phase, toolName: name }) => phase === "running" && name === toolName);
    const { error, ...state } = (await page.executor.execute(request)) ?? {};
    assert.deepEqual(state, { ...request, phase: "elsewhere", counted: false, attempts: 0 });
    assert.match(error ?? "", /^another page has the call/);
    gate.resolve("by the other");
    assert.equal((await execution)?.phase, "done");
  }
  assert.deepEqual(page.faults.bodies("ack"), []);
});

test("a call that is unknown or over is not run", async (context) => {
  const { backend, faults, executor } = await openPage(context);
  executor.register("tool", () => assert.fail("it was run"));
  const expired = await backend.call();
  await backend.expire(expired);
  for (const [toolCallId, phase] of [["never heard of", "unknown"], [expired, "expired"]] as const) {
    const state = await executor.execute({ toolCallId, toolName: "tool", input: {} });
    assert.deepEqual([state?.phase, state?.counted], [phase, false]);
  }
  assert.equal(faults.bodies("claim").length, 2);
  assert.deepEqual(faults.bodies("ack"), []);
});

test("a call that waits to be allowed is run when it is, and not before", async (context) => {
  const page = await openPage(context);
  const { backend, executor } = page;
  let runs = 0;
  executor.register("tool", () => (runs += 1));
  const toolCallId = await backend.call({ awaitsApproval: true });
  const request = { toolCallId, toolName: "tool", input: {} };
  assert.equal((await executor.execute(request))?.phase, "waiting");
  assert.equal((await executor.retry(toolCallId))?.phase, "waiting");
  assert.equal(runs, 0);
  await backend.allow(toolCallId);
  const states = await Promise.all([executor.execute(request), executor.execute(request)]);
  assert.deepEqual(states.map((state) => [state?.phase, state?.output]), [["done", 1], ["done", 1]]);
  assert.deepEqual(phases(page), ["claiming", "waiting", "claiming", "waiting", "claiming", "running", "acking", "done"]);
});

test("the deadline is the one given, or the server's", async (context) => {
  const config = [300, 20].map((seconds) => `[tools.wait-${seconds}]\nexecutionMode = "frontend"\ntimeoutSec = ${seconds}\n`);
  const backend = await startBackend(context, config.join(""));
  const { executor, faults } = await openPage(context, { backend });
  for (const [seconds, given] of [[300, undefined], [20, undefined], [300, soon(100_000)]] as const) {
    const toolName = `wait-${seconds}`;
    executor.register(toolName, (_, { deadline }) => (deadline.getTime() - Date.now()) / 1000);
    // One that is lost is tried again.
    faults.next.read.push("unsent");
    const toolCallId = await backend.call({ text: `call ${toolName} {}` });
    const state = await executor.execute({ toolCallId, toolName, input: {}, deadline: given });
    // The server's clock is told in whole seconds, and some have passed.
    const off = (state?.output as number) - (given ? 100 : seconds);
    assert.ok(off > -5 && off <= 1.05, `${toolName}: ${off}`);
    assert.deepEqual([state?.phase, state?.counted], ["done", true]);
  }
  assert.equal(faults.reads.length, 4);
});

test("if the server does not say it, the deadline is timeoutSec of the input, or a minute from now", async (context) => {
  const { backend, executor, faults } = await openPage(context);
  faults.always.read = { status: 403 };
  const minutes: number[] = [];
  executor.register("tool", (_, { deadline }) => void minutes.push((deadline.getTime() - Date.now()) / 60_000));
  const given: Partial<FrontendToolRequest>[] = [
    { deadline: soon(300_000) },
    { deadline: soon(300_000).toISOString() },
    { deadline: soon(300_000), input: { timeoutSec: 120 } },
    { input: { timeoutSec: 120 } },
    ...[0, 0.5, -1, Number.NaN, "120", null].map((timeoutSec) => ({ input: { timeoutSec } })),
    { input: { timeoutSec: 1e9 } },
    { input: null },
    { input: "text" },
    // Clocks may be wrong: whether a call is over is for the server to say.
    { deadline: "no time" },
  ];
  for (const request of given) {
    await executor.execute({ toolCallId: await backend.call(), toolName: "tool", input: {}, ...request });
  }
  assert.deepEqual(minutes.map(Math.round), [5, 5, 5, 2, 1, 1, 1, 1, 1, 1, 1440, 1, 1, 1]);
});

test("who listens is told, and a snapshot is the same until something changes", async (context) => {
  const { backend, executor } = await openPage(context);
  context.mock.method(console, "error", () => undefined);
  executor.register("tool", () => "done");
  const { subscribe, getSnapshot, execute } = executor;
  const empty = getSnapshot();
  assert.equal(getSnapshot(), empty);
  let told = 0;
  const stop = subscribe(() => (told += 1));
  subscribe(() => {
    throw new Error("a listener that fails breaks nothing");
  });
  const toolCallId = await backend.call();
  const state = await execute({ toolCallId, toolName: "tool", input: {} });
  assert.deepEqual([...getSnapshot()], [[toolCallId, state]]);
  assert.equal(getSnapshot(), getSnapshot());
  assert.equal(empty.size, 0);
  assert.equal(told, 4);
  stop();
  await execute({ toolCallId: await backend.call(), toolName: "tool", input: {} });
  assert.equal(told, 4);
});

test("only so many calls are known; the oldest that is over is forgotten", async (context) => {
  const { executor } = await openPage(context, { fetch: async () => new Response(null, { status: 404 }) });
  const execute = (toolCallId: string) => executor.execute({ toolCallId, toolName: "tool", input: {} });
  await Promise.all(Array.from({ length: 1000 }, (_, index) => execute(`call ${index}`)));
  await execute("one more");
  assert.equal(executor.getSnapshot().size, 1000);
  assert.deepEqual([executor.state("call 0"), executor.state("call 1")?.phase], [undefined, "unknown"]);
});

test("onToolCall of useChat executes what is registered, waits for nothing, and leaves the rest", async (context) => {
  const { backend, faults, executor, states } = await openPage(context);
  const gate = deferred();
  executor.register("open-url", () => gate.promise);
  const { onToolCall } = executor;
  const toolCallId = await backend.call();
  const toolCall = { type: "tool-input-available", toolCallId, toolName: "open-url", input: {} };
  const yielded = { toolCall: { ...toolCall, toolCallId: "another", toolName: "ask_user", dynamic: true } };
  assert.equal(onToolCall(yielded), undefined);
  assert.equal(onToolCall({ toolCall: { ...toolCall, toolCallId: "wrong", invalid: true } }), undefined);
  assert.equal(onToolCall({ toolCall }), undefined);
  await states.until("it runs", ({ phase }) => phase === "running");
  gate.resolve();
  await states.until("it is done", ({ phase }) => phase === "done");
  assert.deepEqual([...executor.getSnapshot().keys()], [toolCallId]);
  assert.deepEqual(faults.asked.all.map(({ path }) => path), ["claim", "ack"]);
});

test("the events of the server are executed if they are requests for a frontend tool of this page", async (context) => {
  const { backend, executor, states } = await openPage(context);
  executor.register("open-url", ({ url }: { url: string }, { deadline }) => ({ url, deadline }));
  const toolCallId = await backend.call();
  const deadline = new Date(Date.now() + 300_000).toISOString();
  const request = { requestID: toolCallId, tool: "open-url", input: { url: "https://example.com" }, deadline };
  const tell = (type: string, request: unknown) =>
    executor.watch({ type, properties: { clientID: "laptop", request } } as unknown as HandbackEvent);
  tell("client-tool.executing", { ...request, executionMode: "frontend" });
  for (const other of [undefined, null, {}, request, { ...request, tool: "other", executionMode: "frontend" }]) {
    tell("client-tool.request", other);
  }
  assert.equal(executor.getSnapshot().size, 0);
  tell("client-tool.request", { ...request, executionMode: "frontend" });
  const state = await states.until("it is done", ({ phase }) => phase === "done");
  assert.equal((state.output as { url: string }).url, "https://example.com");
  // On the server's clock, which is told in whole seconds.
  const skew = Date.parse((state.output as { deadline: string }).deadline) - Date.parse(deadline);
  assert.ok(skew >= -50 && skew < 1050, String(skew));
});

test("an executor can be made where there is no page, and says what it lacks when it is used", async () => {
  const executor = new FrontendToolExecutor({ baseUrl: "" });
  const state = await executor.execute({ toolCallId: "a", toolName: "tool", input: {} });
  assert.equal(state?.phase, "failed");
  assert.match(state?.error ?? "", /is not the URL of a server/);
});
