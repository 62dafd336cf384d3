// A page as `useChat` keeps it, with nothing drawn: the AI SDK's own chat, over its own transport.

import assert from "node:assert/strict";

import { AbstractChat, DefaultChatTransport, uiMessageChunkSchema } from "ai";

import { Log, within } from "./patience.js";

/** @typedef {import("ai").UIMessage} Message */
/** @typedef {import("ai").UIMessageChunk} Chunk */

/**
 * A request of the page, and what came back on its stream.
 *
 * @typedef {object} Request
 * @property {string} method
 * @property {string} path
 * @property {any} body
 * @property {Chunk[]} chunks
 */

/**
 * What a page shows at some time.
 *
 * @typedef {object} Shown
 * @property {import("ai").ChatStatus} status
 * @property {Message[]} messages
 */

/** What `useChat` keeps in React: whatever changes is a new value. */
class State {
  /** @type {Log<Shown>} */
  shown = new Log();
  /** @type {Error | undefined} */
  error;
  /** @type {import("ai").ChatStatus} */
  #status = "ready";
  /** @type {Message[]} */
  #messages;

  /** @param {Message[]} messages */
  constructor(messages) {
    this.#messages = messages;
  }

  get status() {
    return this.#status;
  }

  set status(status) {
    this.#status = status;
    this.#show();
  }

  get messages() {
    return this.#messages;
  }

  set messages(messages) {
    this.#messages = messages;
    this.#show();
  }

