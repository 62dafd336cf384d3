// An example as a reader runs it: a process of its own, called by a model in a session.

import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { mkdtemp, realpath, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import type { TestContext } from "node:test";

import { createHandbackClient, type SessionHandle, type ToolPart } from "../../src/node.js";
import { within } from "../support/patience.js";
import { Server } from "../support/server.js";

const PACKAGE = resolve(import.meta.dirname, "../..");

export class Example {
  /** Starts an example, and waits until it offers its tool. */
  static async start(test: TestContext, name: string, client: string, ...folder: string[]): Promise<Example> {
    const server = await Server.start(test);
    const child = spawn(process.execPath, ["--import", "tsx", join("examples", `${name}.ts`), ...folder], {
      cwd: PACKAGE,
      env: { ...process.env, HANDBACK_URL: server.url },
      stdio: ["ignore", "pipe", "inherit"],
    });
    const exited = new Promise<number | null>((resolve) => child.once("close", resolve));
    test.after(async () => {
      child.kill("SIGKILL");
      await within("the example ends", exited);
    });
    const offers = new Promise<void>((resolve, reject) => {
      child.stdout.setEncoding("utf8").on("data", (text: string) => text.includes("Ctrl-C ends it") && resolve());
      void exited.then((code) => reject(new Error(`the example ended with ${code}`)));
    });
    await within("the example offers its tool", offers);
    const session = await createHandbackClient({ baseUrl: server.url, clientID: client }).startSession({ tools: false });
    return new Example(server, child, exited, session, name.replace("-", "_"));
  }

  private constructor(
    readonly server: Server,
    readonly child: ChildProcess,
    readonly exited: Promise<number | null>,
    readonly session: SessionHandle,
    readonly tool: string,
  ) {}

  /** The output of a call that must succeed. */
  async output(input: unknown): Promise<string> {
    const state = await this.#call(input);
    assert.equal(state.status, "completed", JSON.stringify(state));
    return (state as { output: string }).output;
  }

  /** The error of a call that must fail. */
  async error(input: unknown): Promise<string> {
    const state = await this.#call(input);
    assert.equal(state.status, "error", JSON.stringify(state));
    return (state as { error: string }).error;
  }

  /** Lets the model call the tool; gives what became of it. */
  async #call(input: unknown): Promise<ToolPart["state"]> {
    let state: ToolPart["state"] | undefined;
    for await (const event of this.session.stream(`call ${this.tool} ${JSON.stringify(input)}`)) {
      if (event.type === "tool") state = event.part.state;
    }
    assert.ok(state, "the tool was called");
    return state;
  }
}

/** A directory that goes with its test. */
export async function scratch(test: TestContext): Promise<string> {
  const path = await realpath(await mkdtemp(join(tmpdir(), "handback-example-")));
  test.after(() => rm(path, { recursive: true, force: true }));
  return path;
}
