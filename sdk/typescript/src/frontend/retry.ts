// Requests that are made again until the deadline.

import { Backoff } from "../backoff.js";
import { HandbackError } from "../error.js";
import { delayAfter } from "../tools/retry.js";
import { type Deadline, pause } from "../tools/time.js";
import type { Attempt } from "./acks.js";

/** The delays between tries, in ms: they double from the first to the longest, each shortened by chance. */
const DELAYS = { first: 200, longest: 5000 };
/** So close to the deadline no other try is made, in ms: its answer would be too late. */
const TOO_CLOSE = 100;
/** How long the one try may take that is made in any case, in ms. */
export const LAST_TRY = 5000;
/** The longest that one try may take, in ms. */
const LONGEST_TRY = 30_000;

export interface Request<T> {
  send(attempt: Attempt): Promise<T>;
  /** Told of every failure after which it may be tried again. */
  onFailure(error: unknown): void;
  readonly deadline: Deadline;
  /** Gives it up. */
  readonly signal: AbortSignal;
}

/**
 * Tries until the server has answered for good, or until the deadline: then the last failure is thrown. One try is made in
 * any case, as whether the call has expired is for the server to say.
 */
export async function persist<T>({ send, onFailure, deadline, signal }: Request<T>): Promise<T> {
  const backoff = new Backoff(DELAYS.first, DELAYS.longest);
  for (;;) {
    try {
      const timeout = Math.min(Math.max(deadline.remaining(), LAST_TRY), LONGEST_TRY);
      return await send({ signal, timeout });
    } catch (error) {
      if (signal.aborted || !mayPass(error)) throw error;
      onFailure(error);
      const remaining = deadline.remaining();
      if (remaining < TOO_CLOSE) throw error;
      await pause(delayAfter(error, backoff, remaining), signal);
      signal.throwIfAborted();
    }
  }
}

/** Whether the same may be taken later: the network failed, or the server, or something else answers in its place. */
function mayPass(error: unknown): error is HandbackError {
  if (!(error instanceof HandbackError)) return false;
  if (error.kind === "refused") return error.isProxyAnswer || error.status === 429 || (error.status ?? 0) >= 500;
  return error.kind === "unreachable" || error.kind === "interrupted" || error.kind === "unexpected";
}
