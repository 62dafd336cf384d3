// The manager against a server that fails just so.

import assert from "node:assert/strict";
import type { TestContext } from "node:test";

import { HandbackError } from "../../src/http.js";
import type { CallEvent, StateEvent } from "../../src/tools/events.js";
import { ClientToolsManager } from "../../src/tools/node.js";
import type { ClientToolsOptions } from "../../src/tools/options.js";
import { deferred, Log, test, within } from "../support/patience.js";
import { answer, call, event, MAINTENANCE, page, refuse, ScriptedServer } from "../support/scripted.js";

const FAST = { first: 5, longest: 20 };
const TOOL = { description: "" };

async function setUp(context: TestContext, options: ClientToolsOptions = {}) {
  const server = await ScriptedServer.start(context);
  const manager = new ClientToolsManager("laptop", server.url, { reconnect: FAST, ...options });
  const states = new Log<StateEvent>();
  const calls = new Log<CallEvent>();
  manager.on("state", (state) => states.add(state));
  manager.on("call", (call) => calls.add(call));
  server.guest(manager);
  return { server, manager, states, calls };
}

const names = (states: Log<StateEvent>) => states.all.map(({ state }) => state);

/** The bodies of all requests of a kind. */
function bodies(server: ScriptedServer, what: string): unknown[] {
  return server.asked.all.filter((asked) => asked.what === what).map(({ body }) => body);
}

test("the stream is opened first, then all tools are registered, then it is open", async (context) => {
  const { server, manager, states } = await setUp(context, { grace: 7000 });
  await manager.register("a", TOOL, () => "");
  await manager.register("b", { description: "B", effect: "read", version: "2" }, () => "");
  assert.equal(server.asked.all.length, 0, "nobody is there to confirm it");
  assert.equal(manager.state, "closed");
  await manager.connect("s1");
  assert.deepEqual(
    server.asked.all.map(({ what }) => what),
    ["GET pending", "POST register"],
  );
  const tools = [
    { id: "a", description: "" },
    { id: "b", description: "B", effect: "read", version: "2" },
  ];
  assert.deepEqual(bodies(server, "POST register"), [{ clientID: "laptop", sessionID: "s1", tools }]);
  const [{ query } = { query: new URLSearchParams() }] = server.asked.all;
  assert.match(query.get("connection") ?? "", /^[0-9a-f]{32}$/);
  assert.equal(query.get("grace"), "7000");
  assert.deepEqual(names(states), ["connecting", "open"]);
});

test("the same session again is no news; another one is offered the tools too, also after a loss", async (context) => {
  const { server, manager, states } = await setUp(context);
  await manager.register("a", TOOL, () => "");
  await manager.connect();
  await manager.connect();
  await manager.connect("s1");
  await manager.register("b", TOOL, () => "");
  const scopes = () =>
    (bodies(server, "POST register") as { sessionID?: string; tools: { id: string }[] }[]).map(
      ({ sessionID = "all", tools }) => `${sessionID}: ${tools.map(({ id }) => id).join(" ")}`,
    );
  assert.deepEqual(scopes(), ["all: a", "s1: a", "all: b", "s1: b"]);
  server.streams.all[0]?.destroy();
  await states.until("it is lost", ({ state }) => state === "retrying");
  await within("it is back", manager.connect("s1"));
  assert.deepEqual(scopes().slice(4), ["all: a b", "s1: a b"]);
});

test("a session that refuses the tools does not end the others", async (context) => {
  const { server, manager } = await setUp(context);
  await manager.connect();
  server.next("POST register", refuse(403));
  await assert.rejects(manager.connect("theirs"), (error) => error instanceof HandbackError && error.status === 403);
  assert.equal(manager.state, "open");
});

test("what is refused at the first connection makes it reject, and it may be tried again", async (context) => {
  const { server, manager, states } = await setUp(context);
  server.next("GET pending", refuse(400));
  await assert.rejects(manager.connect(), (error) => error instanceof HandbackError && error.status === 400);
  server.next("POST register", refuse(409));
  await assert.rejects(manager.connect(), (error) => error instanceof HandbackError && error.status === 409);
  await manager.connect();
  assert.deepEqual(names(states), ["connecting", "closed", "connecting", "closed", "connecting", "open"]);
});

test("what passes is tried again, with the patience that the server asks for", async (context) => {
  const { server, manager, states } = await setUp(context);
  server.next("GET pending", refuse(503, { "retry-after": "0.1" }));
  server.next("POST register", refuse(429));
  const began = performance.now();
  await manager.connect();
  assert.ok(performance.now() - began >= 100);
  assert.deepEqual(names(states), ["connecting", "retrying", "retrying", "open"]);
  assert.deepEqual(
    states.all.map(({ error }) => error instanceof HandbackError && error.status),
    [false, 503, 429, false],
  );
});

