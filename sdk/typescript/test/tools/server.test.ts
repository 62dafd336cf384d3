// The manager against a real server, over both transports.

import assert from "node:assert/strict";

import { HandbackError } from "../../src/http.js";
import type { CallEvent, StateEvent } from "../../src/tools/events.js";
import { ClientToolsManager } from "../../src/tools/node.js";
import type { ClientToolsOptions } from "../../src/tools/options.js";
import type { ToolCall } from "../../src/tools/tool.js";
import { deferred, Log, test, within } from "../support/patience.js";
import { Server } from "../support/server.js";
import { until } from "../support/until.js";

const FAST = { reconnect: { first: 20, longest: 100 } };

/** A manager that is disconnected when the test is over, and what it tells. */
function manage(server: Server, options: ClientToolsOptions) {
  const manager = new ClientToolsManager("laptop", server.url, { ...FAST, ...options });
  const states = new Log<StateEvent>();
  const calls = new Log<CallEvent>();
  manager.on("state", (event) => states.add(event));
  manager.on("call", (event) => calls.add(event));
  server.guest(manager);
  return { manager, states, calls };
}

const story = (states: Log<StateEvent>) => states.all.map(({ state }) => state);

const GREET = {
  description: "Greets somebody",
  parameters: { type: "object", properties: { name: { type: "string" } }, required: ["name"] },
} as const;

