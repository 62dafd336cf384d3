// What is particular to WebSockets, with a server that fails just so.

import assert from "node:assert/strict";
import type { TestContext } from "node:test";

import type { WebSocket } from "ws";

import { HandbackError } from "../../src/http.js";
import type { CallEvent, StateEvent } from "../../src/tools/events.js";
import { ClientToolsManager } from "../../src/tools/node.js";
import type { ClientToolsOptions } from "../../src/tools/options.js";
import { deferred, Log, test, within } from "../support/patience.js";
import { call, refuse, ScriptedServer } from "../support/scripted.js";

async function setUp(context: TestContext, options: ClientToolsOptions = {}) {
  const server = await ScriptedServer.start(context);
  const all = { useWebSocket: true, reconnect: { first: 5, longest: 20 }, ...options };
  const manager = new ClientToolsManager("laptop", server.url, all);
  const states = new Log<StateEvent>();
  const calls = new Log<CallEvent>();
  manager.on("state", (state) => states.add(state));
  manager.on("call", (event) => calls.add(event));
  server.guest(manager);
  return { server, manager, states, calls };
}

/** Takes every result that comes on a socket. */
function acceptAll(socket: WebSocket | undefined): void {
  socket?.on("message", (data) => {
    const { type, requestID, ref } = JSON.parse(String(data)) as Record<string, unknown>;
    if (type === "result") socket.send(JSON.stringify({ type, requestID, accepted: true, ref }));
  });
}

const offer = (requestID: string, more = {}) => JSON.stringify({ type: "request", request: call(requestID, more) });

test("a result that was not answered is sent again on the next socket", async (context) => {
  const { server, manager, calls } = await setUp(context);
  await manager.register("tool", { description: "" }, () => "done");
  await manager.connect();
  const [first] = server.sockets.all;
  first?.send(offer("a"));
  const sent = await server.messages.until("the result", ({ type }) => type === "result");
  first?.terminate();
  const [, second] = await server.sockets.count("another socket", 2);
  acceptAll(second);
  second?.send(offer("a", { attempt: 2 }));
  const again = (await server.messages.count("the result again", 2))[1];
  const { ref, ...message } = sent;
  assert.deepEqual(message, { type: "result", requestID: "a", result: { status: "success", output: "done" } });
  assert.deepEqual(again, { ...message, ref: 1 });
  second?.send(offer("b"));
  await server.messages.until("another result", ({ requestID }) => requestID === "b");
  assert.equal(ref, 1);
  assert.deepEqual(
    calls.all.filter(({ requestID }) => requestID === "a").map(({ type }) => type),
    ["started", "finished"],
  );
  assert.equal(server.count("POST result"), 0);
});

test("a result that is not accepted is told, with the server's reason", async (context) => {
  const { server, manager, calls } = await setUp(context);
  await manager.register("tool", { description: "" }, () => "done");
  await manager.connect();
  const [socket] = server.sockets.all;
  socket?.on("message", (data) => {
    const { requestID, ref } = JSON.parse(String(data)) as Record<string, unknown>;
    if (requestID === "later" && ref === 3)
      socket.send(JSON.stringify({ type: "result", requestID, accepted: true, ref }));
    else if (requestID === "gone")
      socket.send(JSON.stringify({ type: "result", requestID, accepted: false, code: "GONE", ref }));
    else socket.send(JSON.stringify({ type: "error", error: "the journal is full", code: "INTERNAL_ERROR", ref }));
  });
  socket?.send(offer("gone"));
  const { reason } = (await calls.until("it is told", ({ type }) => type === "undelivered")) as { reason: string };
  assert.equal(reason, "the result of gone was not accepted (GONE)");
  socket?.send(offer("later"));
  await server.messages.until("it is tried again", () => {
    return server.messages.all.filter(({ requestID }) => requestID === "later").length === 2;
  });
});

test("a large result goes by HTTP", async (context) => {
  const { server, manager } = await setUp(context);
  await manager.register("tool", { description: "" }, () => "x".repeat(100_000));
  await manager.connect();
  server.sockets.all[0]?.send(offer("a"));
  const { body } = await server.asked.until("the result", ({ what }) => what === "POST result");
  assert.deepEqual(body, { requestID: "a", result: { status: "success", output: "x".repeat(100_000) } });
  assert.deepEqual(server.messages.all, []);
});

test("a result that finds no socket for long goes by HTTP", async (context) => {
  const { server, manager, states, calls } = await setUp(context, { reconnect: { first: 60_000, longest: 60_000 } });
  const gate = deferred<string>();
  await manager.register("tool", { description: "" }, () => gate.promise);
  await manager.connect();
  server.sockets.all[0]?.send(offer("a"));
  await calls.until("it is started", ({ type }) => type === "started");
  server.sockets.all[0]?.terminate();
  await states.until("it is lost", ({ state }) => state === "retrying");
  gate.resolve("done");
  await server.asked.until("the result", ({ what }) => what === "POST result");
});

for (const [code, reason] of [
  [1001, "going away"],
  [1009, "the message is too big"],
  [4008, "too slow"],
] as const) {
  test(`a socket that is closed with ${code} is opened again`, async (context) => {
    const { server, manager, states } = await setUp(context);
    await manager.connect();
    server.sockets.all[0]?.close(code, reason);
    await server.sockets.count("another socket", 2);
    assert.match(states.all.find(({ error }) => error)?.error?.message ?? "", new RegExp(`${code}, ${reason}`));
  });
}

