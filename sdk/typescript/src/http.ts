// Requests to the server's HTTP API.

import { MAX_ANSWER, parseFailure, readText } from "./answer.js";
import { type FailureFacts, HandbackError, rootCause } from "./error.js";
import { after } from "./tools/time.js";
import { unlessAborted } from "./waiting.js";

export { HandbackError } from "./error.js";

/** How long an answer may take; in ms. */
const ANSWER_TIMEOUT = 30_000;

/** Failures of `fetch` in Node after the connection was there: the request may have taken effect. */
const BROKEN = new Set(["ECONNRESET", "EPIPE", "UND_ERR_SOCKET", "UND_ERR_HEADERS_TIMEOUT", "UND_ERR_BODY_TIMEOUT"]);

/** Refusals that mean the request itself or its credentials, whoever refuses: the same is refused again. */
const FINAL = new Set([400, 401, 403, 413]);

/**
 * An application key or a client token, or how to get one: a function is asked for every request, so that it may renew it.
 * One that fails, or takes too long, is like a server that cannot be reached.
 */
export type Token = string | (() => string | Promise<string>);

export interface HttpOptions {
  /** Where the server is; in a browser it may be relative to the page. */
  baseUrl: string;
  /** Sent as `Authorization: Bearer …`. */
  token?: Token | undefined;
  /** Used instead of the global one. */
  fetch?: typeof globalThis.fetch | undefined;
}

export type Query = Record<string, string | undefined>;

export interface RequestOptions {
  query?: Query | undefined;
  headers?: Record<string, string> | undefined;
  /** Sent as JSON. */
  body?: unknown;
  /** Whether an answer is one of Handback's: something in between may say 200 as well. By default, all JSON is. */
  isAnswer?: ((answer: unknown) => boolean) | undefined;
  /** How long the answer may take, in ms; 30 s by default. */
  timeout?: number | undefined;
  /** Gives the request up; it rejects with the signal's reason. */
  signal?: AbortSignal | undefined;
}

/** A server, and the credentials to speak to it. */
export class Http {
  /** Without a slash at its end. */
  readonly baseUrl: string;
  readonly #token: Token | undefined;
  readonly #fetch: typeof globalThis.fetch;
  /** Whether a Handback server has answered here. What answers otherwise since then is in between. */
  #wasThere = false;

  constructor(options: HttpOptions) {
    this.baseUrl = parseBaseUrl(options.baseUrl);
    this.#token = options.token;
    // Browsers refuse to run their own `fetch` as the method of something else.
    this.#fetch = options.fetch ?? ((input, init) => globalThis.fetch(input, init));
  }

  /** JSON there, JSON back; an answer without a body is `undefined`. Rejects with a `HandbackError`. */
  async request<T>(method: string, path: string[], options: RequestOptions = {}): Promise<T> {
    const limit = new Limit(options.timeout ?? ANSWER_TIMEOUT, options.signal);
    try {
      const response = await this.#send(method, path, options, limit);
      const text = await readText(response).catch((error: unknown) => {
        throw this.#failed(error, limit);
      });
      if (text === undefined) throw this.#unexpected(`it is larger than ${MAX_ANSWER} characters`, {});
      const answer = text === "" ? undefined : this.#parse(text);
      if (options.isAnswer?.(answer) === false) throw this.#unexpected("it is not what was asked for");
      this.#wasThere ||= text !== "";
      return answer as T;
    } finally {
      limit.lift();
    }
  }

  /**
   * Opens a stream of events. The answer must begin in time; the stream itself may last, until the signal fires.
   * The signal should be of this stream alone: it is listened to as long as it exists.
   */
  async open(path: string[], options: Pick<RequestOptions, "query" | "headers" | "signal"> = {}): Promise<Response> {
    const limit = new Limit(ANSWER_TIMEOUT, options.signal);
    try {
      const headers = { ...options.headers, accept: "text/event-stream" };
      const response = await this.#send("GET", path, { ...options, headers }, limit);
      const kind = response.headers.get("content-type") ?? "";
      if (!kind.startsWith("text/event-stream")) {
        limit.abort();
        throw this.#unexpected(`"${kind}" is not an event stream`);
      }
      limit.liftTime();
      this.#wasThere = true;
      return response;
    } catch (error) {
      limit.lift();
      throw error;
    }
  }

