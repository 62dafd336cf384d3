// What a prompt comes to, however the answer stands on the server and whatever is lost on the way.

import assert from "node:assert/strict";
import type { TestContext } from "node:test";

import { HandbackError, TurnFailed } from "../../src/node.js";
import { FakeTime, settle } from "../support/fake-time.js";
import { test, within } from "../support/patience.js";
import { MAINTENANCE } from "../support/scripted.js";
import { type Step, World } from "./world.js";

/** A message of an answer can stand so. The first three are an end of the turn. */
const STEPS: Record<string, Step> = {
  said: { isComplete: true, text: "said" },
  silent: { isComplete: true },
  failed: { isComplete: true, text: "half", error: "the provider is gone" },
  called: { isComplete: true, calls: true },
  "called and said": { isComplete: true, text: "let me see", calls: true },
  begun: { isComplete: false },
  "half said": { isComplete: false, text: "half" },
  calling: { isComplete: false, calls: true },
};
const ENDS = ["said", "silent", "failed"];
const GOES_ON = ["called", "called and said"];

/** All answers of up to three messages of which each but the last has calls, so that another follows; and none at all. */
const SHAPES: string[][] = [
  [],
  ...Object.keys(STEPS).flatMap((last) => [
    [last],
    ...GOES_ON.map((first) => [first, last]),
    ...GOES_ON.map((first) => [first, "called", last]),
  ]),
];

const stepsOf = (shape: string[]) => shape.map((name) => STEPS[name] ?? assert.fail(name));

/** What a prompt comes to: its text, or the error. */
async function promptIn(world: World, test: TestContext): Promise<string> {
  const session = await world.client(test).startSession({ tools: false });
  // Nobody waits for long for a turn that nobody takes up.
  const end = session.prompt("hello", { patience: 1 }).then(
    ({ text }) => `text: ${text}`,
    (error: unknown) => {
      if (error instanceof TurnFailed) return `failed: ${error.message}: ${error.answer.text}`;
      return `${error instanceof HandbackError ? error.kind : "bug"}: ${String(error)}`;
    },
  );
  return end;
}

function expected(shape: string[]): string {
  const last = shape.at(-1);
  if (last === undefined) return "unexpected: HandbackError: nothing has answered, and the session is idle";
  if (last === "failed") return "failed: the provider is gone: half";
  const text = STEPS[last]?.text ?? "";
  return ENDS.includes(last) ? `text: ${text}` : `failed: the turn has stopped before its end: ${text}`;
}

test("in a session that is idle, only an answer that ended resolves", async (test) => {
  const came = SHAPES.map(async (shape) => {
    const world = new World();
    Object.assign(world, { isBusy: false, steps: stepsOf(shape) });
    const end = promptIn(world, test);
    await world.taken.count("it is said", 1);
    world.tell("session.idle", { sessionID: "ses_1" });
    return [shape, await within(shape.join(", "), end)];
  });
  assert.deepEqual(await Promise.all(came), SHAPES.map((shape) => [shape, expected(shape)]));
});

test("in a session that is busy, an answer that has not ended is waited for", async (test) => {
  const unended = SHAPES.filter((shape) => !ENDS.includes(shape.at(-1) ?? ""));
  const came = unended.map(async (shape) => {
    const world = new World();
    world.steps = stepsOf(shape);
    const end = promptIn(world, test);
    await world.taken.count("it is said", 1);
    // Of the turn before this one, say: it is a reason to look, and no more.
    world.tell("session.idle", { sessionID: "ses_1" });
    await world.asked.until("it is looked at", ({ what }) => what === "message");
    world.steps = [...stepsOf(shape).map((step) => ({ ...step, isComplete: true, calls: true })), { isComplete: true, text: "the end" }];
    world.tell("session.idle", { sessionID: "ses_1" });
    return within(shape.join(", "), end);
  });
  assert.deepEqual(await Promise.all(came), unended.map(() => "text: the end"));
});

test("a turn that stands still in an idle session is waited for, as somebody may take it up", async (test) => {
  const world = new World();
  Object.assign(world, { isBusy: false, steps: stepsOf(["called", "half said"]) });
  const session = await world.client(test).startSession({ tools: false });
  const answering = session.prompt("hello");
  await world.taken.count("it is said", 1);
  world.tell("session.idle", { sessionID: "ses_1" });
  await world.asked.until("it is looked at again", () => world.asked.all.filter(({ what }) => what === "message").length >= 2);
  world.steps = stepsOf(["called", "said"]);
  assert.equal((await within("the answer", answering)).text, "said");
});

test("a turn listens to its session only, on one stream with other turns of it, and takes nothing of others", async (test) => {
  const world = new World();
  world.steps = stepsOf(["begun"]);
  const client = world.client(test);
  const sessions = [await client.startSession({ tools: false }), await client.startSession({ sessionID: "ses_1", tools: false })];
  const answers = sessions.map((session) => session.prompt("hello").catch(({ message }: Error) => message));
  await world.taken.count("both are said", 2);
  const streams = world.asked.all.filter(({ what }) => what === "event").map(({ query }) => query.toString());
  assert.deepEqual(streams, ["sessionID=ses_1"]);
  // An older server tells of all sessions.
  world.tell("session.deleted", { sessionID: "ses_2" });
  await new Promise((resolve) => setImmediate(resolve));
  await client.close();
  assert.deepEqual(await within("the end", Promise.all(answers)), ["the session was closed", "the session was closed"]);
});

