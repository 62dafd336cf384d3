// What the charts show, by the times that the server gives of calls: when each was made, and when it ended.

import { type CallRow, type OutcomeStatus, tookOf } from "../world/calls";

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
  /** When each point begins, in ms since 1970. */
  starts: number[];
  /** How long a point is, in ms. */
  step: number;
  /** How many calls were made. */
  made: number[];
  /** How long the calls that ended then were in each phase. */
  latency: Record<Phase, Latency>;
  /** How many calls ended in each way. */
  outcomes: Partial<Record<OutcomeStatus, number[]>>;
}

/** Measures what happened in the time before `now`. */
export function measure(rows: readonly CallRow[], now: number, span: number): Measures {
  const step = span / POINTS;
  // Steps begin at the same times whenever they are drawn, so that nothing flickers.
  const begin = Math.ceil(now / step) * step - span;
  // The newest point has what is later: the clock here may be behind that of the server.
  const pointOf = (time: number) => Math.min(POINTS - 1, Math.floor((time - begin) / step));
  const made = new Array<number>(POINTS).fill(0);
  const ended = Array.from({ length: POINTS }, (): CallRow[] => []);
  for (const row of rows) {
    const point = pointOf(row.created);
    if (made[point] !== undefined) made[point] += 1;
    if (row.outcome !== undefined) ended[pointOf(endOf(row))]?.push(row);
  }
  return {
    starts: made.map((_, index) => begin + index * step),
    step,
    made,
    latency: { approval: latencyOf(ended, "approval"), queue: latencyOf(ended, "queue"), execute: latencyOf(ended, "execute") },
    outcomes: outcomesOf(ended),
  };
}

/** When a call ended. Where nobody knows how long it took, all that is known is when it was made. */
function endOf({ created, times }: CallRow): number {
  return created + ((times && tookOf(times)) ?? 0);
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

/** How long a call was in a phase. One that was never in it, as most need no approval, would count as a very fast one. */
function timesIn({ times }: CallRow, phase: Phase): number[] {
  return times && times[phase] > 0 ? [times[phase]] : [];
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
