// A server in this process: its session stands as a test says, and it forgets what it knows when it is restarted.

import type { TestContext } from "node:test";

import { createHandbackClient, type HandbackClient, type MessageWithParts } from "../../src/node.js";
import { Log } from "../support/patience.js";

/** A message of an answer: how far it is, what it says, and whether it calls a tool. */
export interface Step {
  isComplete: boolean;
  text?: string;
  calls?: boolean;
  error?: string;
}

type Fault = () => Response | void;

const CUT = () => Object.assign(new TypeError("fetch failed"), { cause: Object.assign(new Error("cut"), { code: "ECONNRESET" }) });

export class World {
  /** What was asked, in order: `prompt`, `register`, `message`, `abort`, … */
  readonly asked = new Log<{ what: string; body: Record<string, unknown> | undefined; query: URLSearchParams }>();
  /** What to do with the next requests of a kind, in place of what a server does. */
  readonly #faults = new Map<string, Fault[]>();
  /** The same for all requests of a kind, until it is taken away. */
  readonly failing = new Map<string, Fault>();
  readonly #streams = new Set<{ path: string; controller: ReadableStreamDefaultController<Uint8Array> }>();
  isBusy = true;
  /** How the answer stands, message by message. */
  steps: Step[] = [];
  /** The prompts that were taken, and how many tools there were then. */
  readonly taken = new Log<{ messageID: string; tools: number }>();
  #tools = 0;

  /** A client of it, which is closed with the test. */
  client(test: TestContext): HandbackClient {
    // Longer than it takes to repeat a prompt.
    const reconnect = { first: 600, longest: 600 };
    const client = createHandbackClient({ baseUrl: "http://world.test", clientID: "laptop", fetch: this.fetch, reconnect });
    client.clientTools.on("state", () => undefined);
    test.after(() => client.close());
    return client;
  }

  /** Has one more request of a kind fail after this was done, or be answered with what this gives. */
  fail(what: string, run: Fault = () => undefined): void {
    this.#faults.set(what, [...(this.#faults.get(what) ?? []), run]);
  }

  /** Another process takes the place of this one: it knows no tools. The streams of this kind are cut. */
  restart(cut: RegExp): void {
    this.#tools = 0;
    for (const stream of [...this.#streams]) {
      if (!cut.test(stream.path)) continue;
      this.#streams.delete(stream);
      stream.controller.error(CUT());
    }
  }

  tell(type: string, properties: Record<string, unknown>): void {
    const bytes = new TextEncoder().encode(`data: ${JSON.stringify({ type, properties })}\n\n`);
    for (const { path, controller } of this.#streams) if (path === "/event") controller.enqueue(bytes);
  }

  readonly fetch: typeof globalThis.fetch = async (input, init) => {
    const { pathname, searchParams: query } = new URL(String(input));
    const body = init?.body == null ? undefined : (JSON.parse(String(init.body)) as Record<string, unknown>);
    const what = whatIsAsked(pathname);
    this.asked.add({ what, body, query });
    const fault = this.#faults.get(what)?.shift() ?? this.failing.get(what);
    if (fault) {
      const answer = fault();
      if (answer) return answer;
      throw CUT();
    }
    // As any network, it takes its time.
    await new Promise((resolve) => setImmediate(resolve));
    switch (what) {
      case "event":
      case "pending":
        return this.#stream(pathname, init?.signal);
      case "session":
        return Response.json({ id: "ses_1" });
      case "register":
        this.#tools = (body?.["tools"] as unknown[]).length;
        return Response.json({ registered: [] });
      case "prompt_async":
        this.taken.add({ messageID: String(body?.["messageID"]), tools: this.#tools });
        return new Response(null, { status: 204 });
      case "status":
        return Response.json({ ses_1: { type: this.isBusy ? "busy" : "idle" } });
      case "message":
        return Response.json(this.#messages());
      default:
        return Response.json([]);
    }
  };

  #stream(path: string, signal: AbortSignal | null | undefined): Response {
    const body = new ReadableStream<Uint8Array>({
      start: (controller) => {
        const stream = { path, controller };
        this.#streams.add(stream);
        signal?.addEventListener("abort", () => this.#streams.delete(stream) && controller.error(signal.reason));
        if (path === "/event") {
          controller.enqueue(new TextEncoder().encode('data: {"type":"server.connected","properties":{}}\n\n'));
        }
      },
    });
    return new Response(body, { headers: { "content-type": "text/event-stream" } });
  }

  #messages(): MessageWithParts[] {
    const { messageID } = this.taken.all.at(-1) ?? { messageID: "" };
    const question = { info: { id: messageID, sessionID: "ses_1", role: "user", time: { created: 1 } }, parts: [] };
    const answers = this.steps.map(({ isComplete, text, calls, error }, number) => {
      const place = { sessionID: "ses_1", messageID: `msg_${number}` };
      return {
        info: {
          id: `msg_${number}`,
          sessionID: "ses_1",
          role: "assistant",
          parentID: messageID,
          time: { created: 2, ...(isComplete && { completed: 3 }) },
          ...(isComplete && { finish: calls ? "tool-calls" : "stop" }),
          ...(error !== undefined && { error: { name: "APIError", data: { message: error } } }),
        },
        parts: [
          ...(text === undefined ? [] : [{ ...place, id: `prt_${number}_t`, type: "text", text }]),
          ...(calls ? [{ ...place, id: `prt_${number}_c`, type: "tool", callID: "c", tool: "t", state: { status: "completed" } }] : []),
        ],
      };
    });
    return [question, ...answers] as MessageWithParts[];
  }
}

function whatIsAsked(path: string): string {
  if (path === "/session" || path === "/session/ses_1") return "session";
  return path.includes("/pending/") ? "pending" : (path.split("/").at(-1) ?? "");
}
