// What a page can show of a call that it was asked to execute.

/**
 * Where a call stands.
 * - `claiming`: the server is asked whether this page may execute it.
 * - `waiting`: somebody has to allow it first; execute it again when that is done.
 * - `running`: its handler runs.
 * - `acking`: its outcome is known, and on its way to the server.
 * - `done`: the server has taken the outcome.
 * - `failed`: it could not be claimed, or its outcome was not taken; `error` says why.
 * - `elsewhere`: another page executes it, so this one does not.
 * - `unknown`: the server does not know it.
 * - `expired`: its time was over, or it was cancelled, before it could be begun here.
 */
export type FrontendCallPhase =
  | "claiming"
  | "waiting"
  | "running"
  | "acking"
  | "done"
  | "failed"
  | "elsewhere"
  | "unknown"
  | "expired";

/** How the handler ended: it gave something, it threw, or its time was over. */
export type FrontendOutcome = "success" | "failed" | "timeout";

/** A call as it stands. It never changes: another one takes its place. */
export interface FrontendCallState {
  readonly toolCallId: string;
  readonly toolName: string;
  readonly input: unknown;
  readonly phase: FrontendCallPhase;
  /** What the server is told, once the handler has ended. */
  readonly outcome?: FrontendOutcome;
  /** What the handler gave, as JSON has it. */
  readonly output?: unknown;
  /** Why the handler's last run was no success. */
  readonly errorText?: string;
  /** Whether the server has taken this outcome. One that came too late, or second, does not count. */
  readonly counted: boolean;
  /** How often this outcome was sent. */
  readonly attempts: number;
  /** The HTTP status of the last answer to that; absent if none came. */
  readonly ackStatus?: number;
  /** Why the claim or the outcome was not taken: of the last try while there are more, of all in the end. */
  readonly error?: string;
}

/** A call to execute. */
export interface FrontendToolRequest {
  readonly toolCallId: string;
  readonly toolName: string;
  readonly input: unknown;
  /**
   * When it expires: a `Date` of this machine, or a time of the server (RFC 3339). By default the server is asked; if it
   * does not say, `timeoutSec` of the input, or 60 s, from now.
   */
  readonly deadline?: Date | string | undefined;
}

/** What a handler is told beside the input. */
export interface FrontendToolCall {
  readonly toolCallId: string;
  readonly toolName: string;
  /** When the call expires, on this machine's clock. */
  readonly deadline: Date;
  /** Fires when the call expires before the handler ends, or ends otherwise and an event told so (`watch`). */
  readonly signal: AbortSignal;
}

/** The code of a tool: what it gives is the output (anything that JSON can hold, or nothing), what it throws the error. */
export type FrontendToolHandler<Input = unknown> = (input: Input, call: FrontendToolCall) => unknown;

export interface FrontendToolOptions {
  /** Whether a call may be run again when the page was reloaded while it ran. By default its outcome is unknown then. */
  again?: boolean | undefined;
}