test("a superseded socket comes back under another name, which is what prompts say from then on", async (context) => {
  const { server, manager } = await setUp(context);
  const client = { "x-handback-client": "laptop" };
  assert.deepEqual([manager.connection, manager.headers()], [undefined, client]);
  await manager.connect();
  const first = manager.connection;
  server.sockets.all[0]?.close(4009, "superseded");
  await server.sockets.count("another socket", 2);
  const names = server.asked.all.filter(({ what }) => what === "UPGRADE").map(({ query }) => query.get("connection"));
  assert.equal(new Set(names).size, 2, String(names));
  assert.deepEqual([first, manager.connection], names);
  assert.deepEqual(manager.headers(), { ...client, "x-handback-connection": names[1] });
  await manager.disconnect();
  assert.deepEqual([manager.connection, manager.headers()], [undefined, client]);
  const goodbye = await server.asked.until("the goodbye", ({ what }) => what === "POST disconnect");
  assert.deepEqual(goodbye.body, { clientID: manager.clientID, connection: names[1] });
});

test("a socket that a policy closes comes back with another token only", async (context) => {
  const fixed = await setUp(context, { token: "old" });
  await fixed.manager.connect();
  fixed.server.sockets.all[0]?.close(1008, "the token has expired");
  const { error } = await fixed.states.until("it is over", ({ state }) => state === "closed");
  assert.match(error?.message ?? "", /1008, the token has expired/);

  let token = "old";
  const renewed = await setUp(context, { token: () => token });
  await renewed.manager.connect();
  token = "new";
  renewed.server.sockets.all[0]?.close(1008, "the token has expired");
  await renewed.server.sockets.count("another socket", 2);
  const used = renewed.server.asked.all
    .filter(({ what }) => what === "UPGRADE")
    .map(({ query }) => query.get("access_token"));
  assert.deepEqual(used, ["old", "new"]);
});

test("a silent socket is dead; one that answers pings is not", async (context) => {
  const { server, manager, states } = await setUp(context, { silence: 300 });
  await manager.connect();
  const [first] = server.sockets.all;
  let pings = 0;
  first?.on("message", () => {
    if (++pings <= 5) first.send('{"type":"pong"}');
  });
  await server.sockets.count("another socket", 2);
  // Five answers hold it for more than the silence; without them it would have ended before the third ping.
  assert.ok(pings > 5, `${pings} pings`);
  assert.match(states.all.find(({ error }) => error)?.error?.message ?? "", /silent/);
});

test("why a socket cannot be opened is found out by asking plainly", async (context) => {
  const { server, manager, states } = await setUp(context);
  server.next("UPGRADE", refuse(503));
  server.next("GET ws", refuse(503));
  server.next("UPGRADE", refuse(503));
  await manager.connect();
  assert.deepEqual(
    states.all.map(({ state, error }) => [state, error && (error as HandbackError).message.split(" (")[0]]),
    [
      ["connecting", undefined],
      ["retrying", "refused with 503"],
      [
        "retrying",
        `the server at ${server.url} can be reached, but a WebSocket to it cannot be opened. ` +
          "Something on the way may not let it pass; `useWebSocket: false` does without.",
      ],
      ["open", undefined],
    ],
  );
});

test("what a server says that nobody understands is passed over", async (context) => {
  const { server, manager, states } = await setUp(context);
  await manager.register("tool", { description: "" }, () => "done");
  await manager.connect();
  const [socket] = server.sockets.all;
  acceptAll(socket);
  for (const text of [
    "{",
    "5",
    "null",
    "{}",
    '{"type":"request"}',
    '{"type":"request","request":{}}',
    '{"type":"cancel"}',
  ]) {
    socket?.send(text);
  }
  socket?.send(Buffer.from("binary"));
  socket?.send(offer("a"));
  await server.messages.until("the result", ({ requestID }) => requestID === "a");
  assert.equal(states.all.length, 2);
});

test("disconnecting closes a socket that is being opened", async (context) => {
  const { server, manager } = await setUp(context);
  const connecting = assert.rejects(manager.connect(), { message: "disconnect() was called" });
  await within("goodbye", manager.disconnect());
  await connecting;
  assert.equal(server.sockets.all.length, 0);
});

test("a socket that only says that it failed is over", async (context) => {
  class Failing {
    readonly bufferedAmount = 0;
    onopen = null;
    onmessage = null;
    onclose = null;
    onerror: ((event: never) => void) | null = null;
    constructor() {
      setImmediate(() => this.onerror?.({} as never));
    }
    send(): void {}
    close(): void {}
  }
  const { server, manager, states } = await setUp(context, { WebSocket: Failing });
  const connecting = assert.rejects(manager.connect(), { kind: "closed" });
  const { error } = await states.until("it is told", ({ state }) => state === "retrying");
  assert.match(error?.message ?? "", /can be reached, but a WebSocket to it cannot be opened/);
  assert.equal(server.asked.all[0]?.what, "GET ws");
  await manager.disconnect();
  await connecting;
});

test("in Node a socket is one of ws, whatever else there is", async (context) => {
  const before = Object.getOwnPropertyDescriptor(globalThis, "WebSocket");
  context.after(() => {
    Reflect.deleteProperty(globalThis, "WebSocket");
    if (before) Object.defineProperty(globalThis, "WebSocket", before);
  });
  const WebSocket = class {
    constructor() {
      throw new Error("this one waits for ever");
    }
  };
  Object.defineProperty(globalThis, "WebSocket", { value: WebSocket, configurable: true, writable: true });
  const { manager } = await setUp(context);
  await within("it is open", manager.connect());
  assert.equal(manager.state, "open");
});
