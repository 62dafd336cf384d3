import assert from "node:assert/strict";

import { aborted, after, pause, ServerClock } from "../../src/tools/time.js";
import { FakeTime } from "../support/fake-time.js";
import { test } from "../support/patience.js";

const DAY = 24 * 60 * 60 * 1000;

test("a timer may be longer than timers can hold, and is called off in any of its pieces", async (context) => {
  const time = new FakeTime(context);
  const fired: string[] = [];
  after(60 * DAY, () => fired.push("after 60 days"));
  const callOff = after(60 * DAY, () => fired.push("never"));
  await time.pass(2 ** 31 - 1);
  callOff();
  await time.pass(2 ** 31 - 1);
  await time.pass(60 * DAY - 2 * (2 ** 31 - 1) - 1);
  assert.deepEqual(fired, []);
  await time.pass(1);
  assert.deepEqual(fired, ["after 60 days"]);
});

test("a pause ends with time or with any signal, and leaves nothing behind", async (context) => {
  const time = new FakeTime(context);
  const ended: string[] = [];
  const [early, never] = [new AbortController(), new AbortController()];
  void pause(1000, early.signal, never.signal).then(() => ended.push("early"));
  void pause(2000, never.signal).then(() => ended.push("in time"));
  void aborted(AbortSignal.abort(), never.signal).then(() => ended.push("at once"));
  await time.pass(500);
  assert.deepEqual(ended, ["at once"]);
  early.abort();
  await time.pass(0);
  assert.deepEqual(ended, ["at once", "early"]);
  await time.pass(1500);
  assert.deepEqual(ended, ["at once", "early", "in time"]);
});

test("a deadline is counted on the server's clock, however wrong ours is", async (context) => {
  const time = new FakeTime(context);
  const clock = new ServerClock();
  // Ours shows 12:00:00; the server's is an hour ahead.
  clock.read("Sun, 15 Nov 2026 13:00:00 GMT");
  await time.pass(10_000);
  const deadline = clock.deadline("2026-11-15T13:00:30.500Z");
  assert.equal(deadline.remaining(), 20_500);
  assert.equal(deadline.date.toISOString(), "2026-11-15T12:00:30.500Z");
  assert.equal(clock.deadline("2026-11-15T13:00:10Z").remaining(), 0);
  clock.read(null);
  clock.read("nonsense");
  await time.pass(500);
  assert.equal(deadline.remaining(), 20_000);
});

test("a clock that was not compared is given some minutes, and not believed beyond", (context) => {
  new FakeTime(context);
  const clock = new ServerClock();
  assert.equal(clock.deadline("2026-11-15T12:00:30Z").remaining(), 30_000 + 5 * 60_000);
  assert.equal(clock.deadline("2026-11-15T11:59:00Z").remaining(), 4 * 60_000);
  assert.equal(clock.deadline("2026-11-15T11:00:00Z").remaining(), DAY);
  assert.equal(clock.deadline(undefined).remaining(), DAY);
  assert.equal(clock.deadline("tomorrow").remaining(), DAY);
});
