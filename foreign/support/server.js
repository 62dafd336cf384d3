// A real `handback serve`, started for one test and gone with it.

import { spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";

import { within } from "./patience.js";

// The runner ends a file that takes too long; its servers go with it.
process.once("SIGTERM", () => process.exit(1));

export const BINARY = process.env.HANDBACK_BINARY ?? resolve(import.meta.dirname, "../../target/debug/handback");

/**
 * @typedef {object} Settings
 * @property {string} [config] the text of its handback.toml
 * @property {string} [key] the application key that it wants; by default it wants none
 * @property {Record<string, string>} [env] its environment: nothing of ours reaches it
 * @property {boolean} [isLasting] whether it still knows everything when it is started again; by default it forgets all
 */

export class Server {
  /**
   * Starts a server in an empty directory of its own. It is stopped when the test is over.
   *
   * @param {import("node:test").TestContext} test
   * @param {Settings} [settings]
   */
  static async start(test, { config = "", key, env = {}, isLasting = false } = {}) {
    const home = await mkdtemp(join(tmpdir(), "handback-foreign-"));
    const auth = key === undefined ? "" : `auth.keys = ["${createHash("sha256").update(key).digest("hex")}"]\n`;
    await writeFile(join(home, "handback.toml"), auth + config);
    const server = new Server(home, env, isLasting);
    if (key !== undefined) server.headers = { authorization: `Bearer ${key}` };
    // Should this process end without its hooks, nothing stays behind.
    const kill = () => server.#child.kill("SIGKILL");
    process.once("exit", kill);
    test.after(async () => {
      server.#closing.abort();
      await server.stop();
      process.removeListener("exit", kill);
      await rm(home, { recursive: true, force: true });
      // Node 20 has it; its published types do not.
      const { passed } = /** @type {{ passed?: boolean }} */ (/** @type {unknown} */ (test));
      if (!passed) test.diagnostic(`the server said:\n${server.#said}`);
    });
    server.url = await within("the server listens", server.#listens());
    return server;
  }

  /** Where it is. */
  url = "";
  /**
   * What shows the key in a request.
   * @type {Record<string, string>}
   */
  headers = {};

  #said = "";
  #closing = new AbortController();
  #home;
  #env;
  #memory;
  #child;
  /** @type {Promise<unknown>} */
  #exited = Promise.resolve();

  /**
   * @param {string} home
   * @param {Record<string, string>} env
   * @param {boolean} isLasting
   */
  constructor(home, env, isLasting) {
    this.#home = home;
    this.#env = env;
    this.#memory = isLasting ? ["--data", join(home, "data")] : ["--ephemeral"];
    this.#child = this.#spawn(0);
  }

  /** @param {number} port where it listens, wherever there is room if it is 0 */
  #spawn(port) {
    const child = spawn(BINARY, ["serve", ...this.#memory, "--listen", `127.0.0.1:${port}`], {
      cwd: this.#home,
      env: { HOME: this.#home, ...this.#env },
      stdio: ["ignore", "pipe", "pipe"],
    });
    this.#said = "";
    for (const output of [child.stdout, child.stderr]) {
      output.setEncoding("utf8").on("data", (text) => (this.#said += text));
    }
    this.#exited = new Promise((exited) => child.once("close", exited).once("error", exited));
    return child;
  }

  /** Aborted when the test is over and the server about to go: whoever holds a stream of it lets go. */
  get closing() {
    return this.#closing.signal;
  }

  /**
   * Ends it: at once as a crash would, or as it is asked to.
   *
   * @param {NodeJS.Signals} signal
   */
  async stop(signal = "SIGKILL") {
    this.#child.kill(signal);
    await within("the server is gone", this.#exited);
  }

  /**
   * Ends it and starts it again, where it was and with what it knew.
   *
   * @param {NodeJS.Signals} [signal]
   */
  async restart(signal) {
    await this.stop(signal);
    this.#child = this.#spawn(Number(new URL(this.url).port));
    await within("the server listens again", this.#listens());
  }

  /** @returns {Promise<string>} */
  #listens() {
    return new Promise((listens, fails) => {
      this.#child.stdout.on("data", () => {
        const line = /^handback listening on (http:\S+)$/m.exec(this.#said);
        if (line) listens(line[1]);
      });
      const cannot = `${BINARY} cannot be started; \`make foreign\` builds it`;
      this.#child.once("error", (cause) => fails(new Error(cannot, { cause })));
      this.#child.once("close", (code) => fails(new Error(`the server ended with ${code}:\n${this.#said}`)));
    });
  }
}
