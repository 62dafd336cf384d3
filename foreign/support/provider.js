// A provider of models, as OpenAI's API is: it says what a test wants, when the test wants it.

import { createServer } from "node:http";

import { within } from "./patience.js";

/** An answer under way. */
class Speech {
  #response;

  /** @param {import("node:http").ServerResponse} response */
  constructor(response) {
    this.#response = response;
  }

  /** @param {string} text */
  says(text) {
    this.#send({ choices: [{ index: 0, delta: { content: text } }] });
  }

  /** Has nothing more to say. */
  ends() {
    this.#send({ choices: [{ index: 0, delta: {}, finish_reason: "stop" }] });
    this.#response.end("data: [DONE]\n\n");
  }

  /** @param {object} chunk */
  #send(chunk) {
    this.#response.write(`data: ${JSON.stringify({ id: "1", object: "chat.completion.chunk", ...chunk })}\n\n`);
  }
}

export class Provider {
  /**
   * Starts one that is gone with the test.
   *
   * @param {import("node:test").TestContext} test
   */
  static async start(test) {
    const provider = new Provider();
    const server = createServer((request, response) => {
      request.resume().once("end", () => {
        response.writeHead(200, { "content-type": "text/event-stream" }).flushHeaders();
        provider.#speak(new Speech(response));
      });
    });
    await new Promise((listens) => server.listen(0, "127.0.0.1", () => listens(undefined)));
    test.after(() => {
      server.closeAllConnections();
      server.close();
    });
    const { port } = /** @type {import("node:net").AddressInfo} */ (server.address());
    provider.config = `
      [providers.local]
      kind = "openai"
      baseURL = "http://127.0.0.1:${port}/v1"
    `;
    return provider;
  }

  /** What the server's handback.toml says to use its model `local/any`. */
  config = "";
  /** @type {Speech[]} */
  #speeches = [];
  /** @type {((speech: Speech) => void)[]} */
  #listeners = [];

  /**
   * The next answer that it is asked for.
   *
   * @returns {Promise<Speech>}
   */
  asked() {
    const speech = this.#speeches.shift();
    if (speech) return Promise.resolve(speech);
    return within("the model is asked", new Promise((asked) => this.#listeners.push(asked)));
  }

  /** @param {Speech} speech */
  #speak(speech) {
    const listener = this.#listeners.shift();
    if (listener) listener(speech);
    else this.#speeches.push(speech);
  }
}
