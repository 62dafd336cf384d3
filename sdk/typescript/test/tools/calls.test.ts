// Every decision about a call, with time and the server in the test's hands.

import assert from "node:assert/strict";
import type { TestContext } from "node:test";

import { HandbackError } from "../../src/http.js";
import { Calls, type ToolRequest } from "../../src/tools/calls.js";
import type { CallEvent } from "../../src/tools/events.js";
import type { Journal } from "../../src/tools/journal/journal.js";
import { memoryJournal } from "../../src/tools/journal/memory.js";
import type { ToolResult } from "../../src/tools/result.js";
import { ServerClock } from "../../src/tools/time.js";
import { makeTool, type Tool, type ToolHandler } from "../../src/tools/tool.js";
import { unlessAborted } from "../../src/waiting.js";
import { FakeTime, settle } from "../support/fake-time.js";
import { deferred, test } from "../support/patience.js";

type Handler = ToolHandler<Record<string, unknown>>;
type Sent = { requestID: string; result: ToolResult };

/** Calls whose results go to `sent`, answered by `answer`. */
function setUp(context: TestContext, { handler = () => "done", journal = memoryJournal() }: Partial<Setup> = {}) {
  const time = new FakeTime(context);
  const clock = new ServerClock();
  clock.read("Sun, 15 Nov 2026 12:00:00 GMT");
  const sent: Sent[] = [];
  const told: string[] = [];
  const tool: Tool = makeTool("tool", { description: "" }, handler);
  const server = { answer: async (_: Sent): Promise<void> => undefined };
  const calls = new Calls({
    clientID: "laptop",
    journal,
    clock,
    find: (id) => (id === "client_laptop_tool" ? tool : undefined),
    send: (requestID, result, signal) => {
      sent.push({ requestID, result });
      return unlessAborted(server.answer({ requestID, result }), signal);
    },
    mayPass: (error) => error instanceof HandbackError && error.transient,
    tell: (event) => told.push(line(event)),
  });
  return { time, calls, sent, told, server };
}

interface Setup {
  handler: Handler;
  journal: Journal;
}

function line(event: CallEvent): string {
  const detail = "reason" in event ? event.reason : "error" in event ? event.error : undefined;
  return [event.type, event.requestID, detail].filter((word) => word !== undefined).join(" ");
}

function request(requestID: string, more: Partial<ToolRequest> = {}): ToolRequest {
  return {
    type: "client-tool-request",
    requestID,
    sessionID: "s",
    messageID: "m",
    callID: "c",
    tool: "client_laptop_tool",
    input: {},
    deadline: "2026-11-15T12:00:30Z",
    effect: "write",
    attempt: 1,
    ...more,
  };
}

const success = (output: string): ToolResult => ({ status: "success", output }) as ToolResult;
const failure = (error: string): ToolResult => ({ status: "error", error });
const UNKNOWN =
  "the outcome is unknown: the call was given to this client before, and may have taken effect; it was not run again";

const NOT_RUN = "the call was not run, since it could not be known later that it was";

test("a call that comes again while it runs is not run again, and its result is sent once", async (context) => {
  const gate = deferred<string>();
  let runs = 0;
  const { calls, sent } = setUp(context, { handler: () => (runs++, gate.promise) });
  calls.take(request("a"));
  await settle();
  calls.take(request("a", { attempt: 2 }));
  gate.resolve("once");
  await settle();
  assert.deepEqual({ runs, sent }, { runs: 1, sent: [{ requestID: "a", result: success("once") }] });
});

test("a call that comes again after it ran is answered with its result", async (context) => {
  let runs = 0;
  const { calls, sent, told } = setUp(context, { handler: () => `run ${++runs}` });
  calls.take(request("a"));
  await settle();
  calls.take(request("a", { attempt: 2 }));
  await settle();
  const answer = { requestID: "a", result: success("run 1") };
  assert.deepEqual({ runs, sent }, { runs: 1, sent: [answer, answer] });
  assert.deepEqual(told, ["started a", "finished a", "answered a"]);
});

