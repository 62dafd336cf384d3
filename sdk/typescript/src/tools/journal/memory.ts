// A journal that ends with the process.

import { done, type Entry, type Journal, knownFrom, type Lookup, MAX_ENTRIES, type Note, started } from "./journal.js";

/** Remembers calls as long as the process runs. What an earlier process did is unknown. */
export function memoryJournal(): Journal {
  return new MemoryJournal();
}

class MemoryJournal implements Journal {
  /** By client and call, in the order in which they came. */
  readonly #notes = new Map<string, Note>();

  async open(lookup: Lookup): Promise<Entry> {
    const key = JSON.stringify([lookup.clientID, lookup.requestID]);
    return {
      known: knownFrom(this.#notes.get(key)),
      mayBeForgotten: lookup.attempt > 1,
      start: async () => {
        this.#write(key, started(lookup.expires));
        return true;
      },
      finish: async (result) => this.#write(key, done(lookup.expires, result)),
      close: () => undefined,
    };
  }

  #write(key: string, note: Note): void {
    this.#notes.delete(key);
    this.#notes.set(key, note);
    for (const [oldest] of this.#notes) {
      if (this.#notes.size <= MAX_ENTRIES) break;
      this.#notes.delete(oldest);
    }
  }
}
