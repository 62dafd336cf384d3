// Calls of tools in pages that are reloaded, closed and cut off: each has one outcome, and no `write` call is run twice.

import assert from "node:assert/strict";
import type { TestContext } from "node:test";

import type { Page } from "playwright-core";

import { test } from "../support/patience.js";
import { Server } from "../support/server.js";
import { until } from "../support/until.js";
import { UNREACHABLE } from "./browser.js";
import { Tabs } from "./tab.js";
import { Wire } from "./wire.js";

const WRITE = "client_browser_write";
const READ = "client_browser_read";

interface ErrorResult {
  status: string;
  error: string;
}

async function start(test: TestContext, expected?: RegExp): Promise<{ server: Server; tabs: Tabs }> {
  // What is opened first is closed first: pages do not see the server go.
  return { tabs: await Tabs.open(test, expected), server: await Server.start(test) };
}

function success(output: string) {
  return { status: 200, body: { status: "success", title: "", output } };
}

for (const useWebSocket of [true, false]) {
  const over = useWebSocket ? "" : ", over server-sent events";

  test(`a reload during a write call: it is not run again, and that its outcome is unknown is told${over}`, async (test) => {
    const { server, tabs } = await start(test);
    const tab = await tabs.add(server.url, { useWebSocket });
    const call = server.execute(WRITE, { requestID: "once" });
    await tabs.running("once");
    await tab.reload();
    const { body } = await call;
    assert.match((body as ErrorResult).error, /^the outcome is unknown/);
    assert.equal(tabs.runs("once").length, 1);
  });

  test(`a reload during a read call: it is run again and answered${over}`, async (test) => {
    const { server, tabs } = await start(test);
    const tab = await tabs.add(server.url, { useWebSocket });
    const call = server.execute(READ, { requestID: "again" });
    await tabs.running("again");
    await tab.reload();
    await until("it is run again", () => tabs.runs("again").length === 2);
    await tab.finish("read");
    assert.deepEqual(await call, success("read"));
  });

  test(`a reload after a write call whose result was not delivered: the result is${over}`, async (test) => {
    const { server, tabs } = await start(test, UNREACHABLE);
    const wire = await Wire.to(test, server.port);
    const tab = await tabs.add(wire.url, { useWebSocket });
    const call = server.execute(WRITE, { requestID: "kept" });
    await tabs.running("kept");
    wire.cut();
    await tab.finish("written");
    await tabs.news.until("it is finished", ({ what, event }) => what === "call" && event.type === "finished");
    wire.mend();
    await tab.reload();
    assert.deepEqual(await call, success("written"));
    assert.equal(tabs.runs("kept").length, 1);
  });

  test(`two tabs of one client: each call is run in one of them${over}`, async (test) => {
    const { server, tabs } = await start(test);
    await tabs.add(server.url, { useWebSocket });
    await tabs.add(server.url, { useWebSocket });
    for (const effect of ["write", "read", "write", "read"]) {
      const requestID = `${effect}-${tabs.news.all.length}`;
      const call = server.execute(`client_browser_${effect}`, { requestID });
      const tab = await tabs.running(requestID);
      await tab.finish("done");
      assert.deepEqual(await call, success("done"));
      assert.deepEqual(tabs.runs(requestID), [tab]);
    }
  });

  test(`the tab that runs a write call is closed: another tells at once that its outcome is unknown${over}`, async (test) => {
    const { server, tabs } = await start(test);
    await tabs.add(server.url, { useWebSocket });
    await tabs.add(server.url, { useWebSocket });
    const call = server.execute(WRITE, { requestID: "closed" });
    const tab = await tabs.running("closed");
    const closed = performance.now();
    await tab.page.close();
    const { body } = await call;
    assert.match((body as ErrorResult).error, /^the outcome is unknown/);
    // Long before its deadline, which is after 30 s.
    assert.ok(performance.now() - closed < 5000);
    assert.deepEqual(tabs.runs("closed"), [tab]);
  });

  test(`the tab that runs a read call is closed: another runs it${over}`, async (test) => {
    const { server, tabs } = await start(test);
    await tabs.add(server.url, { useWebSocket });
    await tabs.add(server.url, { useWebSocket });
    const call = server.execute(READ, { requestID: "moved" });
    const first = await tabs.running("moved");
    await first.page.close();
    await until("the other runs it", () => tabs.runs("moved").length === 2);
    const [, second] = tabs.runs("moved");
    assert.notEqual(second, first);
    await second?.finish("by the other");
    assert.deepEqual(await call, success("by the other"));
  });

  test(`a tab that is cut off finishes a write call that another was offered: one result, its own${over}`, async (test) => {
    const { server, tabs } = await start(test, UNREACHABLE);
    const wires = [await Wire.to(test, server.port), await Wire.to(test, server.port)];
    const [first, second] = await Promise.all(wires.map((wire) => tabs.add(wire.url, { useWebSocket })));
    assert.ok(first && second);
    const call = server.execute(WRITE, { requestID: "cut" });
    const tab = await tabs.running("cut");
    const wire = wires[tab === first ? 0 : 1];
    wire?.cut();
    await until("the other is offered it", async () => (await server.get<{ attempt: number }>("calls/cut")).attempt === 2);
    await until("the other waits", () => waitsForLock(tab.page));
    await tab.finish("its own");
    assert.deepEqual(await call, success("its own"));
    assert.deepEqual(tabs.runs("cut"), [tab]);
    // Whoever comes back with the same result is not told off.
    wire?.mend();
    await tab.next("open");
    await until("nothing is under way", async () => (await server.get<{ calls: number }[]>("clients"))[0]?.calls === 0);
    assert.deepEqual(tabs.news.all.filter(({ what, event }) => what === "call" && event.type === "undelivered"), []);
  });
}

/** Whether some tab waits for what another is doing. */
async function waitsForLock(page: Page): Promise<boolean> {
  return page.evaluate(async () => ((await navigator.locks.query()).pending ?? []).length === 1);
}