/** Of which connections the client hears that they are lost. */
const LOSSES = {
  "of which nothing is heard": /^$/,
  "of which the events alone tell": /event/,
  "of which the tools' connection alone tells": /pending/,
  "of which all connections tell": /./,
};

for (const [name, cut] of Object.entries(LOSSES)) {
  test(`after a restart ${name}, a prompt is repeated when the server has the tools again`, async (test) => {
    const world = new World();
    const client = world.client(test);
    await client.clientTools.register("greet", { description: "Greets" }, () => "Hello!");
    const session = await client.startSession();
    world.fail("prompt_async", () => world.restart(cut));
    // The server is not quite there yet when it is asked first.
    world.fail("register");
    world.steps = stepsOf(["said"]);
    world.isBusy = false;
    const answering = session.prompt("hello");
    const { tools } = await world.taken.until("it is said", () => true);
    assert.equal(tools, 1, "it was said before the tools were there");
    world.tell("session.idle", { sessionID: "ses_1" });
    assert.equal((await within("the answer", answering)).text, "said");
  });
}

test("a prompt names the connection that the tools are called on, and tools that are not connected have none", async (test) => {
  const world = new World();
  Object.assign(world, { isBusy: false, steps: stepsOf(["said"]) });
  const client = world.client(test);
  const said = async (tools: boolean) => {
    const session = await client.startSession({ tools });
    const answering = session.prompt("hello");
    await world.taken.count("it is said", world.taken.all.length + 1);
    world.tell("session.idle", { sessionID: "ses_1" });
    await within("the answer", answering);
    return world.asked.all.filter(({ what }) => what === "prompt_async").at(-1)?.body?.["connection"];
  };
  assert.equal(await said(false), undefined);
  const named = await said(true);
  const opened = world.asked.all.find(({ what }) => what === "pending");
  assert.deepEqual([named, client.clientTools.connection], [opened?.query.get("connection"), named]);
  assert.match(String(named), /^[0-9a-f]{32}$/);
});

test("a prompt that is given up while it waits for the tools stops nobody else's turn", async (test) => {
  const world = new World();
  const client = world.client(test);
  await client.clientTools.register("greet", { description: "Greets" }, () => "Hello!");
  const session = await client.startSession();
  for (let count = 0; count < 1000; count += 1) world.fail("pending");
  world.restart(/pending/);
  const stop = new AbortController();
  const answering = session.prompt("hello", { signal: stop.signal });
  await world.asked.until("it listens", ({ what }) => what === "event");
  stop.abort(new Error("not any more"));
  await assert.rejects(answering, new Error("not any more"));
  const asked = world.asked.all.map(({ what }) => what);
  assert.deepEqual([asked.includes("prompt_async"), asked.includes("abort")], [false, false]);
});

/** A turn that was said, with time in the test's hands. */
async function midTurn(test: TestContext, patience?: number) {
  const time = new FakeTime(test);
  const world = new World();
  world.steps = stepsOf(["begun"]);
  const session = await world.client(test).startSession({ tools: false });
  const ended: { text?: string; error?: unknown } = {};
  void session.prompt("hello", { patience }).then(
    ({ text }) => Object.assign(ended, { text }),
    (error: unknown) => Object.assign(ended, { error }),
  );
  while (world.taken.all.length === 0) await settle();
  const end = () => {
    world.steps = stepsOf(["said"]);
    world.tell("session.idle", { sessionID: "ses_1" });
  };
  return { time, world, ended, end };
}

const refuse = (status: number, headers = {}) => () => Response.json({ error: "busy", code: "UNAVAILABLE" }, { status, headers });
const maintenance = () => Response.json(MAINTENANCE);
const nothing = () => new Response("");
const page = (status: number) => () => new Response("<h1>Come back later</h1>", { status, headers: { "content-type": "text/html" } });

for (const what of ["status", "message"]) {
  test(`a server that can be heard but not read (${what}) is left alone as it asks, and given up when the patience is over`, async (test) => {
    const { time, world, ended, end } = await midTurn(test, 50_000);
    const looks = () => world.asked.all.filter((asked) => asked.what === what).length;
    world.failing.set(what, refuse(503, { "retry-after": "20" }));
    end();
    await settle();
    const seen = [];
    for (let seconds = 0; seconds < 60; seconds += 1) {
      // What happens meanwhile is no reason not to leave it alone.
      world.tell("session.idle", { sessionID: "ses_1" });
      await time.pass(1_000);
      seen.push(looks());
    }
    assert.deepEqual([seen[0], seen[18], seen[20], seen[38], seen[40], seen[48], seen.at(-1)], [1, 1, 2, 2, 3, 3, 4]);
    assert.ok(ended.error instanceof HandbackError, String(ended.error));
    assert.deepEqual([ended.error.kind, /given up after 50 s/.test(ended.error.message)], ["interrupted", true]);
  });
}