for (const useWebSocket of [false, true]) {
  const over = useWebSocket ? "WebSocket" : "SSE";
  const options = { useWebSocket };

  test(`${over}: a tool is called, typed, and its result comes back whole`, async (context) => {
    const server = await Server.start(context);
    const { manager, states, calls } = manage(server, options);
    const invocations: Omit<ToolCall, "deadline" | "signal">[] = [];
    await manager.register("greet", GREET, ({ name }, { deadline, signal, ...call }) => {
      assert.ok(deadline.getTime() > Date.now() && !signal.aborted);
      invocations.push(call);
      return { title: "Greeting", output: `Hello, ${name}!`, metadata: { length: name.length }, more: 1 } as object;
    });
    await manager.connect();
    const result = await server.execute("client_laptop_greet", {
      requestID: "r1",
      sessionID: "s1",
      messageID: "m1",
      callID: "c1",
      input: { name: "Ada" },
    });
    assert.deepEqual(result, {
      status: 200,
      body: { status: "success", title: "Greeting", output: "Hello, Ada!", metadata: { length: 3 } },
    });
    const facts = {
      tool: "client_laptop_greet",
      requestID: "r1",
      sessionID: "s1",
      messageID: "m1",
      callID: "c1",
      attempt: 1,
    };
    assert.deepEqual(invocations, [facts]);
    assert.deepEqual(
      calls.all.map((event) => ({ ...event, ...("elapsed" in event && { elapsed: event.elapsed >= 0 }) })),
      [
        { ...facts, type: "started" },
        { ...facts, type: "finished", elapsed: true },
      ],
    );
    assert.deepEqual(states.all, [{ state: "connecting" }, { state: "open" }]);
  });

  test(`${over}: what goes wrong in a handler is an error result`, async (context) => {
    const server = await Server.start(context);
    const { manager } = manage(server, options);
    const any = { description: "" };
    await manager.register("throws", any, () => {
      throw new RangeError("the disk is full");
    });
    await manager.register("bigint", any, () => ({ metadata: { size: 10n } }));
    await manager.register("number", any, () => ({ output: 5 }) as unknown as string);
    await manager.register("large", any, () => "x".repeat(5 * 1024 * 1024));
    await manager.connect();
    const error = async (id: string) => {
      const { body } = await server.execute(`client_laptop_${id}`);
      const { status, error = "" } = body as { status: string; error?: string };
      return `${status}: ${error}`;
    };
    assert.equal(await error("throws"), "error: the disk is full");
    assert.match(await error("bigint"), /^error: the tool ran, but its result cannot be written as JSON: .*BigInt/);
    assert.match(await error("number"), /^error: the tool ran, but its result was not accepted: .*output/);
    assert.match(await error("large"), /^error: the tool ran, but its result was not accepted: .*(413|TOO_LARGE)/);
    // The connection has survived it all.
    assert.equal(await error("throws"), "error: the disk is full");
  });

  test(`${over}: a cancelled call fires the signal with the reason, and nothing is sent`, async (context) => {
    const server = await Server.start(context);
    const { manager, calls } = manage(server, options);
    const reasons = new Log<unknown>();
    await manager.register("wait", { description: "" }, (_, { signal }) => {
      return new Promise((resolve) => {
        signal.addEventListener("abort", () => {
          reasons.add(signal.reason);
          resolve("too late");
        });
      });
    });
    await manager.connect();
    const execution = server.execute("client_laptop_wait", { requestID: "r1" });
    await calls.until("the call starts", ({ type }) => type === "started");
    await server.cancel("r1", "changed my mind");
    assert.equal((await execution).status, 409);
    const [reason] = await reasons.count("the signal fires", 1);
    assert.ok(reason instanceof DOMException);
    assert.deepEqual([reason.name, reason.message], ["AbortError", "changed my mind"]);
    const timed = server.execute("client_laptop_wait", { requestID: "r2", timeout: 50 });
    assert.equal((await timed).status, 504);
    await reasons.count("the signal fires again", 2);
    assert.deepEqual(
      calls.all.map(({ type, requestID }) => `${type} ${requestID}`),
      ["started r1", "cancelled r1", "started r2", "cancelled r2"],
    );
  });

  test(`${over}: what a handler gives after the deadline is kept by the server`, async (context) => {
    const server = await Server.start(context);
    const { manager, calls } = manage(server, options);
    await manager.register("write", { description: "" }, (_, { signal }) => {
      return new Promise((resolve) => signal.addEventListener("abort", () => resolve("written all the same")));
    });
    await manager.connect();
    const { status } = await server.execute("client_laptop_write", { requestID: "r1", timeout: 50 });
    assert.equal(status, 504);
    const late = async () => (await server.get<{ lateResult?: { output?: string } }>("calls/r1")).lateResult?.output;
    await until("it is kept", async () => (await late()) === "written all the same");
    assert.deepEqual(calls.all.map(({ type }) => type), ["started", "cancelled"]);
  });

  test(`${over}: registering and unregistering is confirmed or refused by the server`, async (context) => {
    const server = await Server.start(context);
    const { manager } = manage(server, { ...options, timeout: 1234 });
    await manager.connect("s1");
    const tools = () => server.get<{ id: string; timeout?: number }[]>("tools/laptop");
    await manager.register("greet", GREET, () => "hello");
    await manager.register("slow", { description: "", timeout: 99 }, () => "done");
    assert.deepEqual(
      (await tools()).map(({ id, timeout }) => [id, timeout]),
      [
        ["client_laptop_greet", 1234],
        ["client_laptop_slow", 99],
      ],
    );
    await assert.rejects(
      manager.register("bad", { description: "", parameters: { type: "nonsense" } }, () => ""),
      (error) => error instanceof HandbackError && error.status === 400 && error.message.includes("bad"),
    );
    const bad = { type: "nonsense" };
    await assert.rejects(manager.register("greet", { description: "", parameters: bad }, () => "worse"));
    assert.deepEqual((await server.execute("client_laptop_greet", { input: { name: "" } })).body, {
      status: "success",
      title: "",
      output: "hello",
    });
    await manager.unregister("greet");
    assert.deepEqual(
      (await tools()).map(({ id }) => id),
      ["client_laptop_slow"],
    );
  });

  test(`${over}: a server restart is survived, and a call that it interrupts ends`, async (context) => {
    const server = await Server.start(context);
    const { manager, states, calls } = manage(server, options);
    const gate = deferred<string>();
    await manager.register("wait", { description: "" }, () => gate.promise);
    await manager.connect();
    await manager.connect("s1");
    const lost = server.execute("client_laptop_wait", { requestID: "r1" }).catch(() => "the server is gone");
    await calls.until("the call starts", ({ type }) => type === "started");
    await server.stop();
    assert.equal(await lost, "the server is gone");
    await states.until("it is lost", ({ state }) => state === "retrying");
    const registered = manager.register("late", { description: "" }, () => "better late");
    await server.restart();
    await within("the tool that was registered meanwhile is confirmed", registered);
    gate.resolve("never mind");
    const { reason } = (await calls.until("it cannot be delivered", ({ type }) => type === "undelivered")) as {
      reason: string;
    };
    assert.match(reason, /Unknown request ID|NOT_FOUND/);
    const { body } = await server.execute("client_laptop_wait", { sessionID: "s1" });
    assert.deepEqual(body, { status: "success", title: "", output: "never mind" });
    const late = await server.execute("client_laptop_late");
    assert.deepEqual(late.body, { status: "success", title: "", output: "better late" });
    assert.deepEqual([...new Set(story(states))].sort(), ["connecting", "open", "retrying"]);
  });

  test(`${over}: refused credentials end it at once`, async (context) => {
    const config = `[auth]\nkeys = ["${"0".repeat(64)}"]\n`;
    const server = await Server.start(context, { config });
    const { manager, states } = manage(server, options);
    await assert.rejects(manager.connect(), (error) => error instanceof HandbackError && error.status === 401);
    assert.deepEqual(story(states), ["connecting", "closed"]);
    assert.equal(manager.error, states.all.at(-1)?.error);
  });

  test(`${over}: goodbye takes the tools away at once, unless another tab is there`, async (context) => {
    const server = await Server.start(context);
    const first = manage(server, options).manager;
    const second = manage(server, options).manager;
    await Promise.all([first, second].map((manager) => manager.register("greet", GREET, () => "hello")));
    await first.connect();
    await second.connect();
    const ids = async () => (await server.get<{ id: string }[]>("tools/laptop")).map(({ id }) => id);
    await within("the first goodbye", first.disconnect());
    assert.deepEqual(await ids(), ["client_laptop_greet"]);
    await within("the second goodbye", second.disconnect());
    assert.deepEqual(await ids(), []);
    assert.equal(second.state, "closed");
    await second.connect();
    assert.deepEqual(await ids(), ["client_laptop_greet"]);
  });

  test(`${over}: disconnecting lets a handler say its last words`, async (context) => {
    const server = await Server.start(context);
    const { manager, calls } = manage(server, options);
    await manager.register("wait", { description: "" }, (_, { signal }) => {
      return new Promise((_resolve, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
    });
    await manager.connect();
    const execution = server.execute("client_laptop_wait");
    await calls.until("the call starts", ({ type }) => type === "started");
    await within("goodbye", manager.disconnect());
    assert.deepEqual((await execution).body, { status: "error", error: "this client disconnects" });
  });
}
