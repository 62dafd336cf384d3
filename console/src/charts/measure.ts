// What the charts show, from the calls that the page knows.

import type { CallRow, OutcomeStatus } from "../world/calls";

/** How many points a chart has, whatever time it spans. */
export const POINTS = 60;

export const PHASES = ["approval", "queue", "execute"] as const;
export type Phase = (typeof PHASES)[number];

export interface Latency {
  /** In ms; nothing where no call ended. */
  p50: (number | undefined)[];
  p95: (number | undefined)[];
  /** Over all of the time. */
  total: { p50: number | undefined; p95: number | undefined };
}

export interface Measures {
  /** How many calls there were. */
  count: number;
  /** When each point begins, in ms since 1970. */
  starts: number[];
  perSecond: number[];
  latency: Record<Phase, Latency>;
  /** How many calls made then ended in each way. */
  outcomes: Partial<Record<OutcomeStatus, number[]>>;
}

/** Measures the calls that were made in the time before `now`; `rows` are the oldest first. */
export function measure(rows: readonly CallRow[], now: number, span: number): Measures {
  const step = span / POINTS;
  // Steps begin at the same times whenever they are drawn, so that nothing flickers.
  const begin = Math.ceil(now / step) * step - span;
  const buckets = Array.from({ length: POINTS }, (): CallRow[] => []);
  let count = 0;
  for (let index = rows.length - 1; index >= 0; index -= 1) {
    const row = rows[index];
    if (!row || row.created < begin) break;
    // A clock here that is behind that of the server: the newest point has them.
    buckets[Math.min(POINTS - 1, Math.floor((row.created - begin) / step))]?.push(row);
    count += 1;
  }
  return {
    count,
    starts: buckets.map((_, index) => begin + index * step),
    perSecond: buckets.map((bucket) => bucket.length / (step / 1000)),
    latency: { approval: latencyOf(buckets, "approval"), queue: latencyOf(buckets, "queue"), execute: latencyOf(buckets, "execute") },
    outcomes: outcomesOf(buckets),
  };
}

function latencyOf(buckets: CallRow[][], phase: Phase): Latency {
  const times = buckets.map((bucket) => bucket.flatMap((row) => timesIn(row, phase)));
  const sorted = times.map((bucket) => bucket.sort((one, other) => one - other));
  const all = times.flat().sort((one, other) => one - other);
  return {
    p50: sorted.map((bucket) => quantile(bucket, 0.5)),
    p95: sorted.map((bucket) => quantile(bucket, 0.95)),
    total: { p50: quantile(all, 0.5), p95: quantile(all, 0.95) },
  };
}

/** How long a call was in a phase. Most calls need no approval: they would hide how long the others wait for theirs. */
function timesIn({ state, times }: CallRow, phase: Phase): number[] {
  return state !== "done" || !times || (phase === "approval" && times.approval === 0) ? [] : [times[phase]];
}

/** The smallest value that so large a share of them does not exceed. */
export function quantile(sorted: number[], share: number): number | undefined {
  return sorted[Math.max(0, Math.ceil(sorted.length * share) - 1)];
}

function outcomesOf(buckets: CallRow[][]): Measures["outcomes"] {
  const outcomes: Measures["outcomes"] = {};
  for (const [index, bucket] of buckets.entries()) {
    for (const { outcome } of bucket) {
      if (outcome === undefined) continue;
      const counts = (outcomes[outcome] ??= new Array<number>(POINTS).fill(0));
      counts[index] = (counts[index] ?? 0) + 1;
    }
  }
  return outcomes;
}
