// Calls come as server-sent events, results go as requests of their own.

import { hasTrue } from "../answer.js";
import { HandbackError, type Http } from "../http.js";
import { readEvents } from "../sse.js";
import type { ToolResult } from "./result.js";
import {
  type Address,
  type Connection,
  parseObject,
  type Receiver,
  takeCancel,
  takeRequest,
  type Transport,
} from "./transport.js";

export class SseTransport implements Transport {
  readonly #http: Http;
  readonly #address: Address;
  readonly #receiver: Receiver;
  /** The last event that was taken. On return the server goes on after it. */
  #lastEventID: string | undefined;

  constructor(http: Http, address: Address, receiver: Receiver) {
    this.#http = http;
    this.#address = address;
    this.#receiver = receiver;
  }

  async open(signal: AbortSignal): Promise<Connection> {
    const { clientID, connection, grace } = this.#address;
    const response = await this.#http.open(["client-tools", "pending", clientID], {
      query: { connection, grace: String(grace) },
      headers: this.#lastEventID === undefined ? {} : { "last-event-id": this.#lastEventID },
      signal,
    });
    return { lost: this.#read(response) };
  }

  async send(requestID: string, result: ToolResult, signal: AbortSignal): Promise<void> {
    await sendByHttp(this.#http, requestID, result, signal);
  }

  async #read(response: Response): Promise<Error> {
    try {
      for await (const { event, data, id } of readEvents(response, this.#address)) {
        if (event === "tool-request") takeRequest(parseObject(data), this.#receiver);
        else if (event === "tool-cancel") takeCancel(parseObject(data), this.#receiver);
        // Only now is the event seen. An empty id takes the last one back, as does one that no header can carry.
        if (id !== undefined) this.#lastEventID = /^[\x20-\x7e]+$/.test(id) ? id : undefined;
      }
      return new HandbackError("interrupted", `the server at ${this.#http.baseUrl} ended the stream`);
    } catch (error) {
      return error as Error;
    }
  }
}

export async function sendByHttp(
  http: Http,
  requestID: string,
  result: ToolResult,
  signal: AbortSignal,
): Promise<void> {
  const options = { body: { requestID, result }, signal, isAnswer: hasTrue("success") };
  await http.request("POST", ["client-tools", "result"], options);
}
