// One call, from the claim to the ack.

import { HandbackError } from "../error.js";
import { messageOf } from "../tools/result.js";
import type { Deadline } from "../tools/time.js";
import type { Ack, Acks, Attempt } from "./acks.js";
import { deadlineOf, type Ending, failed, freshDeadline, run, within } from "./ending.js";
import type { Notes } from "./notes.js";
import { whenHidden } from "./page.js";
import { LAST_TRY, persist } from "./retry.js";
import type {
  FrontendCallPhase,
  FrontendCallState,
  FrontendToolHandler,
  FrontendToolOptions,
  FrontendToolRequest,
} from "./state.js";

const RELOADED = "outcome unknown: the page was reloaded while it ran";
const NOT_KEPT = "outcome unknown: it ran before the page was reloaded, and its output was too large to be kept";
const UNREAD = "its input could not be read from the server";

/** How long it is tried to learn a call's deadline, in ms. Then the call is run with the usual one. */
const PATIENCE = 2000;

export interface RegisteredTool extends FrontendToolOptions {
  readonly handler: FrontendToolHandler<never>;
}

/** A call as it was told of. */
export interface CallRequest extends FrontendToolRequest {
  /** Whether its input has links in place of data: the server has the whole. */
  readonly isAbridged?: boolean | undefined;
}

/** What a call needs from its executor. */
export interface Surroundings {
  readonly acks: Acks;
  readonly notes: Notes;
  /** The name under which calls are claimed. */
  claimant(): Promise<string>;
  find(toolName: string): RegisteredTool | undefined;
  /** The state of a call is another one. */
  changed(): void;
}

/** What a state says beside its phase. */
type Facts = Partial<Omit<FrontendCallState, keyof FrontendToolRequest | "phase">>;

export class Call {
  state: FrontendCallState;
  #request: CallRequest;
  readonly #around: Surroundings;
  #deadline: Deadline;
  /** What the server was told last, or is to be. */
  #ack: Ack | undefined;
  /** Whether this tab has claimed it, now or before a reload. */
  #isOurs: boolean;
  #isNew = true;
  /** Fires when the server has said that the call is over. */
  readonly #over = new AbortController();
  /** Stops telling the server an outcome. */
  #delivery = new AbortController();
  /** What is under way, or was. */
  #work: Promise<void> | undefined;

  constructor(request: CallRequest, surroundings: Surroundings) {
    this.#request = request;
    this.#around = surroundings;
    const note = surroundings.notes.read(request.toolCallId);
    this.#ack = note?.ack ?? undefined;
    this.#isOurs = note !== undefined;
    this.#deadline = deadlineOf(request, surroundings.acks);
    this.state = this.#newState("claiming");
  }

  /** Whether something is still to come by itself. */
  get isUnderWay(): boolean {
    return ["claiming", "running", "acking"].includes(this.state.phase);
  }

  /** Executes it as it is given now, unless that was done before. Resolves when nothing more comes by itself. */
  execute(request: CallRequest): Promise<FrontendCallState> {
    const { phase, outcome } = this.state;
    const mayBegin = this.#isNew || phase === "waiting" || (phase === "failed" && outcome === undefined);
    if (mayBegin) {
      this.#isNew = false;
      this.#request = request;
      this.#work = this.#execute();
    }
    return this.#settled();
  }

