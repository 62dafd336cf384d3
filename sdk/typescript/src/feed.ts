// What happens on the server, as it happens: one connection for all who listen.

import { Backoff } from "./backoff.js";
import { HandbackError } from "./error.js";
import type { Http } from "./http.js";
import { readEvents } from "./sse.js";
import { delayAfter } from "./tools/retry.js";
import { follow, pause } from "./tools/time.js";
import type { Event } from "./wire.js";

/** The delays between tries to connect, in ms: they double from the first to the longest. */
const DELAYS = { first: 500, longest: 15_000 };
/** A connection that is silent for this long is dead: the server says something every 30 s. */
const SILENCE = 90_000;

/** What the feed tells. What happened before `connected` is not told: read it. */
export type Notice =
  | { type: "connected" }
  | { type: "event"; event: Event }
  | { type: "lost"; error: HandbackError }
  /** No retry mends it. Nothing more comes. */
  | { type: "failed"; error: unknown };

export type Listener = (notice: Notice) => void;

/** What to hear of: a session, a client, or everything. A server that is older tells everything in any case. */
export type Topic = { sessionID?: string | undefined; clientID?: string | undefined };

interface Connection {
  readonly stop: AbortController;
  /** Starts over whenever the server says that it listens. */
  readonly backoff: Backoff;
  isOpen: boolean;
}

/** A stream of events. It is open while somebody listens. */
export class EventFeed {
  readonly #http: Http;
  readonly #topic: Topic;
  readonly #listeners = new Set<Listener>();
  #connection: Connection | undefined;

  constructor(http: Http, topic: Topic) {
    this.#http = http;
    this.#topic = topic;
  }

  get hasListeners(): boolean {
    return this.#listeners.size > 0;
  }

  /** Tells what happens from now on, until the returned function is called. */
  subscribe(listener: Listener): () => void {
    // Its own, should somebody listen twice with one function.
    const told: Listener = (notice) => listener(notice);
    this.#listeners.add(told);
    if (!this.#connection) {
      const backoff = new Backoff(DELAYS.first, DELAYS.longest);
      this.#connection = { stop: new AbortController(), backoff, isOpen: false };
      void this.#run(this.#connection);
    } else if (this.#connection.isOpen) {
      told({ type: "connected" });
    }
    return () => {
      this.#listeners.delete(told);
      if (this.#listeners.size === 0) this.#close();
    };
  }

  #close(): void {
    this.#connection?.stop.abort();
    this.#connection = undefined;
  }

  #tell(notice: Notice): void {
    for (const listener of [...this.#listeners]) listener(notice);
  }

  async #run(connection: Connection): Promise<void> {
    const { signal } = connection.stop;
    while (!signal.aborted) {
      try {
        await this.#read(connection);
      } catch (error) {
        connection.isOpen = false;
        if (signal.aborted) return;
        if (!(error instanceof HandbackError) || !error.transient) {
          this.#tell({ type: "failed", error });
          this.#close();
          return;
        }
        this.#tell({ type: "lost", error });
        await pause(delayAfter(error, connection.backoff), signal);
      }
    }
  }

  /** Reads one connection to its end, which is always an error. */
  async #read(connection: Connection): Promise<never> {
    // A signal of its own: an open stream listens to it as long as it exists.
    const { controller, release } = follow(connection.stop.signal);
    const { signal } = controller;
    try {
      const response = await this.#http.open(["event"], { query: this.#topic, signal });
      for await (const { data } of readEvents(response, { silence: SILENCE })) {
        if (signal.aborted) break;
        const event = decode(data);
        if (event?.type === "server.connected") {
          connection.isOpen = true;
          connection.backoff.reset();
          this.#tell({ type: "connected" });
        } else if (event) {
          this.#tell({ type: "event", event });
        }
      }
    } finally {
      release();
    }
    throw new HandbackError("interrupted", `the server at ${this.#http.baseUrl} has ended the stream of events`);
  }
}

/** Reads an event; nothing if it is not what it should be: newer servers may say more than is known here. */
function decode(data: string): Event | undefined {
  try {
    const event: unknown = JSON.parse(data);
    const { type, properties } = (event ?? {}) as Record<string, unknown>;
    return typeof type === "string" && typeof properties === "object" && properties ? (event as Event) : undefined;
  } catch {
    return undefined;
  }
}