test("what a proxy says in place of the server is no refusal of a result, nor of a tool", async (context) => {
  const { server, manager, calls } = await setUp(context);
  await manager.register("tool", TOOL, () => "done");
  await manager.connect();
  for (const status of [404, 405, 200, 302]) server.next("POST result", page(status));
  server.next("POST result", answer(MAINTENANCE));
  server.streams.all[0]?.write(event("tool-request", call("a")));
  await server.asked.until("the result is sent again and again", () => server.count("POST result") === 6);
  server.next("POST register", page(404));
  await within("it is confirmed", manager.register("other", TOOL, () => ""));
  assert.deepEqual(calls.all.map(({ type }) => type), ["started", "finished"]);
  assert.equal(server.count("POST result"), 6);
});

test("only so many tries in a row are made, if somebody says how many", async (context) => {
  const { server, manager, states } = await setUp(context, { maxReconnectAttempts: 2 });
  for (let count = 0; count < 9; count += 1) server.next("GET pending", refuse(503));
  await assert.rejects(manager.connect(), (error) => error instanceof HandbackError && error.status === 503);
  assert.deepEqual(names(states), ["connecting", "retrying", "retrying", "closed"]);
  assert.equal(server.count("GET pending"), 3);
});

test("somebody hears of the first failure: a listener, or whoever reads the console", async (context) => {
  const warn = context.mock.method(console, "warn", () => {});
  const server = await ScriptedServer.start(context);
  const manager = new ClientToolsManager("laptop", server.url, { reconnect: FAST });
  server.guest(manager);
  server.next("GET pending", refuse(503));
  server.next("GET pending", refuse(503));
  await manager.connect();
  assert.deepEqual(
    warn.mock.calls.map(({ arguments: [text] }) => /trying again until it works: refused with 503/.test(String(text))),
    [true],
  );
});

test("on return the server is told the last event, once it was taken, and nothing is run twice", async (context) => {
  const { server, manager, states, calls } = await setUp(context);
  const gate = deferred<string>();
  let runs = 0;
  await manager.register("tool", TOOL, () => (runs++, gate.promise));
  await manager.connect();
  const [first] = await server.streams.count("a stream", 1);
  first?.write(event("tool-request", call("a"), "e-1") + event("ping", "") + event("tool-request", "{", "e-2"));
  first?.write('event: tool-request\ndata: {"cut":');
  await calls.until("it is started", ({ type }) => type === "started");
  first?.destroy();
  const [, second] = await server.streams.count("another stream", 2);
  assert.deepEqual(
    server.asked.all.filter(({ what }) => what === "GET pending").map(({ headers }) => headers["last-event-id"]),
    [undefined, "e-2"],
  );
  second?.write(event("tool-request", call("a", { attempt: 2 }), "f-1"));
  await states.until("it is open again", () => names(states).filter((state) => state === "open").length === 2);
  gate.resolve("once");
  await server.asked.until("the result", ({ what }) => what === "POST result");
  await manager.disconnect();
  assert.equal(runs, 1);
  assert.deepEqual(bodies(server, "POST result"), [{ requestID: "a", result: { status: "success", output: "once" } }]);
});

test("a call that arrives before its tool is confirmed is run", async (context) => {
  const { server, manager } = await setUp(context);
  await manager.connect();
  const confirmed = deferred();
  server.next("POST register", (_, response) => {
    server.streams.all[0]?.write(event("tool-request", call("early")));
    void confirmed.promise.then(() => answer({ registered: [] })(_, response));
  });
  let isConfirmed = false;
  const registering = manager.register("tool", TOOL, () => "ready").then(() => (isConfirmed = true));
  const { body } = await server.asked.until("the result", ({ what }) => what === "POST result");
  assert.deepEqual(
    { body, isConfirmed },
    { body: { requestID: "early", result: { status: "success", output: "ready" } }, isConfirmed: false },
  );
  confirmed.resolve();
  await registering;
});

test("a change that the connection interrupts is made on the next one, and its tool is there meanwhile", async (context) => {
  const { server, manager } = await setUp(context);
  await manager.connect();
  server.next("POST register", (_, response) => {
    server.streams.all[0]?.destroy();
    server.next("POST register", (asked, next) => {
      server.streams.all[1]?.write(event("tool-request", call("early")));
      void server.asked.until("the result", ({ what }) => what === "POST result").then(() => answer({})(asked, next));
    });
    response.on("error", () => {});
  });
  await within(
    "it is confirmed",
    manager.register("tool", TOOL, () => "ready"),
  );
  assert.deepEqual(bodies(server, "POST result"), [
    { requestID: "early", result: { status: "success", output: "ready" } },
  ]);
  const registered = (bodies(server, "POST register") as { tools: { id: string }[] }[]).map(
    ({ tools }) => tools.length,
  );
  assert.deepEqual(registered, [0, 1, 0, 1], "it is not part of what was confirmed before");
});

