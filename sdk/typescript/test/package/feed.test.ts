import assert from "node:assert/strict";
import { getEventListeners } from "node:events";

import { EventFeed, type Notice } from "../../src/feed.js";
import { Http } from "../../src/http.js";
import { FakeTime } from "../support/fake-time.js";
import { test } from "../support/patience.js";

test("a stream that is opened again and again leaves nothing behind", async (context) => {
  const time = new FakeTime(context);
  const connected = 'data: {"type":"server.connected","properties":{}}\n\n';
  const fetch = async () => new Response(connected, { headers: { "content-type": "text/event-stream" } });
  const http = new Http({ baseUrl: "http://127.0.0.1:1", fetch });
  const open = context.mock.method(http, "open");
  const told: Notice["type"][] = [];
  const unsubscribe = new EventFeed(http).subscribe(({ type }) => told.push(type));
  for (let count = 0; count < 3; count += 1) await time.pass(20_000);
  unsubscribe();
  await time.pass(20_000);
  const signals = open.mock.calls.map((call) => call.arguments[1]?.signal);
  assert.deepEqual(told.slice(0, 4), ["connected", "lost", "connected", "lost"]);
  assert.equal(new Set(signals).size, told.length / 2);
  for (const signal of signals) assert.ok(signal && getEventListeners(signal, "abort").length <= 1);
});
