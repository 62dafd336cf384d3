// A server that does what a test says, where faults must be exact.

import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import type { TestContext } from "node:test";

import { type WebSocket, WebSocketServer } from "ws";

import { type Guest, Guests } from "./guests.js";
import { Log } from "./patience.js";

export interface Asked {
  /** The method and the path, without the query. */
  what: string;
  query: URLSearchParams;
  headers: IncomingMessage["headers"];
  body: unknown;
}

type Answer = (asked: Asked, response: ServerResponse) => void;

export class ScriptedServer {
  static async start(context: TestContext): Promise<ScriptedServer> {
    const server = new ScriptedServer();
    await new Promise<void>((resolve) => server.#http.listen(0, "127.0.0.1", resolve));
    context.after(async () => {
      await server.#guests.dismiss();
      server.#http.closeAllConnections();
      for (const socket of server.#sockets.clients) socket.terminate();
      await new Promise((resolve) => server.#http.close(resolve));
    });
    return server;
  }

  readonly #guests = new Guests();
  /** What it was asked, streams and sockets included. */
  readonly asked = new Log<Asked>();
  /** The streams that were opened. */
  readonly streams = new Log<ServerResponse>();
  /** The sockets that were opened. */
  readonly sockets = new Log<WebSocket>();
  /** What came on all sockets. */
  readonly messages = new Log<Record<string, unknown>>();
  /** What to say to the next requests of a kind, before it says what a real server would. */
  readonly #script = new Map<string, Answer[]>();
  readonly #http = createServer((request, response) => void this.#take(request, response));
  readonly #sockets = new WebSocketServer({ noServer: true });

  private constructor() {
    this.#http.on("upgrade", (request, socket, head) => {
      const asked = describe(request, undefined);
      this.asked.add(asked);
      const answer = this.#script.get("UPGRADE")?.shift();
      if (answer) return void socket.end("HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n");
      this.#sockets.handleUpgrade(request, socket, head, (opened) => {
        opened.on("message", (data) => this.messages.add(JSON.parse(String(data)) as Record<string, unknown>));
        this.sockets.add(opened);
      });
    });
  }

  /** Somebody who leaves before the server goes. */
  guest(guest: Guest): void {
    this.#guests.add(guest);
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#http.address() as AddressInfo).port}`;
  }

  /** Answers one more request of a kind, such as `POST register`, like this. */
  next(what: string, answer: Answer): void {
    this.#script.set(what, [...(this.#script.get(what) ?? []), answer]);
  }

  /** How often it was asked something. */
  count(what: string): number {
    return this.asked.all.filter((asked) => asked.what === what).length;
  }

  async #take(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const text = Buffer.concat(chunks).toString();
    const asked = describe(request, text === "" ? undefined : JSON.parse(text));
    this.asked.add(asked);
    const scripted = this.#script.get(asked.what)?.shift();
    if (scripted) return scripted(asked, response);
    switch (asked.what) {
      case "GET pending":
        response.writeHead(200, { "content-type": "text/event-stream" });
        response.flushHeaders();
        return this.streams.add(response);
      case "GET ws":
        return refuse(426)(asked, response);
      case "POST execute":
        return answer({ requestID: (asked.body as { requestID?: unknown }).requestID })(asked, response);
      default:
        return answer({ success: true })(asked, response);
    }
  }
}

function describe(request: IncomingMessage, body: unknown): Asked {
  const url = new URL(request.url ?? "", "http://localhost");
  const upgrade = request.headers.upgrade ? "UPGRADE" : undefined;
  const [, , kind = ""] = url.pathname.split("/");
  return {
    what: upgrade ?? `${request.method} ${kind}`,
    query: url.searchParams,
    headers: request.headers,
    body,
  };
}

export function answer(body: unknown): Answer {
  return (_, response) => response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(body));
}

export function refuse(status: number, headers: Record<string, string> = {}): Answer {
  const body = JSON.stringify({ error: `refused with ${status}`, code: "CODE" });
  return (_, response) => response.writeHead(status, { "content-type": "application/json", ...headers }).end(body);
}

/** What a proxy says whose server is away. */
export function page(status: number): Answer {
  return (_, response) => response.writeHead(status, { "content-type": "text/html" }).end("<h1>Come back later</h1>");
}

/** A call that is under way. */
export const OPEN = { requestID: "mine", created: "2026-11-15T12:00:00Z", deadline: "2026-11-15T13:00:00Z", state: "offered" };

/** What something else says that also speaks JSON. */
export const MAINTENANCE = { status: "maintenance" };

/** An event of a stream. */
export function event(name: string, data: unknown, id?: string): string {
  const last = id === undefined ? "" : `id: ${id}\n`;
  return `event: ${name}\ndata: ${JSON.stringify(data)}\n${last}\n`;
}

/** A call, as it comes to the client. */
export function call(requestID: string, more: Record<string, unknown> = {}): Record<string, unknown> {
  return {
    type: "client-tool-request",
    requestID,
    sessionID: "s",
    messageID: "m",
    callID: "c",
    tool: "client_laptop_tool",
    input: {},
    deadline: new Date(Date.now() + 60_000).toISOString(),
    effect: "write",
    attempt: 1,
    ...more,
  };
}