test("a tool that one session takes and another one refuses is as it was before", async (context) => {
  const { server, manager } = await setUp(context);
  await manager.connect("s1");
  await manager.connect("s2");
  server.next("POST register", answer({}));
  server.next("POST register", refuse(409));
  await assert.rejects(manager.register("new", TOOL, () => ""));
  assert.deepEqual(bodies(server, "POST unregister"), [{ clientID: "laptop", toolIDs: ["client_laptop_new"] }]);
});

test("a silent stream is dead", async (context) => {
  const { server, manager, states } = await setUp(context, { silence: 50 });
  await manager.connect();
  await server.streams.count("another stream", 2);
  assert.match(states.all.find(({ error }) => error)?.error?.message ?? "", /silent/);
});

test("disconnecting ends a connection that is being opened, and what waits for it", async (context) => {
  const { server, manager, states } = await setUp(context);
  server.next("GET pending", () => {});
  const connecting = assert.rejects(
    manager.connect(),
    (error) => error instanceof HandbackError && error.kind === "closed",
  );
  const registering = assert.rejects(
    manager.register("a", TOOL, () => ""),
    { message: "disconnect() was called" },
  );
  await server.asked.count("it asks", 1);
  await manager.disconnect();
  await Promise.all([connecting, registering]);
  assert.deepEqual(names(states), ["connecting", "closed"]);
  assert.equal(server.count("POST disconnect"), 0, "the server does not know of a connection");
  await manager.connect();
  assert.deepEqual(bodies(server, "POST register"), [{ clientID: "laptop", tools: [] }]);
});

test("a tool that the server has not confirmed when it disconnects is not kept", async (context) => {
  const { server, manager } = await setUp(context);
  await manager.register("old", TOOL, () => "");
  await manager.connect();
  server.next("POST register", () => {});
  const registering = assert.rejects(
    manager.register("new", TOOL, () => ""),
    { message: "disconnect() was called" },
  );
  await server.asked.count("it is being registered", 3);
  await Promise.all([registering, manager.disconnect()]);
  await manager.connect();
  const last = bodies(server, "POST register").at(-1) as { tools: { id: string }[] };
  assert.deepEqual(
    last.tools.map(({ id }) => id),
    ["old"],
  );
});

test("disconnecting while it waits for the next try does not wait", async (context) => {
  const { server, manager, states } = await setUp(context, { reconnect: { first: 60_000, longest: 60_000 } });
  await manager.connect();
  server.streams.all[0]?.destroy();
  await states.until("it is lost", ({ state }) => state === "retrying");
  await within("goodbye", manager.disconnect());
  assert.deepEqual(names(states), ["connecting", "open", "retrying", "closed"]);
  assert.equal(server.count("POST disconnect"), 1);
});

test("connecting while it disconnects comes afterwards, and the last word counts", async (context) => {
  const { server, manager, states } = await setUp(context);
  await manager.connect();
  const leaving = manager.disconnect();
  const coming = manager.connect("s1");
  await leaving;
  await coming;
  assert.deepEqual(names(states), ["connecting", "open", "closed", "connecting", "open"]);
  const again = manager.disconnect();
  const refused = assert.rejects(manager.connect(), { message: "disconnect() was called" });
  const third = manager.disconnect();
  await Promise.all([again, refused, third]);
  assert.equal(manager.state, "closed");
  // Another name each time: a goodbye that arrives late must not end the next connection.
  const connections = server.asked.all
    .filter(({ what }) => what === "GET pending")
    .map(({ query }) => query.get("connection"));
  assert.equal(new Set(connections).size, 2);
  assert.deepEqual(
    bodies(server, "POST disconnect"),
    connections.map((connection) => ({ clientID: "laptop", connection })),
  );
});

test("a goodbye that nobody takes does not fail", async (context) => {
  const { server, manager } = await setUp(context);
  await manager.connect();
  server.next("POST disconnect", refuse(500));
  await manager.disconnect();
  await manager.disconnect();
  assert.equal(manager.state, "closed");
});

test("a token that was refused is final if no other comes; a new one is used", async (context) => {
  const tokens = ["old", "old", "new"];
  const { server, manager, states } = await setUp(context, { token: async () => tokens[0] ?? "" });
  server.next("GET pending", (asked, response) => {
    tokens.splice(0, 2);
    refuse(401)(asked, response);
  });
  await manager.connect();
  const used = () => server.asked.all.map(({ headers }) => headers.authorization);
  assert.deepEqual(used(), ["Bearer old", "Bearer new", "Bearer new"]);
  server.next("GET pending", refuse(401));
  server.next("GET pending", refuse(401));
  server.streams.all[0]?.destroy();
  const { error } = await states.until("it is over", ({ state }) => state === "closed");
  assert.ok(error instanceof HandbackError && error.status === 401);
});