test("a write call that an earlier process was given has an unknown outcome; others are run", async (context) => {
  const { calls, sent } = setUp(context);
  calls.take(request("write", { attempt: 2 }));
  calls.take(request("read", { attempt: 2, effect: "read" }));
  calls.take(request("idempotent", { attempt: 2, effect: "idempotent" }));
  await settle();
  assert.deepEqual(
    sent.sort((a, b) => a.requestID.localeCompare(b.requestID)),
    [
      { requestID: "idempotent", result: success("done") },
      { requestID: "read", result: success("done") },
      { requestID: "write", result: failure(UNKNOWN) },
    ],
  );
});

test("a tool that is not there is an error, unless the result is known", async (context) => {
  const { calls, sent, told } = setUp(context);
  calls.take(request("a", { tool: "client_laptop_other" }));
  calls.take(request("b"));
  await settle();
  calls.take(request("b", { tool: "client_laptop_other", attempt: 2 }));
  await settle();
  assert.deepEqual(sent, [
    { requestID: "a", result: failure("this client does not offer client_laptop_other") },
    { requestID: "b", result: success("done") },
    { requestID: "b", result: success("done") },
  ]);
  assert.equal(told[0], "answered a this client does not offer client_laptop_other");
});

test("a handler that never ends loses its place, and holds nothing", async (context) => {
  const { time, calls, sent, told } = setUp(context, { handler: () => new Promise(() => {}) });
  calls.take(request("a"));
  await time.pass(30_000);
  assert.deepEqual(told, ["started a", "cancelled a the call has expired"]);
  await time.pass(4999);
  calls.take(request("a", { deadline: "2026-11-15T12:10:00Z", attempt: 2 }));
  await settle();
  assert.deepEqual(sent, [], "it is still being waited for");
  await time.pass(1);
  calls.take(request("a", { deadline: "2026-11-15T12:10:00Z", attempt: 2 }));
  await settle();
  assert.deepEqual(sent, [{ requestID: "a", result: failure(UNKNOWN) }]);
});

test("at most 1,024 calls run; one more is answered with an error", async (context) => {
  const { calls, sent } = setUp(context, { handler: () => new Promise(() => {}) });
  for (let index = 0; index < 1024; index += 1) calls.take(request(`r${index}`));
  await settle();
  assert.deepEqual(sent, []);
  calls.take(request("too many"));
  await settle();
  const result = failure("this client runs too many calls already");
  assert.deepEqual(sent, [{ requestID: "too many", result }]);
});

test("a call that is late is answered once and not run", async (context) => {
  const { calls, sent, told } = setUp(context);
  calls.take(request("a", { deadline: "2026-11-15T11:59:59Z" }));
  await settle();
  const error = "the call reached the client after its deadline";
  assert.deepEqual(sent, [{ requestID: "a", result: failure(error) }]);
  assert.deepEqual(told, [`answered a ${error}`]);
});

test("a result is sent again until the server has it, and heeds its wish for patience", async (context) => {
  const { time, calls, sent, told, server } = setUp(context);
  const failures = [
    new HandbackError("unreachable", "nobody there"),
    new HandbackError("refused", "busy", { status: 503, retryAfter: 10_000 }),
  ];
  server.answer = async () => {
    const error = failures.shift();
    if (error) throw error;
  };
  calls.take(request("a"));
  await settle();
  assert.equal(sent.length, 1);
  await time.pass(200);
  assert.equal(sent.length, 2);
  await time.pass(9999);
  assert.equal(sent.length, 2);
  await time.pass(1);
  assert.equal(sent.length, 3);
  await time.pass(60_000);
  assert.deepEqual({ count: sent.length, told }, { count: 3, told: ["started a", "finished a"] });
});

test("a result is delivered to a server that is back just before the deadline", async (context) => {
  context.mock.method(Math, "random", () => 1);
  const { time, calls, told, server } = setUp(context);
  let isAway = true;
  server.answer = async () => {
    if (isAway) throw new HandbackError("unreachable", "nobody there");
  };
  calls.take(request("a"));
  for (let seconds = 0; seconds < 29; seconds += 1) await time.pass(1000);
  isAway = false;
  for (let steps = 0; steps < 10; steps += 1) await time.pass(100);
  assert.deepEqual(told, ["started a", "finished a"]);
});

