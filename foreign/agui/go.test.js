// What the protocol's Go SDK (sdks/community/go) sends, written down: Go's modules cannot be had everywhere that these
// tests are run. Its client marshals a RunAgentInput, and what nobody has set is null: each slice, the state, the
// parameters of a tool. The newest leaves some of them out, and own structs of programs have more of them.
//
// Of an answer it wants the status 200, a content type that begins with text/event-stream, and frames of lines that
// begin with "data: "; it passes over comments and ids. `EventFromJSON` fails on a type of event that it does not know:
// older ones know no REASONING_…, and the first no TOOL_CALL_RESULT. It fails on the result of a tool whose content is
// not a string, too, which comes to clients of 1.0 only; the Go SDK says no version. Keys that it does not know do no
// harm. `Validate` and `ValidateSequence`, which a program may call, refuse empty ids, in older ones empty deltas, outcomes
// other than success and interrupt, and what is continued before it was begun.

import assert from "node:assert/strict";

import { test } from "../support/patience.js";
import { Server } from "../support/server.js";
import { Tap } from "../support/stream.js";
import { CALL, TEXT } from "./setup.js";

/** What is in every message if a program's struct does not leave out what is empty. */
const NOTHING = { name: "", toolCalls: null, toolCallId: "", error: "", metadata: null };
const LOCATE = { name: "locate", description: "Where the user is", parameters: null, metadata: null };

test("go: nulls in place of what is empty, in a plain turn", async (test) => {
  const server = await Server.start(test);
  const messages = [{ id: "1", role: "user", content: "Hello", toolCalls: null }];

  const { run } = await new Tap(test, server).post("/agui", input({ messages }));
  await run.over;

  assert.deepEqual(run.story, ["RUN_STARTED", ...TEXT, "RUN_FINISHED"]);
  assert.ok(run.all("TEXT_MESSAGE_CONTENT").every(({ delta }) => delta !== ""));
});

test("go: nulls in place of what is empty, in a tool and what came of it", async (test) => {
  const server = await Server.start(test);
  const tap = new Tap(test, server);
  const question = { ...NOTHING, id: "1", role: "user", content: "call locate {}\ncall list_tools {}" };
  const { run: first } = await tap.post("/agui", input({ messages: [question], tools: [LOCATE] }));
  await first.over;
  assert.deepEqual(first.story, ["RUN_STARTED", ...CALL.slice(0, 2), ...CALL, "TOOL_CALL_RESULT", "RUN_FINISHED"]);
  const [{ toolCallId, parentMessageId }, listed] = first.all("TOOL_CALL_START");
  const [{ content, messageId }] = first.all("TOOL_CALL_RESULT");
  assert.equal(typeof content, "string");

  const calls = [
    [toolCallId, "locate"],
    [listed.toolCallId, "list_tools"],
  ];
  const toolCalls = calls.map(([id, name]) => {
    return { id, type: "function", function: { name, arguments: "{}" }, metadata: null };
  });
  const messages = [
    question,
    { ...NOTHING, id: parentMessageId, role: "assistant", content: null, toolCalls },
    { ...NOTHING, id: messageId, role: "tool", toolCallId: listed.toolCallId, content },
    { ...NOTHING, id: "2", role: "tool", toolCallId, content: "Oslo" },
  ];
  const { run } = await tap.post("/agui", input({ runId: "second", messages, tools: [LOCATE] }));
  await run.over;

  assert.deepEqual(run.story, ["RUN_STARTED", ...TEXT, "RUN_FINISHED"]);
  const answer = run.all("TEXT_MESSAGE_CONTENT").map(({ delta }) => delta);
  assert.equal(answer.join(""), `The tool \`locate\` answered: Oslo\n\nThe tool \`list_tools\` answered: ${content}`);
});

/**
 * An input as Go writes it.
 *
 * @param {object} set
 */
function input(set) {
  const zero = { parentRunId: null, state: null, tools: null, context: null, forwardedProps: null, resume: null };
  return { threadId: "thread", runId: "first", ...zero, ...set };
}
