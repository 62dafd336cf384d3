// A journal in a directory: what other processes and earlier ones did is known.

import { createHash, randomUUID } from "node:crypto";
import { mkdir, open, readdir, readFile, rename, rm, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";

import { LONGEST_CALL } from "../time.js";
import {
  done,
  type Entry,
  type Journal,
  KEPT,
  knownFrom,
  type Lookup,
  MAX_ENTRIES,
  mayBeForgotten,
  type Note,
  parseNote,
  started,
} from "./journal.js";

/** After so many calls the old ones are removed. All files are read for it. */
const CALLS_PER_SWEEP = 256;
const FORGOTTEN = "forgotten";

/** Remembers calls as files of a directory, which is made if it is not there. Several processes may share it. */
export function directoryJournal(path: string): Journal {
  return new DirectoryJournal(path);
}

class DirectoryJournal implements Journal {
  readonly #path: string;
  #callsUntilSweep = 0;
  /** The removal of old calls that is under way. */
  #sweeping: Promise<void> | undefined;

  constructor(path: string) {
    this.#path = path;
  }

  async open(lookup: Lookup): Promise<Entry> {
    if (--this.#callsUntilSweep < 0) await this.#sweepOnce();
    const name = createHash("sha256").update(`${lookup.clientID}\n${lookup.requestID}`).digest("hex");
    const file = join(this.#path, `${name}.json`);
    const text = await read(file);
    return {
      known: knownFrom(text === undefined ? undefined : parseNote(text)),
      mayBeForgotten: mayBeForgotten(lookup, await read(join(this.#path, FORGOTTEN))),
      start: () => create(file, started(lookup.expires)),
      finish: (result) => replace(file, JSON.stringify(done(lookup.expires, result))),
      close: () => undefined,
    };
  }

  /** Calls that come at the same time wait for the same removal. */
  async #sweepOnce(): Promise<void> {
    this.#sweeping ??= this.#sweep().finally(() => (this.#sweeping = undefined));
    await this.#sweeping;
  }

  /** Removes calls that cannot come any more, then those that expire first until there is room for more. */
  async #sweep(): Promise<void> {
    await mkdir(this.#path, { recursive: true, mode: 0o700 });
    const kept: { file: string; expires: number }[] = [];
    for (const name of await readdir(this.#path)) {
      if (!/^[0-9a-f]{64}\./.test(name)) continue;
      const file = join(this.#path, name);
      const expires = await expiry(file);
      if (expires > Date.now()) kept.push({ file, expires });
      else await rm(file, { force: true });
    }
    const excess = kept.length + CALLS_PER_SWEEP - MAX_ENTRIES;
    if (excess > 0) {
      const first = kept.sort((a, b) => a.expires - b.expires).slice(0, excess);
      await replace(join(this.#path, FORGOTTEN), String(first.at(-1)?.expires));
      for (const { file } of first) await rm(file, { force: true });
    }
    this.#callsUntilSweep = CALLS_PER_SWEEP;
  }
}

/**
 * Only one process creates a file: it alone runs the call, and for the others this is false. On the disk before the call
 * is run, should the machine stop.
 */
async function create(file: string, note: Note): Promise<boolean> {
  let handle;
  try {
    handle = await open(file, "wx", 0o600);
  } catch (error) {
    if (isCode(error, "EEXIST")) return false;
    throw error;
  }
  try {
    await handle.writeFile(JSON.stringify(note));
    await handle.sync();
    return true;
  } finally {
    await handle.close();
  }
}

/** A reader sees what was there before or all of what is there now. */
async function replace(file: string, text: string): Promise<void> {
  const whole = `${file.replace(/\.json$/, "")}.${randomUUID()}.tmp`;
  try {
    await writeFile(whole, text, { mode: 0o600 });
    await rename(whole, file);
  } catch (error) {
    await rm(whole, { force: true });
    throw error;
  }
}

async function read(file: string): Promise<string | undefined> {
  try {
    return await readFile(file, "utf8");
  } catch (error) {
    if (isCode(error, "ENOENT")) return undefined;
    throw error;
  }
}

/** When a file can go. One that is gone can; one that cannot be read is kept as if its call had all the time there is. */
async function expiry(file: string): Promise<number> {
  const text = await read(file);
  if (text === undefined) return 0;
  return parseNote(text).expires || (await stat(file)).mtimeMs + LONGEST_CALL + KEPT;
}

function isCode(error: unknown, code: string): boolean {
  return error instanceof Error && "code" in error && error.code === code;
}
