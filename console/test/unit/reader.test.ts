// Pages of the server's list of calls.

import assert from "node:assert/strict";
import { test } from "node:test";

import { Calls } from "../../src/world/calls.js";

/** What the server lists, by the cursor of the page; the first has none. */
const pages = new Map<string, { ids: number[]; next?: string }>();
const asked: string[] = [];

const fetch = (url: string) => {
  const cursor = new URL(url).searchParams.get("cursor") ?? "";
  asked.push(cursor);
  const { ids, next } = pages.get(cursor) ?? { ids: [] };
  return Promise.resolve(Response.json(ids.map(call), { headers: next === undefined ? {} : { "x-next-cursor": next } }));
};

const call = (id: number) => ({
  requestID: `r${id}`,
  created: new Date(id * 1000).toISOString(),
  times: { approval: 0, queue: 0, execute: 500 },
  state: "done",
  outcome: { status: "success" },
});

Object.assign(globalThis, {
  fetch,
  window: { location: { href: "http://localhost/", hash: "" }, addEventListener: () => undefined },
  sessionStorage: { getItem: () => null },
});
const { connection } = await import("../../src/events.js");
const { Reader } = await import("../../src/world/reader.js");

test("older calls are read page by page; after a lost connection, nothing that was missed is skipped", async () => {
  const calls = new Calls();
  let tell = () => {};
  const reader = new Reader(calls, () => tell());
  const list = async () => {
    const isRead = new Promise<void>((resolve) => (tell = resolve));
    reader.want(undefined);
    await isRead;
  };
  const known = () => calls.ordered().map(({ requestID }) => requestID).join(" ");

  connection.value = { state: "open" };
  pages.set("", { ids: [4, 3], next: "3" }).set("3", { ids: [2] });
  await list();
  assert.deepEqual([known(), reader.hasOlder], ["r3 r4", true]);
  assert.deepEqual([reader.isMissing(3400), reader.isMissing(3500)], [true, false]);
  await reader.readOlder();
  assert.deepEqual([known(), reader.hasOlder], ["r2 r3 r4", false]);

  // Events tell of every new call: another look at the list does not begin it anew.
  await list();
  assert.equal(reader.hasOlder, false);

  connection.value = { state: "open" };
  pages.set("", { ids: [9, 8], next: "8" }).set("8", { ids: [4, 3], next: "3b" }).set("3b", { ids: [2, 1] });
  await list();
  assert.deepEqual([known(), reader.hasOlder], ["r2 r3 r4 r8 r9", true]);
  asked.length = 0;
  await reader.readOlder();
  assert.deepEqual([asked, known(), reader.hasOlder], [["8", "3b"], "r1 r2 r3 r4 r8 r9", false]);
});
