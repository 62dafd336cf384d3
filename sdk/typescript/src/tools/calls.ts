// The calls of a client, each from its arrival until its result is delivered.

import { HandbackError } from "../error.js";
import type { components } from "../wire.js";
import type { CallEvent, CallNews } from "./events.js";
import type { Entry, Journal } from "./journal/journal.js";
import { failure, messageOf, resultOf, type ToolResult } from "./result.js";
import { persist } from "./retry.js";
import { aborted, after, CLOCK_RESOLUTION, type Deadline, pause, type ServerClock } from "./time.js";
import type { Tool, ToolCall } from "./tool.js";

export type ToolRequest = components["schemas"]["ToolRequest"];

/** How many calls are under way at once; one more is answered with an error. The server's own limit is the same. */
const MAX_CALLS = 1024;
/** How many of those errors may be on their way; more calls than that are left to their deadline. */
const MAX_REFUSED = 1024;
/** How long a handler has to end once its call is over, in ms. Then nobody waits for it any more. */
const CLEANUP = 5000;
/** How long the one try to deliver a result may take that is made in any case, and that of a late one; in ms. */
const LAST_TRY = 5000;

/** What the calls need from the client. */
export interface Surroundings {
  readonly clientID: string;
  readonly journal: Journal;
  readonly clock: ServerClock;
  /** The tool with this full id. */
  find(tool: string): Tool | undefined;
  /** Sends a result once. */
  send(requestID: string, result: ToolResult, signal: AbortSignal): Promise<void>;
  /** Whether what failed may succeed later. */
  mayPass(error: unknown): boolean;
  tell(event: CallEvent): void;
}

/** A call that is under way. */
interface Call {
  readonly request: ToolRequest;
  readonly deadline: Deadline;
  /** What the handler is told: the call is over, or the client stops. */
  readonly handler: AbortController;
  /** Nobody waits for the result any more. */
  readonly over: AbortController;
  isDelivering: boolean;
}

export class Calls {
  readonly #around: Surroundings;
  readonly #calls = new Map<string, Call>();
  #isStopping = false;
  /** Called when the last call is gone. */
  #onIdle: (() => void) | undefined;

  constructor(surroundings: Surroundings) {
    this.#around = surroundings;
  }

