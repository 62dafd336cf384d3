// Reads calls again that something happened to: events do not tell times and outcomes, and may leave open which call
// they are about.

import { type Call, HandbackError } from "@handback/client";
import { signal } from "@preact/signals";

import { messageOf, request } from "../api";
import type { Calls } from "./calls";

/** How long to wait for more before calls are read, in ms. */
const GATHER = 250;
/** How long to wait after a failure that may pass, in ms. */
const PATIENCE = 2000;
/** How many calls the server lists at most. */
const LISTED = 1000;
/** How many calls are read one by one at the same time, and in a row before the list is read again. */
const AT_ONCE = 4;
const IN_A_ROW = 200;

export class Reader {
  /** Why calls cannot be read. */
  readonly trouble = signal<string | undefined>(undefined);
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
      for (const call of await listCalls(limit)) {
        this.#calls.read(call);
        this.#done(call.requestID, asked.get(call.requestID));
      }
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

/** The newest calls. Their outputs may be more than can be read at once: then fewer are. */
async function listCalls(limit: number): Promise<Call[]> {
  try {
    return await request<Call[]>("GET", ["client-tools", "calls"], { query: { limit: String(limit) } });
  } catch (error) {
    const isTooLarge = error instanceof HandbackError && error.kind === "unexpected";
    if (!isTooLarge || limit <= 1) throw error;
    return listCalls(Math.floor(limit / 4));
  }
}

function pause(time: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, time));
}
