// A thousand calls in a storm, over each transport: every call has exactly one outcome, no `write` is run twice, and
// nothing is left. `STORM_CALLS` makes it more.

import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TestContext } from "node:test";

import { directoryJournal } from "../src/tools/journal/directory.js";
import { memoryJournal } from "../src/tools/journal/memory.js";
import { ClientToolsManager } from "../src/tools/node.js";
import type { ToolCall } from "../src/tools/tool.js";
import { test } from "./support/patience.js";
import { Storm } from "./support/storm.js";

const CALLS = Number(process.env["STORM_CALLS"] ?? 1000);
/** Each call has a tenth of a second, on a slow machine; in ms. */
const TIMEOUT = 60_000 + 100 * CALLS;

/** What the storm asks of a handler. */
interface Order {
  act: "answer" | "fail" | "hang";
  /** How long it works, in ms. */
  work: number;
  word: string;
}

async function obey({ act, work, word }: Order, { requestID, signal }: ToolCall): Promise<string> {
  await new Promise((resolve) => setTimeout(resolve, work));
  if (act === "answer") return `${requestID} was asked for ${word}`;
  if (act === "fail") throw new Error(`${requestID} was asked to fail`);
  if (!signal.aborted) await new Promise((resolve) => signal.addEventListener("abort", resolve));
  throw new Error("the call was over");
}

async function rideOut(context: TestContext, useWebSocket: boolean): Promise<void> {
  const path = await mkdtemp(join(tmpdir(), "handback-storm-"));
  context.after(() => rm(path, { recursive: true, force: true }));
  const storm = new Storm(useWebSocket, CALLS);
  context.after(() => storm.stop());
  const manager = new ClientToolsManager("storm", await storm.url(), {
    useWebSocket,
    reconnect: { first: 5, longest: 50 },
    silence: 300,
    // What is lost on its way to a socket is offered again as if it had arrived. A journal that lasts knows better.
    journal: useWebSocket ? directoryJournal(path) : memoryJournal(),
  });
  context.after(() => manager.disconnect());
  manager.on("state", () => {});
  for (const effect of ["read", "idempotent", "write"] as const) {
    await manager.register(effect, { description: "", effect }, (input, call) => {
      storm.say(`run ${call.requestID} ${effect}`);
      return obey(input as unknown as Order, call);
    });
  }
  await manager.connect();
  storm.say("connected");
  await storm.calm();
  await manager.disconnect();
  storm.say("gone");
  const { code, said } = await storm.verdict();
  assert.equal(code, 0, said);
  context.diagnostic(said);
}

test("calls by SSE have one outcome in a storm", (context) => rideOut(context, false), TIMEOUT);
test("calls by WebSocket have one outcome in a storm", (context) => rideOut(context, true), TIMEOUT);