  /** A call has arrived. One that is under way already needs nothing: its result will be sent when it is there. */
  take(request: ToolRequest): void {
    if (this.#isStopping || this.#calls.has(request.requestID)) return;
    if (this.#calls.size >= MAX_CALLS + MAX_REFUSED) return;
    const call: Call = {
      request,
      deadline: this.#around.clock.deadline(request.deadline),
      handler: new AbortController(),
      over: new AbortController(),
      isDelivering: false,
    };
    const isTooMany = this.#calls.size >= MAX_CALLS;
    this.#calls.set(request.requestID, call);
    void this.#see(call, isTooMany);
  }

  /** The server has ended a call. */
  cancel(requestID: string, reason: string): void {
    const call = this.#calls.get(requestID);
    if (call) this.#end(call, new DOMException(reason, "AbortError"));
  }

  /** Takes no more calls, tells all handlers to stop, and waits a while for their last words to be delivered. */
  async stop(reason: string): Promise<void> {
    this.#isStopping = true;
    const error = new DOMException(reason, "AbortError");
    for (const { handler } of this.#calls.values()) handler.abort(error);
    const idle = new AbortController();
    this.#onIdle = () => idle.abort();
    if (this.#calls.size > 0) await pause(CLEANUP, idle.signal);
    for (const call of this.#calls.values()) this.#end(call, error);
  }

  /** Sees a call through. */
  async #see(call: Call, isTooMany: boolean): Promise<void> {
    const { requestID } = call.request;
    const expired = () => this.#end(call, new DOMException("the call has expired", "TimeoutError"));
    const isLate = call.deadline.remaining() <= 0;
    const keepTime = isLate ? () => undefined : after(call.deadline.remaining(), expired);
    try {
      let result: ToolResult | undefined;
      if (isLate) result = this.#refuse(call, "the call reached the client after its deadline");
      else if (isTooMany) result = this.#refuse(call, "this client runs too many calls already");
      else result = await this.#answer(call);
      keepTime();
      if (result && !call.over.signal.aborted) await this.#deliver(call, result);
    } finally {
      keepTime();
      this.#calls.delete(requestID);
      if (this.#calls.size === 0) this.#onIdle?.();
    }
  }

  /** The result of a call, from its handler or from the journal; `undefined` if nobody waits for one. */
  async #answer(call: Call): Promise<ToolResult | undefined> {
    const { journal, clientID } = this.#around;
    const { requestID, attempt = 1 } = call.request;
    const { signal } = call.handler;
    const expires = call.deadline.date.getTime();
    let entry: Entry | undefined;
    try {
      entry = await journal.open({ clientID, requestID, attempt, isRepeatable: isRepeatable(call), expires, signal });
    } catch (error) {
      if (signal.aborted) return undefined;
      if (!isRepeatable(call)) return this.#refuse(call, `the journal cannot be read: ${messageOf(error)}; ${NOT_RUN}`);
    }
    try {
      return signal.aborted ? undefined : await this.#decide(call, entry);
    } finally {
      entry?.close();
    }
  }

  /** Runs the call, unless what is known of it forbids that. Without an entry, it may be run whatever is known. */
  async #decide(call: Call, entry: Entry | undefined): Promise<ToolResult | undefined> {
    if (entry?.known.state === "done") return this.#repeat(call, entry.known.result);
    const tool = this.#around.find(call.request.tool);
    if (!tool) return this.#refuse(call, `this client does not offer ${call.request.tool}`);
    if (!entry || isRepeatable(call)) return this.#run(call, tool, entry);
    if (entry.known.state === "started" || entry.mayBeForgotten) return this.#refuse(call, OUTCOME_UNKNOWN);
    try {
      if (!(await entry.start())) return this.#refuse(call, OUTCOME_UNKNOWN);
    } catch (error) {
      return this.#refuse(call, `the journal cannot be written: ${messageOf(error)}; ${NOT_RUN}`);
    }
    return call.handler.signal.aborted ? undefined : this.#run(call, tool, entry);
  }

  /** Runs the handler; gives its result if somebody waits for it. */
  async #run(call: Call, tool: Tool, entry: Entry | undefined): Promise<ToolResult | undefined> {
    this.#tell(call, { type: "started" });
    const began = performance.now();
    const handled = this.#handle(call, tool);
    const result = await this.#settle(call, handled);
    if (result) {
      // What cannot be written down is delivered all the same; should it come again, it is not run again.
      await entry?.finish(result).catch((error: unknown) => console.warn("handback: a result cannot be kept:", error));
    } else {
      this.#end(call, call.handler.signal.reason as DOMException);
    }
    if (!result || call.over.signal.aborted) {
      void handled.then((late) => this.#sendLate(call, late));
      return undefined;
    }
    const elapsed = performance.now() - began;
    this.#tell(call, { type: "finished", elapsed, ...(result.status === "error" && { error: result.error }) });
    return result;
  }

  /** Runs the handler; gives what becomes of it. */
  #handle(call: Call, tool: Tool): Promise<ToolResult> {
    const { signal } = call.handler;
    const { tool: id, requestID, sessionID, messageID, callID, attempt = 1, input } = call.request;
    const deadline = call.deadline.date;
    const toolCall: ToolCall = { tool: id, requestID, sessionID, messageID, callID, attempt, deadline, signal };
    return tool.run(input, toolCall).then(resultOf, (thrown: unknown) => failure(messageOf(thrown)));
  }

  /** What becomes of the handler; `undefined` if it does not end although it was told to. */
  async #settle(call: Call, handled: Promise<ToolResult>): Promise<ToolResult | undefined> {
    const settled = new AbortController();
    const abandoned = aborted(call.handler.signal, settled.signal).then(() => pause(CLEANUP, settled.signal));
    try {
      return (await Promise.race([handled, abandoned])) ?? undefined;
    } finally {
      settled.abort();
    }
  }

  /** Sends once what a handler gave after the deadline: the server refuses it, and keeps it for people to see. */
  async #sendLate({ request, deadline }: Call, result: ToolResult): Promise<void> {
    if (this.#isStopping || deadline.remaining() > CLOCK_RESOLUTION) return;
    const limit = new AbortController();
    const callOff = after(LAST_TRY, () => limit.abort());
    await this.#around.send(request.requestID, result, limit.signal).catch(() => undefined);
    callOff();
  }

  /** Sends a result until the server has taken or refused it, at most until the deadline. */
  async #deliver(call: Call, result: ToolResult): Promise<void> {
    call.isDelivering = true;
    try {
      try {
        await this.#send(call, result);
      } catch (error) {
        // Only a result that the server cannot take can be mended: whoever waits for it gets to know why.
        if (!isUnacceptable(error)) throw error;
        await this.#send(call, failure(`the tool ran, but its result was not accepted: ${error.message}`));
      }
    } catch (error) {
      this.#tell(call, { type: "undelivered", reason: messageOf(error) });
    }
  }

  async #send(call: Call, result: ToolResult): Promise<void> {
    const { send, mayPass } = this.#around;
    const { signal } = call.over;
    const remaining = () => call.deadline.remaining();
    // Whether the call has expired is the server's to say: one try is made in any case.
    const limit = new DOMException("no answer came before the call's deadline", "TimeoutError");
    const callOff = after(Math.max(remaining(), LAST_TRY), () => call.over.abort(limit));
    try {
      await persist(() => send(call.request.requestID, result, signal), { signal, remaining, mayPass });
    } finally {
      callOff();
    }
  }

  #end(call: Call, reason: DOMException): void {
    if (call.over.signal.aborted) return;
    call.over.abort(reason);
    call.handler.abort(reason);
    // A result that is on its way is then told as undelivered.
    if (!call.isDelivering) this.#tell(call, { type: "cancelled", reason: reason.message });
  }

  #refuse(call: Call, error: string): ToolResult {
    this.#tell(call, { type: "answered", error });
    return failure(error);
  }

  #repeat(call: Call, result: ToolResult | undefined): ToolResult {
    if (!result) return this.#refuse(call, "the outcome is unknown: it was done, but its result is not kept");
    this.#tell(call, { type: "answered", ...(result.status === "error" && { error: result.error }) });
    return result;
  }

  #tell(call: Call, news: CallNews): void {
    const { tool, requestID, sessionID, messageID, callID, attempt = 1 } = call.request;
    this.#around.tell({ tool, requestID, sessionID, messageID, callID, attempt, ...news });
  }
}

const OUTCOME_UNKNOWN =
  "the outcome is unknown: the call was given to this client before, and may have taken effect; it was not run again";

const NOT_RUN = "the call was not run, since it could not be known later that it was";

/** Whether it does no harm to run a call twice. */
function isRepeatable({ request }: Call): boolean {
  return request.effect === "read" || request.effect === "idempotent";
}

function isUnacceptable(error: unknown): error is HandbackError {
  return error instanceof HandbackError && (error.status === 400 || error.status === 413);
}
