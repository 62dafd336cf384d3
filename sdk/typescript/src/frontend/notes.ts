// What this tab remembers of its calls over a reload: which were begun, and what was said of them.

import type { StorageLike } from "../tools/journal/local-storage.js";
import type { Ack } from "./acks.js";
import type { Tab } from "./tab.js";

const PREFIX = "handback:frontend-call:";
/** How many calls are remembered. One more, and the oldest quarter is forgotten: the server refuses those that are over. */
const MAX_NOTES = 200;
/** How large an ack is kept, in characters. Of a larger one it is only known that it was there. */
const MAX_ACK = 8 * 1024;

export interface Note {
  /** When it was begun, RFC 3339. */
  readonly requestedAt: string;
  /** The page load that began it. */
  readonly load: number;
  /** What the server was told, or was about to be; `null` if that was too large to be kept. */
  readonly ack?: Ack | null;
}

export class Notes {
  readonly #storage: StorageLike | undefined;
  readonly #load: number;

  constructor({ storage, load }: Tab) {
    this.#storage = storage;
    this.#load = load;
  }

  /** What is known of a call. What cannot be read was begun, by nobody knows whom. */
  read(toolCallId: string): Note | undefined {
    const text = this.#storage?.getItem(PREFIX + toolCallId);
    if (text === null || text === undefined) return undefined;
    return parse(text);
  }

  /** Whether a page that still runs has begun it: another executor in this one. */
  isOfThisLoad({ load }: Note): boolean {
    return load === this.#load;
  }

  begin(toolCallId: string, requestedAt: string): void {
    this.#write(toolCallId, { requestedAt, load: this.#load });
  }

  finish(ack: Ack): void {
    const isKept = JSON.stringify(ack).length <= MAX_ACK;
    this.#write(ack.toolCallId, { requestedAt: ack.requestedAt, load: this.#load, ack: isKept ? ack : null });
  }

  #write(toolCallId: string, note: Note): void {
    const [key, text] = [PREFIX + toolCallId, JSON.stringify(note)];
    if (this.#storage?.getItem(key) === null) this.#makeRoom(MAX_NOTES - 1, MAX_NOTES / 4);
    try {
      this.#storage?.setItem(key, text);
    } catch {
      this.#makeRoom(0, MAX_NOTES);
      try {
        this.#storage?.setItem(key, text);
      } catch {
        // The page has filled the storage itself. The call is run all the same: only a reload would not know of it, and the
        // server still lets nobody else have it.
      }
    }
  }

  /** Forgets the oldest if there are more than `most`. */
  #makeRoom(most: number, count: number): void {
    const storage = this.#storage;
    if (!storage) return;
    const keys = Array.from({ length: storage.length }, (_, index) => storage.key(index) ?? "");
    const ours = keys.filter((key) => key.startsWith(PREFIX));
    if (ours.length <= most) return;
    const begun = (key: string) => parse(storage.getItem(key) ?? "").requestedAt;
    const oldestFirst = ours.map((key) => ({ key, begun: begun(key) })).sort((a, b) => (a.begun < b.begun ? -1 : 1));
    for (const { key } of oldestFirst.slice(0, count)) storage.removeItem(key);
  }
}

function parse(text: string): Note {
  try {
    const note = JSON.parse(text) as Partial<Note> | null;
    if (typeof note?.requestedAt === "string" && typeof note.load === "number") return note as Note;
  } catch {
    // Somebody else wrote it.
  }
  return { requestedAt: new Date(0).toISOString(), load: 0 };
}
