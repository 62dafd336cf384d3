// Claims and acks over a network that fails, and answers that are no.

import assert from "node:assert/strict";

import { test } from "../support/patience.js";
import type { Fault } from "./faults.js";
import { openPage, phases, soon } from "./page.js";

const ANSWERS: Fault[] = [{ status: 500 }, { status: 502, body: "<html>" }, { status: 503 }, { status: 429 }];
const PASSING: Fault[] = ["unsent", "unanswered", ...ANSWERS];

for (const path of ["claim", "ack"] as const) {
  test(`a lost network, 5xx and 429 are tried again: ${path}`, async (context) => {
    const page = await openPage(context);
    const { backend, faults, executor } = page;
    let runs = 0;
    executor.register("tool", () => ({ runs: (runs += 1) }));
    for (const fault of PASSING) {
      const toolCallId = await backend.call();
      faults.next[path].push(fault);
      const before = faults.asked.all.length;
      const state = await executor.execute({ toolCallId, toolName: "tool", input: {} });
      const what = JSON.stringify(fault);
      assert.deepEqual([state?.phase, state?.counted, state?.attempts], ["done", true, path === "ack" ? 2 : 1], what);
      const asked = faults.asked.all.slice(before);
      assert.deepEqual(asked.map(({ path }) => path), path === "ack" ? ["claim", "ack", "ack"] : ["claim", "claim", "ack"], what);
      // To the byte: the server tells the same ack from another one.
      assert.equal(new Set(asked.filter((request) => request.path === path).map(({ body }) => body)).size, 1);
    }
    assert.equal(runs, PASSING.length);
  });

  test(`another 4xx is not tried again: ${path}`, async (context) => {
    const { backend, faults, executor } = await openPage(context);
    executor.register("tool", () => {
      throw new Error("it fails");
    });
    for (const status of [400, 401, 403, 408, 413, 422, 425]) {
      const toolCallId = await backend.call();
      faults.next[path].push({ status });
      const before = faults.bodies(path).length;
      const state = await executor.execute({ toolCallId, toolName: "tool", input: {} });
      assert.deepEqual([state?.phase, state?.counted], ["failed", false], String(status));
      assert.match(state?.error ?? "", new RegExp(`the test says so.*${status}`));
      assert.equal(state?.ackStatus, path === "ack" ? status : undefined);
      assert.equal(state?.outcome, path === "ack" ? "failed" : undefined);
      assert.equal(faults.bodies(path).length, before + 1);
      assert.equal(await backend.outcome(toolCallId), undefined);
    }
  });

  test(`tries become rarer: ${path}`, async (context) => {
    const { backend, faults, executor } = await openPage(context);
    executor.register("tool", () => "done");
    faults.next[path].push("unsent", "unsent", "unsent");
    await executor.execute({ toolCallId: await backend.call(), toolName: "tool", input: {} });
    const times = faults.asked.all.filter((asked) => asked.path === path).map(({ at }) => at);
    const delays = times.slice(1).map((at, index) => at - (times[index] ?? 0));
    // Each is between the half and the whole of 200, 400, 800 ms; a slow machine may add to it.
    assert.deepEqual(delays.map((delay, index) => delay >= 100 * 2 ** index - 5), [true, true, true], String(delays));
  });

  test(`a server that asks for patience is left alone for so long: ${path}`, async (context) => {
    const { backend, faults, executor } = await openPage(context);
    executor.register("tool", () => "done");
    faults.next[path].push({ status: 429, headers: { "retry-after": "1" } });
    const state = await executor.execute({ toolCallId: await backend.call(), toolName: "tool", input: {} });
    assert.equal(state?.phase, "done");
    const [first, second] = faults.asked.all.filter((asked) => asked.path === path);
    assert.ok((second?.at ?? 0) - (first?.at ?? 0) >= 995);
  });

  test(`at the deadline it is given up, and the state says why: ${path}`, async (context) => {
    const page = await openPage(context);
    const { backend, faults, executor } = page;
    let runs = 0;
    executor.register("tool", () => (runs += 1));
    faults.always[path] = "unsent";
    const began = performance.now();
    const request = { toolCallId: await backend.call(), toolName: "tool", input: {}, deadline: soon(700) };
    const state = await executor.execute(request);
    const took = performance.now() - began;
    assert.ok(took >= 550 && took < 5000, String(took));
    assert.equal(state?.phase, "failed");
    assert.match(state?.error ?? "", /no Handback server can be reached/);
    const isAck = path === "ack";
    assert.deepEqual([state?.outcome, state?.counted, runs], isAck ? ["success", false, 1] : [undefined, false, 0]);
    assert.ok(faults.bodies(path).length >= 2);
    assert.equal(state?.attempts, isAck ? faults.bodies("ack").length : 0);
    // While it was tried, the page could see that it failed.
    const shown = page.states.all.filter(({ phase, error }) => phase === (isAck ? "acking" : "claiming") && error !== undefined);
    assert.ok(shown.length >= 1);
    delete faults.always[path];
    // What was never begun may be executed again; what was begun is not run a second time.
    const again = await executor.execute({ ...request, deadline: undefined });
    assert.deepEqual([again?.phase, faults.bodies("ack").length - state.attempts], isAck ? ["failed", 0] : ["done", 1]);
    if (isAck) assert.equal(runs, 1);
  });
}

