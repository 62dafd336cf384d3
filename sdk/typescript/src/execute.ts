// A tool is called by the application, and its outcome is found, whatever is lost in between.
//
// The call is made without waiting and then followed, so that a connection that breaks cancels nothing. It has an id of its
// own: made again, it is the same call.

import { hasText } from "./answer.js";
import { randomHex } from "./client-id.js";
import { HandbackError } from "./error.js";
import type { Http } from "./http.js";
import { countdown, isAway, isLost, persist } from "./tools/retry.js";
import { after, LONGEST_CALL, pause } from "./tools/time.js";
import { unlessAborted } from "./waiting.js";
import type { Call, ExecuteRequest, Outcome, ToolResult } from "./wire.js";

/** How long the server is asked to wait for the outcome; in ms. The first time is short: the answer tells the deadline. */
const FIRST_WAIT = 1_000;
const LONGEST_WAIT = 60_000;
/** How long an answer may take beyond that wait; in ms. */
const ANSWER_TIMEOUT = 30_000;
/**
 * How long a lost server is tried that has not taken the call, unless the caller says how long it may take. So long, too,
 * a gateway is tried that answers in place of the server before the call could be read once. In ms.
 */
const PATIENCE = 120_000;
/** How long a lost server is tried after the deadline: it may have the outcome; in ms. */
const AFTER_DEADLINE = 5_000;
/** How long an abort waits for the server before it leaves the call to its deadline; in ms. */
const CANCEL_TIMEOUT = 5_000;

/** What the server answers a caller that waits, when a call has ended without a result. */
const FAILURES: Record<Exclude<Outcome["status"], ToolResult["status"]>, { status: number; code: string }> = {
  timeout: { status: 504, code: "TIMEOUT" },
  cancelled: { status: 409, code: "CANCELLED" },
  denied: { status: 403, code: "FORBIDDEN" },
  disconnected: { status: 502, code: "CLIENT_DISCONNECTED" },
};

/** Whether an answer is about a call. */
const isCall = hasText("requestID");

export interface ExecuteOptions {
  /** The id of the call; a random one by default. With the id of a call that was made before, that one is followed. */
  requestID?: string | undefined;
  /** What the call belongs to: a session, a message, and the caller's own id. */
  sessionID?: string | undefined;
  messageID?: string | undefined;
  callID?: string | undefined;
  /** How long the call may take, in ms; the tool's own time by default. */
  timeout?: number | undefined;
  /** Cancels the call, on the server too. */
  signal?: AbortSignal | undefined;
}

export class Execution {
  readonly #http: Http;
  readonly #requestID: string;
  readonly #body: { [Key in keyof ExecuteRequest]: ExecuteRequest[Key] | undefined };
  readonly #ended = new AbortController();
  /** How long the caller lets the call take, in ms. */
  readonly #timeout: number | undefined;

  constructor(http: Http, toolID: string, input: Record<string, unknown>, options: ExecuteOptions) {
    const { requestID = `call_${randomHex(16)}`, signal, ...said } = options;
    this.#http = http;
    this.#requestID = requestID;
    this.#body = { toolID, input, ...said, requestID, wait: false };
    this.#timeout = said.timeout;
  }

  /** The result, however often the server is lost before it comes. When the signal fires, the call is cancelled first. */
  async run(signal: AbortSignal | undefined): Promise<ToolResult> {
    signal?.throwIfAborted();
    const made = this.#make();
    const followed = made.then(() => this.#follow());
    try {
      return await (signal ? unlessAborted(followed, signal) : followed);
    } catch (error) {
      this.#ended.abort();
      if (signal?.aborted) await this.#cancel(made);
      throw error;
    }
  }

  async #make(): Promise<void> {
    const options = { body: this.#body, isAnswer: isCall };
    const make = () => this.#http.request("POST", ["client-tools", "execute"], options);
    await this.#persist(make, countdown((this.#timeout ?? PATIENCE) + AFTER_DEADLINE));
  }

  async #follow(): Promise<ToolResult> {
    let wait = FIRST_WAIT;
    // Until the server says how long the call may take, it may be the longest time.
    let time = this.#timeout ?? LONGEST_CALL;
    const began = performance.now();
    const remaining = () => time + AFTER_DEADLINE - (performance.now() - began);
    let mayPass = unlessBlocked();
    for (;;) {
      const earliest = countdown(FIRST_WAIT);
      const call = await this.#persist(() => this.#call(wait), remaining, mayPass);
      if (call.outcome) return this.#result(call, call.outcome);
      // One that was made before may have less left; that it has ended is the server's to say.
      const said = Date.parse(call.deadline ?? "") - Date.parse(call.created);
      if (!Number.isNaN(said)) time = said;
      wait = LONGEST_WAIT;
      mayPass = isLost;
      // Something in between may keep an answer, and give it without any wait.
      await pause(Math.max(earliest(), 0), this.#ended.signal);
    }
  }

  #call(wait: number): Promise<Call> {
    const path = ["client-tools", "calls", this.#requestID];
    const options = { query: { wait: String(wait) }, timeout: wait + ANSWER_TIMEOUT, isAnswer: isCall };
    return this.#http.request("GET", path, { ...options, signal: this.#ended.signal });
  }

  /** What a caller that waits for the call is answered. */
  #result(call: Call, outcome: Outcome): ToolResult {
    if (outcome.status === "success" || outcome.status === "error") return outcome;
    const { status, code } = FAILURES[outcome.status];
    const { requestID, mayHaveRun } = call;
    const details = { ...(mayHaveRun != null && { mayHaveRun }), requestID };
    const request = `POST ${this.#http.baseUrl}/client-tools/execute`;
    throw new HandbackError("refused", `${outcome.error} (${request}: ${status})`, { status, code, details });
  }

  #persist<T>(attempt: () => Promise<T>, remaining: () => number, mayPass = isLost): Promise<T> {
    return persist(attempt, { signal: this.#ended.signal, remaining, mayPass });
  }

  /** Cancels the call. A server that cannot be reached is left alone: the call goes on to its deadline. */
  async #cancel(made: Promise<void>): Promise<void> {
    const limit = new AbortController();
    const remaining = countdown(CANCEL_TIMEOUT);
    const callOff = after(CANCEL_TIMEOUT, () => limit.abort());
    const { signal } = limit;
    const body = { requestID: this.#requestID };
    try {
      // A cancel that overtakes the call would cancel nothing.
      await unlessAborted(made.catch(() => undefined), signal);
      const cancel = () => this.#http.request("POST", ["client-tools", "cancel"], { body, signal });
      await persist(cancel, { signal, remaining, mayPass: isLost });
    } catch {
      // The call is over, was never made, or cannot be reached: whoever fired the signal does not wait for it any more.
    } finally {
      callOff();
    }
  }
}

/** Like `isLost`, but not for long while a gateway answers: one that lets calls be made may never let them be read. */
function unlessBlocked(): (error: unknown) => boolean {
  let left = countdown(PATIENCE);
  return (error) => {
    // A server that is away is waited for, and its proxy's other answers while it comes back.
    if (isAway(error)) left = countdown(PATIENCE);
    return isLost(error) && left() > 0;
  };
}