test("a token that cannot be had is asked for again", async (context) => {
  let count = 0;
  const token = () => {
    if (++count === 1) throw new Error("the login service is down");
    return "token";
  };
  const { manager, states } = await setUp(context, { token });
  await manager.connect();
  assert.match(states.all[1]?.error?.message ?? "", /there is no token: the login service is down/);
});

test("a listener that throws breaks nothing, and may stop listening", async (context) => {
  const error = context.mock.method(console, "error", () => {});
  const { manager, states } = await setUp(context);
  const stop = manager.on("state", () => {
    throw new Error("mine");
  });
  const stopLater = manager.on("state", async () => {
    throw new Error("mine, later");
  });
  await manager.connect();
  stop();
  stopLater();
  await manager.disconnect();
  assert.deepEqual(names(states), ["connecting", "open", "closed"]);
  assert.equal(error.mock.callCount(), 4);
});

test("a schema that cannot be written as JSON Schema is refused before anybody hears of it", async (context) => {
  const { manager } = await setUp(context);
  const schema = { "~standard": { version: 1, vendor: "own", validate: (value: unknown) => ({ value }) } } as const;
  await assert.rejects(
    manager.register("a", { description: "", parameters: schema }, () => ""),
    /the schema of the tool "a" \(own\) cannot be written as JSON Schema: give .* as `jsonSchema`/,
  );
});

test("a listener that disconnects while it is told of the connection ends what connects", async (context) => {
  const { server, manager } = await setUp(context);
  const stop = manager.on("state", () => void manager.disconnect());
  await assert.rejects(within("it is over", manager.connect()), { message: "disconnect() was called" });
  stop();
  await within("another one", manager.connect("s"));
  assert.equal(manager.state, "open");
  assert.deepEqual(bodies(server, "POST register"), [{ clientID: "laptop", sessionID: "s", tools: [] }]);
});

test("a handler that disconnects or connects when it is told to stop gets what it asks for", async (context) => {
  const { server, manager, states } = await setUp(context);
  const handled = deferred<Promise<unknown>>();
  await manager.register("tool", TOOL, (_, { signal }) => {
    return new Promise((resolve) => {
      signal.addEventListener("abort", () => {
        handled.resolve(Promise.all([manager.disconnect(), manager.connect("again").catch(String)]));
        resolve("stopped");
      });
    });
  });
  await manager.connect();
  server.streams.all[0]?.write(event("tool-request", call("a")));
  await new Promise<void>((started) => manager.on("call", ({ type }) => type === "started" && started()));
  await within("goodbye", manager.disconnect());
  await within("both", handled.promise.then((both) => both));
  assert.equal(server.count("POST disconnect"), 1);
  assert.deepEqual(names(states), ["connecting", "open", "closed", "connecting", "open"]);
});

test("a tool that one session takes and another does not is taken back, once", async (context) => {
  const { server, manager } = await setUp(context);
  await manager.register("a", { description: "old" }, () => "");
  await manager.connect("s1");
  await manager.connect("s2");
  const said = () =>
    (bodies(server, "POST register") as { sessionID: string; tools: { description: string }[] }[]).map(
      ({ sessionID, tools }) => `${sessionID}: ${tools.map(({ description }) => description).join(" ")}`,
    );
  for (let count = 0; count < 50; count += 1) {
    server.next("POST register", ({ body }, response) => {
      const isTaken = (body as { sessionID: string }).sessionID === "s1";
      (isTaken ? answer({ registered: [] }) : refuse(403))({} as never, response);
    });
  }
  const refused = manager.register("a", { description: "new" }, () => "");
  await assert.rejects(within("it is refused", refused), /refused with 403/);
  assert.deepEqual(said(), ["s1: old", "s2: old", "s1: new", "s2: new", "s1: old"]);
  assert.equal(manager.state, "open");
});

test("a timeout that is undefined is the manager's", async (context) => {
  const { server, manager } = await setUp(context, { timeout: 5000 });
  await manager.register("a", { description: "", timeout: undefined }, () => "");
  await manager.register("b", { description: "", timeout: 7000 }, () => "");
  await manager.connect();
  const tools = [
    { id: "a", description: "", timeout: 5000 },
    { id: "b", description: "", timeout: 7000 },
  ];
  assert.deepEqual(bodies(server, "POST register"), [{ clientID: "laptop", tools }]);
});
