// What every journal does, and what each of them does besides.

import assert from "node:assert/strict";
import { mkdtemp, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TestContext } from "node:test";

import { directoryJournal } from "../../src/tools/journal/directory.js";
import type { Journal, Known, Lookup } from "../../src/tools/journal/journal.js";
import { localStorageJournal } from "../../src/tools/journal/local-storage.js";
import { memoryJournal } from "../../src/tools/journal/memory.js";
import type { ToolResult } from "../../src/tools/result.js";
import { test } from "../support/patience.js";
import { FakeLocks, FakeStorage, FakeTab } from "../support/tabs.js";

const RESULT: ToolResult = { status: "success", title: "", output: "done" };
const MINUTE = 60_000;

function lookup(requestID: string, more: Partial<Lookup> = {}): Lookup {
  const { signal } = new AbortController();
  const expires = Date.now() + MINUTE;
  return { clientID: "laptop", requestID, attempt: 1, isRepeatable: false, expires, signal, ...more };
}

async function known(journal: Journal, requestID: string, more: Partial<Lookup> = {}): Promise<Known> {
  const entry = await journal.open(lookup(requestID, more));
  entry.close();
  return entry.known;
}

async function run(journal: Journal, requestID: string, result = RESULT, more: Partial<Lookup> = {}): Promise<void> {
  const entry = await journal.open(lookup(requestID, more));
  await entry.start();
  await entry.finish(result);
  entry.close();
}

async function directory(context: TestContext): Promise<string> {
  const path = await mkdtemp(join(tmpdir(), "handback-journal-"));
  context.after(() => rm(path, { recursive: true, force: true }));
  return join(path, "journal");
}

const kinds: Record<string, (context: TestContext) => Promise<Journal>> = {
  memory: async () => memoryJournal(),
  "localStorage with locks": async () => localStorageJournal(new FakeStorage(), new FakeTab(new FakeLocks())),
  "localStorage without locks": async () => localStorageJournal(new FakeStorage()),
  directory: async (context) => directoryJournal(await directory(context)),
};

for (const [kind, make] of Object.entries(kinds)) {
  test(`${kind}: a call is new, then started, then done, for its own client only`, async (context) => {
    const journal = await make(context);
    assert.deepEqual(await known(journal, "a"), { state: "new" });
    const entry = await journal.open(lookup("a"));
    await entry.start();
    entry.close();
    assert.deepEqual(await known(journal, "a"), { state: "started" });
    await entry.finish(RESULT);
    assert.deepEqual(await known(journal, "a"), { state: "done", result: RESULT });
    assert.deepEqual(await known(journal, "a", { clientID: "phone" }), { state: "new" });
    assert.deepEqual(await known(journal, "../a"), { state: "new" });
  });

  test(`${kind}: a repeatable call is finished without having been started`, async (context) => {
    const journal = await make(context);
    const entry = await journal.open(lookup("a", { isRepeatable: true }));
    await entry.finish(RESULT);
    entry.close();
    assert.deepEqual(await known(journal, "a"), { state: "done", result: RESULT });
  });

  test(`${kind}: of a large result it is known that it was there`, async (context) => {
    const journal = await make(context);
    await run(journal, "a", { status: "success", title: "", output: "x".repeat(64 * 1024) });
    assert.deepEqual(await known(journal, "a"), { state: "done" });
  });

  test(`${kind}: it forgets the oldest of too many calls, and knows that it has`, async (context) => {
    const journal = await make(context);
    const began = Date.now() + MINUTE;
    for (let index = 0; index <= 1100; index += 1) {
      await run(journal, `r${index}`, RESULT, { expires: began + 1000 * index });
    }
    // Memory has room to know for longer that there was a call.
    assert.deepEqual(await known(journal, "r0"), { state: kind === "memory" ? "done" : "new" });
    assert.deepEqual(await known(journal, "r1100"), { state: "done", result: RESULT });
    const mayBeForgotten = async (requestID: string, attempt: number, expires: number) => {
      const entry = await journal.open(lookup(requestID, { attempt, expires }));
      entry.close();
      return entry.mayBeForgotten;
    };
    assert.equal(await mayBeForgotten("r0", 2, began + 1999), true);
    assert.equal(await mayBeForgotten("r0", 1, began), false);
    assert.equal(await mayBeForgotten("never seen", 2, began + 1000 * 1100), kind === "memory");
  });
}

test("only what ends with the process takes a call that comes again for a forgotten one", async (context) => {
  const forgets: Record<string, boolean> = {};
  for (const [kind, make] of Object.entries(kinds)) {
    const entry = await (await make(context)).open(lookup("a", { attempt: 2 }));
    entry.close();
    forgets[kind] = entry.mayBeForgotten;
  }
  assert.deepEqual(forgets, {
    memory: true,
    "localStorage with locks": false,
    "localStorage without locks": false,
    directory: false,
  });
});