test("a turn whose server can be read again, if only at the last moment, has its answer", async (test) => {
  const { time, world, ended, end } = await midTurn(test, 10_000);
  world.failing.set("status", refuse(500));
  end();
  for (let seconds = 0; seconds < 9; seconds += 1) await time.pass(1_000);
  world.failing.delete("status");
  for (let seconds = 0; seconds < 2; seconds += 1) await time.pass(1_000);
  assert.deepEqual(ended, { text: "said" });
});

test("each loss has the whole patience, however many there are", async (test) => {
  const { time, world, ended, end } = await midTurn(test, 5_000);
  for (let count = 0; count < 4; count += 1) {
    for (let tries = 0; tries < 3; tries += 1) world.fail("status", refuse(500));
    world.tell("session.idle", { sessionID: "ses_1" });
    for (let seconds = 0; seconds < 4; seconds += 1) await time.pass(1_000);
  }
  assert.deepEqual(ended, {});
  end();
  await time.pass(1_000);
  assert.deepEqual(ended, { text: "said" });
});

test("what a proxy says while its server is restarted ends no turn", async (test) => {
  const { time, world, ended, end } = await midTurn(test);
  for (const what of ["event", "status", "message"]) for (const status of [404, 200, 502]) world.fail(what, page(status));
  world.restart(/event/);
  for (let seconds = 0; seconds < 20; seconds += 1) await time.pass(1_000);
  assert.deepEqual(ended, {});
  end();
  await time.pass(1_000);
  assert.deepEqual(ended, { text: "said" });
});

for (const what of ["status", "message", "permission"]) {
  test(`what is no answer about the turn (${what}) does not end it`, async (test) => {
    const { time, world, ended, end } = await midTurn(test);
    world.restart(/event/);
    for (const other of [maintenance, nothing]) {
      world.failing.set(what, other);
      for (let seconds = 0; seconds < 10; seconds += 1) await time.pass(1_000);
      assert.deepEqual(ended, {});
    }
    world.failing.delete(what);
    end();
    for (let seconds = 0; seconds < 2; seconds += 1) await time.pass(1_000);
    assert.deepEqual(ended, { text: "said" });
  });
}

test("a prompt that a proxy answers is said again, once the server is back", async (test) => {
  const world = new World();
  Object.assign(world, { isBusy: false, steps: stepsOf(["said"]) });
  const session = await world.client(test).startSession({ tools: false });
  world.fail("prompt_async", page(404));
  world.fail("prompt_async", page(200));
  world.fail("prompt_async", maintenance);
  const answering = session.prompt("hello");
  await world.taken.count("it is said", 1);
  world.tell("session.idle", { sessionID: "ses_1" });
  assert.equal((await within("the answer", answering)).text, "said");
});

test("a decision that a proxy answers is told again", async (test) => {
  const world = new World();
  const session = await world.client(test).startSession({ tools: false });
  const answering = session.prompt("hello", { onPermission: () => "once" });
  await world.taken.count("it is said", 1);
  world.fail("per_1", maintenance);
  world.failing.set("per_1", () => Response.json(true));
  world.tell("permission.asked", { id: "per_1", sessionID: "ses_1" });
  const told = () => world.asked.all.filter(({ what }) => what === "per_1").map(({ body }) => body);
  await world.asked.until("it is told again", () => told().length === 2);
  Object.assign(world, { isBusy: false, steps: stepsOf(["said"]) });
  world.tell("session.idle", { sessionID: "ses_1" });
  assert.equal((await within("the answer", answering)).text, "said");
  assert.deepEqual(told(), [{ response: "once" }, { response: "once" }]);
});

test("what is no session starts none", async (test) => {
  const world = new World();
  for (const other of [maintenance, nothing]) for (const sessionID of [undefined, "ses_1"]) {
    world.fail("session", other);
    const starting = world.client(test).startSession({ tools: false, sessionID });
    await assert.rejects(starting, { kind: "unexpected", transient: false });
  }
});

test("a proxy that never has its server back is given up when the patience is over", async (test) => {
  const { time, world, ended } = await midTurn(test, 20_000);
  for (const what of ["event", "status", "message"]) world.failing.set(what, page(404));
  world.restart(/event/);
  for (let seconds = 0; seconds < 19; seconds += 1) await time.pass(1_000);
  assert.deepEqual(ended, {});
  for (let seconds = 0; seconds < 3; seconds += 1) await time.pass(1_000);
  assert.match(String(ended.error), /given up after 20 s/);
});

for (const status of [401, 403, 404]) {
  test(`a server that refuses the events itself with ${status} ends the turn at once`, async (test) => {
    const { time, world, ended } = await midTurn(test);
    world.fail("event", refuse(status));
    world.restart(/event/);
    await time.pass(1_000);
    assert.ok(ended.error instanceof HandbackError && ended.error.status === status, String(ended.error));
  });
}
