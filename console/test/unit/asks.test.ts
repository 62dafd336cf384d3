// What waits to be allowed, from the list and from what is told while it is read.

import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";

import type { HandbackEvent, Permission } from "@handback/client";

/** The answers to the page's requests, in order; each is given when the test says so. */
const answers: Promise<Response>[] = [];
const fetch = () => answers.shift();

function answer(): (response: Response) => void {
  let give!: (response: Response) => void;
  answers.push(new Promise((resolve) => (give = resolve)));
  return give;
}

Object.assign(globalThis, {
  fetch,
  window: { location: { href: "http://localhost/" } },
  sessionStorage: { getItem: () => null },
});
const { asks, hearOfAsks, readAsks } = await import("../../src/world/asks.js");

const ask = (id: string) => ({ id, sessionID: "ses_1", callID: `call_${id}` }) as Permission;
const asked = (id: string): HandbackEvent => ({ type: "permission.updated", properties: ask(id) });
const replied = (id: string) =>
  ({ type: "permission.replied", properties: { sessionID: "ses_1", permissionID: id, requestID: id, reply: "once", response: "once" } }) as HandbackEvent;
const listed = (...ids: string[]) => Response.json(ids.map(ask));
const shown = () => asks.value.map(({ id }) => id);

beforeEach(() => void (asks.value = []));

test("what is asked and answered while the list is read counts", async () => {
  const [first, second] = [answer(), answer()];
  const reading = readAsks();
  hearOfAsks(asked("new"));
  hearOfAsks(asked("brief"));
  hearOfAsks(replied("brief"));
  hearOfAsks(replied("answered"));
  first(listed("old", "answered", "brief"));
  await reading;
  assert.deepEqual(shown(), ["old", "new"]);
  // What was told before a reading may be over.
  second(listed("old"));
  await readAsks();
  assert.deepEqual(shown(), ["old"]);
});

test("of two readings the later one counts, whichever ends first", async () => {
  const [first, second] = [answer(), answer()];
  const [before, now] = [readAsks(), readAsks()];
  second(listed("now"));
  await now;
  first(listed("before"));
  await before;
  assert.deepEqual(shown(), ["now"]);
});

test("a failure that may pass is tried again", async (test) => {
  test.mock.timers.enable({ apis: ["setTimeout"] });
  const [first, second] = [answer(), answer()];
  const reading = readAsks();
  hearOfAsks(asked("meanwhile"));
  first(Response.json({}, { status: 503 }));
  await reading;
  assert.deepEqual(shown(), ["meanwhile"]);
  const isRead = new Promise<void>((resolve) => {
    const stop = asks.subscribe((now) => now.length === 2 && (resolve(), queueMicrotask(() => stop())));
  });
  second(listed("one", "meanwhile"));
  test.mock.timers.tick(60_000);
  await isRead;
  assert.deepEqual(shown(), ["one", "meanwhile"]);
});
