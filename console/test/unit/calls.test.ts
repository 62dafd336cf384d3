import assert from "node:assert/strict";
import { test } from "node:test";

import type { Call, HandbackEvent } from "@handback/client";

import { Calls, MOST_CALLS } from "../../src/world/calls.js";

const IDS = { sessionID: "s", messageID: "m", tool: "client_c_t", clientID: "c" };

function call(requestID: string, created: number, more: Partial<Call> = {}): Call {
  const times = { approval: 0, queue: 1, execute: 2 };
  const when = { created: new Date(created).toISOString(), deadline: new Date(created + 1000).toISOString() };
  return { ...IDS, callID: "", requestID, effect: "write", state: "queued", attempt: 1, times, ...when, ...more };
}

function requested(requestID: string, callID: string): HandbackEvent {
  const request = { type: "client-tool-request", requestID, callID, input: {}, ...IDS };
  return { type: "client-tool.request", properties: { clientID: "c", request } };
}

function ended(callID: string): HandbackEvent {
  return { type: "client-tool.completed", properties: { ...IDS, callID, success: true } };
}

const states = (calls: Calls) => calls.ordered().map(({ requestID, state, outcome }) => [requestID, state, outcome]);

test("events move the one call that they name", () => {
  const calls = new Calls();
  assert.deepEqual(calls.hear(requested("a", "1")), ["a"]);
  assert.deepEqual(calls.hear(requested("b", "2")), ["b"]);
  assert.deepEqual(calls.hear({ type: "client-tool.executing", properties: { ...IDS, callID: "2" } }), ["b"]);
  assert.deepEqual(calls.hear(ended("1")), ["a"]);
  assert.deepEqual(states(calls), [
    ["a", "done", "success"],
    ["b", "offered", undefined],
  ]);
});

test("where several could be meant, all are to be read and none is moved", () => {
  const calls = new Calls();
  calls.hear(requested("a", ""));
  calls.hear(requested("b", ""));
  assert.deepEqual(calls.hear(ended("")), ["a", "b"]);
  assert.deepEqual(states(calls), [
    ["a", "queued", undefined],
    ["b", "queued", undefined],
  ]);
  calls.read(call("b", 5, { state: "done", outcome: { status: "timeout", error: "late" } }));
  assert.deepEqual(calls.hear(ended("")), ["a"]);
  assert.deepEqual(states(calls), [
    ["b", "done", "timeout"],
    ["a", "done", "success"],
  ]);
});

test("an event of a call that is not known asks for the list", () => {
  const calls = new Calls();
  assert.equal(calls.hear(ended("1")), undefined);
  assert.deepEqual(calls.hear({ type: "session.idle", properties: { sessionID: "s" } }), []);
});

test("calls are in the order in which they were made, however they come", () => {
  const calls = new Calls();
  for (const [id, created] of [["c", 30], ["a", 10], ["b", 20], ["b2", 20]] as const) calls.read(call(id, created));
  assert.deepEqual(calls.ordered().map(({ requestID }) => requestID), ["a", "b", "b2", "c"]);
  calls.read(call("a", 40));
  assert.deepEqual(calls.ordered().map(({ requestID }) => requestID), ["b", "b2", "c", "a"]);
});

test("the oldest of too many are forgotten, under way or not", () => {
  const calls = new Calls();
  for (let index = 0; index < MOST_CALLS + 5; index += 1) calls.read(call(`r${index}`, index));
  assert.equal(calls.ordered().length, MOST_CALLS);
  assert.equal(calls.ordered()[0]?.requestID, "r5");
  assert.deepEqual([calls.size, calls.underWay().length, calls.get("r4")], [MOST_CALLS, MOST_CALLS, undefined]);
  // Even if nobody looks.
  for (let index = 0; index < 5000; index += 1) calls.read(call(`s${index}`, MOST_CALLS + index));
  assert.ok(calls.size <= MOST_CALLS + 1000);
});

test("long errors are cut, and outputs are not kept", () => {
  const calls = new Calls();
  calls.read(call("a", 1, { state: "done", outcome: { status: "error", error: "x".repeat(1000) } }));
  calls.read(call("b", 2, { state: "done", outcome: { status: "success", output: "y".repeat(1000) } }));
  assert.equal(calls.get("a")?.error?.length, 300);
  assert.ok(!JSON.stringify(calls.get("b")).includes("yyy"));
});