  /** Where a WebSocket is opened. It cannot send headers: the token goes into the URL, which must not be logged. */
  async socketUrl(path: string[], query: Query = {}, signal?: AbortSignal): Promise<string> {
    const limit = new Limit(ANSWER_TIMEOUT, signal);
    try {
      const token = await this.#currentToken(limit);
      return this.#url(path, { ...query, access_token: token }).replace(/^http/, "ws");
    } finally {
      limit.lift();
    }
  }

  async #send(method: string, path: string[], options: RequestOptions, limit: Limit): Promise<Response> {
    const headers: Record<string, string> = { ...options.headers };
    const token = await this.#currentToken(limit);
    if (token !== undefined) headers["authorization"] = `Bearer ${token}`;
    const init: RequestInit = { method, headers, signal: limit.signal, cache: "no-store" };
    // A followed redirect would turn a POST into a GET.
    init.redirect = "manual";
    if (options.body !== undefined) {
      headers["content-type"] = "application/json";
      init.body = JSON.stringify(options.body);
    }
    const url = this.#url(path, options.query);
    let response: Response;
    try {
      limit.signal.throwIfAborted();
      response = await this.#fetch(url, init);
    } catch (error) {
      throw this.#failed(error, limit);
    }
    if (!response.ok) throw await this.#refused(method, path, response);
    return response;
  }

  async #currentToken(limit: Limit): Promise<string | undefined> {
    const token = typeof this.#token === "function" ? await this.#newToken(this.#token, limit) : this.#token;
    if (token === undefined) return undefined;
    if (typeof token !== "string" || !/^[\x21-\x7e]+$/.test(token)) {
      throw new TypeError("the token is not a string, is empty or has characters that a header cannot carry");
    }
    return token;
  }

  async #newToken(ask: () => string | Promise<string>, limit: Limit): Promise<string> {
    try {
      return await unlessAborted((async () => ask())(), limit.signal);
    } catch (error) {
      if (limit.isGivenUp) throw limit.signal.reason;
      const reason = limit.isOver ? "the function that gives one did not do so in time" : rootCause(error);
      throw new HandbackError("unreachable", `there is no token: ${reason}`, { cause: error });
    }
  }

  #url(path: string[], query: Query = {}): string {
    const url = new URL(this.baseUrl);
    // No way to write them in a URL means themselves.
    const dots = path.find((segment) => segment === "." || segment === "..");
    if (dots !== undefined) throw new TypeError(`"${dots}" cannot be part of a path; use another name`);
    url.pathname = [url.pathname.replace(/\/$/, ""), ...path.map(encodeURIComponent)].join("/");
    for (const [name, value] of Object.entries(query)) {
      if (value !== undefined) url.searchParams.set(name, value);
    }
    return url.href;
  }

  #failed(error: unknown, limit: Limit): unknown {
    if (limit.isGivenUp) return limit.signal.reason;
    if (limit.isOver) return new HandbackError("interrupted", `the server at ${this.baseUrl} did not answer in time`);
    const reason = rootCause(error);
    if (BROKEN.has(code(error))) {
      return new HandbackError("interrupted", `the connection to ${this.baseUrl} was lost: ${reason}`, { cause: error });
    }
    const hint = "Is it running, and may this page or machine reach it?";
    const message = `no Handback server can be reached at ${this.baseUrl}: ${reason}. ${hint}`;
    return new HandbackError("unreachable", message, { cause: error });
  }

  /** What the server says about a failure, in any of its shapes. */
  async #refused(method: string, path: string[], response: Response): Promise<HandbackError> {
    const { status } = response;
    const request = `${method} ${this.baseUrl}/${path.join("/")}`;
    if (response.type === "opaqueredirect" || (status >= 300 && status < 400)) {
      // Nobody reads it, and its connection is free again; one that is lost already is, too.
      await response.body?.cancel().catch(() => undefined);
      const target = response.headers.get("location") ?? "another place";
      const message = `${request} redirects to ${target}: set the baseUrl to where the server is`;
      return new HandbackError("refused", message, { status, isProxyAnswer: this.#wasThere });
    }
    // What cannot be read to its end says less than the status.
    const text = await readText(response).catch(() => undefined);
    const body = parseFailure(text ?? "");
    this.#wasThere ||= body.isOurs;
    const said = body.message ?? `the answer was ${status} ${response.statusText}`.trimEnd();
    const advice = status === 401 ? "; pass an application key or a client token as `token`" : "";
    const seconds = Number(response.headers.get("retry-after") ?? Number.NaN);
    return new HandbackError("refused", `${said}${advice} (${request}: ${status})`, {
      status,
      code: body.code,
      details: body.details,
      isProxyAnswer: this.#wasThere && !body.isOurs && !FINAL.has(status),
      retryAfter: Number.isFinite(seconds) && seconds >= 0 ? seconds * 1000 : undefined,
    });
  }

  #parse(text: string): unknown {
    try {
      return JSON.parse(text);
    } catch (error) {
      throw this.#unexpected(rootCause(error));
    }
  }

  #unexpected(reason: string, facts: FailureFacts = { isProxyAnswer: this.#wasThere }): HandbackError {
    const message = `the answer from ${this.baseUrl} is not one of a Handback server: ${reason}`;
    return new HandbackError("unexpected", message, facts);
  }
}