test("a tab waits for another one that runs the call, and learns its result", async () => {
  const [storage, locks] = [new FakeStorage(), new FakeLocks()];
  const [here, there] = [new FakeTab(locks), new FakeTab(locks)].map((tab) => localStorageJournal(storage, tab));
  assert.ok(here && there);
  const entry = await here.open(lookup("a"));
  await entry.start();
  let isOpen = false;
  const waiting = known(there, "a", { attempt: 2 }).finally(() => (isOpen = true));
  await known(there, "b");
  assert.equal(isOpen, false);
  // What may be run twice waits for nobody.
  assert.deepEqual(await known(there, "a", { isRepeatable: true }), { state: "started" });
  await entry.finish(RESULT);
  assert.equal(isOpen, false);
  entry.close();
  assert.deepEqual(await waiting, { state: "done", result: RESULT });
  assert.deepEqual(locks.names, []);
});

test("a tab that is closed leaves its call started", async () => {
  const [storage, locks] = [new FakeStorage(), new FakeLocks()];
  const closing = new FakeTab(locks);
  await (await localStorageJournal(storage, closing).open(lookup("a"))).start();
  const other = localStorageJournal(storage, new FakeTab(locks));
  const waiting = known(other, "a", { attempt: 2 });
  closing.close();
  assert.deepEqual(await waiting, { state: "started" });
});

test("the wait for another tab ends with the call", async () => {
  const [storage, locks] = [new FakeStorage(), new FakeLocks()];
  const journal = localStorageJournal(storage, new FakeTab(locks));
  const entry = await journal.open(lookup("a"));
  const over = new AbortController();
  const waiting = journal.open(lookup("a", { signal: over.signal }));
  over.abort(new Error("the call has expired"));
  await assert.rejects(waiting, { message: "the call has expired" });
  entry.close();
  await known(journal, "b");
  assert.deepEqual(locks.names, []);
});

test("a storage without room says so before the call is run, and keeps less when it was", async () => {
  const storage = new FakeStorage();
  const journal = localStorageJournal(storage);
  const entry = await journal.open(lookup("a"));
  await entry.start();
  storage.room = 100;
  await entry.finish({ status: "success", title: "", output: "x".repeat(1000) });
  assert.deepEqual(await known(journal, "a"), { state: "done" });
  storage.room = 0;
  await assert.rejects((await journal.open(lookup("b"))).start(), { name: "QuotaExceededError" });
});

test("results make room for a call that is about to be run", async () => {
  const storage = new FakeStorage();
  const journal = localStorageJournal(storage);
  for (const id of ["a", "b"]) await run(journal, id, { status: "success", title: "", output: "x".repeat(5000) });
  storage.capacity = storage.sizeWithout();
  const entry = await journal.open(lookup("c"));
  assert.equal(await entry.start(), true);
  assert.deepEqual(await known(journal, "a"), { state: "done" });
  assert.deepEqual(await known(journal, "c"), { state: "started" });
});

test("a storage leaves most of its room to the page", async () => {
  const storage = new FakeStorage();
  const journal = localStorageJournal(storage);
  const result = { status: "success", title: "", output: "x".repeat(8000) } as const;
  for (let count = 0; count < 500; count += 1) await run(journal, `call ${count}`, result);
  assert.ok(storage.sizeWithout() < 1_000_000, String(storage.sizeWithout()));
  assert.deepEqual(await known(journal, "call 0"), { state: "done" });
  assert.deepEqual(await known(journal, "call 499"), { state: "done", result });
});

test("a storage loses what cannot come any more, and nothing that is not ours", async () => {
  const storage = new FakeStorage();
  storage.setItem("theirs", "{}");
  storage.setItem("handback:laptop:call:garbage", "{");
  await run(localStorageJournal(storage), "old", RESULT, { expires: Date.now() - 11 * MINUTE });
  await run(localStorageJournal(storage), "recent", RESULT, { expires: Date.now() - 9 * MINUTE });
  await known(localStorageJournal(storage), "new");
  const keys = Array.from({ length: storage.length }, (_, index) => storage.key(index));
  assert.deepEqual(keys, ["theirs", "handback:laptop:call:recent"]);
});

test("two processes do not both start a call, and what one did the other knows", async (context) => {
  const path = await directory(context);
  const [here, there] = [directoryJournal(path), directoryJournal(path)];
  const entries = await Promise.all([here.open(lookup("a")), there.open(lookup("a"))]);
  const starts = await Promise.all(entries.map((entry) => entry.start()));
  assert.deepEqual(starts.sort(), [false, true]);
  await entries[0].finish(RESULT);
  assert.deepEqual(await known(directoryJournal(path), "a"), { state: "done", result: RESULT });
});

test("a directory loses what cannot come any more; a file that was cut off counts as started", async (context) => {
  const path = await directory(context);
  await run(directoryJournal(path), "old", RESULT, { expires: Date.now() - 11 * MINUTE });
  await run(directoryJournal(path), "cut", RESULT);
  const [cut = ""] = (await readdir(path)).filter((name) => name.endsWith(".json")).slice(-1);
  const files = await readdir(path);
  assert.equal(files.length, 1, "the second one has removed the first");
  await writeFile(join(path, cut), '{"expi');
  await writeFile(join(path, "theirs.json"), "{}");
  assert.deepEqual(await known(directoryJournal(path), "cut"), { state: "started" });
  assert.deepEqual((await readdir(path)).sort(), [cut, "theirs.json"].sort());
});
