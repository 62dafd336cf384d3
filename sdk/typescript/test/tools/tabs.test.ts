// Two tabs, and a reload: nothing is run twice, and everybody learns what can be known.

import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { directoryJournal } from "../../src/tools/journal/directory.js";
import type { Journal } from "../../src/tools/journal/journal.js";
import { localStorageJournal } from "../../src/tools/journal/local-storage.js";
import { memoryJournal } from "../../src/tools/journal/memory.js";
import type { CallEvent } from "../../src/tools/events.js";
import { ClientToolsManager } from "../../src/tools/node.js";
import type { Effect } from "../../src/tools/tool.js";
import { Network } from "../support/network.js";
import { Log, test } from "../support/patience.js";
import { Server } from "../support/server.js";
import { FakeLocks, FakeStorage, FakeTab } from "../support/tabs.js";

/** A page or a process of the client "laptop" with one tool, which ends when it is told to. */
async function open(server: Server, journal: Journal, effect: Effect = "write") {
  const network = new Network();
  const ends = new Map<string, (output: string) => void>();
  const calls = new Log<CallEvent>();
  const manager = new ClientToolsManager("laptop", server.url, {
    journal,
    fetch: network.fetch,
    reconnect: { first: 5, longest: 20 },
  });
  manager.on("call", (event) => calls.add(event));
  const end = (requestID: string, output: string) => ends.get(requestID)?.(output);
  server.guest({
    disconnect: () => {
      network.mend();
      for (const requestID of ends.keys()) end(requestID, "the test is over");
      return manager.disconnect();
    },
  });
  // Their connections are lost on purpose.
  manager.on("state", () => {});
  await manager.register("tool", { description: "", effect }, (_, { requestID }) => {
    return new Promise((resolve) => ends.set(requestID, resolve));
  });
  await manager.connect();
  const until = (type: CallEvent["type"]) => calls.until(`a call is ${type}`, (event) => event.type === type);
  return { manager, network, calls, end, until };
}

const success = (output: string) => ({ status: 200, body: { status: "success", title: "", output } });
const UNKNOWN = {
  status: 200,
  body: {
    status: "error",
    error:
      "the outcome is unknown: the call was given to this client before, and may have taken effect; it was not run again",
  },
};
const types = ({ all }: Log<CallEvent>) => all.map(({ type }) => type);

test("a call of a tab that lost its network is not run by the other one, which sends the first one's result", async (context) => {
  const server = await Server.start(context);
  const [storage, locks] = [new FakeStorage(), new FakeLocks()];
  const first = await open(server, localStorageJournal(storage, new FakeTab(locks)));
  const execution = server.execute("client_laptop_tool", { requestID: "r1" });
  await first.until("started");
  const second = await open(server, localStorageJournal(storage, new FakeTab(locks)));
  first.network.cut();
  first.end("r1", "from the first tab");
  assert.deepEqual(await execution, success("from the first tab"));
  await second.until("answered");
  assert.deepEqual(types(second.calls), ["answered"]);
});

test("a tab that is closed leaves an unknown outcome to the other one", async (context) => {
  const server = await Server.start(context);
  const [storage, locks] = [new FakeStorage(), new FakeLocks()];
  const tab = new FakeTab(locks);
  const first = await open(server, localStorageJournal(storage, tab));
  const execution = server.execute("client_laptop_tool");
  await first.until("started");
  const second = await open(server, localStorageJournal(storage, new FakeTab(locks)));
  first.network.cut();
  tab.close();
  assert.deepEqual(await execution, UNKNOWN);
  assert.deepEqual(types(second.calls), ["answered"]);
});

test("after a reload, a result that was not delivered is, and a call that was not finished is unknown", async (context) => {
  const server = await Server.start(context);
  const [storage, locks] = [new FakeStorage(), new FakeLocks()];
  const tab = new FakeTab(locks);
  const before = await open(server, localStorageJournal(storage, tab));
  const executions = ["done", "begun"].map((requestID) => server.execute("client_laptop_tool", { requestID }));
  await before.calls.count("both start", 2);
  before.network.cut();
  before.end("done", "before the reload");
  await before.until("finished");
  tab.close();
  await open(server, localStorageJournal(storage, new FakeTab(locks)));
  assert.deepEqual(await Promise.all(executions), [success("before the reload"), UNKNOWN]);
});

for (const kind of ["memory", "directory"] as const) {
  test(`a process that takes over (${kind}) does not run a write call again, but a read call`, async (context) => {
    const server = await Server.start(context);
    const path = await mkdtemp(join(tmpdir(), "handback-takeover-"));
    context.after(() => rm(path, { recursive: true, force: true }));
    const journal = () => (kind === "memory" ? memoryJournal() : directoryJournal(path));
    for (const [effect, expected] of [
      ["write", UNKNOWN],
      ["read", success("again")],
    ] as const) {
      const first = await open(server, journal(), effect);
      const execution = server.execute("client_laptop_tool", { requestID: effect });
      await first.until("started");
      first.network.cut();
      const second = await open(server, journal(), effect);
      if (effect === "read") await second.until("started");
      second.end("read", "again");
      assert.deepEqual(await execution, expected);
      await second.manager.disconnect();
    }
  });
}

test("two managers of one page and one client run every call once", async (context) => {
  const server = await Server.start(context);
  const [storage, locks] = [new FakeStorage(), new FakeLocks()];
  const journal = localStorageJournal(storage, new FakeTab(locks));
  const managers = await Promise.all([open(server, journal), open(server, journal)]);
  for (const { calls, end } of managers) {
    const endAll = () => calls.all.forEach(({ requestID }) => end(requestID, "done"));
    managers.forEach(({ manager }) => manager.on("call", () => queueMicrotask(endAll)));
  }
  const requestIDs = Array.from({ length: 20 }, (_, index) => `r${index}`);
  const results = await Promise.all(requestIDs.map((requestID) => server.execute("client_laptop_tool", { requestID })));
  assert.deepEqual(new Set(results.map((result) => JSON.stringify(result))).size, 1);
  const started = managers.flatMap(({ calls }) => calls.all.filter(({ type }) => type === "started"));
  assert.deepEqual(started.map(({ requestID }) => requestID).sort(), requestIDs.sort());
  assert.deepEqual(locks.names, []);
});
