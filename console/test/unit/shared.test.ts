// The SDK in the page hears what the page hears, over the same stream.

import assert from "node:assert/strict";

import { createHandbackClient } from "@handback/client";

import { test } from "../../../sdk/typescript/test/support/patience.js";
import { Server } from "../../../sdk/typescript/test/support/server.js";
import { until } from "../../../sdk/typescript/test/support/until.js";

test("clients of the SDK share the one stream of events", async (test) => {
  const server = await Server.start(test);
  const opened: string[] = [];
  const { fetch } = globalThis;
  const counted: typeof fetch = (input, init) => {
    opened.push(new URL(String(input)).pathname);
    return fetch(input, init);
  };
  // What a page has.
  const storage = { getItem: () => null, setItem: () => {} };
  Object.assign(globalThis, { fetch: counted, window: { location: { href: `${server.url}/#/` } }, sessionStorage: storage });
  const { connection, sharedFetch, start } = await import("../../src/events.js");
  const client = createHandbackClient({ baseUrl: server.url, clientID: "tab", fetch: sharedFetch, useWebSocket: false });
  server.guest({ disconnect: () => client.close() });
  await client.clientTools.register("hello", { description: "" }, () => "It was heard.");
  test.after(start());
  await until("the page is connected", () => connection.value.state === "open");
  const [one, other] = [await client.startSession(), await client.startSession()];
  const answers = await Promise.all([one, other].map((session) => session.prompt("call hello {}")));
  for (const { text } of answers) assert.match(text, /It was heard\./);
  assert.deepEqual(opened.filter((path) => path === "/event"), ["/event"]);
  await server.stop();
  await until("the page has lost it", () => connection.value.state === "lost");
  await server.restart();
  await until("the page is connected again", () => connection.value.state === "open");
  const { text } = await (await client.startSession()).prompt("call hello {}");
  assert.match(text, /It was heard\./);
});
