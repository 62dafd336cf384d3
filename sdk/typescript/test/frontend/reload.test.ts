// What a tab knows after a reload, and what a duplicated one must not take for its own.

import assert from "node:assert/strict";
import type { TestContext } from "node:test";

import type { FrontendToolExecutorOptions } from "../../src/index.js";
import { deferred, test } from "../support/patience.js";
import { FakeLocks, FakeStorage, FakeTab } from "../support/tabs.js";
import type { Backend } from "./backend.js";
import { openPage, type TestPage } from "./page.js";

const RELOADED = "outcome unknown: the page was reloaded while it ran";

/** The loads of a page in one tab; each of them leaves what the one before was doing. */
class Loads {
  readonly #context: TestContext;
  readonly #locks: FakeLocks;
  readonly storage: FakeStorage;
  #tab: FakeTab | undefined;
  #origin = 0;

  constructor(context: TestContext, storage = new FakeStorage(), locks = new FakeLocks(), first = 1) {
    this.#context = context;
    this.storage = storage;
    this.#locks = locks;
    this.#origin = first;
  }

  async next(backend?: Backend, options: FrontendToolExecutorOptions = {}): Promise<TestPage> {
    this.#tab?.close();
    this.#tab = new FakeTab(this.#locks);
    const load = (this.#origin += 1);
    this.#context.mock.getter(performance, "timeOrigin", () => load);
    const { storage } = this;
    return openPage(this.#context, { storage, locks: this.#tab, ...options, ...(backend && { backend }) });
  }

  /** Another tab, whose storage is a copy. */
  duplicate(): Loads {
    const copy = new FakeStorage();
    for (let index = 0; index < this.storage.length; index += 1) {
      const key = this.storage.key(index) ?? "";
      copy.setItem(key, this.storage.getItem(key) ?? "");
    }
    return new Loads(this.#context, copy, this.#locks, this.#origin + 100);
  }
}

/** Begins a call whose handler does not end before the test does. */
async function begin(context: TestContext, page: TestPage): Promise<{ toolCallId: string; toolName: string; input: object }> {
  const end = deferred();
  context.after(() => end.resolve());
  page.executor.register("tool", () => end.promise);
  const request = { toolCallId: await page.backend.call(), toolName: "tool", input: {} };
  void page.executor.execute(request);
  await page.states.until("it runs", ({ phase, toolCallId }) => phase === "running" && toolCallId === request.toolCallId);
  return request;
}

const claimants = ({ faults }: TestPage) =>
  faults.bodies("claim").map((body) => (JSON.parse(body) as { claimant: string }).claimant);

test("a call that was begun and not acked is not run again after a reload, but acked as failed", async (context) => {
  const loads = new Loads(context);
  const before = await loads.next();
  const { backend } = before;
  const request = await begin(context, before);
  for (const count of [1, 2]) {
    const page = await loads.next(backend);
    page.executor.register("tool", () => assert.fail("it was run again"));
    const state = await page.executor.execute(request);
    assert.deepEqual([state?.phase, state?.outcome, state?.counted], ["done", "failed", true]);
    assert.equal(state?.errorText, RELOADED);
    // The second reload knows what was said, and says it again.
    assert.equal(page.faults.bodies("claim").length, count === 1 ? 1 : 0);
    if (count === 1) assert.deepEqual(claimants(page), claimants(before));
  }
  const outcome = (await backend.outcome(request.toolCallId)) as Record<string, string>;
  assert.deepEqual({ ...outcome, requestedAt: "" }, { status: "failed", errorText: RELOADED, requestedAt: "" });
});

test("a call that may be repeated is run again after a reload", async (context) => {
  const loads = new Loads(context);
  const before = await loads.next();
  const request = await begin(context, before);
  const page = await loads.next(before.backend);
  page.executor.register("tool", () => "again", { again: true });
  const state = await page.executor.execute(request);
  assert.deepEqual([state?.phase, state?.output], ["done", "again"]);
});

test("a call that was claimed but not begun is run after a reload", async (context) => {
  const loads = new Loads(context);
  const before = await loads.next();
  const { backend } = before;
  before.faults.next.claim.push("unanswered");
  before.faults.always.claim = "unsent";
  const request = { toolCallId: await backend.call(), toolName: "tool", input: {}, deadline: new Date(Date.now() + 1_000) };
  assert.equal((await before.executor.execute(request))?.phase, "failed");
  const page = await loads.next(backend);
  page.executor.register("tool", () => "now");
  const state = await page.executor.execute({ ...request, deadline: undefined });
  assert.deepEqual([state?.phase, state?.output], ["done", "now"]);
});

test("an ack that did not arrive is sent again after a reload, to the byte", async (context) => {
  const loads = new Loads(context);
  const before = await loads.next();
  const { backend } = before;
  before.executor.register("tool", () => ({ z: 1, a: [2, null], text: "\ud800 ä" }));
  // Once it is lost, once only its answer is.
  for (const fault of ["unsent", "unanswered"] as const) {
    before.faults.always.ack = fault;
    const request = { toolCallId: await backend.call(), toolName: "tool", input: {}, deadline: new Date(Date.now() + 1_000) };
    assert.equal((await before.executor.execute(request))?.phase, "failed");
    const page = await loads.next(backend);
    page.executor.register("tool", () => assert.fail("it was run again"));
    const state = await page.executor.execute({ ...request, deadline: undefined });
    assert.deepEqual([state?.phase, state?.counted, state?.outcome], ["done", true, "success"]);
    assert.deepEqual(new Set([...page.faults.bodies("ack")]), new Set(before.faults.bodies("ack").slice(-1)));
  }
});

test("of an output that is too large to be kept it is known that it was there", async (context) => {
  const loads = new Loads(context);
  const before = await loads.next();
  before.executor.register("tool", () => "x".repeat(10_000));
  before.faults.always.ack = "unsent";
  const request = { toolCallId: await before.backend.call(), toolName: "tool", input: {}, deadline: new Date(Date.now() + 1_000) };
  await before.executor.execute(request);
  const page = await loads.next(before.backend);
  page.executor.register("tool", () => assert.fail("it was run again"));
  const state = await page.executor.execute({ ...request, deadline: undefined });
  assert.deepEqual([state?.phase, state?.outcome], ["done", "failed"]);
  assert.match(state?.errorText ?? "", /^outcome unknown: .* too large to be kept/);
});

test("a duplicated tab takes a name of its own, and leaves the calls of the first alone", async (context) => {
  const loads = new Loads(context);
  const first = await loads.next();
  const { backend } = first;
  const request = await begin(context, first);
  const copy = loads.duplicate();
  const second = await copy.next(backend);
  second.executor.register("tool", () => "by the copy");
  const state = await second.executor.execute(request);
  assert.deepEqual([state?.phase, second.faults.bodies("ack")], ["elsewhere", []]);
  assert.notDeepEqual(claimants(second), claimants(first));
  // It keeps that name over its own reload.
  const reloaded = await copy.next(backend);
  const own = await reloaded.executor.execute({ ...request, toolCallId: await backend.call() });
  assert.equal(own?.phase, "done");
  assert.deepEqual(claimants(reloaded), claimants(second));
});

test("locks that are forbidden are as none at all", async (context) => {
  const locks = { request: () => Promise.reject(new DOMException("not here", "SecurityError")) };
  const loads = new Loads(context);
  const first = await loads.next(undefined, { locks });
  await begin(context, first);
  const second = await loads.next(first.backend, { locks });
  await begin(context, second);
  assert.deepEqual(claimants(second), claimants(first));
});

test("without a storage every executor has a name of its own", async (context) => {
  const gate = deferred();
  const first = await openPage(context);
  const second = await openPage(context, { backend: first.backend });
  for (const page of [first, second]) page.executor.register("tool", () => gate.promise);
  gate.resolve();
  for (const page of [first, second]) {
    await page.executor.execute({ toolCallId: await first.backend.call(), toolName: "tool", input: {} });
    assert.match(claimants(page)[0] ?? "", /^[0-9a-f]{32}$/);
  }
  assert.notDeepEqual(claimants(first), claimants(second));
});

test("what is stored is bounded, the oldest goes first, and nothing of others is touched", async (context) => {
  const loads = new Loads(context);
  const { storage } = loads;
  storage.setItem("theirs", "stays");
  storage.setItem("handback:frontend-call:garbage", "{");
  const page = await loads.next();
  page.executor.register("tool", () => "done");
  const ids: string[] = [];
  for (let count = 0; count < 250; count += 1) {
    const toolCallId = await page.backend.call();
    ids.push(toolCallId);
    await page.executor.execute({ toolCallId, toolName: "tool", input: {} });
  }
  const keys = Array.from({ length: storage.length }, (_, index) => storage.key(index) ?? "");
  const kept = keys.filter((key) => key.startsWith("handback:frontend-call:")).map((key) => key.split(":")[2]);
  assert.ok(kept.length <= 200 && kept.length >= 150, String(kept.length));
  assert.deepEqual([...kept].sort(), ids.slice(-kept.length).sort());
  assert.equal(storage.getItem("theirs"), "stays");
});

test("a storage that is full, or full of garbage, stops no call", async (context) => {
  const loads = new Loads(context);
  const { storage } = loads;
  storage.setItem("handback:claimant", '{"name":7');
  const page = await loads.next();
  page.executor.register("tool", () => "done");
  storage.room = 0;
  const full = { toolCallId: await page.backend.call(), toolName: "tool", input: {} };
  assert.equal((await page.executor.execute(full))?.phase, "done");
  storage.room = Number.POSITIVE_INFINITY;
  const garbled = { ...full, toolCallId: await page.backend.call() };
  storage.setItem(`handback:frontend-call:${garbled.toolCallId}`, "[");
  // Whoever wrote it, it may have been run.
  const state = await page.executor.execute(garbled);
  assert.deepEqual([state?.phase, state?.errorText], ["done", RELOADED]);
});

test("older calls make room for one that is about to be run", async (context) => {
  const loads = new Loads(context);
  const { storage } = loads;
  const page = await loads.next();
  page.executor.register("tool", () => "x".repeat(5000));
  const execute = async () => {
    const toolCallId = await page.backend.call();
    await page.executor.execute({ toolCallId, toolName: "tool", input: {} });
    return storage.getItem(`handback:frontend-call:${toolCallId}`);
  };
  await execute();
  storage.capacity = storage.sizeWithout();
  assert.notEqual(await execute(), null);
});
