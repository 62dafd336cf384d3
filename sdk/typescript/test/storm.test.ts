// A thousand calls in a storm, over each transport: every call has exactly one outcome, no `write` is run twice, and
// nothing is left. `STORM_CALLS` makes it more.

import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { createInterface } from "node:readline";
import type { TestContext } from "node:test";

import { directoryJournal } from "../src/tools/journal/directory.js";
import { memoryJournal } from "../src/tools/journal/memory.js";
import { Log, test } from "./support/patience.js";
import { Storm } from "./support/storm.js";
import { connectToStorm } from "./support/storm-tools.js";

const CALLS = Number(process.env["STORM_CALLS"] ?? 1000);
/** Each call has a tenth of a second, on a slow machine; in ms. */
const TIMEOUT = 60_000 + 100 * CALLS;
/** How much a client gets done before it is killed. */
const RUNS_BETWEEN_CRASHES = 100;
const CLIENT = resolve(import.meta.dirname, "support/storm-client.ts");

async function begin(context: TestContext, useWebSocket: boolean): Promise<{ storm: Storm; path: string }> {
  const path = await mkdtemp(join(tmpdir(), "handback-storm-"));
  const storm = new Storm(useWebSocket, CALLS);
  context.after(async () => {
    storm.stop();
    await rm(path, { recursive: true, force: true });
  });
  return { storm, path };
}

async function end(context: TestContext, storm: Storm): Promise<void> {
  storm.say("gone");
  const { code, said } = await storm.verdict();
  assert.equal(code, 0, said);
  context.diagnostic(said);
}

async function rideOut(context: TestContext, useWebSocket: boolean): Promise<void> {
  const { storm, path } = await begin(context, useWebSocket);
  // What is lost on its way to a socket is offered again as if it had arrived. A journal that lasts knows better.
  const journal = useWebSocket ? directoryJournal(path) : memoryJournal();
  const manager = await connectToStorm(await storm.url(), { useWebSocket, journal }, storm.say);
  context.after(() => manager.disconnect());
  storm.say("connected");
  await storm.calm();
  await manager.disconnect();
  await end(context, storm);
}

/** A client that is a process. What it runs, the storm is told. */
class Client {
  readonly #said = new Log<string>();
  readonly #child: ChildProcess;

  constructor(url: string, useWebSocket: boolean, path: string, storm: Storm) {
    const transport = useWebSocket ? "websocket" : "sse";
    this.#child = spawn(process.execPath, ["--import", "tsx", CLIENT, url, transport, path], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    createInterface(this.#child.stdout!).on("line", (line) => {
      if (line.startsWith("run ")) storm.say(line);
      this.#said.add(line);
    });
    this.#child.once("close", () => this.#said.add("over"));
  }

  async until(word: string): Promise<void> {
    const line = await this.#said.eventually((line) => line === word || line === "over");
    assert.equal(line, word);
  }

  /** Waits until it has done some work, then ends it as a crash would, and waits until all that it said was heard. */
  async crash(): Promise<void> {
    await this.#said.eventually(() => this.#said.all.length >= RUNS_BETWEEN_CRASHES);
    await this.kill();
  }

  async kill(): Promise<void> {
    this.#child.kill("SIGKILL");
    await this.#said.eventually((line) => line === "over");
  }

  async leave(): Promise<void> {
    this.#child.kill("SIGTERM");
    await this.until("gone");
  }
}

async function rideOutCrashes(context: TestContext, useWebSocket: boolean): Promise<void> {
  const { storm, path } = await begin(context, useWebSocket);
  const url = await storm.url();
  const start = () => new Client(url, useWebSocket, path, storm);
  let client = start();
  context.after(() => client.kill());
  await client.until("connected");
  storm.say("connected");
  let crashes = 0;
  const calm = storm.calm().then(() => "calm");
  while ((await Promise.race([calm, client.crash()])) !== "calm") {
    crashes += 1;
    client = start();
  }
  await client.until("connected");
  await client.leave();
  assert.ok(crashes > 2, `${crashes} crashes`);
  await end(context, storm);
}

for (const useWebSocket of [false, true]) {
  const name = useWebSocket ? "WebSocket" : "SSE";
  test(`calls by ${name} have one outcome in a storm`, (context) => rideOut(context, useWebSocket), TIMEOUT);
  const crashes = (context: TestContext) => rideOutCrashes(context, useWebSocket);
  test(`a client that is killed again and again runs no write twice by ${name}`, crashes, TIMEOUT);
}
