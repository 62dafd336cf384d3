// A page that comes and goes, without a browser.

import assert from "node:assert/strict";
import type { TestContext } from "node:test";

import type { StateEvent } from "../../src/tools/events.js";
import { ClientToolsManager } from "../../src/tools/node.js";
import { Log, test, within } from "../support/patience.js";
import { ScriptedServer } from "../support/scripted.js";
import { FakeStorage } from "../support/tabs.js";

/** Makes this process look like a page; gives the page's events, and how many listen to them. */
function fakePage(context: TestContext) {
  const page = new EventTarget();
  const listening: string[] = [];
  const names = ["document", "navigator", "localStorage", "addEventListener", "removeEventListener"] as const;
  const fakes = {
    localStorage: new FakeStorage(),
    addEventListener: (name: string, listener: EventListener) => {
      listening.push(name);
      page.addEventListener(name, listener);
    },
    removeEventListener: (name: string, listener: EventListener) => {
      listening.splice(listening.indexOf(name), 1);
      page.removeEventListener(name, listener);
    },
  };
  const document = { ...fakes, visibilityState: "hidden" };
  const before = names.map((name) => Object.getOwnPropertyDescriptor(globalThis, name));
  for (const [name, value] of Object.entries({ ...fakes, document, navigator: {} })) {
    Object.defineProperty(globalThis, name, { value, configurable: true, writable: true });
  }
  context.after(() => {
    names.forEach((name, index) => {
      const former = before[index];
      if (former) Object.defineProperty(globalThis, name, former);
      else Reflect.deleteProperty(globalThis, name);
    });
  });
  return { page, document, listening, storage: fakes.localStorage };
}

async function setUp(context: TestContext) {
  const server = await ScriptedServer.start(context);
  const fake = fakePage(context);
  const manager = new ClientToolsManager("laptop", server.url, { reconnect: { first: 60_000, longest: 60_000 } });
  const states = new Log<StateEvent>();
  manager.on("state", (state) => states.add(state));
  server.guest(manager);
  await manager.connect();
  const lost = async (index: number) => {
    server.sockets.all[index]?.terminate();
    const count = states.all.length;
    await states.until("it is lost", (state) => states.all.indexOf(state) >= count && state.state === "retrying");
  };
  return { ...fake, server, manager, lost };
}

test("in a page calls come over a WebSocket, and are kept in its storage", async (context) => {
  const { server, manager, storage } = await setUp(context);
  await manager.register("tool", { description: "" }, () => "done");
  assert.equal(server.count("UPGRADE"), 1);
  const request = { type: "client-tool-request", requestID: "a", tool: "client_laptop_tool", input: {}, attempt: 1 };
  server.sockets.all[0]?.send(JSON.stringify({ type: "request", request }));
  const { ref } = await server.messages.until("the result", ({ type }) => type === "result");
  server.sockets.all[0]?.send(JSON.stringify({ type: "result", requestID: "a", accepted: true, ref }));
  assert.equal(storage.key(0), "handback:laptop:call:a");
});

test("a network that is back and a page that is looked at end the wait; one that is hidden does not", async (context) => {
  const { page, document, server, manager, lost, listening } = await setUp(context);
  await lost(0);
  page.dispatchEvent(new Event("online"));
  await server.sockets.count("another socket", 2);
  await within("it is open", manager.connect());
  await lost(1);
  page.dispatchEvent(new Event("visibilitychange"));
  assert.equal(manager.state, "retrying");
  document.visibilityState = "visible";
  page.dispatchEvent(new Event("visibilitychange"));
  await server.sockets.count("another socket", 3);
  await manager.disconnect();
  assert.deepEqual(listening, []);
});

test("a page that comes back from the cache connects anew at once", async (context) => {
  const { page, server, manager } = await setUp(context);
  page.dispatchEvent(new Event("pageshow"));
  page.dispatchEvent(Object.assign(new Event("pageshow"), { persisted: true }));
  await server.sockets.count("another socket", 2);
  await within("it is open", manager.connect());
  const connections = server.asked.all
    .filter(({ what }) => what === "UPGRADE")
    .map(({ query }) => query.get("connection"));
  assert.equal(connections.length, 2);
  assert.equal(new Set(connections).size, 1, "under the same name");
});
