// Calls that the server's events tell of.

import assert from "node:assert/strict";

import type { HandbackEvent } from "../../src/index.js";
import { deferred, Log, test } from "../support/patience.js";
import { startBackend } from "./backend.js";
import { openPage } from "./page.js";

const DATA_URL = "data:text/plain;base64,aGVsbG8=";
const SHOW = `call show {"picture": "${DATA_URL}"}`;
const TOOL = `
[tools.show]
executionMode = "frontend"
timeoutSec = 300
`;

/** A page, and the events of its server as they come. */
async function openWatchingPage(context: Parameters<typeof openPage>[0]) {
  const backend = await startBackend(context, TOOL);
  const events = new Log<HandbackEvent>();
  await backend.listen((event) => events.add(event));
  const told = (type: HandbackEvent["type"], toolCallId: string) =>
    events.until(`${type} of ${toolCallId}`, (event) => event.type === type && JSON.stringify(event).includes(toolCallId));
  return { ...(await openPage(context, { backend })), told };
}

test("only calls of the page's session are executed", async (context) => {
  const { backend, executor, states, told } = await openWatchingPage(context);
  executor.register("open-url", () => "opened");
  const [own, foreign] = [await backend.call(), await backend.call()];
  const sessionID = backend.session(own);
  executor.watch(await told("client-tool.request", foreign), { sessionID });
  assert.equal(executor.getSnapshot().size, 0);
  executor.watch(await told("client-tool.request", own), { sessionID });
  await states.until("it is done", ({ phase }) => phase === "done");
  // A page that shows all sessions says none.
  executor.watch(await told("client-tool.request", foreign));
  await states.until("the other is done", ({ phase, toolCallId }) => phase === "done" && toolCallId === foreign);
});

test("data that events leave out is read before the handler runs", async (context) => {
  const { backend, executor, faults, states, told } = await openWatchingPage(context);
  executor.register("show", ({ picture }: { picture: string }) => picture);
  const toolCallId = await backend.call({ text: SHOW });
  faults.next.read.push("unsent", { status: 503 });
  const event = await told("client-tool.request", toolCallId);
  assert.ok(!JSON.stringify(event).includes(DATA_URL));
  executor.watch(event);
  const { input, output } = await states.until("it is done", ({ phase }) => phase === "done");
  assert.deepEqual([input, output, faults.reads.length], [{ picture: DATA_URL }, DATA_URL, 3]);
});

test("without that data the handler is not run, and the failure says why", async (context) => {
  const { backend, executor, faults, states, told } = await openWatchingPage(context);
  executor.register("show", () => assert.fail("it was run"));
  const toolCallId = await backend.call({ text: SHOW });
  faults.next.read.push({ status: 403 });
  executor.watch(await told("client-tool.request", toolCallId));
  const state = await states.until("it is done", ({ phase }) => phase === "done");
  assert.deepEqual([state.outcome, state.errorText], ["failed", "its input could not be read from the server"]);
});

test("a call that is over is shown to a person with all of its data", async (context) => {
  const { backend, executor, told } = await openWatchingPage(context);
  const shown: string[] = [];
  executor.register("show", ({ picture }: { picture: string }) => void shown.push(picture));
  const toolCallId = await backend.call({ text: SHOW });
  const event = await told("client-tool.request", toolCallId);
  await backend.expire(toolCallId);
  executor.watch(event);
  executor.watch(await told("client-tool.failed", toolCallId));
  assert.equal((await executor.execute({ toolCallId, toolName: "show", input: {} }))?.phase, "expired");
  assert.equal((await executor.retry(toolCallId))?.counted, false);
  assert.deepEqual(shown, [DATA_URL]);
});

test("a handler is told when its call ends otherwise", async (context) => {
  const { backend, executor, states, told } = await openWatchingPage(context);
  executor.register("open-url", (_, { signal }) => new Promise((_, reject) => {
    signal.addEventListener("abort", () => reject(signal.reason));
  }));
  const toolCallId = await backend.call();
  executor.watch(await told("client-tool.request", toolCallId));
  await states.until("it runs", ({ phase }) => phase === "running");
  await backend.expire(toolCallId);
  const over = await told("client-tool.failed", toolCallId);
  // Somebody else's call may have the same id.
  executor.watch({ ...over, properties: { ...over.properties, tool: "client_laptop_open-url" } } as HandbackEvent);
  assert.equal(executor.state(toolCallId)?.phase, "running");
  executor.watch(over);
  const state = await states.until("it has failed", ({ phase }) => phase === "failed");
  assert.deepEqual([state.outcome, state.counted, state.ackStatus], ["failed", false, 410]);
  assert.match(state.errorText ?? "", /^the call is over: /);
});

test("a call that ends before its handler is begun is not run", async (context) => {
  const { backend, executor, faults, states, told } = await openWatchingPage(context);
  executor.register("show", () => assert.fail("it was run"));
  const toolCallId = await backend.call({ text: SHOW });
  faults.always.read = { status: 503 };
  const execution = deferred<unknown>();
  executor.subscribe(() => execution.resolve(executor.execute({ toolCallId, toolName: "show", input: {} })));
  executor.watch(await told("client-tool.request", toolCallId));
  await states.until("it is claimed, and being read", ({ error }) => error !== undefined);
  await backend.expire(toolCallId);
  executor.watch(await told("client-tool.failed", toolCallId));
  const { phase, error } = (await execution.promise) as { phase: string; error?: string };
  assert.deepEqual([phase, faults.bodies("ack")], ["expired", []]);
  assert.match(error ?? "", /^the call is over: /);
});

test("a person's own try goes on when the server tells that the first one failed", async (context) => {
  const { backend, executor, told } = await openWatchingPage(context);
  const gate = deferred();
  let runs = 0;
  executor.register("open-url", async (_, { signal }) => {
    runs += 1;
    if (runs === 1) throw new Error("blocked");
    await gate.promise;
    return { isStopped: signal.aborted };
  });
  const toolCallId = await backend.call();
  await executor.execute({ toolCallId, toolName: "open-url", input: {} });
  const retried = executor.retry(toolCallId);
  executor.watch(await told("client-tool.failed", toolCallId));
  gate.resolve();
  assert.deepEqual((await retried)?.output, { isStopped: false });
});
