// A call of the application is followed, and tells exactly what a caller that waits for it is told.

import assert from "node:assert/strict";
import type { TestContext } from "node:test";

import { type CallEvent, createHandbackClient, type HandbackClient, HandbackError } from "../../src/node.js";
import { settle } from "../support/fake-time.js";
import { deferred, Log, test, within } from "../support/patience.js";
import { answer, type Asked, MAINTENANCE, OPEN, page, refuse, ScriptedServer } from "../support/scripted.js";
import { Server } from "../support/server.js";
import { until } from "../support/until.js";

interface Caller {
  server: Server;
  client: HandbackClient;
  /** Waits until the client runs a call. */
  started: (requestID: string) => Promise<unknown>;
}

interface Case {
  tool: string;
  input?: Record<string, unknown>;
  timeout?: number;
  /** Done before the call is made. */
  before?: (caller: Caller, requestID: string) => Promise<unknown>;
  /** Done once the call is on its way. */
  meanwhile?: (caller: Caller, requestID: string) => Promise<unknown>;
  status: number | "success" | "error";
}

/** Has the client go away for good that has a tool and never answers. */
let leave = () => {};

const CASES: Record<string, Case> = {
  "a result": { tool: "client_laptop_greet", input: { name: "Ada" }, status: "success" },
  "a tool that fails": { tool: "client_laptop_fail", status: "error" },
  "a call that takes too long": { tool: "client_laptop_wait", timeout: 50, status: 504 },
  "a call that is cancelled": {
    tool: "client_laptop_wait",
    meanwhile: async ({ server, started }, requestID) => {
      await started(requestID);
      await server.cancel(requestID, "changed my mind");
    },
    status: 409,
  },
  "a client that goes away": {
    tool: "client_ghost_haunt",
    before: async ({ client }) => {
      const query = { grace: "0" };
      const leaving = new AbortController();
      leave = () => leaving.abort();
      await client.http.open(["client-tools", "pending", "ghost"], { query, signal: leaving.signal });
      const tools = [{ id: "haunt", description: "Never answers" }];
      await client.http.request("POST", ["client-tools", "register"], { body: { clientID: "ghost", tools } });
    },
    meanwhile: async ({ server }, requestID) => {
      await until("it is offered", async () => (await server.get<{ state?: string }>(`calls/${requestID}`)).state === "offered");
      leave();
    },
    status: 502,
  },
  "a tool that is not there": { tool: "client_laptop_none", status: 404 },
  "an input that does not fit": { tool: "client_laptop_greet", input: { name: 7 }, status: 400 },
  "an id that another call has": {
    tool: "client_laptop_greet",
    input: { name: "Ada" },
    before: ({ server }, requestID) => server.execute("client_laptop_greet", { requestID, input: { name: "Bob" } }),
    status: 409,
  },
};

/** All that a caller sees. */
async function seen(called: Promise<unknown>): Promise<unknown> {
  try {
    return await called;
  } catch (error) {
    assert.ok(error instanceof HandbackError, String(error));
    const { name, kind, message, status, code, details, retryAfter, transient } = error;
    return { name, kind, message, status, code, details, retryAfter, transient };
  }
}