/** The signal of one request: it fires when its time is over, or with another signal. */
class Limit {
  readonly #controller = new AbortController();
  readonly #outer: AbortSignal | undefined;
  readonly #giveUp = () => {
    this.#controller.abort(this.#outer?.reason);
  };
  /** Stops the clock. */
  readonly liftTime: () => void;
  /** Whether the time was over before anything else. */
  isOver = false;

  constructor(timeout: number, outer: AbortSignal | undefined) {
    this.#outer = outer;
    this.liftTime = after(timeout, () => {
      this.isOver = !this.#controller.signal.aborted;
      this.#controller.abort();
    });
    if (outer?.aborted) this.#giveUp();
    else outer?.addEventListener("abort", this.#giveUp, { once: true });
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** Whether whoever asked does not want the answer any more. */
  get isGivenUp(): boolean {
    return !this.isOver && this.#outer?.aborted === true;
  }

  abort(): void {
    this.#controller.abort();
  }

  lift(): void {
    this.liftTime();
    this.#outer?.removeEventListener("abort", this.#giveUp);
  }
}

function parseBaseUrl(given: string): string {
  const page: string | undefined = (globalThis as { location?: { href?: string } }).location?.href;
  const wrong = (reason: string) => new TypeError(`"${given}" is not the URL of a server: ${reason}`);
  let url: URL;
  try {
    url = new URL(given, page);
  } catch {
    throw wrong("give one like http://127.0.0.1:4096");
  }
  if (url.protocol !== "http:" && url.protocol !== "https:") throw wrong("it must start with http:// or https://");
  // Not quoted: the URL is part of every error's text.
  if (url.username !== "" || url.password !== "") {
    throw new TypeError("credentials belong into the token, not into the URL of the server");
  }
  return url.origin + url.pathname.replace(/\/+$/, "");
}

/** The code of a failure in Node, wherever in its causes it is. */
function code(error: unknown): string {
  let cause = error;
  for (let depth = 0; depth < 8 && cause instanceof Error; depth += 1) {
    const { code } = cause as { code?: unknown };
    if (typeof code === "string") return code;
    cause = cause.cause;
  }
  return "";
}
