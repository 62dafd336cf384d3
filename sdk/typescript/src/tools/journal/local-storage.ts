// A journal in a browser's localStorage: what other tabs and earlier page loads did is known.

import { pause } from "../time.js";
import {
  done,
  type Entry,
  type Journal,
  knownFrom,
  type Lookup,
  MAX_ENTRIES,
  mayBeForgotten,
  type Note,
  parseNote,
  started,
} from "./journal.js";

const PREFIX = "handback:";
/** What one tab writes may be seen by another a moment later; in ms. */
const SETTLE = 100;
/** After so many calls the old ones are removed. */
const CALLS_PER_SWEEP = 64;

/** The part of `localStorage` that is used. */
export interface StorageLike {
  readonly length: number;
  key(index: number): string | null;
  getItem(key: string): string | null;
  setItem(key: string, value: string): void;
  removeItem(key: string): void;
}

/** The part of `navigator.locks` that is used. */
export interface LocksLike {
  request(name: string, options: { signal: AbortSignal }, run: () => Promise<void>): Promise<unknown>;
}

/**
 * Remembers calls in the browser's storage. With Web Locks (on https and localhost), a tab that is given a call which
 * another one runs waits for it; without, such a call's outcome is unknown.
 */
export function localStorageJournal(storage: StorageLike, locks?: LocksLike): Journal {
  return new LocalStorageJournal(storage, locks);
}

class LocalStorageJournal implements Journal {
  readonly #storage: StorageLike;
  readonly #locks: LocksLike | undefined;
  #callsUntilSweep = 0;

  constructor(storage: StorageLike, locks: LocksLike | undefined) {
    this.#storage = storage;
    this.#locks = locks;
  }

  async open(lookup: Lookup): Promise<Entry> {
    if (--this.#callsUntilSweep < 0) this.#sweep(lookup.clientID);
    const key = `${prefix(lookup.clientID)}call:${lookup.requestID}`;
    const waits = this.#locks && !lookup.isRepeatable;
    const release = waits ? await hold(this.#locks, key, lookup.signal) : () => undefined;
    try {
      let known = knownFrom(this.#read(key));
      if (lookup.attempt > 1 && known.state !== "done") {
        await pause(SETTLE, lookup.signal);
        lookup.signal.throwIfAborted();
        known = knownFrom(this.#read(key));
      }
      return {
        known,
        mayBeForgotten: mayBeForgotten(lookup, this.#storage.getItem(`${prefix(lookup.clientID)}forgotten`)),
        start: async () => {
          this.#write(key, started(lookup.expires));
          return true;
        },
        finish: async (result) => this.#finish(key, done(lookup.expires, result)),
        close: release,
      };
    } catch (error) {
      release();
      throw error;
    }
  }

  #read(key: string): Note | undefined {
    const text = this.#storage.getItem(key);
    return text === null ? undefined : parseNote(text);
  }

  #write(key: string, note: Note): void {
    this.#storage.setItem(key, JSON.stringify(note));
  }

  /** Where there is no room for the result, there is for less. */
  #finish(key: string, note: Note): void {
    try {
      this.#write(key, note);
    } catch {
      this.#write(key, { ...note, result: null });
    }
  }

  /** Removes calls that cannot come any more, then those that expire first until there is room for more. */
  #sweep(clientID: string): void {
    this.#callsUntilSweep = CALLS_PER_SWEEP;
    const calls = `${prefix(clientID)}call:`;
    const kept: { key: string; expires: number }[] = [];
    const keys = Array.from({ length: this.#storage.length }, (_, index) => this.#storage.key(index));
    for (const key of keys) {
      if (!key?.startsWith(calls)) continue;
      const { expires } = this.#read(key) ?? { expires: 0 };
      if (expires > Date.now()) kept.push({ key, expires });
      else this.#storage.removeItem(key);
    }
    const excess = kept.length + CALLS_PER_SWEEP - MAX_ENTRIES;
    if (excess <= 0) return;
    const first = kept.sort((a, b) => a.expires - b.expires).slice(0, excess);
    this.#storage.setItem(`${prefix(clientID)}forgotten`, String(first.at(-1)?.expires));
    for (const { key } of first) this.#storage.removeItem(key);
  }
}

/** Nothing in a client's id can make it the beginning of another's. */
function prefix(clientID: string): string {
  return `${PREFIX}${encodeURIComponent(clientID)}:`;
}

/** Waits for a lock and holds it until it is released, or the page is gone. */
function hold(locks: LocksLike, name: string, signal: AbortSignal): Promise<() => void> {
  return new Promise((resolve, reject) => {
    const held = () => new Promise<void>((release) => resolve(release));
    locks.request(name, { signal }, held).catch(reject);
  });
}
