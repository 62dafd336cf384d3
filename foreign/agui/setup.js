// What the tests of AG-UI share: a server whose model says what a test wants, tools, and what the model was told.

import { Server } from "../support/server.js";
import { Upstream } from "../support/upstream.js";

/** A call, and a text, as a run tells them. */
export const CALL = ["TOOL_CALL_START", "TOOL_CALL_ARGS", "TOOL_CALL_END"];
export const TEXT = ["TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END"];

/** Tools of a page. */
export const TOOLS = {
  pick: {
    description: "Lets the user pick",
    parameters: { type: "object", properties: { title: { type: "string" } }, required: ["title"] },
    run: ({ title }) => `picked ${title}`,
  },
  locate: { description: "Where the user is", run: () => "Oslo" },
};

/** A picture of one dot, as PNG in base64. */
export const DOT =
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

/**
 * A server that uses a model of aimock's.
 *
 * @param {import("node:test").TestContext} test
 * @param {string} [config]
 */
export async function start(test, config = "") {
  const upstream = await Upstream.start(test);
  const server = await Server.start(test, { config: `model = "mock/some-model"\n${upstream.config}\n${config}` });
  return { upstream, server };
}

/**
 * A call as a model makes it.
 *
 * @param {string} id the model's own id of it
 * @param {string} name
 * @param {object} [input]
 */
export const call = (id, name, input = {}) => ({ id, name, arguments: JSON.stringify(input) });

/**
 * What the model was told, in short, but for its instructions.
 *
 * @param {import("../support/upstream.js").Asked} asked
 */
export function told({ body }) {
  return body.messages
    .filter(({ role }) => role !== "system")
    .map(({ role, content, tool_calls = [] }) => {
      const text = Array.isArray(content) ? content.map(({ text }) => text).join("") : content;
      const calls = tool_calls.map(({ function: { name, arguments: input } }) => `${name} ${input}`);
      return [`${role}:`, text, ...calls].filter(Boolean).join(" ");
    });
}

/**
 * The instructions of the model.
 *
 * @param {import("../support/upstream.js").Asked} asked
 */
export const instructions = ({ body }) =>
  body.messages
    .filter(({ role }) => role === "system")
    .map(({ content }) => content)
    .join("\n");

/**
 * What the model was told of its calls, by its own ids of them.
 *
 * @param {import("../support/upstream.js").Asked} asked
 * @returns {Record<string, string>}
 */
export function results({ body }) {
  const messages = body.messages.filter(({ role }) => role === "tool");
  return Object.fromEntries(messages.map(({ tool_call_id, content }) => [tool_call_id, content]));
}

/**
 * Gets something of a server.
 *
 * @param {Server} server
 * @param {string} path
 * @param {RequestInit} [options]
 * @returns {Promise<{ status: number, body: any }>}
 */
export async function ask(server, path, options) {
  const response = await fetch(server.url + path, options);
  const text = await response.text();
  return { status: response.status, body: text === "" ? undefined : JSON.parse(text) };
}
