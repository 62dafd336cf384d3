// The messages of a session, from what is read and what is told.

import assert from "node:assert/strict";
import { test } from "node:test";

import type { HandbackEvent, Message, MessageWithParts, Part } from "@handback/client";

import { MOST_MESSAGES, Transcript } from "../../src/playground/transcript.js";

const sessionID = "ses_1";

function message(id: string, role: string, parentID?: string): Message {
  return { id, sessionID, role, agent: "default", time: { created: 1 }, ...(parentID !== undefined && { parentID }) };
}

function text(id: string, messageID: string, said: string): Part {
  return { id, sessionID, messageID, type: "text", text: said };
}

const updated = (info: Message): HandbackEvent => ({ type: "message.updated", properties: { sessionID, info } });
const told = (part: Part): HandbackEvent => ({ type: "message.part.updated", properties: { sessionID, part } });
const grown = (messageID: string, partID: string, delta: string): HandbackEvent => ({
  type: "message.part.delta",
  properties: { sessionID, messageID, partID, field: "text", delta },
});

/** The texts of each turn: the question's, then those of the answers. */
function texts(transcript: Transcript): string[][] {
  const of = ({ parts }: MessageWithParts) => parts.map((part) => part.text ?? "").join("|");
  return transcript.turns().map(({ question, answers }) => [question ? of(question) : "", ...answers.map(of)]);
}

test("messages become turns: a question, and a message for each step of the answer", () => {
  const transcript = new Transcript();
  for (const event of [
    updated(message("q1", "user")),
    told(text("p1", "q1", "Hello")),
    updated(message("a1", "assistant", "q1")),
    told(text("p2", "a1", "Step one")),
    updated(message("a2", "assistant", "q1")),
    told(text("p3", "a2", "Step two")),
    updated(message("q2", "user")),
    told(text("p4", "q2", "And?")),
  ]) {
    assert.equal(transcript.hear(event), true);
  }
  assert.deepEqual(texts(transcript), [["Hello", "Step one", "Step two"], ["And?"]]);
});

test("a text grows, and what is told as a whole replaces it", () => {
  const transcript = new Transcript();
  transcript.hear(updated(message("a1", "assistant", "q1")));
  // The first piece is told before the part.
  assert.equal(transcript.hear(grown("a1", "p1", "One")), false);
  transcript.hear(told(text("p1", "a1", "One")));
  transcript.hear(grown("a1", "p1", ", two"));
  assert.deepEqual(texts(transcript), [["", "One, two"]]);
  transcript.hear(told(text("p1", "a1", "One, two, three")));
  assert.deepEqual(texts(transcript), [["", "One, two, three"]]);
});

test("what was read may have what is told later: nothing is shown twice", () => {
  const transcript = new Transcript();
  const info = message("a1", "assistant", "q1");
  transcript.hear(updated(info));
  transcript.hear(told(text("p1", "a1", "One")));
  const late = [grown("a1", "p1", ", two")];
  transcript.read([{ info, parts: [text("p1", "a1", "One, two")] }], late);
  assert.deepEqual(texts(transcript), [["", "One, two"]]);
  transcript.hear(grown("a1", "p1", ", three"));
  assert.deepEqual(texts(transcript), [["", "One, two"]]);
  transcript.hear(told(text("p1", "a1", "One, two, three")));
  transcript.hear(grown("a1", "p1", "."));
  assert.deepEqual(texts(transcript), [["", "One, two, three."]]);
});

test("what was told while messages were read is not lost", () => {
  const transcript = new Transcript();
  const info = message("a1", "assistant", "q1");
  const question = { info: message("q1", "user"), parts: [text("p0", "q1", "Hello")] };
  transcript.read([question], [updated(info), told(text("p1", "a1", "Hi"))]);
  assert.deepEqual(texts(transcript), [["Hello", "Hi"]]);
});

test("parts of messages that are not there, and other events, change nothing", () => {
  const transcript = new Transcript();
  assert.equal(transcript.hear(told(text("p1", "a1", "One"))), false);
  assert.equal(transcript.hear({ type: "session.idle", properties: { sessionID } }), false);
  assert.deepEqual(texts(transcript), []);
});

test("the newest messages are kept", () => {
  const transcript = new Transcript();
  for (let index = 0; index < MOST_MESSAGES; index += 1) {
    assert.equal(transcript.isFull, false);
    transcript.hear(updated(message(`q${index}`, "user")));
  }
  transcript.hear(updated(message("last", "user")));
  assert.deepEqual(
    [transcript.isFull, transcript.turns().length, transcript.turns()[0]?.id, transcript.turns().at(-1)?.id],
    [true, MOST_MESSAGES, "q1", "last"],
  );
});
