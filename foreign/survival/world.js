// A server that is killed again and again, a laptop whose tools its models call, and what was run there.

import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { createHandbackClient, directoryJournal } from "../../sdk/typescript/dist/node.js";
import { within } from "../support/patience.js";
import { Server } from "../support/server.js";

/** Those who talk to the agent `asking` are asked before anything is written. */
const CONFIG = `
[limits]
drainTimeout = 50

[agents.default]

[agents.asking.permission.tools]
"client_*_write" = "ask"
`;
/** How long whoever tries something again waits before; in ms. */
const AGAIN = 20;
/** How long a server lives at most, and how long a handler takes; in ms. */
const LONGEST_LIFE = 600;
const LONGEST_RUN = 150;
/** Of so many ends one is a SIGTERM. */
const STOPS = 4;

const PARAMETERS = /** @type {const} */ ({
  type: "object",
  properties: { word: { type: "string" } },
  required: ["word"],
});

/** @param {number} most */
export const aWhile = (most) => new Promise((next) => setTimeout(next, Math.random() * most));

export class World {
  /**
   * Starts a server that remembers, and a client of the SDK with the tools `read` and `write`.
   *
   * @param {import("node:test").TestContext} test
   */
  static async start(test) {
    const journal = await mkdtemp(join(tmpdir(), "handback-survival-"));
    test.after(() => rm(journal, { recursive: true, force: true }));
    const server = await Server.start(test, { config: CONFIG, isLasting: true });
    const client = createHandbackClient({
      baseUrl: server.url,
      clientID: "laptop",
      journal: directoryJournal(journal),
      reconnect: { first: 10, longest: 100 },
    });
    const world = new World(server, client);
    for (const effect of /** @type {const} */ (["read", "write"])) {
      const definition = { description: `Can ${effect}`, parameters: PARAMETERS, effect };
      await client.clientTools.register(effect, definition, ({ word }) => world.run(word));
    }
    await within("the tools are connected", client.clientTools.connect());
    return world;
  }

  /** How often the server was killed. */
  kills = 0;
  /** How often it was asked to stop. */
  stops = 0;
  /**
   * How often each thing was done that was asked for.
   * @type {Map<string, number>}
   */
  runs = new Map();

  /**
   * @param {Server} server
   * @param {ReturnType<typeof createHandbackClient>} client
   */
  constructor(server, client) {
    this.server = server;
    this.client = client;
  }

  /**
   * Does what a call asks for.
   *
   * @param {string} word
   */
  async run(word) {
    const output = this.runAtOnce(word);
    await aWhile(LONGEST_RUN);
    return output;
  }

  /**
   * The same, for a tool that takes no time.
   *
   * @param {string} word
   */
  runAtOnce(word) {
    this.runs.set(word, (this.runs.get(word) ?? 0) + 1);
    return `did ${word}`;
  }

  /**
   * Ends the server at random moments and starts it again, until it was killed often enough and all is said.
   *
   * @param {() => boolean} isOver
   */
  async killAgainAndAgain(isOver) {
    while (!isOver()) {
      await aWhile(LONGEST_LIFE);
      const isKilled = (this.kills + this.stops) % STOPS > 0;
      await this.server.restart(isKilled ? "SIGKILL" : "SIGTERM");
      if (isKilled) this.kills += 1;
      else this.stops += 1;
    }
  }

  /**
   * Tries something until it gives a value. Meanwhile the server may be away.
   *
   * @template T
   * @param {string} what
   * @param {() => Promise<T | undefined>} attempt
   * @returns {Promise<T>}
   */
  async insist(what, attempt) {
    let isLate = false;
    /** @type {unknown} */
    let failure;
    const trying = async () => {
      while (!isLate) {
        try {
          const value = await attempt();
          if (value !== undefined) return value;
        } catch (error) {
          if (error instanceof assert.AssertionError) throw error;
          failure = error;
        }
        await aWhile(2 * AGAIN);
      }
      throw new Error(`${what}: it was given up`);
    };
    try {
      return await within(what, trying());
    } catch (error) {
      throw new Error(`${what}: ${error}; before: ${failure}`, { cause: error });
    } finally {
      isLate = true;
    }
  }

  /**
   * What the server says to a request, as soon as it is there to say something.
   *
   * @param {string} path
   * @param {object} [body] what is posted, if it is a POST
   * @returns {Promise<{ status: number, body: any }>}
   */
  ask(path, body) {
    return this.insist(path, async () => {
      const headers = { "content-type": "application/json" };
      const options = body && { method: "POST", headers, body: JSON.stringify(body) };
      const response = await fetch(this.server.url + path, options);
      // It is about to stop, or has just started.
      if (response.status === 503) return undefined;
      return { status: response.status, body: await response.json() };
    });
  }

  /** The calls that are not over. */
  async openCalls() {
    const calls = [];
    for (const state of ["awaiting_approval", "queued", "offered"]) {
      calls.push(...(await this.ask(`/client-tools/calls?state=${state}`)).body);
    }
    return calls;
  }

  /**
   * Allows whatever has to be allowed in the sessions of that name, until there is no more to come.
   *
   * @param {string} prefix
   * @param {() => boolean} isOver
   */
  async allow(prefix, isOver) {
    while (!isOver()) {
      const { body: asks } = await this.ask("/permission");
      for (const { id, sessionID } of asks) {
        if (sessionID.startsWith(prefix)) await this.ask(`/permission/${id}/reply`, { reply: "once" });
      }
      await aWhile(4 * AGAIN);
    }
  }
}

/**
 * What a model is asked to do: calls of these tools, all at once, each with a word of its own.
 *
 * @param {string} name of the turn
 * @param {string[]} tools
 */
export function task(name, tools) {
  const calls = tools.map((tool, place) => ({ tool, word: `${name}.${place}` }));
  const text = calls.map(({ tool, word }) => `call ${tool} ${JSON.stringify(inputOf(tool, word))}`).join("\n");
  return { text, words: calls.map(({ word }) => word) };
}

/**
 * @param {string} tool
 * @param {string} word
 */
const inputOf = (tool, word) => (tool === "open-url" ? { url: `https://example.com/${word}` } : { word });
