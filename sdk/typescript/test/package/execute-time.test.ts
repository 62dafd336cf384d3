// How long a call of the application is made and followed while its server is away.

import assert from "node:assert/strict";
import type { TestContext } from "node:test";

import { createHandbackClient, type HandbackClient, HandbackError } from "../../src/index.js";
import { FakeTime, settle } from "../support/fake-time.js";
import { test } from "../support/patience.js";
import { MAINTENANCE, OPEN } from "../support/scripted.js";

const DONE = { status: "success", title: "", output: "at last" };

const lost = (): never => {
  throw new TypeError("fetch failed", { cause: Object.assign(new Error("refused"), { code: "ECONNREFUSED" }) });
};
const open = () => Response.json(OPEN);
const done = () => Response.json({ ...OPEN, outcome: DONE });
const pageOf = (status: number) => () => new Response("<h1>Come back later</h1>", { status });

/** A call that the server takes, with time in the test's hands. */
class TakenCall {
  /** What is answered when the call is read. */
  read: () => Response;
  reads = 0;
  /** The result or the error. */
  end: unknown;
  readonly #time: FakeTime;
  readonly #client: HandbackClient;
  readonly #over = new AbortController();
  #executing: Promise<unknown> = Promise.resolve();

  constructor(test: TestContext, read: () => Response) {
    this.read = read;
    this.#time = new FakeTime(test);
    test.after(() => {
      this.#over.abort();
      // What it still clears must not be a timer of the next test.
      return this.#executing;
    });
    const fetch: typeof globalThis.fetch = async (_, init) => {
      // As any network, it takes its time.
      await new Promise((resolve) => setImmediate(resolve));
      if (init?.method === "POST") return Response.json({ requestID: "mine" }, { status: 202 });
      this.reads += 1;
      return this.read();
    };
    this.#client = createHandbackClient({ baseUrl: "http://nowhere.test", clientID: "laptop", fetch });
  }

  execute(timeout?: number): void {
    this.end = undefined;
    this.#executing = this.#client.execute("client_laptop_tool", {}, { timeout, signal: this.#over.signal }).then(
      (result) => (this.end = result),
      (error: unknown) => (this.end = error),
    );
  }

  async pass(seconds: number): Promise<void> {
    await settle();
    for (let passed = 0; passed < seconds; passed += 5) await this.#time.pass(5_000);
  }
}

test("a server that is lost before it has said the deadline is tried as long as a call may take", async (test) => {
  const call = new TakenCall(test, lost);
  call.execute(60_000);
  await call.pass(75);
  assert.ok(call.end instanceof HandbackError && call.end.kind === "unreachable", "its caller said how long it may take");
  call.execute();
  await call.pass(3600);
  assert.deepEqual([call.end], [undefined]);
  call.read = done;
  await call.pass(5);
  assert.deepEqual(call.end, DONE);
});

/** What a gateway says that lets calls be made, and not be read. */
const GATEWAYS: Record<string, () => Response> = {
  "a 404 of its own": pageOf(404),
  "a 405 of its own": pageOf(405),
  "a page": pageOf(200),
  "JSON of its own": () => Response.json(MAINTENANCE),
  "nothing": () => new Response(""),
};

for (const [name, read] of Object.entries(GATEWAYS)) {
  test(`a call that nobody could read yet is given up when a gateway answers for two minutes with ${name}`, async (test) => {
    const call = new TakenCall(test, read);
    call.execute();
    await call.pass(115);
    assert.deepEqual([call.end], [undefined]);
    await call.pass(15);
    assert.ok(call.end instanceof HandbackError && call.end.isProxyAnswer, String(call.end));
  });
}

test("the time for a gateway's answers begins anew when the server is away, and has no end once the call was read", async (test) => {
  const call = new TakenCall(test, lost);
  call.execute();
  for (const away of [lost, pageOf(502)]) {
    call.read = away;
    await call.pass(300);
    call.read = pageOf(404);
    await call.pass(100);
  }
  call.read = open;
  await call.pass(5);
  call.read = pageOf(404);
  await call.pass(600);
  assert.deepEqual([call.end], [undefined]);
  call.read = done;
  await call.pass(5);
  assert.deepEqual(call.end, DONE);
});

test("a call that is said to go on without any wait is read once a second at most", async (test) => {
  const call = new TakenCall(test, open);
  call.execute();
  await call.pass(0);
  assert.equal(call.reads, 1);
  await call.pass(10);
  assert.equal(call.reads, 3);
});

test("a server that stays away is given up shortly after the deadline", async (test) => {
  const call: TakenCall = new TakenCall(test, () => (call.reads === 1 ? open() : lost()));
  call.execute();
  await call.pass(3600);
  assert.deepEqual([call.end, call.reads > 500], [undefined, true]);
  await call.pass(10);
  assert.ok(call.end instanceof HandbackError && call.end.kind === "unreachable", String(call.end));
});
