// What the tests of providers share: a server with both kinds of provider, and how to read what each was asked.

import { createOpencodeClient } from "@opencode-ai/sdk/v2";

import { listen } from "../support/events.js";
import { Server } from "../support/server.js";
import { Upstream } from "../support/upstream.js";

export const KEY = "sk-only-for-the-provider";
export const THROW = /** @type {const} */ ({ throwOnError: true });

/**
 * A wire, and where it has what every wire has.
 *
 * @typedef {object} Wire
 * @property {string} providerID
 * @property {string} path
 * @property {Record<string, string>} headers the headers that carry the key
 * @property {(body: any) => string} system
 * @property {(body: any) => string[]} tools
 * @property {(body: any) => { id: string, name: string, input: unknown }[]} calls
 * @property {(body: any) => { id: string, text: string, failed?: boolean }[]} results
 *   what came of calls; not every wire tells failures apart
 * @property {(body: any) => unknown[]} images
 * @property {(mime: string, base64: string) => unknown} image
 */

/** @type {Wire} */
const OPENAI = {
  providerID: "mock",
  path: "/v1/chat/completions",
  headers: { authorization: `Bearer ${KEY}` },
  system: ({ messages }) => messages[0].content,
  tools: ({ tools }) => tools.map(({ function: { name } }) => name),
  calls: ({ messages }) =>
    messages
      .flatMap(({ tool_calls = [] }) => tool_calls)
      .map(({ id, function: { name, arguments: input } }) => ({ id, name, input: JSON.parse(input) })),
  results: ({ messages }) =>
    messages
      .filter(({ role }) => role === "tool")
      .map(({ tool_call_id, content }) => ({ id: tool_call_id, text: content })),
  images: ({ messages }) => messages.flatMap(({ content }) => blocks(content, "image_url")),
  image: (mime, base64) => ({ type: "image_url", image_url: { url: `data:${mime};base64,${base64}` } }),
};

/** @type {Wire} */
const ANTHROPIC = {
  providerID: "claude",
  path: "/v1/messages",
  headers: { "x-api-key": KEY, "anthropic-version": "2023-06-01" },
  system: ({ system }) => system,
  tools: ({ tools }) => tools.map(({ name }) => name),
  calls: ({ messages }) =>
    messages.flatMap(({ content }) => blocks(content, "tool_use")).map(({ id, name, input }) => ({ id, name, input })),
  results: ({ messages }) =>
    messages
      .flatMap(({ content }) => blocks(content, "tool_result"))
      .map(({ tool_use_id, content = [], is_error = false }) => ({
        id: tool_use_id,
        text: blocks(content, "text")
          .map(({ text }) => text)
          .join(""),
        failed: is_error,
      })),
  images: ({ messages }) =>
    messages.flatMap(({ content }) => [
      ...blocks(content, "image"),
      ...blocks(content, "tool_result").flatMap((result) => blocks(result.content, "image")),
    ]),
  image: (media_type, data) => ({ type: "image", source: { type: "base64", media_type, data } }),
};

/** Both of them, by name. */
export const WIRES = { OpenAI: OPENAI, Anthropic: ANTHROPIC };

/**
 * @param {any} content
 * @param {string} type
 * @returns {any[]}
 */
function blocks(content, type) {
  return Array.isArray(content) ? content.filter((block) => block.type === type) : [];
}

/**
 * A server whose providers are both aimock, the SDK, and a session of the client `laptop`.
 *
 * @param {import("node:test").TestContext} test
 * @param {{ keys?: string[], settings?: string }} [how] the keys that the provider takes, and more settings of it
 */
export async function start(test, { keys, settings = "" } = {}) {
  const upstream = await Upstream.start(test, { keys });
  const config = `
    [agents.default]
    system = "You are kind."
    [providers.mock]
    kind = "openai"
    baseURL = "${upstream.url}/v1"
    apiKey = "${KEY}"
    ${settings}
    [providers.claude]
    kind = "anthropic"
    baseURL = "${upstream.url}"
    apiKey = "${KEY}"
    ${settings}
  `;
  const server = await Server.start(test, { config });
  const client = createOpencodeClient({ baseUrl: server.url });
  const { data: session } = await client.session.create({ metadata: { clientID: "laptop" } }, THROW);
  const sessionID = session.id;
  return {
    upstream,
    server,
    client,
    sessionID,
    /** Says something to a model of that provider, and waits for the end of the turn. */
    say: async (
      /** @type {Wire} */ { providerID },
      /** @type {string} */ text,
      /** @type {import("@opencode-ai/sdk/v2").FilePartInput[]} */ ...files
    ) => {
      const parts = [...files, { type: /** @type {const} */ ("text"), text }];
      const model = { providerID, modelID: "some-model" };
      return (await client.session.prompt({ sessionID, model, parts }, THROW)).data;
    },
    listen: () => listen(server, (signal) => client.event.subscribe({}, { signal })),
  };
}

/** @param {import("@opencode-ai/sdk/v2").Part[]} parts */
export const textOf = (parts) => parts.map((part) => (part.type === "text" ? part.text : "")).join("");
