import assert from "node:assert/strict";
import { getEventListeners } from "node:events";
import type { TestContext } from "node:test";

import { EventFeed, type Notice } from "../../src/feed.js";
import { Http } from "../../src/http.js";
import { FakeTime } from "../support/fake-time.js";
import { test } from "../support/patience.js";

const CONNECTED = 'data: {"type":"server.connected","properties":{}}\n\n';

/** When a stream is opened that a server ends at once, after it has sent this; in ms. */
async function openings(context: TestContext, sent: string, count: number): Promise<number[]> {
  const time = new FakeTime(context);
  context.mock.method(Math, "random", () => 1);
  const opened: number[] = [];
  const fetch = async () => {
    opened.push(performance.now());
    return new Response(sent, { headers: { "content-type": "text/event-stream" } });
  };
  const unsubscribe = new EventFeed(new Http({ baseUrl: "http://127.0.0.1:1", fetch }), {}).subscribe(() => undefined);
  while (opened.length < count) await time.pass(500);
  unsubscribe();
  return opened;
}

test("a stream on which the server spoke is opened again after the first delay", async (context) => {
  assert.deepEqual(await openings(context, CONNECTED, 5), [0, 500, 1000, 1500, 2000]);
});

test("a stream that ends before the server has spoken is opened again later and later", async (context) => {
  assert.deepEqual(await openings(context, "", 5), [0, 500, 1500, 3500, 7500]);
});

test("a stream that is opened again and again leaves nothing behind", async (context) => {
  const time = new FakeTime(context);
  const fetch = async () => new Response(CONNECTED, { headers: { "content-type": "text/event-stream" } });
  const http = new Http({ baseUrl: "http://127.0.0.1:1", fetch });
  const open = context.mock.method(http, "open");
  const told: Notice["type"][] = [];
  const unsubscribe = new EventFeed(http, {}).subscribe(({ type }) => told.push(type));
  for (let count = 0; count < 3; count += 1) await time.pass(20_000);
  unsubscribe();
  await time.pass(20_000);
  const signals = open.mock.calls.map((call) => call.arguments[1]?.signal);
  assert.deepEqual(told.slice(0, 4), ["connected", "lost", "connected", "lost"]);
  assert.equal(new Set(signals).size, told.length / 2);
  for (const signal of signals) assert.ok(signal && getEventListeners(signal, "abort").length <= 1);
});