async function stage(test: TestContext) {
  const server = await Server.start(test);
  const client = createHandbackClient({ baseUrl: server.url, clientID: "laptop" });
  server.guest({ disconnect: () => client.close() });
  const calls = new Log<CallEvent>();
  client.clientTools.on("call", (event) => calls.add(event));
  const parameters = { type: "object", properties: { name: { type: "string" } }, required: ["name"] } as const;
  await client.clientTools.register("greet", { description: "Greets", parameters }, ({ name }) => ({
    title: "Greeting",
    output: `Hello, ${name}!`,
    metadata: { length: name.length },
    attachments: [{ mime: "text/plain", filename: "greeting.txt", url: "data:,Hello" }],
  }));
  await client.clientTools.register("fail", { description: "Fails" }, () => Promise.reject(new Error("the disk is full")));
  await client.clientTools.register("wait", { description: "Waits" }, (_, { signal }) => {
    return new Promise((_resolve, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
  });
  await client.clientTools.connect();
  const started = (id: string) => calls.until("it starts", ({ type, requestID }) => type === "started" && requestID === id);
  return { server, client, calls, started };
}

for (const [name, { tool, input = {}, timeout, before, meanwhile, status }] of Object.entries(CASES)) {
  test(`${name} is told as to a caller that waits`, async (test) => {
    const caller = await stage(test);
    const { http, execute } = caller.client;
    const callAs = async (requestID: string, call: () => Promise<unknown>) => {
      await before?.(caller, requestID);
      const called = seen(call());
      await meanwhile?.(caller, requestID);
      return JSON.stringify(await within("it is told", called)).replaceAll(requestID, "the id");
    };
    const body = { toolID: tool, input, requestID: "call-1", ...(timeout !== undefined && { timeout }) };
    const waited = await callAs("call-1", () => http.request("POST", ["client-tools", "execute"], { body }));
    const followed = await callAs("call-2", () => execute(tool, input, { requestID: "call-2", timeout }));
    assert.equal(followed, waited);
    assert.equal(JSON.parse(followed).status, status);
  });
}

test("a call without an id of its own has a random one, and an abort cancels it for the client too", async (test) => {
  const { client, server, calls } = await stage(test);
  const stop = new AbortController();
  const executing = client.execute("client_laptop_wait", {}, { sessionID: "s1", messageID: "m1", callID: "c1", signal: stop.signal });
  const { requestID, sessionID, messageID, callID } = await calls.until("it starts", ({ type }) => type === "started");
  assert.match(requestID, /^call_[0-9a-f]{32}$/);
  assert.deepEqual([sessionID, messageID, callID], ["s1", "m1", "c1"]);
  stop.abort(new Error("not any more"));
  await assert.rejects(executing, new Error("not any more"));
  const cancelled = await calls.until("the handler is told", ({ type }) => type === "cancelled");
  assert.deepEqual("reason" in cancelled && cancelled.reason, "Cancelled");
  const { outcome } = await server.get<{ outcome: unknown }>(`calls/${requestID}`);
  assert.deepEqual(outcome, { status: "cancelled", error: "Cancelled" });
  await assert.rejects(client.execute("client_laptop_wait", {}, { signal: stop.signal }), new Error("not any more"));
  assert.equal(calls.all.filter(({ type }) => type === "started").length, 1, "one that is aborted before is not made");
});

function scripted(server: ScriptedServer): HandbackClient {
  return createHandbackClient({ baseUrl: server.url, clientID: "laptop" });
}

const lines = (asked: Asked[]) => asked.map(({ what, query }) => [what, query.get("wait")].filter(Boolean).join(" "));

test("a call is made and followed again over 503, a proxy without a server and cut connections, as long as it takes", async (test) => {
  const server = await ScriptedServer.start(test);
  const wanted = performance.now() + 1000;
  server.next("POST execute", refuse(503, { "retry-after": "1" }));
  server.next("POST execute", (_, response) => response.destroy());
  server.next("GET calls", refuse(502));
  server.next("GET calls", answer(OPEN));
  server.next("GET calls", (_, response) => response.destroy());
  server.next("GET calls", answer(OPEN));
  server.next("GET calls", answer({ ...OPEN, state: "done", outcome: { status: "success", title: "", output: "at last" } }));
  const executing = scripted(server).execute("client_laptop_tool", { a: 1 }, { timeout: 5, requestID: "mine" });
  assert.deepEqual(await within("the result", executing), { status: "success", title: "", output: "at last" });
  assert.ok(performance.now() >= wanted, "the server was not left alone for as long as it asked");
  const made = server.asked.all.filter(({ what }) => what === "POST execute");
  const body = { toolID: "client_laptop_tool", input: { a: 1 }, timeout: 5, requestID: "mine", wait: false };
  assert.deepEqual(made.map(({ body }) => body), [body, body, body]);
  const followed = server.asked.all.slice(3);
  assert.deepEqual(lines(followed), ["GET calls 1000", "GET calls 1000", "GET calls 60000", "GET calls 60000", "GET calls 60000"]);
});

test("what does not pass by itself is told at once, and whether the tool may have run", async (test) => {
  const server = await ScriptedServer.start(test);
  const client = scripted(server);
  server.next("POST execute", refuse(429, { "retry-after": "1" }));
  await assert.rejects(client.execute("client_laptop_tool"), { status: 429, retryAfter: 1000 });
  server.next("GET calls", refuse(404));
  await assert.rejects(client.execute("client_laptop_tool"), { status: 404 });
  server.next("GET calls", answer({ ...OPEN, mayHaveRun: true, outcome: { status: "disconnected", error: "Client disconnected" } }));
  await assert.rejects(client.execute("client_laptop_tool"), { status: 502, details: { requestID: "mine", mayHaveRun: true } });
  assert.equal(server.asked.all.length, 5);
});

test("what a proxy says in place of a server that has taken the call is no end of it", async (test) => {
  const server = await ScriptedServer.start(test);
  const client = scripted(server);
  server.next("POST execute", answer(MAINTENANCE));
  await assert.rejects(client.execute("client_laptop_tool"), { kind: "unexpected" });
  server.next("POST execute", page(404));
  await assert.rejects(client.execute("client_laptop_tool"), { status: 404 });
  server.next("GET calls", page(404));
  server.next("GET calls", page(200));
  server.next("GET calls", answer({ ...OPEN, state: "done", outcome: { status: "success", title: "", output: "at last" } }));
  const result = await within("the result", client.execute("client_laptop_tool"));
  assert.deepEqual(result, { status: "success", title: "", output: "at last" });
  // The server was there: the next call is made when it is back.
  server.next("POST execute", page(404));
  server.next("POST execute", answer(MAINTENANCE));
  server.next("GET calls", answer({ ...OPEN, state: "done", outcome: { status: "success", title: "", output: "again" } }));
  assert.deepEqual(await within("the result", client.execute("client_laptop_tool")), { status: "success", title: "", output: "again" });
});

test("an abort while the call is being made cancels it after that", async (test) => {
  const server = await ScriptedServer.start(test);
  const made = deferred();
  server.next("POST execute", (asked, response) => void made.promise.then(() => answer({ requestID: "mine" })(asked, response)));
  const stop = new AbortController();
  const executing = assert.rejects(
    scripted(server).execute("client_laptop_tool", {}, { requestID: "mine", signal: stop.signal }),
    new Error("enough"),
  );
  await server.asked.count("it is being made", 1);
  stop.abort(new Error("enough"));
  await settle();
  assert.deepEqual(lines(server.asked.all), ["POST execute"]);
  made.resolve();
  await within("the end", executing);
  assert.deepEqual(lines(server.asked.all), ["POST execute", "POST cancel"]);
  assert.deepEqual(server.asked.all[1]?.body, { requestID: "mine" });
});
