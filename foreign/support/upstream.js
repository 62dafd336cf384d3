// aimock as the provider of models: it answers as OpenAI and Anthropic do, with what a test wants it to say.

import { createServer } from "@copilotkit/aimock";

import { Log } from "./patience.js";

/**
 * A request that reached the provider, as it was sent.
 *
 * @typedef {object} Asked
 * @property {string} path
 * @property {import("node:http").IncomingHttpHeaders} headers
 * @property {any} body none if the provider did not want to read it
 * @property {Promise<unknown>} abandoned when its connection was closed before it was answered in full
 */

/** @typedef {import("@copilotkit/aimock").Fixture} Fixture */

export class Upstream {
  /**
   * Starts a provider that is stopped when the test is over.
   *
   * @param {import("node:test").TestContext} test
   * @param {{ keys?: string[] }} [settings] the keys that it takes; any, if there are none
   */
  static async start(test, { keys } = {}) {
    const upstream = new Upstream();
    const auth = keys && { apiKeys: keys };
    const { server, url } = await createServer(upstream.#fixtures, {
      host: "127.0.0.1",
      port: 0,
      auth,
      logLevel: "silent",
    });
    server.prependListener("request", (request, response) => upstream.#record(request, response));
    upstream.url = url;
    test.after(() => {
      server.closeAllConnections();
      server.close();
    });
    return upstream;
  }

  /** Where it is. */
  url = "";

  /** What a server's handback.toml says to use its models as `mock/…`, over the wire of OpenAI. */
  get config() {
    return `
      [providers.mock]
      kind = "openai"
      baseURL = "${this.url}/v1"
      apiKey = "sk"
    `;
  }

  /**
   * What it was asked.
   * @type {Log<Asked>}
   */
  asked = new Log();
  /** @type {Fixture[]} */
  #fixtures = [];

  /**
   * What it says when the last thing that it was told ends like this: words of the user, or the result of a tool.
   *
   * @param {string} end
   * @param {Fixture["response"]} response
   * @param {Omit<Fixture, "match" | "response">} [how]
   */
  says(end, response, how) {
    const predicate = ({ messages }) => lastText(messages).endsWith(end);
    this.#fixtures.push({ match: { predicate }, response, ...how });
  }

  /**
   * @param {import("node:http").IncomingMessage} request
   * @param {import("node:http").ServerResponse} response
   */
  #record(request, response) {
    /** @type {Buffer[]} */
    const chunks = [];
    // The body is read when aimock begins to, not before: it would miss what came meanwhile.
    request.on("newListener", function attach(event) {
      if (event !== "data") return;
      request.off("newListener", attach);
      request.on("data", (chunk) => chunks.push(chunk));
    });
    /** @type {(value?: unknown) => void} */
    let abandon = () => {};
    const abandoned = new Promise((resolve) => (abandon = resolve));
    response.once("close", () => {
      if (!response.writableFinished) abandon();
    });
    request.once("end", () => {
      const { url: path = "", headers } = request;
      const body = chunks.length > 0 ? JSON.parse(Buffer.concat(chunks).toString()) : undefined;
      this.asked.add({ path, headers, body, abandoned });
    });
  }
}

/** @param {{ content: unknown }[]} messages */
function lastText(messages) {
  const content = messages.at(-1)?.content;
  const texts = Array.isArray(content) ? content.flatMap(({ text }) => text ?? []) : [content];
  return String(texts.at(-1));
}
