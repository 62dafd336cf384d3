// Calls and results share one WebSocket.

import { HandbackError, type Http } from "../http.js";
import type { ToolResult } from "./result.js";
import { Socket, type WebSocketConstructor } from "./socket.js";
import { sendByHttp } from "./sse-transport.js";
import { pause } from "./time.js";
import { type Address, type Connection, type Receiver, takeCancel, takeRequest, type Transport } from "./transport.js";

/**
 * What goes through the socket, in characters of JSON. A larger result goes by HTTP, where its refusal is an answer: on
 * a socket it would be the end of the connection.
 */
const MAX_RESULT = 64 * 1024;
/** How much may wait to be written to the socket, in bytes. Beyond that, results go by HTTP. */
const MAX_BUFFERED = 4 * 1024 * 1024;
/** How long a result waits for the next socket, in ms; then it goes by HTTP. */
const SOCKET_PATIENCE = 2000;

export class SocketTransport implements Transport {
  readonly #http: Http;
  readonly #address: Address;
  readonly #receiver: Receiver;
  readonly #WebSocket: WebSocketConstructor;
  #socket: Socket | undefined;
  /** Results that wait for the next socket: each fires when it is there. */
  readonly #waiting = new Set<AbortController>();

  constructor(http: Http, address: Address, receiver: Receiver, WebSocket: WebSocketConstructor) {
    this.#http = http;
    this.#address = address;
    this.#receiver = receiver;
    this.#WebSocket = WebSocket;
  }

  async open(signal: AbortSignal): Promise<Connection> {
    const { clientID, connection, grace, silence } = this.#address;
    const path = ["client-tools", "ws", clientID];
    const query = { connection, grace: String(grace) };
    const url = await this.#http.socketUrl(path, query, signal);
    const socket = new Socket(new this.#WebSocket(url), this.#http.baseUrl, silence, (message) => this.#take(message));
    const close = () => socket.close();
    signal.addEventListener("abort", close);
    try {
      await socket.opened;
    } catch (error) {
      signal.removeEventListener("abort", close);
      signal.throwIfAborted();
      throw await this.#reason(path, query, signal, error);
    }
    this.#socket = socket;
    for (const waiting of this.#waiting) waiting.abort();
    const lost = socket.lost.finally(() => {
      signal.removeEventListener("abort", close);
      this.#socket = undefined;
    });
    return { lost };
  }

  async send(requestID: string, result: ToolResult, signal: AbortSignal): Promise<void> {
    const isLarge = JSON.stringify(result).length > MAX_RESULT;
    if (!isLarge && !this.#socket) await this.#nextSocket(signal);
    signal.throwIfAborted();
    if (isLarge || !this.#socket || this.#socket.bufferedAmount > MAX_BUFFERED) {
      return sendByHttp(this.#http, requestID, result, signal);
    }
    const answer = await this.#socket.ask({ type: "result", requestID, result }, signal);
    if (answer["accepted"] !== true) throw refusal(requestID, answer);
  }

  async #nextSocket(signal: AbortSignal): Promise<void> {
    const waiting = new AbortController();
    this.#waiting.add(waiting);
    await pause(SOCKET_PATIENCE, waiting.signal, signal);
    this.#waiting.delete(waiting);
  }

  #take(message: Record<string, unknown>): void {
    if (message["type"] === "request") takeRequest(message["request"], this.#receiver);
    else if (message["type"] === "cancel") takeCancel(message, this.#receiver);
  }

  /** Why a socket cannot be opened is not told to a script. The same address asked plainly does: 426 if all is well. */
  async #reason(path: string[], query: Record<string, string>, signal: AbortSignal, cause: unknown): Promise<unknown> {
    try {
      await this.#http.request("GET", path, { query, signal });
    } catch (reason) {
      if (!(reason instanceof HandbackError && reason.status === 426)) return reason;
    }
    const hint = "Something on the way may not let it pass; `useWebSocket: false` does without.";
    const message = `the server at ${this.#http.baseUrl} can be reached, but a WebSocket to it cannot be opened. ${hint}`;
    return new HandbackError("unreachable", message, { cause });
  }
}

/** The statuses that the codes of refused results stand for. */
const STATUSES: Record<string, number> = {
  INVALID_REQUEST: 400,
  UNAUTHORIZED: 401,
  FORBIDDEN: 403,
  NOT_FOUND: 404,
  CONFLICT: 409,
  CANCELLED: 409,
  GONE: 410,
  TOO_LARGE: 413,
  RATE_LIMITED: 429,
  INTERNAL_ERROR: 500,
  UNAVAILABLE: 503,
  INSUFFICIENT_STORAGE: 507,
};

function refusal(requestID: string, answer: Record<string, unknown>): HandbackError {
  const code = typeof answer["code"] === "string" ? answer["code"] : "INTERNAL_ERROR";
  const said = typeof answer["error"] === "string" ? answer["error"] : `the result of ${requestID} was not accepted`;
  return new HandbackError("refused", `${said} (${code})`, { status: STATUSES[code] ?? 500, code });
}
