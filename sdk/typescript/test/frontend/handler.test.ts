// What handlers give, throw, and never end.

import assert from "node:assert/strict";

import { deferred, test } from "../support/patience.js";
import { openPage, soon } from "./page.js";

function cyclic(): unknown {
  const circle: { self?: unknown } = {};
  circle.self = circle;
  return circle;
}

const UNWRITABLE = "the tool ran, but its output cannot be written as JSON: ";

test("what a handler gives is the output", async (context) => {
  const { backend, executor } = await openPage(context);
  const outputs: [given: unknown, taken: object][] = [
    [undefined, {}],
    [null, { output: null }],
    ["text", { output: "text" }],
    [0, { output: 0 }],
    [[1, undefined], { output: [1, null] }],
    [{ when: new Date(0), gone: undefined }, { output: { when: "1970-01-01T00:00:00.000Z" } }],
    [() => 1, {}],
    [Promise.resolve("later"), { output: "later" }],
    [{ status: "failed", errorText: "is data" }, { output: { status: "failed", errorText: "is data" } }],
    [JSON.parse('{"__proto__":{"a":1}}'), { output: JSON.parse('{"__proto__":{"a":1}}') as unknown }],
  ];
  for (const [given, taken] of outputs) {
    executor.register("tool", () => given);
    const toolCallId = await backend.call();
    const state = await executor.execute({ toolCallId, toolName: "tool", input: {} });
    const { requestedAt, ...outcome } = (await backend.outcome(toolCallId)) as Record<string, unknown>;
    assert.deepEqual(outcome, { status: "success", ...taken });
    assert.deepEqual([state?.phase, state?.output], ["done", (taken as { output?: unknown }).output]);
  }
});

test("what a handler throws, and what JSON cannot hold, is a failure with a text", async (context) => {
  const { backend, executor } = await openPage(context);
  const hostile = {
    get message(): string {
      throw new Error("not even this");
    },
  };
  const failures: [handler: () => unknown, errorText: string | RegExp][] = [
    [() => { throw new Error("at once"); }, "at once"],
    [async () => { throw new Error("later"); }, "later"],
    [() => Promise.reject(new TypeError("wrong")), "wrong"],
    [() => { throw null; }, "null"],
    [() => { throw undefined; }, "undefined"],
    [() => { throw "a text"; }, "a text"],
    [() => { throw { message: "an object" }; }, "an object"],
    [() => { throw hostile; }, "the tool threw something that cannot be shown"],
    [() => { throw Object.create(null); }, "the tool threw something that cannot be shown"],
    [() => cyclic(), new RegExp(`^${UNWRITABLE}.*circular`)],
    [() => 1n, new RegExp(`^${UNWRITABLE}.*BigInt`)],
    [() => ({ toJSON: () => { throw new Error("no"); } }), `${UNWRITABLE}no`],
    [() => ({ get then(): never { throw new Error("no promise"); } }), "no promise"],
  ];
  for (const [handler, expected] of failures) {
    executor.register("tool", handler);
    const toolCallId = await backend.call();
    const state = await executor.execute({ toolCallId, toolName: "tool", input: {} });
    const { requestedAt, ...outcome } = (await backend.outcome(toolCallId)) as Record<string, string>;
    assert.equal(outcome["status"], "failed");
    if (typeof expected === "string") assert.equal(outcome["errorText"], expected);
    else assert.match(outcome["errorText"] ?? "", expected);
    assert.deepEqual([state?.phase, state?.outcome, state?.counted], ["done", "failed", true]);
    assert.equal(state?.errorText, outcome["errorText"]);
  }
});

test("a handler that still runs at the deadline is told, and the ack is a timeout", async (context) => {
  const { backend, executor } = await openPage(context);
  const told = deferred<unknown>();
  const late = deferred<string>();
  executor.register("tool", (_, { signal }) => {
    signal.addEventListener("abort", () => {
      told.resolve(signal.reason);
      // Too late, although it is at once.
      late.resolve("an output");
    });
    return late.promise;
  });
  const toolCallId = await backend.call();
  const state = await executor.execute({ toolCallId, toolName: "tool", input: {}, deadline: soon(1_000) });
  assert.equal(((await told.promise) as DOMException).name, "TimeoutError");
  assert.deepEqual([state?.phase, state?.outcome, state?.counted], ["done", "timeout", true]);
  const { requestedAt, ...outcome } = (await backend.outcome(toolCallId)) as Record<string, unknown>;
  assert.deepEqual(outcome, { status: "timeout" });
});

test("a handler that ends in time is never told to stop, and one that fails after its time breaks nothing", async (context) => {
  const { backend, executor } = await openPage(context);
  const signals: AbortSignal[] = [];
  executor.register("quick", (_, { signal }) => void signals.push(signal));
  await executor.execute({ toolCallId: await backend.call(), toolName: "quick", input: {}, deadline: soon(300) });
  const failsLate = deferred();
  executor.register("slow", () => failsLate.promise);
  const slow = await executor.execute({ toolCallId: await backend.call(), toolName: "slow", input: {}, deadline: soon(300) });
  assert.equal(slow?.outcome, "timeout");
  failsLate.reject(new Error("nobody is there"));
  assert.deepEqual(signals.map(({ aborted }) => aborted), [false]);
});

test("a call whose time is over before it could be begun is not run", async (context) => {
  const { backend, executor } = await openPage(context);
  executor.register("tool", () => assert.fail("it was run"));
  const state = await executor.execute({ toolCallId: await backend.call(), toolName: "tool", input: {}, deadline: soon(-1000) });
  assert.deepEqual([state?.phase, state?.outcome], ["done", "timeout"]);
});

test("an output that the server does not accept becomes a failure that says so", async (context) => {
  const { backend, faults, executor } = await openPage(context);
  executor.register("tool", () => "x".repeat(5 * 1024 * 1024));
  const toolCallId = await backend.call();
  const state = await executor.execute({ toolCallId, toolName: "tool", input: {} });
  assert.deepEqual([state?.phase, state?.outcome, state?.counted], ["done", "failed", true]);
  const { errorText } = (await backend.outcome(toolCallId)) as { errorText: string };
  assert.match(errorText, /^the tool ran, but its output was not accepted: the body has more than/);
  assert.equal(faults.bodies("ack").length, 2);
});
