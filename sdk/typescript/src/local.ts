// A server of one's own, in Node: the `handback` binary as a child process.

import { type ChildProcessByStdio, spawn } from "node:child_process";
import { createRequire } from "node:module";
import type { Readable } from "node:stream";

import type { HandbackClient, HandbackClientOptions } from "./client.js";
import { HandbackError } from "./error.js";
import { after } from "./tools/time.js";

/** How long the server may take until it listens; in ms. */
const START_TIMEOUT = 15_000;
/** How long it may take to stop, in ms: calls under way may finish for 10 s. Then it is killed. */
const STOP_TIMEOUT = 15_000;
/** So much of what it wrote last is kept, in characters, to say why it did not start. */
const KEPT_OUTPUT = 16 * 1024;

type Child = ChildProcessByStdio<null, Readable, Readable>;

/** How the server is started, and what its client is. */
export interface HandbackOptions extends Omit<HandbackClientOptions, "baseUrl"> {
  /** The binary; by default that of `HANDBACK_BINARY`, of the npm package `handback`, or `handback` on the PATH. */
  binary?: string | undefined;
  /** More arguments of `handback serve`. */
  arguments?: string[] | undefined;
  /** Keeps everything in memory, so that nothing outlives the server; true by default. */
  ephemeral?: boolean | undefined;
  /** Where it listens; `127.0.0.1:0`, which is any free port, by default. */
  listen?: string | undefined;
  /** Variables of its environment, besides those of this process; `undefined` takes one away. */
  env?: Record<string, string | undefined> | undefined;
  /** Where it runs, and looks for its `handback.toml`. */
  cwd?: string | undefined;
  /** How long it may take until it listens, in ms; 15 s by default. */
  startTimeout?: number | undefined;
  /** Stops the server when it fires. */
  signal?: AbortSignal | undefined;
  /** Told what the server writes, its log above all. */
  onOutput?: ((text: string) => void) | undefined;
}

/** A server that was started. */
export interface LocalServer {
  /** Where it is. */
  readonly url: string;
  /** Stops it, and first the client that came with it. It resolves when the process is gone. */
  close(): Promise<void>;
}

/** Starts a server, and makes a client of it. It is gone when this process is. */
export async function startHandback(
  options: HandbackOptions,
  createClient: (options: HandbackClientOptions) => HandbackClient,
): Promise<{ client: HandbackClient; server: LocalServer }> {
  const { binary, arguments: more, ephemeral, listen, env, cwd, startTimeout, signal, onOutput, ...rest } = options;
  signal?.throwIfAborted();
  const process = new ServerProcess(options);
  const url = await process.listens(startTimeout ?? START_TIMEOUT, signal);
  const client = createClient({ ...rest, baseUrl: url });
  let closed: Promise<void> | undefined;
  const close = () => {
    signal?.removeEventListener("abort", close);
    closed ??= client.close().finally(() => process.stop());
    return closed;
  };
  signal?.addEventListener("abort", close, { once: true });
  return { client, server: { url, close } };
}

/** The binary of the npm package `handback`, if that is installed where this package is, and has one for this machine. */
function installedBinary(): string | undefined {
  try {
    const { binaryPath } = createRequire(import.meta.url)("handback/binary") as { binaryPath(): string };
    return binaryPath();
  } catch {
    return undefined;
  }
}

class ServerProcess {
  readonly #binary: string;
  readonly #child: Child;
  readonly #exited: Promise<string>;
  #output = "";

