// Connections of pages: both transports, a server that is restarted, a network that comes and goes, and what is stored.

import assert from "node:assert/strict";

import { test } from "../support/patience.js";
import { Server } from "../support/server.js";
import { until } from "../support/until.js";
import { UNREACHABLE } from "./browser.js";
import { type Tab, Tabs } from "./tab.js";
import { Wire } from "./wire.js";

/** Makes a call, and has it answered in whatever tab it runs. */
async function callAndFinish(server: Server, tabs: Tabs, requestID: string): Promise<void> {
  const call = server.execute("client_browser_write", { requestID });
  const tab = await tabs.running(requestID);
  await tab.finish(requestID);
  assert.deepEqual(await call, { status: 200, body: { status: "success", title: "", output: requestID } });
}

test("a page uses a WebSocket unless it is told not to", async (test) => {
  const server = await Server.start(test);
  const tabs = await Tabs.open(test);
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
    const server = await Server.start(test);
    const tabs = await Tabs.open(test, UNREACHABLE);
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
    const server = await Server.start(test);
    const tabs = await Tabs.open(test, UNREACHABLE);
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
  const server = await Server.start(test);
  const tabs = await Tabs.open(test);
  const tab = await tabs.add(server.url);
  await callAndFinish(server, tabs, "first");
  await tab.page.evaluate(() => {
    const note = (expires: number) => JSON.stringify({ expires, state: "done", result: null });
    for (let call = 0; call < 50; call += 1) localStorage.setItem(`handback:browser:call:old-${call}`, note(Date.now() - 1));
    for (let call = 0; call < 1200; call += 1) {
      localStorage.setItem(`handback:browser:call:new-${call}`, note(Date.now() + 60_000 + call));
    }
    localStorage.setItem("the page's own", "stays");
    localStorage.setItem("handback:another:call:old", note(Date.now() - 1));
  });
  // A page that was just loaded looks through all of it at its first call.
  await tab.reload();
  await callAndFinish(server, tabs, "second");
  const stored = await keys(tab);
  const calls = stored.filter((key) => key.startsWith("handback:browser:call:"));
  assert.ok(calls.length <= 1024, `${calls.length} calls are stored`);
  assert.deepEqual(calls.filter((key) => key.includes(":old-")), []);
  for (const kept of ["handback:browser:call:second", "handback:browser:call:new-1199", "the page's own"]) {
    assert.ok(stored.includes(kept), kept);
  }
});

function keys(tab: Tab): Promise<string[]> {
  return tab.page.evaluate(() => Object.keys(localStorage));
}
