// opencode's command line, as it is published, and a terminal for it.

import { execFile, spawnSync } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { promisify } from "node:util";

import { until, within } from "../support/patience.js";

export const OPENCODE = resolve(import.meta.dirname, "../node_modules/opencode-linux-x64-baseline/bin/opencode");
/** Wide enough for the column on the right, which has the title of the session that is open. */
const SIZE = ["-x", "140", "-y", "40"];

/** @typedef {Awaited<ReturnType<typeof environment>>} Environment */

/**
 * A home of its own, and an environment in which opencode asks nobody but the server.
 *
 * @param {string} [password] the key or token that it shows
 */
export async function environment(password) {
  return {
    PATH: process.env.PATH,
    HOME: await mkdtemp(join(tmpdir(), "handback-opencode-")),
    LANG: "C.UTF-8",
    OPENCODE_DISABLE_MODELS_FETCH: "1",
    OPENCODE_DISABLE_AUTOUPDATE: "1",
    ...(password && { OPENCODE_SERVER_PASSWORD: password }),
  };
}

/**
 * Removes the home, when the program has been told to end: it may still write there.
 *
 * @param {Environment} env
 */
export function leave({ HOME }) {
  return rm(HOME, { recursive: true, force: true, maxRetries: 5 });
}

/** A program in a terminal: keys go in, and there is a screen to look at. */
export class Terminal {
  /**
   * Starts the program in a tmux of its own, which is gone with the test. If the test fails, it shows the last screen.
   *
   * @param {import("node:test").TestContext} test
   * @param {Environment} env
   * @param {string[]} command
   */
  static async open(test, env, command) {
    const terminal = new Terminal(env);
    // Should this process end without its hooks, nothing stays behind.
    const kill = () => spawnSync("tmux", terminal.#words(["kill-server"]));
    process.once("exit", kill);
    test.after(async () => {
      // Node 20 has it; its published types do not.
      const { passed } = /** @type {{ passed?: boolean }} */ (/** @type {unknown} */ (test));
      if (!passed) test.diagnostic(`the last screen:\n${terminal.#seen.replace(/\n{2,}/g, "\n\n")}`);
      process.removeListener("exit", kill);
      await terminal.#tmux("kill-server");
      await leave(env);
    });
    const start = ["start-server", ";", "set-option", "-g", "remain-on-exit", "on", ";"];
    await terminal.#tmux(...start, "new-session", "-d", ...SIZE, "-c", env.HOME, ...command);
    return terminal;
  }

  #env;
  #seen = "";

  /** @param {Environment} env */
  constructor(env) {
    this.#env = env;
  }

  /**
   * Waits until the screen is as it should be, and returns it.
   *
   * @param {string} what
   * @param {(screen: string) => boolean} isSo
   */
  async until(what, isSo) {
    await until(what, async () => isSo((this.#seen = await this.#tmux("capture-pane", "-p"))));
    return this.#seen;
  }

  /** @param {string} text */
  shows(text) {
    return this.until(`the screen shows ${text}`, (screen) => screen.includes(text));
  }

  /** @param {string[]} keys by their names in tmux */
  async press(...keys) {
    await this.#tmux("send-keys", ...keys);
  }

  /**
   * Types, and waits for the echo: a key that comes before it could be taken for a part of the text.
   *
   * @param {string} text
   */
  async type(text) {
    await this.#tmux("send-keys", "-l", text);
    await this.shows(text);
  }

  /** The code with which the program has ended. */
  async ended() {
    let state = "";
    await until("the program has ended", async () => {
      state = await this.#tmux("display-message", "-p", "#{pane_dead} #{pane_dead_status}");
      return state.startsWith("1");
    });
    return Number(state.slice(2));
  }

  /** @param {string[]} words */
  async #tmux(...words) {
    const { stdout } = await within("tmux answers", promisify(execFile)("tmux", this.#words(words), { env: this.#env }));
    return stdout;
  }

  /** @param {string[]} words */
  #words(words) {
    return ["-S", join(this.#env.HOME, "tmux"), "-f", "/dev/null", ...words];
  }
}