  /** @param {Message} message */
  pushMessage = (message) => {
    this.messages = [...this.#messages, structuredClone(message)];
  };

  popMessage = () => {
    this.messages = this.#messages.slice(0, -1);
  };

  /**
   * @param {number} index
   * @param {Message} message
   */
  replaceMessage = (index, message) => {
    this.messages = this.#messages.with(index, structuredClone(message));
  };

  /**
   * @template T
   * @param {T} thing
   */
  snapshot = (thing) => structuredClone(thing);

  #show() {
    this.shown.add({ status: this.#status, messages: this.#messages });
  }
}

/**
 * How a page is: what the SDK's chat takes, and what goes into the body of each of its requests.
 *
 * @typedef {Omit<import("ai").ChatInit<Message>, "transport"> & { id: string, body?: object }} Settings
 */

/** @extends {AbstractChat<Message>} */
export class Page extends AbstractChat {
  /**
   * All requests of the page, in order.
   * @type {Request[]}
   */
  requests = [];
  /** All that it showed. */
  shown;
  /** @type {import("./server.js").Server} */
  server;
  /** @type {Promise<void>[]} */
  #reading = [];

  /**
   * Opens a page. When the test is over, all that it was sent has been looked at.
   *
   * @param {import("node:test").TestContext} test
   * @param {import("./server.js").Server} server
   * @param {Settings} settings
   */
  constructor(test, server, { body = {}, messages = [], ...init }) {
    /** @type {typeof fetch} */
    const send = (url, options) => this.#fetch(url, options);
    const state = new State(messages);
    super({
      ...init,
      state,
      transport: new DefaultChatTransport({ api: `${server.url}/api/chat`, body, fetch: send }),
    });
    this.server = server;
    this.shown = state.shown;
    test.after(() => within("all streams have been read", Promise.all(this.#reading)));
  }

  /** What it has sent, in short. */
  get sent() {
    return this.requests.map(({ method, path }) => `${method} ${path}`);
  }

  /** The answer that it shows last. */
  get answer() {
    const message = this.lastMessage;
    assert.ok(message?.role === "assistant", "the last message is no answer");
    return message;
  }

  /**
   * What it shows first that is like that, now or later.
   *
   * @param {string} what
   * @param {(shown: Shown) => boolean} like
   */
  until(what, like) {
    return this.shown.until(what, like);
  }

  /**
   * Waits until a call of that tool is in that state, and gives its part.
   *
   * @param {string} name
   * @param {string} state
   * @returns {Promise<any>}
   */
  async call(name, state) {
    const find = (/** @type {Shown} */ { messages }) =>
      messages
        .flatMap(({ parts }) => /** @type {any[]} */ (parts))
        .find((part) => part.type === `tool-${name}` && part.state === state);
    return find(await this.until(`a call of ${name} is ${state}`, (shown) => find(shown) !== undefined));
  }

  /**
   * Waits until an answer like that is complete.
   *
   * @param {RegExp} like
   */
  answered(like) {
    return this.until(`it is answered: ${like}`, ({ status, messages }) => {
      const last = messages.at(-1);
      return status === "ready" && last?.role === "assistant" && like.test(textOf(last));
    });
  }

  /**
   * Says something, and waits until it has been answered.
   *
   * @param {string} text
   */
  say(text) {
    return within(`"${text}" is answered`, this.sendMessage({ text }));
  }

  /**
   * @param {Parameters<typeof fetch>[0]} url
   * @param {RequestInit} [options]
   */
  async #fetch(url, options = {}) {
    const { method = "GET", body } = options;
    /** @type {Request} */
    const request = {
      method,
      path: String(url).slice(this.server.url.length),
      body: typeof body === "string" ? JSON.parse(body) : undefined,
      chunks: [],
    };
    this.requests.push(request);
    const response = await fetch(url, options);
    if (response.status === 200) {
      const reading = readChunks(response.clone(), request.chunks);
      // What is wrong is told when the test is over.
      reading.catch(() => {});
      this.#reading.push(reading);
    }
    return response;
  }
}

/**
 * Reads a stream beside the SDK, so that what the SDK passes over is seen, too.
 *
 * @param {Response} response
 * @param {Chunk[]} chunks
 */
async function readChunks(response, chunks) {
  assert.equal(response.headers.get("x-vercel-ai-ui-message-stream"), "v1");
  assert.equal(response.headers.get("content-type"), "text/event-stream");
  assert.ok(response.body);
  const decoder = new TextDecoder();
  let rest = "";
  try {
    for await (const bytes of response.body) {
      const frames = (rest + decoder.decode(bytes, { stream: true })).split("\n\n");
      rest = frames.pop() ?? "";
      for (const frame of frames) await takeFrame(frame, chunks);
    }
  } catch (error) {
    if (error instanceof assert.AssertionError) throw error;
    // The page let go of the stream, or the server was stopped: there is no more to look at.
    return;
  }
  assert.deepEqual([rest, chunks.at(-1)?.type], ["", "the end"], "the stream ended with the end");
}

/**
 * @param {string} frame
 * @param {any[]} chunks
 */
async function takeFrame(frame, chunks) {
  if (frame.startsWith(":")) return;
  const [, data] = /^data: (.*)$/.exec(frame) ?? assert.fail(`not a frame: ${frame}`);
  if (data === "[DONE]") return void chunks.push({ type: "the end" });
  const valid = await uiMessageChunkSchema().validate?.(JSON.parse(data));
  assert.ok(valid?.success, `not a chunk: ${data}`);
  chunks.push(valid.value);
}

/**
 * The chunks in short: the type of each, deltas of one thing once.
 *
 * @param {Request} request
 */
export function story({ chunks }) {
  const types = chunks.map(({ type }) => type);
  return types.filter((type, place) => type !== types[place - 1]);
}

/**
 * A message in short: the texts, and of each call the tool, its state, and what came of it.
 *
 * @param {Message} message
 */
export function partsOf({ parts }) {
  return parts.map((/** @type {any} */ part) => {
    if (part.type === "text") return part.text;
    if (!part.type.startsWith("tool-")) return part.type;
    const came = part.output ?? part.errorText;
    return [part.type.slice("tool-".length), part.state, ...(came === undefined ? [] : [came])];
  });
}

/** All that a message says. */
export const textOf = (/** @type {Message} */ { parts }) =>
  parts.map((part) => (part.type === "text" ? part.text : "")).join("");

/**
 * Posts something to a server, and gives the answer.
 *
 * @param {import("./server.js").Server} server
 * @param {string} path
 * @param {object} [body]
 * @returns {Promise<{ status: number, body: any }>}
 */
export async function post(server, path, body = {}) {
  const headers = { "content-type": "application/json" };
  const response = await fetch(server.url + path, { method: "POST", headers, body: JSON.stringify(body) });
  return { status: response.status, body: await response.json() };
}

/**
 * The messages that a server has of a chat.
 *
 * @param {import("./server.js").Server} server
 * @param {string} id
 * @returns {Promise<Message[]>}
 */
export async function stored(server, id) {
  const response = await fetch(`${server.url}/api/chat/${id}`);
  const chat = await response.json();
  assert.deepEqual([response.status, chat.id], [200, id]);
  return chat.messages;
}
