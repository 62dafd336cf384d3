// The button for trying again by hand.

import assert from "node:assert/strict";

import { openUrl } from "../../src/index.js";
import { deferred, test } from "../support/patience.js";
import { openPage, phases, type TestPage } from "./page.js";

const BLOCKED = "The browser blocked the pop-up; press Open to open it";

/** A page whose browser blocks pop-ups until it is told not to. */
async function openBlockedPage(context: Parameters<typeof openPage>[0]) {
  const page = await openPage(context);
  const browser = { isBlocking: true, opened: [] as string[] };
  const open = (url: string) => {
    if (browser.isBlocking) return null;
    browser.opened.push(url);
    return { closed: false };
  };
  page.executor.register("open-url", openUrl({ open, viewKey: "view" }));
  const input = { url: "https://example.com/" };
  const call = async () => ({ toolCallId: await page.backend.call(), toolName: "open-url", input });
  return { ...page, page, browser, call };
}

async function outcomeOf({ backend }: TestPage, toolCallId: string) {
  const { requestedAt, ...outcome } = (await backend.outcome(toolCallId)) as Record<string, unknown>;
  return outcome;
}

test("a blocked pop-up is a failure at once; Open opens it in the click, and the state says it is too late", async (context) => {
  const { executor, page, browser, call } = await openBlockedPage(context);
  const request = await call();
  const blocked = await executor.execute(request);
  assert.deepEqual([blocked?.phase, blocked?.outcome, blocked?.errorText], ["done", "failed", BLOCKED]);
  assert.deepEqual(await outcomeOf(page, request.toolCallId), { status: "failed", errorText: BLOCKED });

  browser.isBlocking = false;
  const { retry } = executor;
  const retried = retry(request.toolCallId);
  // Before anything is awaited: afterwards a browser would block it again.
  assert.deepEqual(browser.opened, ["https://example.com/"]);
  const { error, ...state } = (await retried) ?? {};
  assert.deepEqual(state, {
    ...request,
    phase: "failed",
    outcome: "success",
    output: { url: "https://example.com/", viewKey: "view" },
    counted: false,
    attempts: 1,
    ackStatus: 409,
  });
  assert.match(error ?? "", /^the call was already over, with another outcome/);
  assert.deepEqual(await outcomeOf(page, request.toolCallId), { status: "failed", errorText: BLOCKED });
});

test("a success by hand takes the place of a failure that the server has not got", async (context) => {
  const { executor, page, faults, browser, call } = await openBlockedPage(context);
  faults.always.ack = "unsent";
  const request = await call();
  const execution = executor.execute(request);
  await faults.count("ack", 2);
  browser.isBlocking = false;
  const retried = executor.retry(request.toolCallId);
  assert.equal(browser.opened.length, 1);
  delete faults.always.ack;
  const state = await retried;
  assert.deepEqual([state?.phase, state?.outcome, state?.counted, state?.errorText], ["done", "success", true, undefined]);
  // Whoever waited for the first try gets to know what came of it in the end.
  assert.equal(await execution, state);
  const output = { url: "https://example.com/", viewKey: "view" };
  assert.deepEqual(await outcomeOf(page, request.toolCallId), { status: "success", output });
  assert.deepEqual(phases(page), ["claiming", "running", "acking", "running", "acking", "done"]);
});

test("a failure that the server has got although nobody knows is not replaced", async (context) => {
  const { executor, page, faults, browser, call } = await openBlockedPage(context);
  faults.next.ack.push("unanswered");
  faults.always.ack = "unsent";
  const request = await call();
  void executor.execute(request);
  await faults.count("ack", 2);
  delete faults.always.ack;
  browser.isBlocking = false;
  const state = await executor.retry(request.toolCallId);
  assert.deepEqual([state?.phase, state?.outcome, state?.counted, state?.ackStatus], ["failed", "success", false, 409]);
  assert.deepEqual(await outcomeOf(page, request.toolCallId), { status: "failed", errorText: BLOCKED });
});

test("a success that the server has got although nobody knows counts when it is opened again", async (context) => {
  const { executor, page, faults, backend } = await openBlockedPage(context);
  let runs = 0;
  executor.register("count", () => (runs += 1));
  faults.next.ack.push("unanswered");
  faults.always.ack = "unsent";
  const request = { toolCallId: await backend.call(), toolName: "count", input: {} };
  const execution = executor.execute(request);
  await faults.count("ack", 2);
  const retried = executor.retry(request.toolCallId);
  delete faults.always.ack;
  const state = await retried;
  assert.deepEqual([state?.phase, state?.output, state?.counted, state?.ackStatus, runs], ["done", 1, true, 200, 2]);
  assert.equal(await execution, state);
  assert.equal(new Set(faults.bodies("ack")).size, 1);
  assert.deepEqual(await outcomeOf(page, request.toolCallId), { status: "success", output: 1 });
});

test("a try by hand that fails too changes nothing, and what was said goes on being said", async (context) => {
  const { executor, page, faults, call } = await openBlockedPage(context);
  faults.always.ack = "unsent";
  const request = await call();
  const execution = executor.execute(request);
  await faults.count("ack", 1);
  const retried = executor.retry(request.toolCallId);
  await faults.count("ack", 2);
  delete faults.always.ack;
  assert.deepEqual([(await retried)?.phase, (await retried)?.outcome, (await retried)?.counted], ["done", "failed", true]);
  assert.equal(await execution, await retried);
  assert.equal(new Set(faults.bodies("ack")).size, 1);
  // Nor does one after that; nothing more is sent.
  const sent = faults.asked.all.length;
  assert.deepEqual(await executor.retry(request.toolCallId), await retried);
  assert.equal(faults.asked.all.length, sent);
  assert.deepEqual(await outcomeOf(page, request.toolCallId), { status: "failed", errorText: BLOCKED });
});

