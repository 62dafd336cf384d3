// Doing something until it is done.

import { Backoff } from "../backoff.js";
import { HandbackError } from "../error.js";
import { pause } from "./time.js";

const FIRST_DELAY = 200;
const LONGEST_DELAY = 5000;
/** At most this long a server that asks for patience is left alone. */
const LONGEST_RETRY_AFTER = 60_000;

/** A delay of at most `longest` that also heeds what the server asks for; in ms. */
export function delayAfter(error: unknown, backoff: Backoff, longest = Number.POSITIVE_INFINITY): number {
  const asked = error instanceof HandbackError ? (error.retryAfter ?? 0) : 0;
  return Math.max(Math.min(backoff.next(), longest), Math.min(asked, LONGEST_RETRY_AFTER));
}

export interface Patience {
  /** Gives it up. */
  signal: AbortSignal;
  /** How much longer it may go on, in ms. */
  remaining?: () => number;
  /** Whether the same may succeed later. */
  mayPass: (error: unknown) => boolean;
}

/** Whether the server is away for a while. No other failure of a request that waits for no tool passes by itself. */
export function isLost(error: unknown): boolean {
  if (!(error instanceof HandbackError)) return false;
  // 502 and 504 come from a proxy whose server is away.
  return error.kind === "refused" ? [502, 503, 504].includes(error.status ?? 0) : error.transient;
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
      // The last tries come closer together: a server that is back just in time is found.
      const delay = delayAfter(error, backoff, left / 2);
      if (delay >= left || left < FIRST_DELAY) throw error;
      await pause(delay, signal);
      signal.throwIfAborted();
    }
  }
}
