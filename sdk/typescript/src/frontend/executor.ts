// Executes, in a page, the calls that the server leaves to it.

import type { HttpOptions } from "../http.js";
import { Listeners } from "../tools/events.js";
import type { LocksLike, StorageLike } from "../tools/journal/local-storage.js";
import type { Event, ToolRequest } from "../wire.js";
import { Acks } from "./acks.js";
import { Call, type CallRequest, type RegisteredTool, type Surroundings } from "./call.js";
import { claimantOf } from "./claimant.js";
import { Notes } from "./notes.js";
import type { FrontendCallState, FrontendToolHandler, FrontendToolOptions, FrontendToolRequest } from "./state.js";
import { type Tab, thisTab } from "./tab.js";

/** How many calls are known. One more, and the oldest that is over is forgotten; if all are under way, it is not executed. */
const MAX_CALLS = 1000;

export interface FrontendToolExecutorOptions extends Partial<HttpOptions> {
  /** Where the server is; by default where the page comes from. */
  baseUrl?: string;
  /** The name under which calls are claimed. By default one of this tab, which a reload keeps. No other tab may have it. */
  claimant?: string | undefined;
  /** Used instead of `sessionStorage`. */
  storage?: StorageLike | undefined;
  /** Used instead of `navigator.locks`. */
  locks?: LocksLike | undefined;
}

/** What `onToolCall` of the AI SDK's `useChat` is given, as far as it matters. */
export interface ToolCallNotice {
  toolCall: {
    toolCallId: string;
    toolName: string;
    input: unknown;
    dynamic?: boolean | undefined;
    /** The input does not fit: the stream tells the model so by itself. */
    invalid?: boolean | undefined;
  };
}

/** Which events a page cares for. */
export interface WatchOptions {
  /** The session that the page shows: only its calls are executed. By default those of all sessions that events tell of. */
  sessionID?: string | undefined;
}

/**
 * Executes frontend tools: claims a call so that no other tab does, runs its handler once, and tells the server what came
 * of it. One for a page is enough. Its functions may be taken apart from it.
 */
export class FrontendToolExecutor {
  readonly #options: FrontendToolExecutorOptions;
  readonly #tools = new Map<string, RegisteredTool>();
  readonly #calls = new Map<string, Call>();
  readonly #listeners = new Listeners<{ change: undefined }>();
  /** There from the first call on. */
  #surroundings: Surroundings | undefined;
  /** What `getSnapshot` gave, until something changes. */
  #snapshot: ReadonlyMap<string, FrontendCallState> | undefined;

  constructor(options: FrontendToolExecutorOptions = {}) {
    this.#options = options;
  }

  /** Gives a tool its code; that of an earlier one of the same name is replaced. */
  readonly register = <Input = unknown>(
    toolName: string,
    handler: FrontendToolHandler<Input>,
    options: FrontendToolOptions = {},
  ): void => {
    this.#tools.set(toolName, { ...options, handler });
  };

  /** Takes a tool away; calls that run go on. */
  readonly unregister = (toolName: string): void => {
    this.#tools.delete(toolName);
  };

  /**
   * Executes a call, once however often this is called, and resolves with what came of it; it never rejects. Only a call
   * that waits to be allowed, or could not be claimed for want of an answer, is tried again. Without a `toolCallId`
   * nothing happens, and it resolves with nothing.
   */
  readonly execute = async (request: FrontendToolRequest): Promise<FrontendCallState | undefined> => {
    return this.#call(request)?.execute(request);
  };

  /**
   * Runs the handler of a call once more, for a button: call it right in the click, as browsers open windows only there.
   * A success counts if the call is still open, also in place of a failure that the server has not got yet; the state
   * tells (`counted`). A call that was never executed here, one of an older conversation say, is given as a whole.
   */
  readonly retry = (call: string | FrontendToolRequest): Promise<FrontendCallState | undefined> => {
    const known = typeof call === "string" ? this.#calls.get(call) : this.#call(call);
    return known ? known.retry() : Promise.resolve(undefined);
  };

