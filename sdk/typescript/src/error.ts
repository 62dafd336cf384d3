// What can go wrong between the SDK and the server.

/**
 * What kind of failure it is.
 * - `unreachable`: no connection to the server.
 * - `interrupted`: the connection broke, or no answer came in time. Whether the request took effect is unknown.
 * - `refused`: the server answered with a failure; `status` and `code` say which.
 * - `unexpected`: the answer is not one of Handback's: something else listens there.
 * - `closed`: it was ended from this side, by `disconnect()` or `close()`.
 * - `failed`: the turn ended with an error, see `TurnFailed`.
 */
export type FailureKind = "unreachable" | "interrupted" | "refused" | "unexpected" | "closed" | "failed";

/** What is known of a failure besides its message. */
export interface FailureFacts {
  status?: number | undefined;
  code?: string | undefined;
  retryAfter?: number | undefined;
  details?: unknown;
  isProxyAnswer?: boolean | undefined;
  cause?: unknown;
}

/** A request that got no answer, or not the one it asked for. */
export class HandbackError extends Error {
  override readonly name: string = "HandbackError";
  readonly kind: FailureKind;
  /** The HTTP status, if the server refused. */
  readonly status: number | undefined;
  /** What went wrong, for programs: `INVALID_REQUEST`, `CONFLICT`, … */
  readonly code: string | undefined;
  /** How long the server asks to be left alone, in milliseconds. */
  readonly retryAfter: number | undefined;
  /** What the server says beyond the message. */
  readonly details: unknown;
  /**
   * Whether something in between has answered, where a server had answered before: a proxy, say, whose server is being
   * restarted. Then even a page or a 404 passes.
   */
  readonly isProxyAnswer: boolean;

  constructor(kind: FailureKind, message: string, facts: FailureFacts = {}) {
    super(message, facts.cause === undefined ? undefined : { cause: facts.cause });
    this.kind = kind;
    this.status = facts.status;
    this.code = facts.code;
    this.retryAfter = facts.retryAfter;
    this.details = facts.details;
    this.isProxyAnswer = facts.isProxyAnswer ?? false;
  }

  /** Whether the same request may succeed later. */
  get transient(): boolean {
    if (this.isProxyAnswer) return true;
    const status = this.status ?? 0;
    // 507: a quota is used up, and stays so until something is deleted.
    if (this.kind === "refused") return [408, 425, 429].includes(status) || (status >= 500 && status !== 507);
    return this.kind === "unreachable" || this.kind === "interrupted";
  }

  /** Whether the credentials were not accepted, which no retry mends. */
  get denied(): boolean {
    return this.status === 401 || this.status === 403;
  }
}

/** What happened first: `fetch` itself only says that it failed. */
export function rootCause(error: unknown): string {
  let cause = error;
  // A chain that is longer than this goes in circles.
  for (let depth = 0; depth < 8 && cause instanceof Error; depth += 1) {
    // Every address of the host was tried; the first failure speaks for all.
    const inner: unknown = cause instanceof AggregateError ? cause.errors[0] : cause.cause;
    if (inner === undefined) return cause.message || cause.name;
    cause = inner;
  }
  return String(cause);
}