test("a view that was opened can be opened again, and still counts", async (context) => {
  const { executor, faults, browser, call } = await openBlockedPage(context);
  browser.isBlocking = false;
  const request = await call();
  const state = await executor.execute(request);
  assert.deepEqual(await executor.retry(request.toolCallId), state);
  assert.equal(browser.opened.length, 2);
  browser.isBlocking = true;
  const blocked = await executor.retry(request.toolCallId);
  assert.deepEqual(blocked, { ...state, errorText: BLOCKED });
  browser.isBlocking = false;
  assert.deepEqual(await executor.retry(request.toolCallId), state);
  assert.equal(faults.bodies("ack").length, 1);
});

for (const [phase, status] of [["expired", 410], ["unknown", 404]] as const) {
  test(`a call that is ${phase} is opened at once by hand, and does not count`, async (context) => {
    const { executor, backend, browser, call } = await openBlockedPage(context);
    const request = phase === "unknown" ? { ...(await call()), toolCallId: "nobody" } : await call();
    if (phase === "expired") await backend.expire(request.toolCallId);
    assert.equal((await executor.execute(request))?.phase, phase);
    const blocked = await executor.retry(request.toolCallId);
    assert.deepEqual([blocked?.phase, blocked?.errorText], [phase, BLOCKED]);
    browser.isBlocking = false;
    const retried = executor.retry(request.toolCallId);
    assert.equal(browser.opened.length, 1);
    const state = await retried;
    assert.deepEqual([state?.outcome, state?.counted, state?.ackStatus], ["success", false, status]);
  });
}

test("a call of an older conversation is given as a whole: it is claimed first, and opened if nobody has it", async (context) => {
  const { executor, page, backend, browser, call } = await openBlockedPage(context);
  browser.isBlocking = false;
  const [pending, over, taken] = [await call(), await call(), await call()];
  const counted = await executor.retry(pending);
  assert.deepEqual([counted?.phase, counted?.counted], ["done", true]);
  await backend.expire(over.toolCallId);
  const late = await executor.retry(over);
  assert.deepEqual([late?.outcome, late?.counted, late?.ackStatus], ["success", false, 410]);
  assert.equal(browser.opened.length, 2);

  const other = await openPage(context, { backend });
  const gate = deferred();
  other.executor.register("open-url", () => gate.promise);
  const execution = other.executor.execute(taken);
  await other.states.until("it runs", ({ phase }) => phase === "running");
  assert.equal((await executor.retry(taken))?.phase, "elsewhere");
  assert.equal(browser.opened.length, 2);
  gate.resolve();
  await execution;
  // Nobody runs it any more.
  const afterwards = await executor.retry(taken.toolCallId);
  assert.deepEqual([afterwards?.outcome, afterwards?.counted], ["success", false]);
  assert.equal(browser.opened.length, 3);
  assert.deepEqual(await outcomeOf(page, taken.toolCallId), { status: "success" });
});

test("a first try by hand that fails is acked as failed", async (context) => {
  const { executor, page, call } = await openBlockedPage(context);
  const request = await call();
  const state = await executor.retry(request);
  assert.deepEqual([state?.phase, state?.outcome, state?.counted], ["done", "failed", true]);
  assert.deepEqual(await outcomeOf(page, request.toolCallId), { status: "failed", errorText: BLOCKED });
});

test("what runs is not run a second time by hand, and an id that nobody knows does nothing", async (context) => {
  const { backend, faults, executor, states } = await openPage(context);
  const gate = deferred();
  let runs = 0;
  executor.register("tool", () => {
    runs += 1;
    return gate.promise;
  });
  const request = { toolCallId: await backend.call(), toolName: "tool", input: {} };
  void executor.execute(request);
  const whileClaiming = executor.retry(request.toolCallId);
  await states.until("it runs", ({ phase }) => phase === "running");
  const whileRunning = executor.retry(request.toolCallId);
  gate.resolve();
  assert.equal(await whileClaiming, await whileRunning);
  assert.equal(runs, 1);
  const sent = faults.asked.all.length;
  assert.equal(await executor.retry("never heard of"), undefined);
  assert.equal(faults.asked.all.length, sent);
});

test("a call whose time is over still has time when a person wants it", async (context) => {
  const { backend, executor } = await openPage(context);
  const signals: AbortSignal[] = [];
  executor.register("tool", async (_, { signal, deadline }) => {
    signals.push(signal);
    if (signals.length === 1) return new Promise(() => undefined);
    return Math.round((deadline.getTime() - Date.now()) / 1000);
  });
  const toolCallId = await backend.call();
  // Long enough to claim the call on a busy machine: the first try has to run.
  const deadline = new Date(Date.now() + 1_000);
  assert.equal((await executor.execute({ toolCallId, toolName: "tool", input: {}, deadline }))?.outcome, "timeout");
  assert.equal(signals.length, 1);
  const state = await executor.retry(toolCallId);
  assert.deepEqual([state?.output, state?.counted, state?.ackStatus], [60, false, 409]);
  assert.deepEqual(signals.map(({ aborted }) => aborted), [true, false]);
});
