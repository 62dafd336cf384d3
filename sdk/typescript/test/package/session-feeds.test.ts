import assert from "node:assert/strict";

import type { Notice } from "../../src/feed.js";
import { Http } from "../../src/http.js";
import { SessionFeeds } from "../../src/session-feeds.js";
import { settle } from "../support/fake-time.js";
import { test } from "../support/patience.js";

const CONNECTED = 'data: {"type":"server.connected","properties":{}}\n\n';

/** Feeds of a server that tells nothing, and the streams that are open there, in the order in which they were opened. */
function listen() {
  const open = new Set<{ query: string }>();
  const fetch: typeof globalThis.fetch = async (input, init) => {
    const stream = { query: new URL(String(input)).search };
    open.add(stream);
    const body = new ReadableStream<Uint8Array>({
      start: (controller) => {
        init?.signal?.addEventListener("abort", () => open.delete(stream) && controller.error(init.signal?.reason));
        controller.enqueue(new TextEncoder().encode(CONNECTED));
      },
    });
    return new Response(body, { headers: { "content-type": "text/event-stream" } });
  };
  const feeds = new SessionFeeds(new Http({ baseUrl: "http://127.0.0.1:1", fetch }));
  const streams = async () => {
    await settle();
    return [...open].map(({ query }) => query);
  };
  return { streams, subscribe: (sessionID: string) => feeds.subscribe(sessionID, () => undefined), feeds };
}

test("each session has a stream of its own, which is open while somebody listens", async () => {
  const { feeds, subscribe, streams } = listen();
  assert.deepEqual(await streams(), []);
  const leaveOne = subscribe("ses_1");
  const leaveTwo = subscribe("ses_2");
  assert.deepEqual(await streams(), ["?sessionID=ses_1", "?sessionID=ses_2"]);
  const told: Notice["type"][] = [];
  const leaveOneAgain = feeds.subscribe("ses_1", ({ type }) => told.push(type));
  assert.deepEqual(told, ["connected"]);
  assert.deepEqual(await streams(), ["?sessionID=ses_1", "?sessionID=ses_2"]);
  leaveOne();
  leaveTwo();
  assert.deepEqual(await streams(), ["?sessionID=ses_1"]);
  leaveOneAgain();
  assert.deepEqual(await streams(), []);
  const leaveLate = subscribe("ses_1");
  assert.deepEqual(await streams(), ["?sessionID=ses_1"]);
  leaveLate();
});

test("many sessions at once leave connections for other requests: the fourth and later share one stream", async () => {
  const { subscribe, streams } = listen();
  const own = ["?sessionID=ses_1", "?sessionID=ses_2", "?sessionID=ses_3"];
  const [leaveFirst = assert.fail(), ...leaveOthers] = [1, 2, 3, 4, 5, 6].map((number) => subscribe(`ses_${number}`));
  assert.deepEqual(await streams(), [...own, ""]);
  leaveFirst();
  // One that is listened to on the shared stream may have its own beside it.
  const leaveSixth = subscribe("ses_6");
  assert.deepEqual(await streams(), ["?sessionID=ses_2", "?sessionID=ses_3", "", "?sessionID=ses_6"]);
  for (const leave of leaveOthers) leave();
  assert.deepEqual(await streams(), ["?sessionID=ses_6"]);
  const leaveSixthAgain = subscribe("ses_6");
  assert.deepEqual(await streams(), ["?sessionID=ses_6"]);
  leaveSixth();
  leaveSixthAgain();
  assert.deepEqual(await streams(), []);
});
