// Connections of pages: both transports, a server that is restarted, a network that comes and goes, and what is stored.

import assert from "node:assert/strict";

import { test } from "../support/patience.js";
import { Server } from "../support/server.js";
import { until } from "../support/until.js";
import { UNREACHABLE } from "./browser.js";
import { Tabs } from "./tab.js";
import { Wire } from "./wire.js";

/** Makes a call, and has it answered in whatever tab it runs. */
async function callAndFinish(server: Server, tabs: Tabs, requestID: string): Promise<void> {
  const call = server.execute("client_browser_write", { requestID });
  const tab = await tabs.running(requestID);
  await tab.finish(requestID);
  assert.deepEqual(await call, { status: 200, body: { status: "success", title: "", output: requestID } });
}

test("a page uses a WebSocket unless it is told not to", async (test) => {
  const tabs = await Tabs.open(test);
  const server = await Server.start(test);
  const used: string[] = [];
  tabs.context.on("page", (page) => page.on("websocket", (socket) => used.push(new URL(socket.url()).pathname)));
  tabs.context.on("request", (request) => used.push(new URL(request.url()).pathname));
  const uses = (path: string) => used.filter((used) => used === `/client-tools/${path}/browser`).length;

  const socketTab = await tabs.add(server.url);
  await callAndFinish(server, tabs, "by-socket");
  assert.deepEqual([uses("ws"), uses("pending")], [1, 0]);
  await socketTab.page.close();
  await until("it is gone", async () => (await server.get<{ connections: number }[]>("clients"))[0]?.connections === 0);

  await tabs.add(server.url, { useWebSocket: false });
  await callAndFinish(server, tabs, "by-events");
  assert.deepEqual([uses("ws"), uses("pending")], [1, 1]);
});

for (const useWebSocket of [true, false]) {
  const transport = useWebSocket ? "a WebSocket" : "server-sent events";

  test(`a restarted server is found again, over ${transport}`, async (test) => {
    const tabs = await Tabs.open(test, UNREACHABLE);
    const server = await Server.start(test);
    const tab = await tabs.add(server.url, { useWebSocket });
    await callAndFinish(server, tabs, "before");
    const lost = tab.next("retrying");
    await server.stop();
    await lost;
    const back = tab.next("open");
    await server.restart();
    await back;
    await callAndFinish(server, tabs, "after");
  });

  test(`a page that is offline comes back as soon as it is online, over ${transport}`, async (test) => {
    const tabs = await Tabs.open(test, UNREACHABLE);
    const server = await Server.start(test);
    const wire = await Wire.to(test, server.port);
    // No try by itself would come in time.
    const tab = await tabs.add(wire.url, { useWebSocket, reconnect: { first: 600_000, longest: 600_000 } });
    const lost = tab.next("retrying");
    await tabs.context.setOffline(true);
    wire.cut();
    await lost;
    wire.mend();
    const back = tab.next("open");
    await tabs.context.setOffline(false);
    await back;
    await callAndFinish(server, tabs, "online");
  });
}

test("what is stored of calls is bounded, and goes with time", async (test) => {
  const tabs = await Tabs.open(test);
  const server = await Server.start(test);
  const tab = await tabs.add(server.url);
  await callAndFinish(server, tabs, "first");
  const note = (expires: number) => JSON.stringify({ expires: Date.now() + expires, state: "done", result: null });
  const calls = (name: string, count: number, expires: number) =>
    Array.from({ length: count }, (_, call) => [`handback:browser:call:${name}-${call}`, note(expires + call)]);
  const entries = [
    ...calls("old", 50, -60_000),
    ...calls("new", 1200, 60_000),
    ["handback:another:call:old", note(-1)],
    ["the page's own", "stays"],
  ];
  await tab.page.evaluate((entries) => entries.forEach(([key = "", value = ""]) => localStorage.setItem(key, value)), entries);
  // A page that was just loaded looks through all of it at its first call.
  await tab.reload();
  await callAndFinish(server, tabs, "second");
  const stored = await tab.page.evaluate(() => Object.keys(localStorage));
  const kept = stored.filter((key) => key.startsWith("handback:browser:call:"));
  assert.ok(kept.length <= 1024, `${kept.length} calls are stored`);
  assert.deepEqual(kept.filter((key) => key.includes(":old-")), []);
  // Those that expire last, what the page has stored itself, and what belongs to others.
  for (const key of [
    "handback:browser:call:second",
    "handback:browser:call:new-1199",
    "handback:another:call:old",
    "the page's own",
  ]) {
    assert.ok(stored.includes(key), key);
  }
});
