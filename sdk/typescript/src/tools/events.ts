// What a manager tells about itself.

/** Whether the tools can be called: only while `open`. `retrying` ends by itself, `closed` does not. */
export type ConnectionState = "connecting" | "open" | "retrying" | "closed";

/** The connection has changed. */
export interface StateEvent {
  readonly state: ConnectionState;
  /** Why it is not open, unless `disconnect()` was called. */
  readonly error?: Error;
  /** How long it is until the next try, in ms. */
  readonly retryIn?: number;
}

interface CallFacts {
  /** The full id of the tool. */
  readonly tool: string;
  readonly requestID: string;
  readonly sessionID: string;
  readonly messageID: string;
  readonly callID: string;
  /** Which time the call is offered, from 1. */
  readonly attempt: number;
}

/**
 * Something has happened to a call.
 * - `started`: its handler was.
 * - `finished`: its handler has; the result is on its way to the server.
 * - `cancelled`: it is over before its handler is.
 * - `answered`: it was, without its handler: its result was known, its outcome unknown, or there is no such tool.
 * - `undelivered`: the server did not take the result.
 */
export type CallEvent = CallFacts & CallNews;

export type CallNews =
  | { readonly type: "started" }
  /** `elapsed` is in ms. */
  | { readonly type: "finished"; readonly elapsed: number; readonly error?: string }
  | { readonly type: "cancelled"; readonly reason: string }
  | { readonly type: "answered"; readonly error?: string }
  | { readonly type: "undelivered"; readonly reason: string };

export interface ManagerEvents {
  state: StateEvent;
  call: CallEvent;
}

/** Listeners, who cannot break anything. */
export class Listeners<Events> {
  readonly #listeners = new Map<keyof Events, Set<(event: never) => void>>();

  /** Gives a way to stop listening. */
  add<Name extends keyof Events>(name: Name, listener: (event: Events[Name]) => void): () => void {
    // Wrapped, so that the same function may listen twice and stop once.
    const own = (event: Events[Name]) => listener(event);
    const all = this.#listeners.get(name) ?? new Set();
    this.#listeners.set(name, all.add(own));
    return () => void all.delete(own);
  }

  has(name: keyof Events): boolean {
    return (this.#listeners.get(name)?.size ?? 0) > 0;
  }

  tell<Name extends keyof Events>(name: Name, event: Events[Name]): void {
    for (const listener of [...(this.#listeners.get(name) ?? [])]) {
      try {
        (listener as (event: Events[Name]) => void)(event);
      } catch (error) {
        console.error("handback: a listener has failed:", error);
      }
    }
  }
}