test("a server that asks for more patience than there is time is tried once more before the deadline", async (context) => {
  context.mock.method(Math, "random", () => 1);
  const { time, calls, sent, told, server } = setUp(context);
  server.answer = async () => {
    if (sent.length === 1) throw new HandbackError("refused", "busy", { status: 503, retryAfter: 60_000 });
  };
  calls.take(request("a"));
  await time.pass(28_999);
  assert.equal(sent.length, 1);
  await time.pass(1);
  assert.deepEqual({ count: sent.length, told }, { count: 2, told: ["started a", "finished a"] });
});

test("a result is given up at the deadline, also when no answer comes", async (context) => {
  const { time, calls, sent, told, server } = setUp(context);
  server.answer = () => new Promise(() => {});
  calls.take(request("a"));
  await time.pass(29_999);
  assert.deepEqual({ count: sent.length, told }, { count: 1, told: ["started a", "finished a"] });
  await time.pass(1);
  assert.deepEqual(told.slice(2), ["undelivered a no answer came before the call's deadline"]);
});

test("a refusal is final and told", async (context) => {
  const { time, calls, sent, told, server } = setUp(context);
  server.answer = () => Promise.reject(new HandbackError("refused", "it is over", { status: 410 }));
  calls.take(request("a"));
  await time.pass(60_000);
  assert.deepEqual({ count: sent.length, told: told.at(-1) }, { count: 1, told: "undelivered a it is over" });
});

test("a result that the server cannot take is replaced by an error that says so, once", async (context) => {
  const { calls, sent, told, server } = setUp(context);
  server.answer = () => Promise.reject(new HandbackError("refused", "too large", { status: 413 }));
  calls.take(request("a"));
  await settle();
  assert.deepEqual(
    sent.map(({ result }) => result),
    [success("done"), failure("the tool ran, but its result was not accepted: too large")],
  );
  assert.equal(told.at(-1), "undelivered a too large");
});

test("a cancel that comes while the result is on its way ends the delivery", async (context) => {
  const { time, calls, sent, told, server } = setUp(context);
  server.answer = () => Promise.reject(new HandbackError("unreachable", "nobody there"));
  calls.take(request("a"));
  await settle();
  calls.cancel("a", "changed my mind");
  calls.cancel("a", "again");
  calls.cancel("unknown", "whatever");
  await time.pass(60_000);
  assert.deepEqual(
    { count: sent.length, told },
    { count: 1, told: ["started a", "finished a", "undelivered a changed my mind"] },
  );
});

test("a result that comes after the cancel is kept but not sent", async (context) => {
  const gate = deferred<string>();
  const { calls, sent, told } = setUp(context, { handler: () => gate.promise });
  calls.take(request("a"));
  await settle();
  calls.cancel("a", "changed my mind");
  gate.resolve("done all the same");
  await settle();
  assert.deepEqual({ sent, told }, { sent: [], told: ["started a", "cancelled a changed my mind"] });
  calls.take(request("a", { attempt: 2 }));
  await settle();
  assert.deepEqual(sent, [{ requestID: "a", result: success("done all the same") }]);
});

/** A handler that is deaf to its signal and ends when the test says so. */
function lateCall(context: TestContext) {
  const gate = deferred<string>();
  const stage = setUp(context, { handler: () => gate.promise });
  stage.server.answer = () => Promise.reject(new HandbackError("refused", "it is over", { status: 410, code: "GONE" }));
  stage.calls.take(request("a"));
  return { ...stage, gate };
}

for (const [when, seconds] of [["while it is waited for", 31], ["when nobody waits for it", 600]] as const) {
  test(`a handler that ends after the deadline, ${when}, has its result sent once`, async (context) => {
    const { time, sent, told, gate } = lateCall(context);
    for (let second = 0; second < seconds; second += 1) await time.pass(1000);
    gate.resolve("late");
    await time.pass(60_000);
    assert.deepEqual(sent, [{ requestID: "a", result: success("late") }]);
    assert.deepEqual(told, ["started a", "cancelled a the call has expired"]);
  });
}

