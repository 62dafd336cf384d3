// The events of sessions: whoever listens to a session is told of others as little as can be.

import { EventFeed, type Listener } from "./feed.js";
import type { Http } from "./http.js";

/**
 * So many sessions have a stream of their own; the next ones share one of everything. A browser opens six connections to a
 * host: with more streams, none would be left for prompts.
 */
const MOST_STREAMS = 3;

/** A stream for each session that somebody listens to, however many do. */
export class SessionFeeds {
  readonly #http: Http;
  /** Those that are listened to, by session. */
  readonly #feeds = new Map<string, EventFeed>();
  readonly #everything: EventFeed;

  constructor(http: Http) {
    this.#http = http;
    this.#everything = new EventFeed(http, {});
  }

  /** Tells what happens in a session from now on, and maybe in others, until the returned function is called. */
  subscribe(sessionID: string, listener: Listener): () => void {
    const feed = this.#feedOf(sessionID);
    const unsubscribe = feed.subscribe(listener);
    return () => {
      unsubscribe();
      if (!feed.hasListeners && this.#feeds.get(sessionID) === feed) this.#feeds.delete(sessionID);
    };
  }

  #feedOf(sessionID: string): EventFeed {
    const known = this.#feeds.get(sessionID);
    if (known) return known;
    if (this.#feeds.size >= MOST_STREAMS) return this.#everything;
    const feed = new EventFeed(this.#http, { sessionID });
    this.#feeds.set(sessionID, feed);
    return feed;
  }
}