  constructor(options: HandbackOptions) {
    const { ephemeral = true, listen = "127.0.0.1:0", arguments: more = [], cwd, onOutput } = options;
    this.#binary = options.binary ?? process.env["HANDBACK_BINARY"] ?? installedBinary() ?? "handback";
    const settings = ["serve", "--listen", listen, ...(ephemeral ? ["--ephemeral"] : []), ...more];
    this.#child = spawn(this.#binary, settings, {
      cwd,
      // Variables of that kind are settings of the server; this one is not.
      env: { ...process.env, HANDBACK_BINARY: undefined, ...options.env },
      stdio: ["ignore", "pipe", "pipe"],
    });
    mortal.add(this.#child);
    this.#exited = new Promise((exited) => {
      this.#child.once("error", (error) => exited(error.message));
      this.#child.once("close", (code, signal) => exited(`it ended with ${signal ?? `code ${code}`}`));
    });
    void this.#exited.then(() => mortal.delete(this.#child));
    // Read to the end, whether somebody wants it or not: it must not wait for that.
    for (const pipe of [this.#child.stdout, this.#child.stderr]) {
      pipe.setEncoding("utf8").on("data", (text: string) => {
        this.#output = (this.#output + text).slice(-KEPT_OUTPUT);
        onOutput?.(text);
      });
    }
  }

  /** Where it listens. It does not keep this process alive from then on. */
  async listens(timeout: number, signal: AbortSignal | undefined): Promise<string> {
    let callOff = () => {};
    let giveUp: (() => void) | undefined;
    const url = new Promise<string>((listens, fails) => {
      let written = "";
      this.#child.stdout.on("data", (text: string) => {
        // It is the first that it writes there.
        if (written.length < KEPT_OUTPUT) written += text;
        const [, url] = /^handback listening on (http\S+)\r?\n/m.exec(written) ?? [];
        if (url) listens(url);
      });
      callOff = after(timeout, () => fails(this.#failure(`it does not listen after ${timeout / 1000} s`)));
      void this.#exited.then((reason) => fails(this.#failure(reason)));
      giveUp = () => fails(signal?.reason);
      signal?.addEventListener("abort", giveUp, { once: true });
    });
    try {
      const listening = await url;
      this.#hold(false);
      return listening;
    } catch (error) {
      this.#child.kill("SIGKILL");
      throw error;
    } finally {
      callOff();
      if (giveUp) signal?.removeEventListener("abort", giveUp);
    }
  }

  /** Asks it to stop, and kills it when that takes too long. */
  async stop(): Promise<void> {
    this.#hold(true);
    this.#child.kill("SIGTERM");
    const timer = setTimeout(() => this.#child.kill("SIGKILL"), STOP_TIMEOUT);
    await this.#exited;
    clearTimeout(timer);
  }

  /** Whether this process waits for it. */
  #hold(isHeld: boolean): void {
    // Pipes of a child are sockets, which the types do not tell.
    const handles = [this.#child, this.#child.stdout, this.#child.stderr] as { ref?(): void; unref?(): void }[];
    for (const handle of handles) isHeld ? handle.ref?.() : handle.unref?.();
  }

  #failure(reason: string): HandbackError {
    const isMissing = reason.includes("ENOENT");
    const advice = isMissing ? "; install it (npm install handback), or say where it is with `binary` or HANDBACK_BINARY" : "";
    const output = this.#output.trim();
    const said = output === "" ? "" : `. It said:\n${output}`;
    return new HandbackError("unreachable", `${this.#binary} cannot be started: ${reason}${advice}${said}`);
  }
}

/** Children that must not outlive this process; the hooks are there while there are any. */
class Mortal {
  readonly #children = new Set<Child>();
  readonly #kill = () => {
    for (const child of this.#children) child.kill("SIGKILL");
  };
  /** A signal that nobody else listens to ends this process, without its exit hooks. */
  readonly #hooks = (["SIGINT", "SIGTERM", "SIGHUP"] as const).map((signal) => {
    const end = () => {
      if (process.listenerCount(signal) > 1) return;
      this.#kill();
      process.off(signal, end);
      process.kill(process.pid, signal);
    };
    return { signal, end };
  });

  add(child: Child): void {
    if (this.#children.size === 0) {
      process.on("exit", this.#kill);
      for (const { signal, end } of this.#hooks) process.on(signal, end);
    }
    this.#children.add(child);
  }

  delete(child: Child): void {
    if (!this.#children.delete(child) || this.#children.size > 0) return;
    process.off("exit", this.#kill);
    for (const { signal, end } of this.#hooks) process.off(signal, end);
  }
}

const mortal = new Mortal();