test("a late result is sent once also if the server is away, and when the server was first to end the call", async (context) => {
  const { time, calls, sent, server, gate } = lateCall(context);
  server.answer = () => Promise.reject(new HandbackError("unreachable", "nobody there"));
  // Its clock is read in whole seconds.
  await time.pass(29_300);
  calls.cancel("a", "Timed out");
  gate.resolve("late");
  await time.pass(60_000);
  assert.deepEqual(sent, [{ requestID: "a", result: success("late") }]);
});

test("a late result of a client that has stopped is not sent", async (context) => {
  const { time, calls, sent, gate } = lateCall(context);
  await settle();
  void calls.stop("goodbye");
  await time.pass(60_000);
  gate.resolve("late");
  await time.pass(60_000);
  assert.deepEqual(sent, []);
});

test("stopping fires the signals, waits for last words, takes nothing new, and is over after 5 s", async (context) => {
  const handler: Handler = ({ deaf }, { signal }) => {
    return new Promise((resolve) => {
      if (!deaf) signal.addEventListener("abort", () => resolve(`stopped: ${signal.reason.message}`));
    });
  };
  const { time, calls, sent, told } = setUp(context, { handler });
  calls.take(request("hears"));
  calls.take(request("deaf", { input: { deaf: true } }));
  await settle();
  let isOver = false;
  void calls.stop("goodbye").then(() => (isOver = true));
  calls.take(request("new"));
  await time.pass(4999);
  assert.deepEqual(
    { isOver, sent },
    { isOver: false, sent: [{ requestID: "hears", result: success("stopped: goodbye") }] },
  );
  await time.pass(1);
  assert.equal(isOver, true);
  assert.deepEqual(told.at(-1), "cancelled deaf goodbye");
});

test("stopping with nothing under way takes no time", async (context) => {
  const { calls } = setUp(context);
  calls.take(request("a"));
  await settle();
  await calls.stop("goodbye");
});

test("what cannot be written down is not run, unless it may be run again", async (context) => {
  const broken: Journal = {
    open: async (lookup) => ({
      ...(await memoryJournal().open(lookup)),
      start: () => Promise.reject(new Error("the disk is full")),
      finish: () => Promise.reject(new Error("the disk is full")),
    }),
  };
  const warn = context.mock.method(console, "warn", () => {});
  const { calls, sent } = setUp(context, { journal: broken });
  calls.take(request("write"));
  calls.take(request("read", { effect: "read" }));
  await settle();
  assert.deepEqual(
    sent.sort((a, b) => a.requestID.localeCompare(b.requestID)),
    [
      { requestID: "read", result: success("done") },
      {
        requestID: "write",
        result: failure(`the journal cannot be written: the disk is full; ${NOT_RUN}`),
      },
    ],
  );
  assert.equal(warn.mock.callCount(), 1);
});

test("a call that is cancelled while it is written down is not run", async (context) => {
  const written = deferred<boolean>();
  const slow: Journal = {
    open: async (lookup) => ({ ...(await memoryJournal().open(lookup)), start: () => written.promise }),
  };
  const { calls, sent, told } = setUp(context, { journal: slow });
  calls.take(request("a"));
  await settle();
  calls.cancel("a", "changed my mind");
  written.resolve(true);
  await settle();
  assert.deepEqual({ sent, told }, { sent: [], told: ["cancelled a changed my mind"] });
});

test("a call that somebody else starts at the same moment is left to them", async (context) => {
  const shared: Journal = {
    open: async (lookup) => ({ ...(await memoryJournal().open(lookup)), start: () => Promise.resolve(false) }),
  };
  const { calls, sent } = setUp(context, { journal: shared });
  calls.take(request("a"));
  await settle();
  assert.deepEqual(sent, [{ requestID: "a", result: failure(UNKNOWN) }]);
});

