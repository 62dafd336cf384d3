// Requests that are made until they succeed.

import { Backoff } from "./backoff.js";
import { HandbackError } from "./error.js";
import { delay } from "./waiting.js";

/** The delays between tries, in ms: they double from the first to the longest. */
const DELAYS = { first: 200, longest: 5_000 };

/** Tries until it succeeds, fails for good, or has failed for `patience` ms; the first attempt is number 1. */
export async function persist<T>(
  action: (attempt: number) => Promise<T>,
  patience: number,
  signal: AbortSignal,
): Promise<T> {
  const backoff = new Backoff(DELAYS.first, DELAYS.longest);
  const began = performance.now();
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await action(attempt);
    } catch (error) {
      const isFinal = !(error instanceof HandbackError) || !error.transient;
      if (isFinal || performance.now() - began >= patience) throw error;
      await delay(Math.min(error.retryAfter ?? backoff.next(), patience), signal);
    }
  }
}
