// A `fetch` over a network that fails where a test wants it to, and remembers what was asked.

import { Log } from "../support/patience.js";

/** `unsent`: the server never gets it; `unanswered`: it does, but the answer is lost; otherwise what answers in its place. */
export type Fault = "unsent" | "unanswered" | { status: number; headers?: Record<string, string>; body?: string };

export interface Asked {
  readonly path: "claim" | "ack";
  /** As it was sent. */
  readonly body: string;
  readonly keepalive: boolean;
  readonly headers: Record<string, string>;
  readonly at: number;
}

export class Faults {
  /** All requests. */
  readonly asked = new Log<Asked>();
  /** What befalls the next requests of each kind, in order. */
  readonly next: Record<Asked["path"], Fault[]> = { claim: [], ack: [] };
  /** What befalls all of a kind, until it is taken away. */
  readonly always: Partial<Record<Asked["path"], Fault>> = {};

  readonly fetch: typeof globalThis.fetch = async (input, init = {}) => {
    const path = new URL(String(input)).pathname.split("/").at(-1) as Asked["path"];
    const { body, keepalive = false, headers } = init;
    this.asked.add({ path, body: String(body), keepalive, headers: headers as Record<string, string>, at: performance.now() });
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
  bodies(path: Asked["path"]): string[] {
    return this.asked.all.filter((asked) => asked.path === path).map(({ body }) => body);
  }

  /** Waits until there were so many requests to a path. */
  async count(path: Asked["path"], count: number): Promise<void> {
    await this.asked.until(`${count} requests to ${path}`, () => this.bodies(path).length >= count);
  }
}

function failure(code: string): TypeError {
  return new TypeError("fetch failed", { cause: Object.assign(new Error(`the test says ${code}`), { code }) });
}
