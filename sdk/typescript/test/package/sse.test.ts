import assert from "node:assert/strict";
import { mock, test } from "node:test";

import { HandbackError } from "../../src/error.js";
import { readEvents, type ServerEvent } from "../../src/sse.js";

function streamOf(chunks: (string | Uint8Array)[], end: "close" | "stay" | Error = "close") {
  const encoder = new TextEncoder();
  const state = { cancelled: false };
  let next = 0;
  const body = new ReadableStream<Uint8Array>(
    {
      pull(controller) {
        const chunk = chunks[next];
        next += 1;
        if (chunk !== undefined) controller.enqueue(typeof chunk === "string" ? encoder.encode(chunk) : chunk);
        else if (end === "close") controller.close();
        else if (end instanceof Error) controller.error(end);
      },
      cancel: () => {
        state.cancelled = true;
      },
    },
    { highWaterMark: 0 },
  );
  return { response: new Response(body), state };
}

async function readAll(response: Response, silence = 1000) {
  const events: ServerEvent[] = [];
  try {
    for await (const event of readEvents(response, { silence })) events.push(event);
  } catch (error) {
    assert.ok(error instanceof HandbackError && error.kind === "interrupted", String(error));
    return { events, lost: error.message };
  }
  return { events, lost: undefined };
}

test("events are read across chunks, wherever those are cut", async () => {
  const text = ': comment\n\nevent: ping\ndata: \n\nid: e-2\n\ndata: {"ä":\ndata: 1}\nid: e-3\n\ndata: cut off';
  const bytes = new TextEncoder().encode(text);
  const expected = [
    { event: "ping", data: "" },
    { event: "message", data: '{"ä":\n1}', id: "e-3" },
  ];
  for (let size = 1; size <= bytes.length; size += 1) {
    const chunks = Array.from({ length: Math.ceil(bytes.length / size) }, (_, n) => bytes.slice(n * size, (n + 1) * size));
    assert.deepEqual(await readAll(streamOf(chunks).response), { events: expected, lost: undefined }, `chunks of ${size}`);
  }
});

test("a connection that breaks is lost", async () => {
  const { response } = streamOf(["data: 1\n\n"], new Error("reset"));
  const expected = { events: [{ event: "message", data: "1" }], lost: "the connection to the server was lost: reset" };
  assert.deepEqual(await readAll(response), expected);
});

test("an event that is too large ends the connection", async () => {
  const piece = "x".repeat(1024 * 1024);
  const { response, state } = streamOf(["data: 1\n\n", "data: ", ...Array<string>(9).fill(piece)], "stay");
  const lost = "the connection to the server was lost: an event is larger than 8388608 characters";
  assert.deepEqual(await readAll(response), { events: [{ event: "message", data: "1" }], lost });
  assert.equal(state.cancelled, true);
});

test("a comment keeps a connection alive, silence ends it", async () => {
  mock.timers.enable({ apis: ["setTimeout"] });
  try {
    let comment: (() => void) | undefined;
    const body = new ReadableStream<Uint8Array>({
      start: (controller) => {
        comment = () => controller.enqueue(new TextEncoder().encode(": alive\n\n"));
      },
    });
    const reading = readAll(new Response(body), 90_000);
    const settle = () => new Promise((resolve) => setImmediate(resolve));
    for (let minute = 0; minute < 3; minute += 1) {
      await settle();
      mock.timers.tick(60_000);
      comment?.();
    }
    await settle();
    mock.timers.tick(89_999);
    const pending = Symbol("pending");
    assert.equal(await Promise.race([reading, settle().then(() => pending)]), pending);
    mock.timers.tick(1);
    const lost = "the connection to the server was lost: the server is silent for 90 s";
    assert.deepEqual(await reading, { events: [], lost });
  } finally {
    mock.timers.reset();
  }
});

test("whoever stops reading closes the connection", async () => {
  const { response, state } = streamOf(["data: 1\n\n", "data: 2\n\n"], "stay");
  for await (const { data } of readEvents(response, { silence: 1000 })) {
    assert.equal(data, "1");
    break;
  }
  assert.equal(state.cancelled, true);
});
