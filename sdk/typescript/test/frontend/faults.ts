// A `fetch` over a network that fails where a test wants it to, and remembers what was asked.

import { Log } from "../support/patience.js";

/** `unsent`: the server never gets it; `unanswered`: it does, but the answer is lost; otherwise what answers in its place. */
export type Fault = "unsent" | "unanswered" | { status: number; headers?: Record<string, string>; body?: string };

/** What is asked of the server: `read` is what it knows of the call. */
export type Path = "claim" | "read" | "ack";

export interface Asked {
  readonly path: Path;
  /** As it was sent. */
  readonly body: string;
  readonly keepalive: boolean;
  readonly headers: Record<string, string>;
  readonly at: number;
}

export class Faults {
  /** All claims and acks. */
  readonly asked = new Log<Asked>();
  /** All that was read. */
  readonly reads: Asked[] = [];
  /** What befalls the next requests of each kind, in order. */
  readonly next: Record<Path, Fault[]> = { claim: [], read: [], ack: [] };
  /** What befalls all of a kind, until it is taken away. */
  readonly always: Partial<Record<Path, Fault>> = {};

  readonly fetch: typeof globalThis.fetch = async (input, init = {}) => {
    const path = init.method === "GET" ? "read" : (new URL(String(input)).pathname.split("/").at(-1) as Path);
    const { body, keepalive = false } = init;
    const headers = init.headers as Record<string, string>;
    const asked = { path, body: String(body), keepalive, headers, at: performance.now() };
    if (path === "read") this.reads.push(asked);
    else this.asked.add(asked);
    const fault = this.next[path].shift() ?? this.always[path];
    if (fault === "unsent") throw failure("ECONNREFUSED");
    if (typeof fault === "object") {
      const { status, headers = {}, body = '{"ok":false,"reason":"invalid","error":"the test says so"}' } = fault;
      return new Response(body, { status, headers });
    }
    const response = await globalThis.fetch(input, init);
    if (fault !== "unanswered") return response;
    await response.body?.cancel();
    throw failure("ECONNRESET");
  };

  /** The bodies that were sent to one path. */
  bodies(path: Path): string[] {
    return this.asked.all.filter((asked) => asked.path === path).map(({ body }) => body);
  }

  /** Waits until there were so many requests to a path. */
  async count(path: Path, count: number): Promise<void> {
    await this.asked.until(`${count} requests to ${path}`, () => this.bodies(path).length >= count);
  }
}

function failure(code: string): TypeError {
  return new TypeError("fetch failed", { cause: Object.assign(new Error(`the test says ${code}`), { code }) });
}