  /** How a call stands; nothing if it was never executed here. */
  readonly state = (toolCallId: string): FrontendCallState | undefined => this.#calls.get(toolCallId)?.state;

  /**
   * Calls `listener` whenever a state changes, until the returned function is called. Together with `getSnapshot` it is what
   * React's `useSyncExternalStore` takes.
   */
  readonly subscribe = (listener: () => void): (() => void) => this.#listeners.add("change", () => listener());

  /** The states of all calls, by `toolCallId`: the same object until one changes. */
  readonly getSnapshot = (): ReadonlyMap<string, FrontendCallState> => {
    this.#snapshot ??= new Map([...this.#calls].map(([toolCallId, { state }]) => [toolCallId, state]));
    return this.#snapshot;
  };

  /**
   * For `onToolCall` of `useChat`, as it is: executes calls of tools that are registered here, and leaves the others to the
   * page. It does not wait for them, as `useChat` would wait for it.
   */
  readonly onToolCall = ({ toolCall }: ToolCallNotice): void => {
    if (toolCall.invalid !== true && this.#tools.has(toolCall.toolName)) void this.execute(toolCall);
  };

  /**
   * Executes the calls that `GET /event?sessionID=…` tells of, if their tools are registered here, and tells handlers that
   * run when their calls have ended otherwise: give it every event. On a stream of more than the session that the page
   * shows, give it that session, too.
   */
  readonly watch = (event: Event, { sessionID }: WatchOptions = {}): void => {
    if (event.type === "client-tool.failed") {
      const { callID, tool, error } = event.properties;
      const call = this.#calls.get(callID);
      // A client's calls have ids of their callers' choice.
      if (call?.state.toolName === tool) call.callOff(error);
    }
    if (event.type !== "client-tool.request") return;
    // Most are for clients that offer tools of their own.
    const request: Partial<ToolRequest> & { executionMode?: unknown } = event.properties.request ?? {};
    const { requestID, tool, input, deadline, executionMode } = request;
    if (sessionID !== undefined && request.sessionID !== sessionID) return;
    if (executionMode !== "frontend" || requestID === undefined || tool === undefined || !this.#tools.has(tool)) return;
    // Events have this link in place of each data URL.
    const isAbridged = (JSON.stringify(input) ?? "").includes(`/client-tools/calls/${requestID}`);
    const call = { toolCallId: requestID, toolName: tool, input, deadline, isAbridged };
    void this.#call(call)?.execute(call);
  };

  #call(request: CallRequest): Call | undefined {
    const { toolCallId }: { toolCallId: unknown } = request;
    if (typeof toolCallId !== "string" || toolCallId === "") return undefined;
    const known = this.#calls.get(toolCallId);
    if (known) return known;
    if (!this.#makeRoom()) return undefined;
    this.#surroundings ??= this.#lookAround();
    const call = new Call(request, this.#surroundings);
    this.#calls.set(toolCallId, call);
    return call;
  }

  #makeRoom(): boolean {
    if (this.#calls.size < MAX_CALLS) return true;
    for (const [toolCallId, { isUnderWay }] of this.#calls) {
      if (!isUnderWay) return this.#calls.delete(toolCallId);
    }
    console.warn(`handback: a call is not executed, as ${MAX_CALLS} are under way`);
    return false;
  }

  #lookAround(): Surroundings {
    const tab: Tab = thisTab(this.#options);
    let claimant: Promise<string> | undefined;
    return {
      acks: new Acks(this.#options),
      notes: new Notes(tab),
      claimant: () => {
        const { claimant: given } = this.#options;
        claimant ??= given === undefined ? claimantOf(tab) : Promise.resolve(given);
        return claimant;
      },
      find: (toolName) => this.#tools.get(toolName),
      changed: () => {
        this.#snapshot = undefined;
        this.#listeners.tell("change", undefined);
      },
    };
  }
}
