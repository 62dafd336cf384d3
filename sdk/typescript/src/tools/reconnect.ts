// Whether and when to try again after a connection was lost.

import { Backoff } from "../backoff.js";
import { HandbackError } from "../error.js";
import type { Credentials } from "./credentials.js";
import { delayAfter } from "./retry.js";

/** The connections of a client, one after the other. */
export class Reconnect {
  readonly #backoff: Backoff;
  readonly #maxAttempts: number;
  readonly #credentials: Credentials;
  /** How many tries in a row have failed. */
  #failures = 0;
  #wasOpen = false;

  constructor(delays: { first: number; longest: number }, maxAttempts: number, credentials: Credentials) {
    this.#backoff = new Backoff(delays.first, delays.longest);
    this.#maxAttempts = maxAttempts;
    this.#credentials = credentials;
  }

  /** Whether this failure is the first one after a connection that was open. */
  get isFirstFailure(): boolean {
    return this.#failures === 1;
  }

  /** The connection is open and the server has confirmed the tools: the delays and the count of failures start over. */
  opened(): void {
    this.#backoff.reset();
    this.#failures = 0;
    this.#wasOpen = true;
    this.#credentials.accepted();
  }

  /** The delay before the next try, in ms; `undefined` if no try mends it. */
  delayAfter(error: Error): number | undefined {
    this.#failures += 1;
    if (this.#failures > this.#maxAttempts || !this.#mayPass(error)) return undefined;
    return delayAfter(error, this.#backoff);
  }

  /** What is refused at the very first connection is refused again; later it may be a server that is being restarted. */
  #mayPass(error: Error): boolean {
    if (!(error instanceof HandbackError)) return false;
    if (error.denied) return this.#credentials.mayBeRenewed();
    return error.transient || this.#wasOpen;
  }
}
