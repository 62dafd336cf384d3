// The requests of a page that executes a call: the claim before, what it needs to know of the call, and the ack after.

import { hasText, hasTrue, readText } from "../answer.js";
import { Http, type HttpOptions } from "../http.js";
import { ServerClock } from "../tools/time.js";
import type { FrontendOutcome } from "./state.js";

/** What the server is told of an outcome. Plain JSON: it is sent with the same bytes each time. */
export interface Ack {
  readonly toolCallId: string;
  readonly status: FrontendOutcome;
  readonly output?: unknown;
  readonly errorText?: string;
  readonly requestedAt: string;
  readonly claimant: string;
}

/** What the server says of a call, as far as it matters. */
export interface CallFacts {
  readonly input?: unknown;
  /** RFC 3339, on the server's clock. */
  readonly deadline: string;
}

/** How one request is made: `timeout` is in ms. */
export interface Attempt {
  readonly signal: AbortSignal;
  readonly timeout: number;
}

/** How many bytes may be on their way that outlive the page: browsers refuse more than 64 KiB. More are sent as usual. */
const MAX_KEPT_ALIVE = 60 * 1024;

/** What the reasons mean, for people. */
const REASONS: Record<string, string> = {
  claimed: "another page has the call",
  conflict: "the call was already over, with another outcome",
  expired: "the call was already over: its time had run out, or it was cancelled",
  unknown: "the server does not know the call",
  "awaiting-approval": "somebody has to allow the call first",
};

export class Acks {
  readonly #options: Partial<HttpOptions>;
  #http: Http | undefined;
  #bytesKeptAlive = 0;
  /** There once the server's clock was seen. */
  clock: ServerClock | undefined;

  constructor(options: Partial<HttpOptions>) {
    this.#options = options;
  }

  /** Rejects with a `HandbackError`, whose `code` is the reason. */
  async claim(toolCallId: string, claimant: string, attempt: Attempt): Promise<void> {
    await this.#post("claim", { toolCallId, claimant }, attempt);
  }

  /** Rejects with a `HandbackError`, whose `code` is the reason. */
  async ack(ack: Ack, attempt: Attempt): Promise<void> {
    await this.#post("ack", ack, attempt);
  }

  /** Reads a call, with all of its input. Rejects with a `HandbackError`. */
  async read(toolCallId: string, attempt: Attempt): Promise<CallFacts> {
    const options = { ...attempt, isAnswer: hasText("deadline") };
    return this.#connect().request("GET", ["client-tools", "calls", toolCallId], options);
  }

  async #post(path: string, body: unknown, attempt: Attempt): Promise<void> {
    await this.#connect().request("POST", ["api", "tools", path], { body, ...attempt, isAnswer: hasTrue("ok") });
  }

  #connect(): Http {
    // Not before it is needed: a page that is rendered on a server has no origin there.
    this.#http ??= new Http({
      baseUrl: this.#options.baseUrl || "/",
      token: this.#options.token,
      fetch: (input, init) => this.#fetch(input, init),
    });
    return this.#http;
  }

  /** An ack goes on when the page is left, if it is small enough for that. Nothing else does: nobody would run the call. */
  async #fetch(input: Parameters<typeof fetch>[0], init: RequestInit = {}): Promise<Response> {
    const size = new TextEncoder().encode(String(init.body)).length;
    const keepalive = String(input).endsWith("/api/tools/ack") && this.#bytesKeptAlive + size <= MAX_KEPT_ALIVE;
    const counted = keepalive ? size : 0;
    this.#bytesKeptAlive += counted;
    try {
      const send = this.#options.fetch ?? globalThis.fetch;
      const response = await send(input, { ...init, keepalive });
      this.#readClock(response);
      return await explained(response);
    } finally {
      this.#bytesKeptAlive -= counted;
    }
  }

  #readClock({ headers }: Response): void {
    const date = headers.get("date");
    if (date === null || Number.isNaN(Date.parse(date))) return;
    this.clock ??= new ServerClock();
    this.clock.read(date);
  }
}

/** A refusal says `{ok, reason, error?}`; this is the same as `Http` reads it, with the reason as the code. */
async function explained(response: Response): Promise<Response> {
  const { status, statusText, headers } = response;
  if (status < 400 || status >= 500) return response;
  const text = (await readText(response)) ?? "";
  const { reason, error } = parse(text);
  if (typeof reason !== "string") return new Response(text, { status, statusText, headers });
  const said = REASONS[reason] ?? (typeof error === "string" ? error : reason);
  return new Response(JSON.stringify({ error: said, code: reason }), { status, statusText, headers });
}

function parse(text: string): { reason?: unknown; error?: unknown } {
  try {
    return (JSON.parse(text) as Record<string, unknown> | null) ?? {};
  } catch {
    // A proxy's page, for example: the status says it.
    return {};
  }
}
