// A provider of models, as OpenAI's API is: it says what a test wants, when the test wants it.

import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import type { TestContext } from "node:test";

/** An answer under way. */
export class Speech {
  readonly #response: ServerResponse;

  constructor(response: ServerResponse) {
    this.#response = response;
  }

  says(text: string): void {
    this.#send({ choices: [{ index: 0, delta: { content: text } }] });
  }

  thinks(text: string): void {
    this.#send({ choices: [{ index: 0, delta: { reasoning_content: text } }] });
  }

  /** Calls a tool, or writes more of the arguments if it has no name. */
  calls(text: string, name?: string): void {
    const call = { index: 0, ...(name !== undefined && { id: "call_1", type: "function" }), function: { name, arguments: text } };
    this.#send({ choices: [{ index: 0, delta: { tool_calls: [call] } }] });
  }

  /** Has nothing more to say. */
  ends(reason: "stop" | "tool_calls" = "stop"): void {
    this.#send({ choices: [{ index: 0, delta: {}, finish_reason: reason }] });
    this.#response.end("data: [DONE]\n\n");
  }

  #send(chunk: object): void {
    this.#response.write(`data: ${JSON.stringify({ id: "1", object: "chat.completion.chunk", ...chunk })}\n\n`);
  }
}

export class Provider {
  /** Starts one that is gone with the test. */
  static async start(test: TestContext): Promise<Provider> {
    const provider = new Provider();
    const server = createServer((request, response) => {
      request.resume().once("end", () => {
        if (provider.failure) {
          response.writeHead(provider.failure.status, { "content-type": "application/json" });
          response.end(JSON.stringify({ error: { message: provider.failure.message } }));
          return;
        }
        response.writeHead(200, { "content-type": "text/event-stream" }).flushHeaders();
        provider.#speak(new Speech(response));
      });
    });
    await new Promise<void>((listens) => server.listen(0, "127.0.0.1", listens));
    test.after(() => {
      server.closeAllConnections();
      server.close();
    });
    const { port } = server.address() as AddressInfo;
    provider.config = `model = "local/any"\n[providers.local]\nkind = "openai"\nbaseURL = "http://127.0.0.1:${port}/v1"\n`;
    return provider;
  }

  /** What the server's handback.toml says to use it. */
  config = "";
  /** What it answers instead of speaking. */
  failure: { status: number; message: string } | undefined;
  readonly #speeches: Speech[] = [];
  readonly #listeners: ((speech: Speech) => void)[] = [];

  /** The next answer that it is asked for. */
  asked(): Promise<Speech> {
    const speech = this.#speeches.shift();
    return speech ? Promise.resolve(speech) : new Promise((asked) => this.#listeners.push(asked));
  }

  #speak(speech: Speech): void {
    const listener = this.#listeners.shift();
    if (listener) listener(speech);
    else this.#speeches.push(speech);
  }
}