  /**
   * Runs its handler once more because a person wants it, before this returns if no other page can have the call.
   * Resolves when nothing more comes by itself.
   */
  retry(): Promise<FrontendCallState> {
    const { phase } = this.state;
    if (!this.#isNew && (phase === "claiming" || phase === "running")) return this.#settled();
    this.#isNew = false;
    const isReady = this.#isOurs || (isOver(phase) && !this.#request.isAbridged);
    this.#work = isReady ? this.#runAgain() : this.#claimAndRunAgain();
    return this.#settled();
  }

  /** It has ended without this page, unless it is this page that ended it: a handler that still runs is told. */
  callOff(why: string): void {
    this.#over.abort(new DOMException(`the call is over: ${why}`, "AbortError"));
  }

  async #settled(): Promise<FrontendCallState> {
    for (;;) {
      const work = this.#work;
      await work;
      if (work === this.#work) return this.state;
    }
  }

  async #execute(): Promise<void> {
    const { notes, find } = this.#around;
    const { toolCallId, toolName } = this.#request;
    if (this.#ack) return this.#deliver(this.#ack);
    if (!(await this.#claim())) return;
    await this.#complete(this.#over.signal);
    if (this.#over.signal.aborted) return this.#show("expired", { error: messageOf(this.#over.signal.reason) });
    // Read only now: another executor of this page may have the same name, and be quicker.
    const note = notes.read(toolCallId);
    if (note?.ack) return this.#deliver(note.ack);
    if (note && note.ack === undefined && notes.isOfThisLoad(note)) return this.#show("elsewhere");
    if (note && find(toolName)?.again !== true) {
      return this.#end(failed(note.ack === null ? NOT_KEPT : RELOADED), note.requestedAt);
    }
    const requestedAt = new Date().toISOString();
    notes.begin(toolCallId, requestedAt);
    this.#show("running");
    await this.#end(await this.#run(this.#deadline, this.#over.signal), requestedAt);
  }

  /** Asks the server whether this tab may execute it. If not, the state says why. */
  async #claim(): Promise<boolean> {
    const { acks } = this.#around;
    const { toolCallId, deadline } = this.#request;
    this.#show("claiming");
    this.#deadline = deadlineOf(this.#request, acks);
    try {
      const claimant = await this.#around.claimant();
      await persist({
        send: (attempt) => acks.claim(toolCallId, claimant, attempt),
        onFailure: (error) => this.#show("claiming", { error: messageOf(error) }),
        deadline: this.#deadline,
        signal: new AbortController().signal,
      });
    } catch (error) {
      this.#show(phaseAfter(error), { error: messageOf(error) });
      return false;
    }
    this.#isOurs = true;
    // What the server's clock shows may be known only now.
    if (typeof deadline === "string") this.#deadline = deadlineOf(this.#request, acks);
    return true;
  }

  /** Reads what it was not told with: the deadline, which a chat's stream does not have, or all of the input. */
  async #complete(signal: AbortSignal): Promise<void> {
    const { acks } = this.#around;
    const { toolCallId, deadline, isAbridged } = this.#request;
    if (deadline !== undefined && !isAbridged) return;
    try {
      const call = await persist({
        send: (attempt) => acks.read(toolCallId, attempt),
        onFailure: (error) => this.#show(this.state.phase, { error: messageOf(error) }),
        deadline: isAbridged ? this.#deadline : within(PATIENCE),
        signal,
      });
      if (isAbridged) this.#request = { ...this.#request, input: call.input, isAbridged: false };
      if (deadline === undefined) this.#deadline = deadlineOf({ ...this.#request, deadline: call.deadline }, acks);
    } catch {
      // With its input it is run all the same, within the usual time: the call is ours, and nobody else would run it.
      // Without, it fails and says so.
    }
  }

  #run(deadline: Deadline, calledOff: AbortSignal): Promise<Ending> {
    const tool = this.#around.find(this.#request.toolName);
    if (!tool) return Promise.resolve(failed(`this page has no tool "${this.#request.toolName}"`));
    if (this.#request.isAbridged) return Promise.resolve(failed(UNREAD));
    return run(tool.handler, this.#request, deadline, calledOff);
  }

  async #claimAndRunAgain(): Promise<void> {
    const isClaimed = await this.#claim();
    // What is over does no harm here: nobody else runs it any more.
    if (!isClaimed && !isOver(this.state.phase)) return;
    if (isClaimed || this.#request.isAbridged) await this.#complete(new AbortController().signal);
    await this.#runAgain();
  }

  async #runAgain(): Promise<void> {
    const [before, earlier] = [this.state, this.#ack];
    const { toolCallId, input } = this.#request;
    const requestedAt = new Date().toISOString();
    if (!earlier) this.#around.notes.begin(toolCallId, requestedAt);
    // A success would replace what the server has not taken yet.
    this.#delivery.abort();
    this.#show("running");
    // A call that has expired is run for the person alone, who has as much time as the call had.
    const deadline = this.#deadline.remaining() > 0 ? this.#deadline : freshDeadline(input);
    // So is one of which the server was told: that it is over then is no news.
    const isForPerson = earlier !== undefined || isOver(before.phase);
    const ending = await this.#run(deadline, isForPerson ? new AbortController().signal : this.#over.signal);
    if (ending.status === "success") {
      // The server knows already that it succeeded.
      if (before.counted && before.outcome === "success") return this.#become(withoutErrorText(before));
      // The server may have that success although nobody knows, and would take another one for a contradiction.
      if (!before.counted && earlier?.status === "success") return this.#deliver(earlier);
      // What the server has taken is what a reload is to know of.
      return before.counted ? this.#deliver(await this.#newAck(ending, requestedAt)) : this.#end(ending, requestedAt);
    }
    if (!isForPerson) return this.#end(ending, requestedAt);
    // Nothing has changed: what was said stands, and goes on being said.
    if (earlier && (before.phase === "acking" || before.phase === "claiming")) return this.#deliver(earlier);
    this.#become({ ...before, errorText: ending.status === "failed" ? ending.errorText : "it did not end in time" });
  }

  /** Tells the server, now and again after a reload. */
  async #end(ending: Ending, requestedAt: string): Promise<void> {
    const ack = await this.#newAck(ending, requestedAt);
    this.#around.notes.finish(ack);
    await this.#deliver(ack);
  }

  async #newAck(ending: Ending, requestedAt: string): Promise<Ack> {
    return { toolCallId: this.#request.toolCallId, ...ending, requestedAt, claimant: await this.#around.claimant() };
  }

  async #deliver(ack: Ack): Promise<void> {
    const { acks } = this.#around;
    this.#delivery = new AbortController();
    const { signal } = this.#delivery;
    const { status: outcome, output, errorText } = ack;
    const facts = { outcome, ...(output !== undefined && { output }), ...(errorText !== undefined && { errorText }) };
    this.#ack = ack;
    let attempts = 0;
    this.#show("acking", facts);
    const send = (attempt: Attempt) => {
      attempts += 1;
      return acks.ack(ack, attempt);
    };
    // The page may not come back: what the answer is does not matter then, and the same is sent again if it does.
    const stopListening = whenHidden(() => void acks.ack(ack, { signal, timeout: LAST_TRY }).catch(() => undefined));
    try {
      const onFailure = (error: unknown) => this.#show("acking", { ...facts, attempts, ...failureFacts(error) });
      await persist({ send, onFailure, deadline: this.#deadline, signal });
      // A person has tried again meanwhile; what comes of that is told.
      if (signal.aborted) return;
      this.#show("done", { ...facts, attempts, ackStatus: 200, counted: true });
    } catch (error) {
      if (signal.aborted) return;
      if (outcome === "success" && isUnacceptable(error)) {
        await this.#end(failed(`the tool ran, but its output was not accepted: ${error.message}`), ack.requestedAt);
      } else {
        this.#show("failed", { ...facts, attempts, ...failureFacts(error) });
      }
    } finally {
      stopListening();
    }
  }

  #show(phase: FrontendCallPhase, facts: Facts = {}): void {
    this.#become(this.#newState(phase, facts));
  }

  #newState(phase: FrontendCallPhase, facts: Facts = {}): FrontendCallState {
    const { toolCallId, toolName, input } = this.#request;
    return { toolCallId, toolName, input, counted: false, attempts: 0, ...facts, phase };
  }

  #become(state: FrontendCallState): void {
    this.state = state;
    this.#around.changed();
  }
}

function isOver(phase: FrontendCallPhase): boolean {
  return phase === "expired" || phase === "unknown";
}

function withoutErrorText({ errorText: _, ...state }: FrontendCallState): FrontendCallState {
  return state;
}

/** What a claim that failed says of the call. */
function phaseAfter(error: unknown): FrontendCallPhase {
  if (!(error instanceof HandbackError) || error.isProxyAnswer) return "failed";
  if (error.status === 404) return "unknown";
  if (error.status === 410) return "expired";
  if (error.status !== 409) return "failed";
  if (error.code === "awaiting-approval") return "waiting";
  return error.code === "conflict" ? "expired" : "elsewhere";
}

function failureFacts(error: unknown): Facts {
  const status = error instanceof HandbackError ? error.status : undefined;
  return { error: messageOf(error), ...(status !== undefined && { ackStatus: status }) };
}

function isUnacceptable(error: unknown): error is HandbackError {
  return error instanceof HandbackError && (error.status === 400 || error.status === 413);
}
