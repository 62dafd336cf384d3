// Acks at the last moment.

import assert from "node:assert/strict";

import { FrontendToolExecutor } from "../../src/index.js";
import { FakeTime } from "../support/fake-time.js";
import { test } from "../support/patience.js";
import { type Fault, Faults } from "./faults.js";
import { soon } from "./page.js";

test("no time that the server asks for goes beyond the deadline: it is tried once more just before", async (context) => {
  // On a busy machine the last moment may be over before the try that belongs there: the time is the test's.
  const time = new FakeTime(context);
  const faults = new Faults();
  const executor = new FrontendToolExecutor({ baseUrl: "http://nowhere.test", fetch: faults.fetch });
  executor.register("tool", () => "done");
  const took: Fault = { status: 200, body: '{"ok":true}' };
  const busy: Fault = { status: 429, headers: { "retry-after": "3600" } };
  faults.always.claim = took;
  const execute = async (toolCallId: string) => {
    const execution = executor.execute({ toolCallId, toolName: "tool", input: {}, deadline: soon(3_000) });
    for (let passed = 0; passed < 3_000; passed += 100) await time.pass(100);
    return execution;
  };
  faults.next.ack.push(busy, took);
  const taken = await execute("taken");
  assert.deepEqual([taken?.phase, taken?.counted, taken?.attempts], ["done", true, 2]);
  const acks = faults.asked.all.filter(({ path }) => path === "ack");
  assert.deepEqual(acks.map(({ at }) => at), [0, 2_000]);
  faults.always.ack = busy;
  const state = await execute("refused");
  assert.deepEqual([state?.phase, state?.ackStatus], ["failed", 429]);
});
