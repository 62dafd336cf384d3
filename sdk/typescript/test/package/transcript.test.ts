import assert from "node:assert/strict";
import { test } from "node:test";

import { type Piece, Transcript } from "../../src/transcript.js";
import { TurnQueue } from "../../src/turn-queue.js";
import type { Event, Message, MessageWithParts, Part } from "../../src/wire.js";

const sessionID = "ses_1";
const answer: Message = { id: "msg_2", sessionID, role: "assistant", agent: "default", parentID: "msg_1", time: { created: 1 } };

function part(text: string, more: Partial<Part> = {}): Part {
  return { id: "prt_1", sessionID, messageID: answer.id, type: "text", text, ...more };
}

function told(part: Part): Event {
  return { type: "message.part.updated", properties: { sessionID, part } };
}

function grew(delta: string): Event {
  const properties = { sessionID, messageID: answer.id, partID: "prt_1", field: "text", delta };
  return { type: "message.part.delta", properties };
}

const begun: Event = { type: "message.updated", properties: { sessionID, info: answer } };

function textOf(pieces: Piece[]): string {
  return pieces.map((piece) => (piece.type === "text" ? piece.text : "")).join("");
}

/** A small generator of numbers that are as good as random, and the same every time. */
function dice(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
}

test("whatever is lost and read in between, the pieces are the text", () => {
  for (let seed = 0; seed < 500; seed += 1) {
    const roll = dice(seed);
    const transcript = new Transcript("msg_1", "laptop");
    const pieces: Piece[] = [];
    // What the server does, and what of it is still on its way.
    let text = "";
    let onTheWay: Event[] = [begun, told(part(""))];
    const messages = (): MessageWithParts[] => [{ info: answer, parts: [part(text)] }];
    for (let step = 0; step < 60; step += 1) {
      const chance = roll();
      if (chance < 0.5) {
        const delta = String.fromCharCode(97 + (step % 26)).repeat(1 + Math.floor(roll() * 2));
        text += delta;
        onTheWay.push(grew(delta));
        // Not for every piece of a long text.
        if (roll() < 0.5) onTheWay.push(told(part(text)));
      } else if (chance < 0.85) {
        const arriving = onTheWay.splice(0, Math.ceil(roll() * 4));
        pieces.push(...arriving.flatMap((event) => transcript.hear(event)));
      } else if (chance < 0.95) {
        pieces.push(...transcript.read(messages()));
      } else {
        onTheWay = [];
        transcript.loseTrack();
      }
      assert.ok(text.startsWith(textOf(pieces)), `seed ${seed}: "${textOf(pieces)}" does not begin "${text}"`);
    }
    pieces.push(...transcript.read(messages()));
    assert.equal(textOf(pieces), text, `seed ${seed}`);
  }
});

test("a call is told on each change, and never goes back", () => {
  const transcript = new Transcript("msg_1", "laptop");
  transcript.hear(begun);
  const call = (status: string, more = {}) =>
    told({ ...part(""), type: "tool", callID: "call_1", tool: "client_laptop_greet", state: { status, ...more } });
  const events = [
    call("pending", { raw: "" }),
    call("pending", { raw: '{"na' }),
    call("pending", { raw: '{"na' }),
    call("running", { input: {} }),
    call("pending", { raw: '{"name"' }),
    call("completed", { output: "Hello" }),
    call("completed", { output: "Hello" }),
    call("running", { input: {} }),
  ];
  const seen = events.flatMap((event) => transcript.hear(event));
  const short = seen.map((piece) => piece.type === "tool" && `${piece.name} ${piece.part.state.status} ${piece.part.state.raw ?? ""}`);
  assert.deepEqual(short, ["greet pending ", 'greet pending {"na', "greet running ", "greet completed "]);
});

test("events of other messages add nothing", () => {
  const transcript = new Transcript("msg_1", "laptop");
  const other = { ...answer, id: "msg_9", parentID: "msg_8" };
  const events: Event[] = [
    { type: "message.updated", properties: { sessionID, info: other } },
    told(part("theirs", { messageID: "msg_9" })),
    told(part("ours, but not known to be")),
    grew("more"),
  ];
  assert.deepEqual(events.flatMap((event) => transcript.hear(event)), []);
  assert.equal(transcript.hasAnswers, false);
});

test("what nobody reads is joined", async () => {
  const queue = new TurnQueue();
  const text = (text: string, partID = "prt_1") => ({ type: "text", text, partID, messageID: "msg_2" }) as const;
  const tool = (status: string) =>
    ({ type: "tool", name: "greet", part: { ...part(""), type: "tool", callID: "c", tool: "t", state: { status } } }) as const;
  for (const news of [text("a"), text("b"), tool("running"), text("c", "prt_2"), tool("completed"), text("d", "prt_2")]) {
    queue.push(news);
  }
  queue.end({ error: new Error("over") });
  const seen: unknown[] = [];
  const reading = async () => {
    for await (const news of queue.read()) seen.push(news);
  };
  await assert.rejects(reading(), new Error("over"));
  assert.deepEqual(seen, [text("ab"), tool("completed"), text("cd", "prt_2")]);
});
