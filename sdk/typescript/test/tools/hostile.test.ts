// A server, or whatever answers in its place, that says what none should.

import assert from "node:assert/strict";
import type { TestContext } from "node:test";

import { HandbackError } from "../../src/http.js";
import type { CallEvent, StateEvent } from "../../src/tools/events.js";
import { ClientToolsManager } from "../../src/tools/node.js";
import type { ToolCall } from "../../src/tools/tool.js";
import { Log, test } from "../support/patience.js";
import { call, event, ScriptedServer } from "../support/scripted.js";

const TRANSPORTS = [false, true];
/** JSON that JavaScript cannot make a number or a text of. */
const POISON = JSON.parse('{"toString":1,"valueOf":1}') as unknown;

async function setUp(context: TestContext, useWebSocket: boolean) {
  const server = await ScriptedServer.start(context);
  const manager = new ClientToolsManager("laptop", server.url, { useWebSocket, reconnect: { first: 5, longest: 20 } });
  server.guest(manager);
  const states = new Log<StateEvent>();
  const calls = new Log<CallEvent>();
  const ran: ToolCall[] = [];
  manager.on("state", (state) => states.add(state));
  manager.on("call", (event) => calls.add(event));
  await manager.register("tool", { description: "" }, (_, call) => {
    ran.push(call);
    return "done";
  });
  await manager.connect();
  /** Says something on the newest connection, as it is. */
  const say = (text: string) =>
    useWebSocket ? server.sockets.all.at(-1)?.send(text) : server.streams.all.at(-1)?.write(`data: ${text}\n\n`);
  const request = (request: unknown, id?: string) =>
    useWebSocket
      ? say(JSON.stringify({ type: "request", request }))
      : server.streams.all.at(-1)?.write(event("tool-request", request, id));
  /** The results that came, by any way. */
  const results = () => [
    ...server.messages.all.filter(({ type }) => type === "result"),
    ...server.asked.all.filter(({ what }) => what === "POST result").map(({ body }) => body as Record<string, unknown>),
  ];
  return { server, manager, states, calls, ran, say, request, results };
}

for (const useWebSocket of TRANSPORTS) {
  const way = useWebSocket ? "a WebSocket" : "an event stream";

  test(`garbage on ${way} is passed over, and what is not as it should be counts as not said`, async (context) => {
    const { manager, states, calls, ran, say, request } = await setUp(context, useWebSocket);
    for (const text of ["", "{", "null", "[]", "7", '"request"', '{"type":"request"}', '{"type":7,"ref":1}', "\u0000"]) say(text);
    for (const bad of [null, 7, [], {}, { requestID: 7, tool: "a" }, { requestID: "a" }, { requestID: "a", tool: {} }]) request(bad);
    const poisoned = { deadline: POISON, attempt: POISON, sessionID: POISON, messageID: null, callID: 7 };
    request(call("poisoned", poisoned));
    await calls.until("it is over", ({ type, requestID }) => type === "finished" && requestID === "poisoned");
    request(call("endless", { deadline: "+275760-09-13T00:00:00Z" }));
    await calls.until("it is over", ({ type, requestID }) => type === "finished" && requestID === "endless");
    const seen = ran.map(({ requestID, sessionID, messageID, callID, attempt, deadline }) => {
      return { requestID, sessionID, messageID, callID, attempt, deadline: Number.isNaN(deadline.getTime()) };
    });
    assert.deepEqual(seen, [
      { requestID: "poisoned", sessionID: "", messageID: "", callID: "", attempt: 1, deadline: false },
      { requestID: "endless", sessionID: "s", messageID: "m", callID: "c", attempt: 1, deadline: false },
    ]);
    assert.equal(manager.state, "open");
    assert.deepEqual(states.all, [{ state: "connecting" }, { state: "open" }]);
  });

  test(`ids of any kind on ${way} are answered once each`, async (context) => {
    const { server, calls, ran, request, results } = await setUp(context, useWebSocket);
    const ids = ["__proto__", "constructor", "toString", "", " ", "../..", "a\nb", "😀", "\ud800", "x".repeat(100_000)];
    for (const id of [...ids, ...ids]) request(call(id));
    for (const id of ids) await calls.until(id, ({ type, requestID }) => type === "finished" && requestID === id);
    await (useWebSocket ? server.messages : server.asked).until("all results", () => results().length >= ids.length);
    assert.deepEqual(ran.map(({ requestID }) => requestID).sort(), [...ids].sort());
    assert.deepEqual(new Set(results().map(({ requestID }) => requestID)), new Set(ids));
  });

  test(`more calls than can be run on ${way} are bounded`, async (context) => {
    const { server, manager, calls, request, results } = await setUp(context, useWebSocket);
    const never = new Promise<string>(() => {});
    let running = 0;
    await manager.register("slow", { description: "" }, (_, { signal }) => {
      running += 1;
      return Promise.race([never, new Promise<string>((resolve) => signal.addEventListener("abort", () => resolve("")))]);
    });
    for (let count = 0; count < 5000; count += 1) request(call(`call ${count}`, { tool: "client_laptop_slow" }));
    request(call("last", { tool: "client_laptop_nothing" }));
    await (useWebSocket ? server.messages : server.asked).until("an answer", () => results().length > 0);
    await calls.until("they run", () => running >= 1024);
    assert.equal(running, 1024);
    assert.match(JSON.stringify(results()[0]), /this client runs too many calls already/);
  });
}

test("an event's id that no header can carry does not keep the client from coming back", async (context) => {
  const { server, calls, request } = await setUp(context, false);
  request(call("a"), "1-1");
  request(call("b"), "😀");
  await calls.until("it is over", ({ type, requestID }) => type === "finished" && requestID === "b");
  server.streams.all[0]?.destroy();
  await server.streams.count("it is back", 2);
  const [, again] = server.asked.all.filter(({ what }) => what === "GET pending");
  assert.equal(again?.headers["last-event-id"], undefined);
});

test("whatever else answers in place of a server is told from one", async (context) => {
  const page = "<!doctype html><h1>Log in to this network</h1>";
  const answers: [number, Record<string, string>, string, string][] = [
    [200, { "content-type": "text/html" }, page, "unexpected"],
    [200, { "content-type": "application/json" }, "{}", "unexpected"],
    [200, {}, "", "unexpected"],
    [302, { location: "https://login.example.com/" }, page, "refused"],
    [307, {}, "", "refused"],
    [404, { "content-type": "text/html" }, page, "refused"],
  ];
  for (const [status, headers, body, kind] of answers) {
    const server = await ScriptedServer.start(context);
    server.next("GET pending", (_, response) => response.writeHead(status, headers).end(body));
    const manager = new ClientToolsManager("laptop", server.url);
    const error = await manager.connect().catch((error: unknown) => error);
    assert.ok(error instanceof HandbackError, String(error));
    assert.equal(error.kind, kind, error.message);
    assert.ok(error.message.includes(server.url), error.message);
    assert.equal(manager.state, "closed");
  }
});
