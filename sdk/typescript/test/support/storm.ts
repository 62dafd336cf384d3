// The storm of the server's own tests, as a process: it makes calls over a network that cuts, stalls, delays and repeats,
// and knows what must come of them. The client is ours.

import { type ChildProcessByStdio, spawn } from "node:child_process";
import { dirname, resolve } from "node:path";
import { createInterface } from "node:readline";
import type { Readable, Writable } from "node:stream";

import { Log } from "./patience.js";
import { BINARY } from "./server.js";

/** It is built with the server, and lies beside it. */
const STORM = resolve(dirname(BINARY), "storm");

export class Storm {
  /** What it says, line by line. */
  readonly #said = new Log<string>();
  #complaints = "";
  readonly #child: ChildProcessByStdio<Writable, Readable, Readable>;
  readonly #exited: Promise<number | null>;

  constructor(useWebSocket: boolean, calls: number) {
    const options = ["--transport", useWebSocket ? "websocket" : "sse", "--calls", String(calls)];
    this.#child = spawn(STORM, options, { stdio: ["pipe", "pipe", "pipe"], env: { ...process.env, RUST_BACKTRACE: "0" } });
    createInterface(this.#child.stdout).on("line", (line) => this.#said.add(line));
    this.#child.stderr.setEncoding("utf8").on("data", (text: string) => (this.#complaints += text));
    // It is told by its exit that it is gone.
    this.#child.stdin.on("error", () => undefined);
    this.#exited = new Promise((exited, fails) => {
      this.#child.once("error", (cause) => fails(new Error(`${STORM} cannot be started; \`make sdk\` builds it`, { cause })));
      this.#child.once("close", (code) => {
        exited(code);
        this.#said.add("over");
      });
    });
    this.#exited.catch(() => this.#said.add("over"));
  }

  /** Where the client finds the server. */
  async url(): Promise<string> {
    return (await this.#hear(/^client at (.*)$/))[1] ?? "";
  }

  readonly say = (line: string): void => {
    this.#child.stdin.write(`${line}\n`);
  };

  /** Waits until all calls are made; then the network is what it should be. */
  async calm(): Promise<void> {
    await this.#hear(/^calm$/);
  }

  /** What it says in the end: nothing but its figures, or what is wrong. */
  async verdict(): Promise<{ code: number | null; said: string }> {
    const code = await this.#exited;
    return { code, said: code === 0 ? this.#said.all.filter((line) => /calls, /.test(line)).join() : this.#complaints };
  }

  stop(): void {
    this.#child.kill("SIGKILL");
  }

  async #hear(pattern: RegExp): Promise<RegExpExecArray> {
    const line = await this.#said.eventually((line) => line === "over" || pattern.test(line));
    const heard = pattern.exec(line);
    if (!heard) throw new Error(`the storm ended early:\n${this.#complaints}`);
    return heard;
  }
}
