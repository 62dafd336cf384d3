// How calls are spoken of.

import assert from "node:assert/strict";
import { test } from "node:test";

import type { FrontendCallState, ToolPart, ToolState } from "@handback/client";

import { opening, standing } from "../../src/playground/standing.js";

function part(state: ToolState): ToolPart {
  return { id: "p", sessionID: "s", messageID: "m", type: "tool", callID: "c", tool: "open-url", state };
}

const running = part({ status: "running", input: {} });
const done = part({ status: "completed", input: {}, output: '{"status":"success"}' });
const late = part({ status: "completed", input: {}, output: '{"status":"timeout"}' });
const failed = part({ status: "error", input: {}, error: "It is broken" });

test("a call stands where its part and its outcome say", () => {
  const words = [
    standing(part({ status: "pending", raw: "{" }), undefined, false),
    standing(part({ status: "pending", raw: "{}" }), undefined, true),
    standing(running, undefined, false),
    standing(done, "success", false),
    standing(part({ status: "completed", output: "not JSON" }), undefined, false),
    standing(late, undefined, false),
    standing(failed, undefined, false),
    standing(failed, "error", false),
    standing(failed, "timeout", false),
    standing(failed, "denied", false),
    standing(failed, "cancelled", false),
    standing(failed, "disconnected", false),
  ].map(({ tone, word, isOver }) => `${tone} ${word} ${isOver}`);
  assert.deepEqual(words, [
    "busy Being written false",
    "wait Waits for you false",
    "busy Running false",
    "good Done true",
    "good Done true",
    "bad Timed out true",
    "bad Failed true",
    "bad Failed true",
    "bad Timed out true",
    "bad Denied true",
    "calm Cancelled true",
    "bad Disconnected true",
  ]);
});

test("what became of an address is said, whatever the executor tells", () => {
  const BLOCKED = "The browser blocked the pop-up; press Open to open it";
  const call = (facts: Partial<FrontendCallState>): FrontendCallState => ({
    toolCallId: "c",
    toolName: "open-url",
    input: {},
    phase: "claiming",
    counted: false,
    attempts: 0,
    ...facts,
  });
  const cases: [ToolPart, Partial<FrontendCallState> | undefined, string][] = [
    [running, undefined, ""],
    [done, undefined, "Opened"],
    [late, undefined, "It was not opened in time"],
    [failed, undefined, "Not opened: It is broken"],
    [part({ status: "error", error: BLOCKED }), undefined, "The browser blocked it: press Open"],
    [running, { phase: "claiming" }, "Opening…"],
    [running, { phase: "claiming", error: "no" }, "The server could not be asked: trying again"],
    [running, { phase: "failed", error: "no" }, "The server could not be asked: no"],
    [running, { phase: "waiting" }, "Waits to be allowed"],
    [running, { phase: "running" }, "Opening…"],
    [running, { phase: "elsewhere" }, "Another tab is opening it"],
    [done, { phase: "elsewhere" }, "Another tab has opened it"],
    [failed, { phase: "elsewhere" }, "Not opened: It is broken"],
    [late, { phase: "elsewhere" }, "It was not opened in time"],
    [running, { phase: "expired" }, "The call was already over"],
    [running, { phase: "unknown" }, "The call was already over"],
    [running, { phase: "acking", outcome: "success" }, "Opened"],
    [running, { phase: "acking", outcome: "success", error: "no" }, "Opened. The server could not be told: trying again"],
    [
      running,
      { phase: "acking", outcome: "failed", errorText: BLOCKED, error: "no" },
      "The browser blocked it: press Open. The server could not be told: trying again",
    ],
    [done, { phase: "done", outcome: "success", counted: true }, "Opened"],
    [done, { phase: "done", outcome: "success", counted: true, errorText: BLOCKED }, "The browser blocked it: press Open"],
    [failed, { phase: "done", outcome: "failed", counted: true, errorText: BLOCKED }, "The browser blocked it: press Open"],
    [late, { phase: "done", outcome: "timeout", counted: true }, "It was not opened in time"],
    [failed, { phase: "failed", outcome: "success", ackStatus: 409 }, "Opened, but the call was already over"],
    [late, { phase: "failed", outcome: "success", ackStatus: 410 }, "Opened, but the call was already over"],
    [late, { phase: "failed", outcome: "success" }, "Opened, but the server could not be told"],
    [late, { phase: "failed", outcome: "success", ackStatus: 503 }, "Opened, but the server could not be told"],
  ];
  assert.deepEqual(
    cases.map(([shown, facts]) => opening(shown, facts && call(facts))),
    cases.map(([, , said]) => said),
  );
});
