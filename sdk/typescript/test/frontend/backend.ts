// Where calls come from and acks go to. The tests know no more of it than this interface, so that any server that keeps the
// contract can stand here.

import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import type { TestContext } from "node:test";
import { isDeepStrictEqual } from "node:util";

export interface Backend {
  readonly url: string;
  /** A model has called a tool, and waits; the call's id. */
  call(options?: { awaitsApproval?: boolean }): Promise<string>;
  /** Somebody allows a call. */
  allow(toolCallId: string): Promise<void>;
  /** The call's time is over, or its turn was aborted. */
  expire(toolCallId: string): Promise<void>;
  /** What the model is told: `{status, output?, errorText?, requestedAt?}`; nothing yet if it still waits. */
  outcome(toolCallId: string): Promise<unknown>;
}

export function startBackend(test: TestContext): Promise<Backend> {
  return TableServer.start(test);
}

interface Entry {
  state: "awaiting" | "pending" | "acked" | "expired";
  claimant?: string;
  ack?: Record<string, unknown>;
}

type Answer = [status: number, body: { ok: boolean; ignored?: boolean; reason?: string; error?: string }];

const refused = (status: number, reason: string): Answer => [status, { ok: false, reason }];
const invalid = (error: string): Answer => [400, { ok: false, reason: "invalid", error }];

/** The table of acks and claims, and nothing around it. */
class TableServer implements Backend {
  static async start(test: TestContext): Promise<TableServer> {
    const backend = new TableServer();
    backend.#server.listen(0, "127.0.0.1");
    await once(backend.#server, "listening");
    test.after(() => {
      backend.#server.close();
      backend.#server.closeAllConnections();
    });
    return backend;
  }

  readonly #entries = new Map<string, Entry>();
  readonly #server = createServer((request, response) => void this.#serve(request, response));

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  async call({ awaitsApproval = false } = {}): Promise<string> {
    const toolCallId = randomUUID();
    this.#entries.set(toolCallId, { state: awaitsApproval ? "awaiting" : "pending" });
    return toolCallId;
  }

  async allow(toolCallId: string): Promise<void> {
    this.#entries.set(toolCallId, { state: "pending" });
  }

  async expire(toolCallId: string): Promise<void> {
    this.#entries.set(toolCallId, { state: "expired" });
  }

  async outcome(toolCallId: string): Promise<unknown> {
    return this.#entries.get(toolCallId)?.ack;
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    // Pages of other loopback ports may ask.
    response.setHeader("access-control-allow-origin", request.headers.origin ?? "*");
    response.setHeader("access-control-allow-headers", "content-type");
    if (request.method === "OPTIONS") return void response.writeHead(204).end();
    let text = "";
    for await (const chunk of request) text += String(chunk);
    const [status, body] = this.#answer(request.url ?? "", text);
    response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body));
  }

  #answer(path: string, text: string): Answer {
    if (text.length > 4 * 1024 * 1024) return [413, { ok: false, reason: "too-large", error: "the body is too large" }];
    let body: Record<string, unknown>;
    try {
      body = JSON.parse(text) as Record<string, unknown>;
    } catch {
      return invalid("no JSON");
    }
    const { toolCallId } = body;
    if (typeof toolCallId !== "string" || toolCallId === "") return invalid("no toolCallId");
    if (path === "/api/tools/claim") return this.#claim(this.#entries.get(toolCallId), body);
    if (path === "/api/tools/ack") return this.#ack(this.#entries.get(toolCallId), body);
    return refused(404, "not-found");
  }

  #claim(entry: Entry | undefined, { claimant, release }: Record<string, unknown>): Answer {
    if (typeof claimant !== "string" || claimant === "") return invalid("no claimant");
    if (!entry) return refused(404, "unknown");
    if (entry.state === "awaiting") return refused(409, "awaiting-approval");
    if (entry.state !== "pending") return refused(410, "expired");
    if (entry.claimant !== undefined && entry.claimant !== claimant) return refused(409, "claimed");
    if (release === true) delete entry.claimant;
    else entry.claimant = claimant;
    return [200, { ok: true }];
  }

  #ack(entry: Entry | undefined, { toolCallId: _, claimant, ...ack }: Record<string, unknown>): Answer {
    const { status, requestedAt } = ack;
    if (!["success", "failed", "timeout"].includes(status as string)) return invalid("a bad status");
    if (requestedAt !== undefined && Number.isNaN(Date.parse(String(requestedAt)))) return invalid("a bad time");
    if (!entry) return refused(404, "unknown");
    if (entry.state === "awaiting") return refused(409, "awaiting-approval");
    if (entry.state === "expired") return refused(410, "expired");
    if (entry.state === "acked") {
      return isDeepStrictEqual(entry.ack, ack) ? [200, { ok: true, ignored: true }] : refused(409, "conflict");
    }
    if (entry.claimant !== undefined && entry.claimant !== claimant) return refused(409, "claimed");
    Object.assign(entry, { state: "acked", ack } satisfies Entry);
    return [200, { ok: true }];
  }
}
