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
/** How large a result is kept, in characters of JSON. A page has little room (5 MB), and the application wants some. */
const LARGEST_RESULT = 8 * 1024;
/** How large all results together may be after a sweep; then those that expire first are dropped. */
const ALL_RESULTS = 256 * 1024;

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
          this.#writeInAnyCase(key, started(lookup.expires), lookup.clientID);
          return true;
        },
        finish: async (result) => this.#finish(key, done(lookup.expires, result, LARGEST_RESULT)),
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

  /** Whether a call is run depends on this one: where there is no room, results of others make some. */
  #writeInAnyCase(key: string, note: Note, clientID: string): void {
    try {
      this.#write(key, note);
    } catch {
      this.#sweep(clientID, 0);
      this.#write(key, note);
    }
  }

  /** Removes calls that cannot come any more, then results and calls that expire first until there is room for more. */
  #sweep(clientID: string, allResults = ALL_RESULTS): void {
    this.#callsUntilSweep = CALLS_PER_SWEEP;
    const kept = this.#calls(clientID).filter(({ key, note }) => {
      if (note.expires > Date.now()) return true;
      this.#storage.removeItem(key);
      return false;
    });
    kept.sort((a, b) => b.note.expires - a.note.expires);
    let size = 0;
    for (const { key, note } of kept) {
      size += JSON.stringify(note.result ?? null).length;
      if (note.result && size > allResults) this.#write(key, { ...note, result: null });
    }
    const excess = kept.slice(MAX_ENTRIES - CALLS_PER_SWEEP);
    const [last] = excess;
    if (!last) return;
    this.#storage.setItem(`${prefix(clientID)}forgotten`, String(last.note.expires));
    for (const { key } of excess) this.#storage.removeItem(key);
  }

  #calls(clientID: string): { key: string; note: Note }[] {
    const calls = `${prefix(clientID)}call:`;
    const keys = Array.from({ length: this.#storage.length }, (_, index) => this.#storage.key(index));
    return keys.flatMap((key) => {
      const note = key?.startsWith(calls) ? this.#read(key) : undefined;
      return key && note ? [{ key, note }] : [];
    });
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
