// Runs that are told as protobuf, which a page asks for in `Accept`. Its own client decodes them, and they tell what
// server-sent events tell.

import assert from "node:assert/strict";

import { AguiPage, CLIENTS } from "../support/agui.js";
import { Laptop } from "../support/laptop.js";
import { test } from "../support/patience.js";
import { Server } from "../support/server.js";
import { PROTO_TYPE } from "../support/stream.js";
import { CALL, DOT, TEXT, TOOLS, ask, call, start } from "./setup.js";

const ASK = '[agents.default.permission]\nclient_tools = "ask"';
const THOUGHT = [
  "REASONING_START",
  "REASONING_MESSAGE_START",
  "REASONING_MESSAGE_CONTENT",
  "REASONING_MESSAGE_END",
  "REASONING_END",
];
/** Two calls of one step. */
const CALLS = ["TOOL_CALL_START", "TOOL_CALL_ARGS", ...CALL];
/** The schema of 0.0.59 has no arms for them. */
const UNKNOWN_BEFORE_1_0 = ["TOOL_CALL_RESULT", ...THOUGHT];
/** Numbers, nulls and nesting: protobuf has types of its own for them. */
const STATE = { draft: { title: null, lines: [1, -2.5, 1e15, true, "ö 🎨", {}, []] } };
const USAGE = { prompt_tokens: 20, completion_tokens: 10, prompt_tokens_details: { cached_tokens: 5 } };
const PICTURE = { mime: "image/png", filename: "dot.png", url: `data:image/png;base64,${DOT}` };
const SHOW = { description: "Shows a picture", run: () => ({ output: "a dot", attachments: [PICTURE] }) };

/**
 * What a page does, and what is told of it in each run.
 *
 * @type {Record<string, { talk: (page: AguiPage) => Promise<unknown>, stories: string[][] }>}
 */
const CONVERSATIONS = {
  "thoughts and a text": {
    talk: (page) => page.say("Why?"),
    stories: [[...THOUGHT, ...TEXT, "RUN_FINISHED"]],
  },
  "tools of the page, and how it goes on": {
    talk: (page) => page.converse("Both."),
    stories: [
      [...CALLS, "RUN_FINISHED"],
      [...TEXT, "RUN_FINISHED"],
    ],
  },
  "a tool of the server": {
    talk: (page) => page.say("List."),
    stories: [[...CALL, "TOOL_CALL_RESULT", ...TEXT, "RUN_FINISHED"]],
  },
  "a tool that has to be allowed, and gives a picture": {
    talk: async (page) => {
      await page.say("Show.");
      const approved = { status: "resolved", payload: { approved: true } };
      await page.resume(Object.fromEntries(page.agent.pendingInterrupts.map(({ id }) => [id, approved])));
    },
    stories: [
      [...CALL, "RUN_FINISHED"],
      ["TOOL_CALL_RESULT", ...TEXT, "RUN_FINISHED"],
    ],
  },
  "an error of the provider": {
    talk: (page) => page.say("Fail."),
    stories: [["RUN_ERROR"]],
  },
};

for (const client of CLIENTS) {
  const { name, protocolVersion } = client;
  const isKnown = (/** @type {string} */ type) => protocolVersion !== undefined || !UNKNOWN_BEFORE_1_0.includes(type);

  for (const [what, { talk, stories }] of Object.entries(CONVERSATIONS)) {
    test(`${name}, as protobuf: ${what}`, async (test) => {
      const { server, upstream } = await start(test, ASK);
      await Laptop.connect(test, server, "laptop", { show: SHOW });
      upstream.says("Why?", { content: "Because.", reasoning: "They want a reason.", usage: USAGE });
      upstream.says("Both.", { toolCalls: [call("call_1", "pick", { title: "ö 🎨" }), call("call_2", "locate")] });
      upstream.says("Oslo", { content: "Got both." });
      upstream.says("List.", { toolCalls: [call("call_1", "list_tools")] });
      upstream.says("]", { content: "Listed." });
      upstream.says("Show.", { toolCalls: [call("call_1", "client_laptop_show")] });
      upstream.says("Fail.", { error: { message: "the model is on holiday" }, status: 400 });
      upstream.says("", { content: "Done." });
      const settings = { tools: TOOLS, state: STATE, forwardedProps: { clientID: "laptop" } };
      const text = new AguiPage(test, server, client, { ...settings, threadId: "text" });
      const proto = new AguiPage(test, server, client, { ...settings, threadId: "proto", accept: PROTO_TYPE });

      await talk(text);
      await talk(proto);

      assert.deepEqual(
        proto.runs.map(({ story }) => story),
        stories.map((story) => ["RUN_STARTED", "STATE_SNAPSHOT", ...story].filter(isKnown)),
      );
      const expected = text.runs.map(({ events }) => events.all.filter(({ type }) => isKnown(type)));
      assert.deepEqual(withoutIds(proto.runs.map(({ events }) => events.all)), withoutIds(expected));
      // The client tells its application the same of it.
      const shown = (/** @type {AguiPage} */ { ends, said, agent }) => withoutIds([ends, said.at(-1), agent.state]);
      assert.deepEqual(shown(proto), shown(text));
    });
  }

  test(`${name}, as protobuf: what is refused is refused as JSON`, async (test) => {
    const server = await Server.start(test);
    const settings = { path: "/agui/nobody", accept: PROTO_TYPE, complaints: /HTTP 404/ };
    const page = new AguiPage(test, server, client, settings);

    await assert.rejects(page.say("Hello"), (/** @type {any} */ error) => {
      assert.deepEqual([error.status, error.payload.code], [404, "NOT_FOUND"]);
      return true;
    });
  });
}

test("an agent says that it can tell its runs as protobuf", async (test) => {
  const server = await Server.start(test);

  assert.equal((await ask(server, "/agui")).body.transport.httpBinary, true);
});

/**
 * What was told, with numbers in place of what is new each time: ids, in the order in which they come up, and times.
 *
 * @param {unknown} events
 */
function withoutIds(events) {
  /** @type {string[]} */
  const ids = [];
  const text = JSON.stringify(events)
    .replace(/"threadId":"\w+"/g, '"threadId":"thread"')
    .replace(/\b(?:(?:msg|cal|prt|per)_[\w-]{15,}|[0-9a-f]{8}-[0-9a-f-]{27})/g, (id) => {
      if (!ids.includes(id)) ids.push(id);
      return `id ${ids.indexOf(id)}`;
    })
    .replace(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, "time");
  return JSON.parse(text);
}