test("what a proxy says in place of the server is tried again: it is no refusal", async (context) => {
  const { backend, faults, executor } = await openPage(context);
  executor.register("tool", () => "done");
  faults.next.ack.push({ status: 404, body: "<html>" }, { status: 200, body: "<html>" });
  const state = await executor.execute({ toolCallId: await backend.call(), toolName: "tool", input: {} });
  assert.deepEqual([state?.phase, state?.counted, state?.attempts], ["done", true, 3]);
});

test("an ack that the server has taken although its answer was lost is done", async (context) => {
  const page = await openPage(context);
  const { backend, faults, executor } = page;
  executor.register("tool", () => "done");
  faults.next.ack.push("unanswered", "unanswered");
  const toolCallId = await backend.call();
  const state = await executor.execute({ toolCallId, toolName: "tool", input: {} });
  assert.deepEqual([state?.phase, state?.counted, state?.attempts], ["done", true, 3]);
  assert.deepEqual(phases(page), ["claiming", "running", "acking", "done"]);
});

test("a call that ends while it runs does not count, and the state says so", async (context) => {
  const { backend, executor } = await openPage(context);
  const toolCallId = await backend.call();
  executor.register("tool", () => backend.expire(toolCallId));
  const state = await executor.execute({ toolCallId, toolName: "tool", input: {} });
  assert.deepEqual([state?.phase, state?.outcome, state?.counted, state?.ackStatus], ["failed", "success", false, 410]);
  assert.match(state?.error ?? "", /^the call was already over/);
});

test("what answers is no Handback server: it is not run, and tried again", async (context) => {
  const { backend, faults, executor } = await openPage(context);
  executor.register("tool", () => "done");
  for (const body of ["<html>", "{}", "null", "", "[]", '{"ok":"yes"}']) {
    faults.next.claim.push({ status: 200, body });
    const toolCallId = await backend.call();
    const before = faults.asked.all.length;
    const state = await executor.execute({ toolCallId, toolName: "tool", input: {} });
    assert.equal(state?.phase, "done");
    assert.deepEqual(faults.asked.all.slice(before).map(({ path }) => path), ["claim", "claim", "ack"]);
  }
});

test("acks outlive the page unless they are large, and claims do not", async (context) => {
  const { backend, faults, executor } = await openPage(context);
  executor.register("tool", ({ size }: { size: number }) => "x".repeat(size));
  for (const size of [10, 100_000]) {
    await executor.execute({ toolCallId: await backend.call(), toolName: "tool", input: { size } });
  }
  assert.deepEqual(
    faults.asked.all.map(({ path, keepalive }) => [path, keepalive]),
    [["claim", false], ["ack", true], ["claim", false], ["ack", false]],
  );
});

test("the token is sent, and asked for each time", async (context) => {
  let asked = 0;
  const { backend, faults, executor } = await openPage(context, { token: () => `token-${(asked += 1)}` });
  executor.register("tool", () => "done");
  await executor.execute({ toolCallId: await backend.call(), toolName: "tool", input: {} });
  const sent = [...faults.asked.all, ...faults.reads].map(({ headers }) => headers["authorization"]);
  assert.deepEqual(sent, ["Bearer token-1", "Bearer token-3", "Bearer token-2"]);
});
