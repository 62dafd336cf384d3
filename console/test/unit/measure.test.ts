import assert from "node:assert/strict";
import { test } from "node:test";

import { measure, POINTS, quantile } from "../../src/charts/measure.js";
import { scrolledTo, visible } from "../../src/live/window.js";
import type { CallRow } from "../../src/world/calls.js";

function row(created: number, outcome: CallRow["outcome"], times = { approval: 0, queue: 1, execute: 10 }): CallRow {
  const ids = { requestID: "", sessionID: "", messageID: "", callID: "", tool: "", clientID: "" };
  const state = outcome ? "done" : "queued";
  return { ...ids, state, attempt: 1, created, times, outcome, error: undefined, isFrontend: false, number: 0, text: "" };
}

test("calls are counted where they were made, and only those of the time", () => {
  const now = 600_000;
  const rows = [row(539_999, "success"), row(540_000, "success"), row(540_999, "error"), row(599_500, undefined), row(600_400, "success")];
  const { count, starts, perSecond, outcomes } = measure(rows, now, 60_000);
  assert.deepEqual([count, starts[0], starts.length], [4, 540_000, POINTS]);
  assert.deepEqual([perSecond[0], perSecond[1], perSecond[59]], [2, 0, 2]);
  const at = (index: number, value: number) => Array.from({ length: POINTS }, (_, point) => (point === index ? value : 0));
  assert.deepEqual(outcomes, { success: at(0, 1).map((value, index) => (index === 59 ? 1 : value)), error: at(0, 1) });
});

test("times are of calls that ended; of approvals, of those that needed one", () => {
  const times = (execute: number, approval = 0) => ({ approval, queue: 1, execute });
  const rows = [...Array.from({ length: 100 }, (_, index) => row(59_000, "success", times(index + 1))), row(59_500, "denied", times(0, 700)), row(59_900, undefined)];
  const { latency } = measure(rows, 60_000, 60_000);
  assert.deepEqual(latency.execute.total, { p50: 50, p95: 95 });
  assert.deepEqual(latency.approval.total, { p50: 700, p95: 700 });
  assert.deepEqual([latency.execute.p50[58], latency.execute.p50[59]], [undefined, 50]);
});

test("quantiles are values that were there", () => {
  assert.deepEqual([quantile([], 0.5), quantile([7], 0.95), quantile([1, 2], 0.5), quantile([1, 2, 3], 0.95)], [undefined, 7, 1, 3]);
});

test("only rows that can be seen are drawn", () => {
  assert.deepEqual(visible(0, 0, 400, 40), { first: 0, end: 0 });
  assert.deepEqual(visible(10_000, 0, 400, 40), { first: 0, end: 18 });
  assert.deepEqual(visible(10_000, 4000, 400, 40), { first: 92, end: 118 });
  assert.deepEqual(visible(10, 4000, 400, 40), { first: 0, end: 10 });
  const { first, end } = visible(10_000, 0, 1_000_000, 40);
  assert.equal(end - first, 120);
});

test("a row is scrolled to, and no further than needed", () => {
  assert.deepEqual([scrolledTo(0, 400, 200, 40), scrolledTo(11, 400, 200, 40), scrolledTo(20, 400, 200, 40)], [0, 400, 640]);
});
