// A page that talks to its agent over AG-UI: the published client, in both of its generations.

import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";

import * as one from "ag-ui-client-1";
import * as zero from "ag-ui-client-0";

import { within } from "./patience.js";
import { Tap } from "./stream.js";

/**
 * A tool of the page: what it is to the model, and what it does. What it throws is the error of the call.
 *
 * @typedef {object} Tool
 * @property {string} [description]
 * @property {object} [parameters]
 * @property {(input: any) => string} run
 */

/** @typedef {InstanceType<typeof one.HttpAgent> | InstanceType<typeof zero.HttpAgent>} Agent */
/** @typedef {{ id: string, name: string, input: any }} Call */

/** The generations of the client, and the version of the protocol that each says it speaks. */
export const CLIENTS = [
  { name: "ag-ui 1.0.0", client: one, protocolVersion: "1.0" },
  { name: "ag-ui 0.0.59", client: zero, protocolVersion: undefined },
];

/** @typedef {(typeof CLIENTS)[number]} Client */

/**
 * @typedef {object} Settings
 * @property {string} [path] of the agent
 * @property {string} [threadId]
 * @property {Record<string, Tool>} [tools]
 * @property {object} [forwardedProps]
 * @property {{ description: string, value: string }[]} [context]
 * @property {any[]} [messages] what was said before
 * @property {any} [state]
 * @property {Record<string, string>} [headers]
 * @property {string} [accept] how the runs are to be told; by default as the client asks for it
 * @property {RegExp} [complaints] what the client may complain about
 * @property {boolean} [isCut] whether its streams may be cut. The client leaves a rejection unhandled then, so it is given a stream that ends
 */

export class AguiPage {
  /** @type {Agent} */
  agent;
  /** @type {Tap} */
  tap;
  /**
   * What the client told of the end of each run.
   * @type {any[]}
   */
  ends = [];

  #client;
  #tools;
  #parameters;
  #asked = 0;

