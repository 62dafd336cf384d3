// Doing something until it is done.

import { Backoff } from "../backoff.js";
import { HandbackError } from "../error.js";
import { pause } from "./time.js";

const FIRST_DELAY = 200;
const LONGEST_DELAY = 5000;
/** At most this long a server that asks for patience is left alone. */
const LONGEST_RETRY_AFTER = 60_000;
/** So long before the end there is a try, whatever the server asks for; in ms. */
const LAST_MOMENT = 1000;

/** The delay before the next try, which heeds what the server asks for; in ms. `left` is the time until no try counts. */
export function delayAfter(error: unknown, backoff: Backoff, left = Number.POSITIVE_INFINITY): number {
  const asked = error instanceof HandbackError ? (error.retryAfter ?? 0) : 0;
  // The last tries come closer together: a server that is back just in time is found.
  const delay = Math.max(Math.min(backoff.next(), left / 2), Math.min(asked, LONGEST_RETRY_AFTER));
  return Math.min(delay, Math.max(left - LAST_MOMENT, left / 2));
}

/** How much is left of a time that begins now, in ms. */
export function countdown(milliseconds: number): () => number {
  const began = performance.now();
  return () => milliseconds - (performance.now() - began);
}

export interface Patience {
  /** Gives it up. */
  signal: AbortSignal;
  /** How much longer it may go on, in ms. */
  remaining?: () => number;
  /** Whether the same may succeed later. */
  mayPass: (error: unknown) => boolean;
}

/** Whether the server cannot be reached, or only a proxy that says so. */
export function isAway(error: unknown): boolean {
  if (!(error instanceof HandbackError)) return false;
  // 502 and 504 come from a proxy whose server is away.
  if (error.kind === "refused") return [502, 503, 504].includes(error.status ?? 0);
  return error.kind === "unreachable" || error.kind === "interrupted";
}

/** Whether the server is away for a while. No other failure of a request that waits for no tool passes by itself. */
export function isLost(error: unknown): boolean {
  return isAway(error) || (error instanceof HandbackError && error.isProxyAnswer);
}

/** Tries until it succeeds, fails for good, or there is no time for another try: then the last failure is thrown. */
export async function persist<T>(attempt: () => Promise<T>, { signal, remaining, mayPass }: Patience): Promise<T> {
  const backoff = new Backoff(FIRST_DELAY, LONGEST_DELAY);
  for (;;) {
    try {
      return await attempt();
    } catch (error) {
      if (signal.aborted || !mayPass(error)) throw error;
      const left = remaining?.() ?? Number.POSITIVE_INFINITY;
      if (left < FIRST_DELAY) throw error;
      await pause(delayAfter(error, backoff, left), signal);
      signal.throwIfAborted();
    }
  }
}
