// A client that offers tools, written with nothing but fetch: register, read the stream of calls, post results.

import assert from "node:assert/strict";

import { Log, within } from "./patience.js";

/**
 * A call, as it comes to the client.
 *
 * @typedef {object} Call
 * @property {string} requestID
 * @property {string} sessionID
 * @property {string} messageID
 * @property {string} callID
 * @property {string} tool
 * @property {any} input
 */

/**
 * A tool: what it is to the model, and what it does. What it throws is the error of the call.
 *
 * @typedef {object} Tool
 * @property {string} [description]
 * @property {object} [parameters]
 * @property {(input: any, call: Call) => Result | Promise<Result>} run
 */

/** @typedef {string | { title?: string, output?: string, metadata?: object, attachments?: object[] }} Result */

export class Laptop {
  /**
   * Registers the tools and holds the stream until the test is over.
   *
   * @param {import("node:test").TestContext} test
   * @param {import("./server.js").Server} server
   * @param {string} clientID
   * @param {Record<string, Tool>} tools
   */
  static async connect(test, server, clientID, tools) {
    const laptop = new Laptop(server, clientID, tools);
    const offered = Object.entries(tools).map(([id, { run, ...tool }]) => ({ id, ...tool }));
    const registered = await laptop.#post("/client-tools/register", { clientID, tools: offered });
    const ids = offered.map(({ id }) => `client_${clientID}_${id}`);
    assert.deepEqual(registered, { registered: ids });
    const { url, headers, closing: signal } = server;
    const response = await fetch(`${url}/client-tools/pending/${clientID}`, { headers, signal });
    assert.equal(response.status, 200);
    assert.ok(response.body);
    const reading = laptop.#read(response.body);
    test.after(async () => {
      await within("the laptop is closed", reading);
      assert.deepEqual(laptop.#failures, [], "the laptop's own requests");
    });
    return laptop;
  }

  /**
   * Calls that came.
   * @type {Log<Call>}
   */
  calls = new Log();
  /**
   * Calls that were taken back.
   * @type {Log<{ requestID: string, reason: string }>}
   */
  cancelled = new Log();

  #server;
  #clientID;
  #tools;
  /** @type {unknown[]} */
  #failures = [];

  /**
   * @param {import("./server.js").Server} server
   * @param {string} clientID
   * @param {Record<string, Tool>} tools
   */
  constructor(server, clientID, tools) {
    this.#server = server;
    this.#clientID = clientID;
    this.#tools = tools;
  }

  /** @param {ReadableStream<Uint8Array>} body */
  async #read(body) {
    const decoder = new TextDecoder();
    let rest = "";
    try {
      for await (const bytes of body) {
        const frames = (rest + decoder.decode(bytes, { stream: true })).split("\n\n");
        rest = frames.pop() ?? "";
        frames.forEach((frame) => this.#take(frame));
      }
      throw new Error("the stream of calls has ended");
    } catch (error) {
      if (!this.#server.closing.aborted) this.#failures.push(error);
    }
  }

  /** @param {string} frame */
  #take(frame) {
    const [, event] = /^event: (.*)$/m.exec(frame) ?? [];
    const [, data] = /^data: (.*)$/m.exec(frame) ?? [];
    if (event === "tool-request") {
      const call = JSON.parse(data);
      this.calls.add(call);
      this.#run(call).catch((error) => this.#failures.push(error));
    } else if (event === "tool-cancel") {
      this.cancelled.add(JSON.parse(data));
    }
  }

  /** @param {Call} call */
  async #run(call) {
    const tool = this.#tools[call.tool.slice(`client_${this.#clientID}_`.length)];
    let result;
    try {
      const output = await tool.run(call.input, call);
      result = { status: "success", ...(typeof output === "string" ? { output } : output) };
    } catch (error) {
      result = { status: "error", error: error instanceof Error ? error.message : String(error) };
    }
    assert.deepEqual(await this.#post("/client-tools/result", { requestID: call.requestID, result }), {
      success: true,
    });
  }

  /**
   * @param {string} path
   * @param {object} body
   */
  async #post(path, body) {
    const { url, headers } = this.#server;
    const response = await fetch(url + path, { method: "POST", headers, body: JSON.stringify(body) });
    const answer = await response.json();
    assert.equal(response.status, 200, `${path}: ${JSON.stringify(answer)}`);
    return answer;
  }
}

/** A tool that greets. */
export const GREET = {
  description: "Greets somebody",
  parameters: { type: "object", properties: { name: { type: "string" } }, required: ["name"] },
  run: ({ name }) => `Hello, ${name}!`,
};

/** A tool that runs until the test is over. */
export const NEVER_DONE = { run: () => new Promise(() => {}) };
