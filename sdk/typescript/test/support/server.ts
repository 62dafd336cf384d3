// A real `handback serve`, started for one test and gone with it.

import { type ChildProcess, spawn } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import type { Socket } from "node:net";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import type { TestContext } from "node:test";

import { type Guest, Guests } from "./guests.js";
import { within } from "./patience.js";
import { lastingPort } from "./port.js";

// The runner ends a file that takes too long; its servers go with it.
process.once("SIGTERM", () => process.exit(1));

export const BINARY = process.env["HANDBACK_BINARY"] ?? resolve(import.meta.dirname, "../../../../target/debug/handback");

export interface Settings {
  /** The text of its handback.toml. */
  config?: string;
  /** Its environment: nothing of ours reaches it. */
  env?: Record<string, string>;
  /** Where it listens; by default wherever there is room. */
  port?: number;
  /** Whether it remembers everything when it is started again. */
  isLasting?: boolean;
}

export class Server {
  /** Starts a server in an empty directory of its own. It is stopped when the test is over. */
  static async start(test: TestContext, settings: Settings = {}): Promise<Server> {
    const home = await mkdtemp(join(tmpdir(), "handback-sdk-"));
    await writeFile(join(home, "handback.toml"), settings.config ?? "");
    const server = new Server(home, settings);
    // Should this process end without its hooks, nothing stays behind.
    const kill = () => server.#child.kill("SIGKILL");
    process.once("exit", kill);
    test.after(async () => {
      await server.#guests.dismiss();
      await server.stop();
      process.removeListener("exit", kill);
      await rm(home, { recursive: true, force: true });
      // Node 20 has it; its published types do not.
      if (!(test as { passed?: boolean }).passed) test.diagnostic(`the server said:\n${server.#said}`);
    });
    await server.#begin(settings.port ?? (await lastingPort()));
    return server;
  }

  /** Where it is. */
  url = "";
  readonly #guests = new Guests();
  #said = "";
  #child!: ChildProcess;
  #exited!: Promise<unknown>;
  readonly #home: string;
  readonly #env: Record<string, string>;
  /** Where it keeps what it knows. */
  readonly #store: string[];

  private constructor(home: string, settings: Settings) {
    this.#home = home;
    this.#env = settings.env ?? {};
    this.#store = settings.isLasting ? ["--data", join(home, "data")] : ["--ephemeral"];
  }

  /** Somebody who leaves before the server goes. */
  guest(guest: Guest): void {
    this.#guests.add(guest);
  }

  get port(): number {
    return Number(new URL(this.url).port);
  }

  /** Ends it: at once as a crash would, or as it is asked to. */
  async stop(signal: NodeJS.Signals = "SIGKILL"): Promise<void> {
    this.#child.kill(signal);
    await within("the server is gone", this.#exited);
  }

  /** Starts it again after it was stopped, at the same place. It remembers nothing unless it is a lasting one. */
  async restart(): Promise<void> {
    await this.#begin(this.port);
  }

  async #begin(port: number): Promise<void> {
    const child = spawn(BINARY, ["serve", ...this.#store, "--listen", `127.0.0.1:${port}`], {
      cwd: this.#home,
      env: { HOME: this.#home, ...this.#env },
      stdio: ["ignore", "pipe", "pipe"],
    });
    this.#child = child;
    // A hook that fails keeps the later ones from running: the file ends all the same.
    child.unref();
    for (const output of [child.stdout, child.stderr]) (output as Socket).unref();
    this.#exited = new Promise((exited) => child.once("close", exited).once("error", exited));
    let said = "";
    const listens = new Promise<string>((resolve, reject) => {
      for (const output of [child.stdout, child.stderr]) {
        output.setEncoding("utf8").on("data", (text: string) => {
          said += text;
          this.#said += text;
          const line = /^handback listening on (http:\S+)$/m.exec(said);
          if (line?.[1]) resolve(line[1]);
        });
      }
      child.once("error", (cause) =>
        reject(new Error(`${BINARY} cannot be started; \`make sdk\` builds it`, { cause })),
      );
      child.once("close", (code) => reject(new Error(`the server ended with ${code}:\n${said}`)));
    });
    this.url = await within("the server listens", listens);
  }

  /** Calls a tool as the application would. */
  async execute(toolID: string, call: Record<string, unknown> = {}): Promise<{ status: number; body: unknown }> {
    const response = await within(`a call of ${toolID}`, this.#post("execute", { toolID, ...call }));
    return { status: response.status, body: await response.json() };
  }

  async cancel(requestID: string, reason: string): Promise<void> {
    const response = await this.#post("cancel", { requestID, reason });
    if (!response.ok) throw new Error(await response.text());
  }

  async get<T>(path: string): Promise<T> {
    const response = await fetch(`${this.url}/client-tools/${path}`);
    return (await response.json()) as T;
  }

  #post(path: string, body: unknown): Promise<Response> {
    return fetch(`${this.url}/client-tools/${path}`, { method: "POST", body: JSON.stringify(body) });
  }
}