test("whatever becomes of a call, its entry in the journal is closed", async (context) => {
  const journal = memoryJournal();
  const open: string[] = [];
  const counting: Journal = {
    open: async (lookup) => {
      open.push(lookup.requestID);
      return { ...(await journal.open(lookup)), close: () => open.splice(open.indexOf(lookup.requestID), 1) };
    },
  };
  const { time, calls } = setUp(context, {
    journal: counting,
    handler: ({ kind }) => {
      if (kind === "hangs") return new Promise(() => {});
      if (kind === "throws") throw new Error("no");
      return "done";
    },
  });
  calls.take(request("done"));
  calls.take(request("unknown", { attempt: 2 }));
  calls.take(request("no such tool", { tool: "client_laptop_other" }));
  calls.take(request("throws", { input: { kind: "throws" } }));
  calls.take(request("hangs", { input: { kind: "hangs" } }));
  calls.take(request("cancelled at once"));
  calls.cancel("cancelled at once", "never mind");
  await settle();
  calls.take(request("done", { attempt: 2 }));
  await settle();
  assert.deepEqual(open, ["hangs"]);
  await time.pass(30_000);
  await time.pass(5000);
  assert.deepEqual(open, []);
});

test("a journal that cannot be read is said so, unless the call may be run again", async (context) => {
  const { calls, sent } = setUp(context, { journal: { open: () => Promise.reject(new Error("no access")) } });
  calls.take(request("write"));
  calls.take(request("read", { effect: "read" }));
  await settle();
  assert.deepEqual(
    sent.map(({ result }) => result),
    [failure(`the journal cannot be read: no access; ${NOT_RUN}`), success("done")],
  );
});

test("a result too large to be kept is delivered; later it is only known that it was there", async (context) => {
  const { calls, sent } = setUp(context, { handler: () => "x".repeat(70_000) });
  calls.take(request("a"));
  await settle();
  calls.take(request("a", { attempt: 2 }));
  await settle();
  assert.deepEqual(
    sent.map(({ result }) => (result.status === "error" ? result.error : result.output?.length)),
    [70_000, "the outcome is unknown: it was done, but its result is not kept"],
  );
});

test("whatever a handler gives or throws becomes a result", async (context) => {
  const circle: Record<string, unknown> = {};
  circle["self"] = circle;
  const given: Record<string, () => unknown> = {
    nothing: () => undefined,
    number: () => 5,
    array: () => ["a"],
    circle: () => ({ metadata: circle }),
    more: () => ({ output: "a", secret: 1 }),
    thrownText: () => {
      throw "a text";
    },
    thrownNothing: () => {
      throw Object.create(null);
    },
    thrownNameless: () => {
      throw new RangeError();
    },
  };
  const { calls, sent } = setUp(context, { handler: ({ kind }) => given[String(kind)]?.() as string });
  for (const kind of Object.keys(given)) calls.take(request(kind, { input: { kind } }));
  await settle();
  const results = Object.fromEntries(sent.map(({ requestID, result }) => [requestID, result]));
  const { circle: circular, ...others } = results;
  assert.ok(circular?.status === "error");
  assert.match(circular.error, /^the tool ran, but its result cannot be written as JSON: .*circular/);
  const shape = "it must give a string or {title?, output?, metadata?, attachments?}";
  assert.deepEqual(others, {
    nothing: { status: "success" },
    number: failure(`the tool ran, but gave a number; ${shape}`),
    array: failure(`the tool ran, but gave an array; ${shape}`),
    more: success("a"),
    thrownText: failure("a text"),
    thrownNothing: failure("the tool threw something that cannot be shown"),
    thrownNameless: failure("RangeError"),
  });
});

test("whatever a handler gives or throws, the call is answered", async (context) => {
  const broken = () => {
    throw new Error("lazy");
  };
  const odd: Record<string, Handler> = {
    getter: () => Object.defineProperty({}, "output", { get: broken }),
    message: () => {
      throw Object.defineProperty(new Error(), "message", { get: broken });
    },
    number: () => {
      throw Object.assign(new Error(), { message: 7 });
    },
    plain: () => {
      throw { code: 7, message: "not found" };
    },
    nothing: () => {
      throw undefined;
    },
  };
  const { calls, sent } = setUp(context, { handler: (input, call) => odd[String(input["how"])]?.(input, call) ?? "" });
  for (const how of Object.keys(odd)) calls.take(request(how, { input: { how } }));
  await settle();
  assert.deepEqual(Object.fromEntries(sent.map(({ requestID, result }) => [requestID, result])), {
    getter: failure("the tool ran, but its result cannot be written as JSON: lazy"),
    message: failure("the tool threw something that cannot be shown"),
    number: failure("7"),
    plain: failure("not found"),
    nothing: failure("undefined"),
  });
});