  /**
   * Opens a page. What its client complains about fails the test.
   *
   * @param {import("node:test").TestContext} test
   * @param {import("./server.js").Server} server
   * @param {Client} client
   * @param {Settings} [settings]
   */
  constructor(test, server, client, settings = {}) {
    const { path = "/agui", threadId = "thread", tools = {}, forwardedProps, context, messages, state } = settings;
    this.#client = client;
    this.#tools = tools;
    const offered = Object.entries(tools);
    this.#parameters = {
      tools: offered.map(([name, { run, description = "", ...tool }]) => ({ name, description, ...tool })),
      ...(forwardedProps && { forwardedProps }),
      ...(context && { context }),
    };
    listenToComplaints(test, settings.complaints);
    this.tap = new Tap(test, server);
    this.agent = new client.client.HttpAgent({
      url: server.url + path,
      threadId,
      headers: settings.headers,
      fetch: async (url, options) => {
        const response = await this.tap.fetch(url, accepting(options, settings.accept));
        return settings.isCut ? ending(response) : response;
      },
      initialMessages: messages,
      initialState: state,
    });
  }

  /** All runs of the page, in order. */
  get runs() {
    return this.tap.runs.all;
  }

  /** The run that began last. */
  get lastRun() {
    return this.runs.at(-1) ?? assert.fail("nothing has run");
  }

  /** What was said, in short: whose turn, and what. */
  get said() {
    return this.agent.messages.map(shorten);
  }

  /**
   * The calls that wait for the page.
   * @returns {Call[]}
   */
  get open() {
    const { messages } = this.agent;
    const answered = new Set(messages.flatMap((message) => (message.role === "tool" ? message.toolCallId : [])));
    return messages
      .flatMap((message) => (message.role === "assistant" ? (message.toolCalls ?? []) : []))
      .filter(({ id }) => !answered.has(id))
      .map(({ id, function: { name, arguments: text } }) => ({ id, name, input: JSON.parse(text) }));
  }

  /**
   * Adds a message, as the application does.
   *
   * @param {object} message
   */
  add(message) {
    this.agent.addMessage(/** @type {any} */ ({ id: randomUUID(), ...message }));
  }

  /**
   * Runs the agent on what was said, and gives the run when it is over.
   *
   * @param {{ runId?: string, resume?: any[] }} [parameters]
   */
  async run(parameters) {
    /** @type {any} */
    const subscriber = {
      onRunFinishedEvent: ({ outcome, interrupts, pendingToolCallIds }) =>
        void this.ends.push({ outcome, interrupts, pendingToolCallIds }),
      onRunErrorEvent: ({ event: { message, code } }) => void this.ends.push({ message, code }),
    };
    this.#asked += 1;
    /** @type {Promise<unknown>} */
    const running = this.agent.runAgent({ ...this.#parameters, ...parameters }, subscriber);
    await within("the run is over", running);
    return this.lastRun;
  }

  /**
   * The first event of that type of the run that is under way, now or later.
   *
   * @param {string} type
   */
  async until(type) {
    const run = await this.tap.runs.until("it is asked for", (run) => run === this.runs[this.#asked - 1]);
    return run.until(type);
  }

  /**
   * Says something, and gives the run when it is over.
   *
   * @param {string | object[]} content
   */
  say(content) {
    this.add({ role: "user", content });
    return this.run();
  }

  /** Runs the tools that wait for the page, and adds what came of them. */
  answer() {
    for (const { id, name, input } of this.open) {
      this.add({ role: "tool", toolCallId: id, ...outcomeOf(this.#tools[name], input) });
    }
  }

  /**
   * Says something, and goes on as long as there are calls for the page.
   *
   * @param {string} text
   */
  async converse(text) {
    await this.say(text);
    while (this.open.length > 0) {
      this.answer();
      await this.run();
    }
  }

  /**
   * Answers all interrupts, by the id of each, and goes on.
   *
   * @param {Record<string, any>} responses
   */
  resume(responses) {
    return this.run({ resume: this.#client.client.buildResumeArray(this.agent.pendingInterrupts, responses) });
  }
}

/**
 * What comes of a call, as applications say it.
 *
 * @param {Tool} tool
 * @param {any} input
 */
function outcomeOf(tool, input) {
  try {
    return { content: tool.run(input) };
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error);
    return { content: `Error: ${message}`, error: message };
  }
}

/**
 * A request that accepts something else. The client lets its application say so nowhere but in `fetch`.
 *
 * @param {RequestInit} options
 * @param {string} [accept]
 */
function accepting(options, accept) {
  if (accept === undefined) return options;
  const headers = new Headers(options.headers);
  headers.set("accept", accept);
  return { ...options, headers };
}

/**
 * A response whose stream ends where it is cut.
 *
 * @param {Response} response
 */
function ending({ body, status, headers }) {
  const reader = body?.getReader();
  const stream = new ReadableStream({
    pull: async (controller) => {
      const read = reader?.read() ?? { done: true, value: undefined };
      const { done, value } = await Promise.resolve(read).catch(() => ({ done: true, value: undefined }));
      if (done) controller.close();
      else controller.enqueue(value);
    },
    cancel: (reason) => reader?.cancel(reason).catch(() => {}),
  });
  return new Response(stream, { status, headers });
}

/** @param {any} message */
function shorten({ role, content, toolCalls, error }) {
  const calls = (toolCalls ?? []).map(({ function: { name, arguments: input } }) => `${name} ${input}`);
  return [`${role}:`, content, ...calls, error && `(${error})`].filter(Boolean).join(" ");
}

/**
 * The client's warnings and errors fail the test, but for those that it expects.
 *
 * @param {import("node:test").TestContext} test
 * @param {RegExp} [expected]
 */
function listenToComplaints(test, expected) {
  /** @type {string[]} */
  const complaints = [];
  const complain = (/** @type {unknown[]} */ ...what) => void complaints.push(what.map(String).join(" "));
  test.mock.method(console, "warn", complain);
  test.mock.method(console, "error", complain);
  test.after(() => {
    assert.deepEqual(
      complaints.filter((complaint) => !expected?.test(complaint)),
      [],
    );
  });
}
