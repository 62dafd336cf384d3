// What a client knows of the calls that it was given, so that none is run twice.

import type { ToolResult } from "../result.js";

/** How many calls a journal keeps. More than that, and those that expire first are forgotten. */
export const MAX_ENTRIES = 1024;
/** How long a call is kept after its deadline, in ms: the server remembers it as long. */
export const KEPT = 10 * 60 * 1000;
/** How large a result is kept, in characters of JSON. Of a larger one it is only known that it was there. */
export const MAX_RESULT = 64 * 1024;

/** What is known of a call. */
export type Known =
  | { readonly state: "new" }
  /** Somebody began to run it, and is not running it any more, or it cannot be known whether they are. */
  | { readonly state: "started" }
  /** It was run; the result, if it was not too large to be kept. */
  | { readonly state: "done"; readonly result?: ToolResult };

/** A call that is looked up. */
export interface Lookup {
  readonly clientID: string;
  readonly requestID: string;
  /** Which time the call is offered, from 1. */
  readonly attempt: number;
  /** Whether it may be run although somebody else runs it: then nobody is waited for. */
  readonly isRepeatable: boolean;
  /** When the call expires, in ms since 1970. */
  readonly expires: number;
  /** Ends the wait for somebody else who runs the call; `open` then rejects with the signal's reason. */
  readonly signal: AbortSignal;
}

/** Where calls are written down. It may be shared by several managers. */
export interface Journal {
  /** Looks a call up. While the entry is open, nobody else opens it, as far as the journal can see to that. */
  open(lookup: Lookup): Promise<Entry>;
}

/** A call in the journal. */
export interface Entry {
  readonly known: Known;
  /** Whether the call may have been run although it is new here: by somebody who is forgotten. */
  readonly mayBeForgotten: boolean;
  /** Writes down that the call is about to be run; `false` if somebody else has, meanwhile. */
  start(): Promise<boolean>;
  /** Writes down that the call was run. */
  finish(result: ToolResult): Promise<void>;
  /** Lets others open the entry. */
  close(): void;
}

/** When a call comes again, its deadline may be read from the server's clock a little differently; in ms. */
const INACCURACY = 2000;

/**
 * Whether a call is among those that were forgotten before they could not come any more: they were the first to expire,
 * up to the time that was noted.
 */
export function mayBeForgotten({ attempt, expires }: Lookup, noted: string | null | undefined): boolean {
  return attempt > 1 && expires + KEPT <= Number(noted) + INACCURACY;
}

/** What is written down; `result` is `null` if it was too large. */
export interface Note {
  readonly expires: number;
  readonly state: "started" | "done";
  readonly result?: ToolResult | null;
}

export function started(expires: number): Note {
  return { expires: expires + KEPT, state: "started" };
}

export function done(expires: number, result: ToolResult, largest = MAX_RESULT): Note {
  const isKept = JSON.stringify(result).length <= largest;
  return { expires: expires + KEPT, state: "done", result: isKept ? result : null };
}

/** Reads what was written down. What cannot be read was begun and not finished; when it expires is not known (0). */
export function parseNote(text: string): Note {
  try {
    const note = JSON.parse(text) as Partial<Note> | null;
    if (typeof note?.expires === "number" && (note.state === "started" || note.state === "done")) return note as Note;
  } catch {
    // Cut off while it was written.
  }
  return { expires: 0, state: "started" };
}

export function knownFrom(note: Note | undefined): Known {
  if (!note) return { state: "new" };
  if (note.state === "started") return { state: "started" };
  return { state: "done", ...(note.result && { result: note.result }) };
}
