// A journal that ends with the process.

import { done, type Entry, type Journal, knownFrom, type Lookup, MAX_ENTRIES, type Note, started } from "./journal.js";

/** Remembers calls as long as the process runs. What an earlier process did is unknown. */
export function memoryJournal(): Journal {
  return new MemoryJournal();
}

/** How many calls are remembered; of those beyond `MAX_ENTRIES`, only that they were there. The oldest is forgotten first. */
const MAX_CALLS = 64 * 1024;

class MemoryJournal implements Journal {
  /** By client and call, in the order in which they came. */
  readonly #notes = new Map<string, Note>();
  /** Those that are done and have a result, in the same order. */
  readonly #withResult = new Set<string>();

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
    if (note.result) this.#withResult.add(key);
    const [oldest] = this.#notes.keys();
    if (this.#notes.size > MAX_CALLS && oldest !== undefined) this.#notes.delete(oldest);
    const [first] = this.#withResult;
    if (this.#withResult.size > MAX_ENTRIES && first !== undefined) this.#forgetResult(first);
  }

  #forgetResult(key: string): void {
    this.#withResult.delete(key);
    const note = this.#notes.get(key);
    if (note) this.#notes.set(key, { ...note, result: null });
  }
}
