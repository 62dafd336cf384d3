// Reads calls again that something happened to: events do not tell times and outcomes, and may leave open which call
// they are about.

import { type Call, HandbackError } from "@handback/client";
import { signal } from "@preact/signals";

import { messageOf, type Page, request, requestPage } from "../api";
import { connection } from "../events";
import { type Calls, MOST_CALLS, tookOf } from "./calls";

/** How long to wait for more before calls are read, in ms. */
const GATHER = 250;
/** How long to wait after a failure that may pass, in ms. */
const PATIENCE = 2000;
/** How many calls a page of the server's list has at most. */
const LISTED = 1000;
/** How many calls are read one by one at the same time, and in a row before the list is read again. */
const AT_ONCE = 4;
const IN_A_ROW = 200;

export class Reader {
  /** Why calls cannot be read. */
  readonly trouble = signal<string | undefined>(undefined);
  /** Where the server's list goes on after the calls that were read; none: all were. */
  readonly older = signal<string | undefined>(undefined);
  readonly isReadingOlder = signal(false);
  /** When the last call that was read of the list ended, in ms since 1970: all that ended later are known. */
  #reach = Number.POSITIVE_INFINITY;
  /** The connection that the list was read in: while it is open, events tell of every new call. */
  #listedIn: unknown;
  readonly #calls: Calls;
  readonly #onRead: () => void;
  /** Calls to be read, with the time that each was asked for: what is asked for while it is read is read again. */
  readonly #wanted = new Map<string, number>();
  #time = 0;
  #mustList = false;
  #isRunning = false;

  constructor(calls: Calls, onRead: () => void) {
    this.#calls = calls;
    this.#onRead = onRead;
  }

  /** Reads these calls soon. `undefined`: those that are new, whichever they are. */
  want(requestIDs: string[] | undefined): void {
    this.#time += 1;
    for (const id of requestIDs ?? []) this.#wanted.set(id, this.#time);
    this.#mustList ||= requestIDs === undefined;
    if (!this.#isRunning && this.#isNeeded) void this.#run();
  }

  /** Reads the next page of calls that ended earlier. */
  async readOlder(): Promise<void> {
    if (this.isReadingOlder.value) return;
    this.isReadingOlder.value = true;
    try {
      const before = this.#calls.size;
      // After a lost connection, the list is read from its start: its next pages may have nothing new.
      while (this.older.value !== undefined && this.#calls.size === before) {
        const cursor = this.older.value;
        const page = await listCalls(LISTED, cursor);
        for (const call of page.entries) this.#calls.read(call);
        // Meanwhile the list may have been read from its start again.
        if (this.older.value === cursor) this.#goOn(page);
      }
      this.trouble.value = undefined;
    } catch (error) {
      this.trouble.value = messageOf(error);
    } finally {
      this.isReadingOlder.value = false;
      this.#onRead();
    }
  }

  /** Whether the server has calls that ended after this time, in ms since 1970, and were not read. */
  isMissing(since: number): boolean {
    return this.older.value !== undefined && this.#reach > since;
  }

  /** Whether older calls can be read, and kept. */
  get hasOlder(): boolean {
    return this.older.value !== undefined && this.#calls.size < MOST_CALLS;
  }

  #goOn({ entries, next }: Page<Call>): void {
    const last = entries.at(-1);
    if (last) this.#reach = Date.parse(last.created) + (tookOf(last.times) ?? 0);
    this.older.value = next;
  }

  get #isNeeded(): boolean {
    return this.#mustList || this.#wanted.size > 0;
  }

  async #run(): Promise<void> {
    this.#isRunning = true;
    while (this.#isNeeded) {
      await pause(GATHER);
      try {
        const asked = new Map(this.#wanted);
        await this.#list(asked);
        await this.#readRest(asked);
        this.trouble.value = undefined;
      } catch (error) {
        this.trouble.value = messageOf(error);
        // What no retry mends is tried again when something happens next.
        if (!(error instanceof HandbackError) || !error.transient) break;
        await pause(PATIENCE);
      } finally {
        this.#onRead();
      }
    }
    this.#isRunning = false;
  }

  /** Most calls that something happened to are among the newest. */
  async #list(asked: ReadonlyMap<string, number>): Promise<void> {
    const mustList = this.#mustList;
    const limit = mustList ? LISTED : Math.min(LISTED, 2 * asked.size + 20);
    this.#mustList = false;
    try {
      const listedIn = connection.value;
      const page = await listCalls(limit);
      for (const call of page.entries) {
        this.#calls.read(call);
        this.#done(call.requestID, asked.get(call.requestID));
      }
      // What was missed while there was no connection may be on the next page.
      if (mustList && this.#listedIn !== listedIn) this.#goOn(page);
      if (mustList) this.#listedIn = listedIn;
    } catch (error) {
      this.#mustList ||= mustList;
      throw error;
    }
  }

  /** Reads those that were not in the list. What was asked for meanwhile may be in the next one. */
  async #readRest(asked: ReadonlyMap<string, number>): Promise<void> {
    const rest = [...asked].filter(([id, time]) => this.#wanted.get(id) === time).slice(0, IN_A_ROW);
    const readNext = async (): Promise<void> => {
      for (let next = rest.pop(); next; next = rest.pop()) {
        const [id, time] = next;
        // One that was forgotten here need not be read.
        if (this.#calls.get(id)) await this.#readOne(id);
        this.#done(id, time);
      }
    };
    await Promise.all(Array.from({ length: AT_ONCE }, readNext));
  }

  async #readOne(id: string): Promise<void> {
    try {
      this.#calls.read(await readCall(id));
    } catch (error) {
      if (!(error instanceof HandbackError) || error.status !== 404) throw error;
      this.#calls.forgotten(id);
    }
  }

  #done(id: string, time: number | undefined): void {
    if (this.#wanted.get(id) === time) this.#wanted.delete(id);
  }
}

/** A call, with its input and all of its outcome. */
export function readCall(requestID: string): Promise<Call> {
  return request<Call>("GET", ["client-tools", "calls", requestID]);
}

/** A page of calls: the newest, or those after the cursor. */
function listCalls(limit: number, cursor?: string): Promise<Page<Call>> {
  return requestPage<Call>(["client-tools", "calls"], { limit: String(limit), cursor });
}

function pause(time: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, time));
}
