// Where calls come from and acks go to: a real server, whose model calls `open-url` in a chat and quotes what it is told.

import { randomUUID } from "node:crypto";
import type { TestContext } from "node:test";

import type { HandbackEvent } from "../../src/index.js";
import { Log, within } from "../support/patience.js";
import { Server } from "../support/server.js";

/** What a chat says so that its model calls a tool, if a test does not care. */
const OPEN = 'call open-url {"url": "https://example.test/", "timeoutSec": 600}';

const CONFIG = `
[agents.asking.permission]
client_tools = "ask"
`;

interface Chunk {
  readonly type: string;
  readonly toolCallId?: string;
  readonly approvalId?: string;
  readonly delta?: string;
}

/** What a stream of server-sent events says. */
async function* messages<T>(body: ReadableStream<Uint8Array>): AsyncGenerator<T> {
  const decoder = new TextDecoder();
  let rest = "";
  for await (const bytes of body) {
    const frames = (rest + decoder.decode(bytes, { stream: true })).split("\n\n");
    rest = frames.pop() ?? "";
    for (const frame of frames) {
      if (frame.startsWith("data: {")) yield JSON.parse(frame.slice("data: ".length)) as T;
    }
  }
}

/** A chat whose model has called a tool. */
class Chat {
  readonly id = randomUUID();
  readonly #chunks = new Log<Chunk>();
  #text = "";
  #told!: Promise<string>;

  static async begin(url: string, agent: string, text: string): Promise<Chat> {
    const chat = new Chat();
    const messages = [{ id: "u", role: "user", parts: [{ type: "text", text }] }];
    const response = await fetch(`${url}/api/chat`, {
      method: "POST",
      body: JSON.stringify({ id: chat.id, messages, agent }),
    });
    if (!response.ok || !response.body) throw new Error(`the chat was refused: ${await response.text()}`);
    chat.#told = chat.#read(response.body);
    // A test that is over stops the server, and with it this.
    chat.#told.catch(() => undefined);
    return chat;
  }

  async #read(body: ReadableStream<Uint8Array>): Promise<string> {
    for await (const chunk of messages<Chunk>(body)) {
      if (chunk.type === "text-delta") this.#text += chunk.delta ?? "";
      this.#chunks.add(chunk);
    }
    return this.#text;
  }

  async called(type: "tool-input-available" | "tool-approval-request"): Promise<Chunk> {
    return this.#chunks.until(type, (chunk) => chunk.type === type);
  }

  /** What the model was told, as it quotes it. */
  async told(): Promise<unknown> {
    const text = await within("the model answers", this.#told);
    return JSON.parse(text.slice(text.indexOf("{")));
  }
}

export class Backend {
  readonly #server: Server;
  readonly #chats = new Map<string, { chat: Chat; approvalId?: string | undefined }>();

  constructor(server: Server) {
    this.#server = server;
  }

  get url(): string {
    return this.#server.url;
  }

  /** A model has called a tool, and waits; the call's id. */
  async call({ awaitsApproval = false, text = OPEN } = {}): Promise<string> {
    const chat = await Chat.begin(this.url, awaitsApproval ? "asking" : "default", text);
    const { toolCallId = "", approvalId } = await chat.called(
      awaitsApproval ? "tool-approval-request" : "tool-input-available",
    );
    this.#chats.set(toolCallId, { chat, approvalId });
    return toolCallId;
  }

  /** Listens to the events; resolves when the server tells them. */
  async listen(listener: (event: HandbackEvent) => void): Promise<void> {
    const { body } = await fetch(`${this.url}/event`);
    if (!body) throw new Error("there are no events");
    const events = messages<HandbackEvent>(body);
    await events.next();
    const tellAll = async () => {
      for await (const event of events) listener(event);
    };
    // A test that is over stops the server, and with it this.
    tellAll().catch(() => undefined);
  }

  /** The session of a call. */
  session(toolCallId: string): string {
    return this.#chat(toolCallId).chat.id;
  }

  /** Somebody allows a call. */
  async allow(toolCallId: string): Promise<void> {
    const { chat, approvalId } = this.#chat(toolCallId);
    await this.#post(`permission/${approvalId}/reply`, { reply: "once" });
    await chat.called("tool-input-available");
  }

  /** The call's turn is aborted. */
  async expire(toolCallId: string): Promise<void> {
    await this.#post(`api/chat/${this.#chat(toolCallId).chat.id}/abort`, {});
  }

  /** What the model is told: `{status, output?, errorText?, requestedAt?}`; nothing yet if it still waits. */
  async outcome(toolCallId: string): Promise<unknown> {
    const response = await fetch(`${this.url}/client-tools/calls/${toolCallId}`);
    const { state } = (await response.json()) as { state: string };
    return state === "done" ? this.#chat(toolCallId).chat.told() : undefined;
  }

  #chat(toolCallId: string): { chat: Chat; approvalId?: string | undefined } {
    const known = this.#chats.get(toolCallId);
    if (!known) throw new Error(`there is no call ${toolCallId}`);
    return known;
  }

  async #post(path: string, body: unknown): Promise<void> {
    const response = await fetch(`${this.url}/${path}`, { method: "POST", body: JSON.stringify(body) });
    if (!response.ok) throw new Error(`${path}: ${response.status} ${await response.text()}`);
  }
}

/** With more settings, if there are any. */
export async function startBackend(test: TestContext, config = ""): Promise<Backend> {
  return new Backend(await Server.start(test, { config: CONFIG + config }));
}
