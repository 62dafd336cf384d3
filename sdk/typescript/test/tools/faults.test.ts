// Many calls over a network that is cut at any byte: each ends once, and none is run twice.

import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { directoryJournal } from "../../src/tools/journal/directory.js";
import { memoryJournal } from "../../src/tools/journal/memory.js";
import { ClientToolsManager } from "../../src/tools/node.js";
import { chances, FaultyNetwork } from "../support/faulty-network.js";
import { test } from "../support/patience.js";
import { Server } from "../support/server.js";

const CALLS = Number(process.env["HANDBACK_FAULT_CALLS"] ?? 1000);
const AT_ONCE = 20;

// What is lost on its way to a socket is offered again as if it had arrived: only a journal that lasts knows that it has not.
for (const useWebSocket of [false, true]) {
  test(`${useWebSocket ? "WebSocket" : "SSE"}: ${CALLS} calls over a faulty network`, async (context) => {
    const server = await Server.start(context);
    const path = await mkdtemp(join(tmpdir(), "handback-faults-"));
    context.after(() => rm(path, { recursive: true, force: true }));
    const chance = chances(useWebSocket ? 2 : 1);
    const network = await FaultyNetwork.start(context, server.port, chance);
    const manager = new ClientToolsManager("laptop", network.url, {
      useWebSocket,
      reconnect: { first: 5, longest: 50 },
      silence: 2000,
      journal: useWebSocket ? directoryJournal(path) : memoryJournal(),
    });
    manager.on("state", () => {});
    server.guest({
      disconnect: () => {
        network.isFaulty = false;
        return manager.disconnect();
      },
    });
    const runs = new Map<string, number>();
    await manager.register("tool", { description: "" }, async ({ size }, { requestID }) => {
      runs.set(requestID, (runs.get(requestID) ?? 0) + 1);
      await new Promise((resolve) => setTimeout(resolve, chance() * 10));
      return `${requestID} ${"x".repeat(Number(size))}`;
    });
    await manager.connect();
    const outcomes = new Map<string, string>();
    let next = 0;
    const callSome = async () => {
      while (next < CALLS) {
        const requestID = `r${next++}`;
        // Some are too large for the socket.
        const size = chance() < 0.1 ? 100_000 : 100;
        const { status, body } = await server.execute("client_laptop_tool", { requestID, input: { size } });
        const { output = "" } = body as { output?: string };
        const isRight = output === `${requestID} ${"x".repeat(size)}`;
        outcomes.set(requestID, status === 200 && isRight ? "success" : JSON.stringify({ status, body }).slice(0, 200));
      }
    };
    await Promise.all(Array.from({ length: AT_ONCE }, callSome));
    assert.equal(outcomes.size, CALLS);
    assert.deepEqual([...new Set(outcomes.values())], ["success"], "nothing is lost while the client is there");
    assert.equal(runs.size, CALLS);
    assert.deepEqual([...new Set(runs.values())], [1], "nothing is run twice");
    assert.ok(network.cuts > CALLS / 100, `${network.cuts} cuts`);
    context.diagnostic(`${network.cuts} connections were cut`);
  });
}
