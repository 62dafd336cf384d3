import assert from "node:assert/strict";
import { test } from "node:test";

import { measure, POINTS, quantile } from "../../src/charts/measure.js";
import { scrolledTo, visible } from "../../src/live/window.js";
import type { CallRow } from "../../src/world/calls.js";

function row(created: number, outcome: CallRow["outcome"], times = { approval: 0, queue: 1, execute: 10 }): CallRow {
  const ids = { requestID: "", sessionID: "", messageID: "", callID: "", tool: "", clientID: "" };
  const state = outcome ? "done" : "queued";
  const rest = { error: undefined, hasLateResult: false, isFrontend: false, number: 0, text: "" };
  return { ...ids, state, attempt: 1, created, times, outcome, ...rest };
}

test("calls are counted when they were made, outcomes when they ended, whenever the page is opened", () => {
  const now = 600_000;
  const long = { approval: 0, queue: 1, execute: 59_999 };
  const rows = [row(500_000, "timeout", long), row(539_999, "success"), row(540_000, "success"), row(540_999, "error"), row(599_500, undefined), row(600_400, "success")];
  const { starts, step, made, outcomes } = measure(rows, now, 60_000);
  assert.deepEqual([starts[0], starts.length, step], [540_000, POINTS, 1000]);
  const at = (counts: Record<number, number>) => Array.from({ length: POINTS }, (_, point) => counts[point] ?? 0);
  assert.deepEqual(made, at({ 0: 2, 59: 2 }));
  assert.deepEqual(outcomes, { success: at({ 0: 2, 59: 1 }), error: at({ 1: 1 }), timeout: at({ 20: 1 }) });
});

test("times are of calls that ended, and were in the phase", () => {
  const times = (execute: number, approval = 0) => ({ approval, queue: 1, execute });
  const asked = row(59_000, "denied", { approval: 700, queue: 0, execute: 0 });
  const restarted = row(59_000, "cancelled", { approval: 0, queue: 0, execute: 0 });
  const rows = [...Array.from({ length: 99 }, (_, index) => row(58_000, "success", times(index + 1))), asked, restarted, row(59_900, undefined)];
  const { latency, outcomes } = measure(rows, 60_000, 60_000);
  assert.deepEqual(latency.execute.total, { p50: 50, p95: 95 });
  assert.deepEqual(latency.approval.total, { p50: 700, p95: 700 });
  assert.deepEqual([latency.execute.p50[57], latency.execute.p50[58], latency.execute.p50[59]], [undefined, 50, undefined]);
  assert.equal(outcomes.cancelled?.[59], 1);
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
