// Tools of the page, which end the run that calls them, and tools that are run within it.

import assert from "node:assert/strict";

import { AguiPage, CLIENTS } from "../support/agui.js";
import { GREET, Laptop, NEVER_DONE } from "../support/laptop.js";
import { test, until } from "../support/patience.js";
import { Server } from "../support/server.js";
import { CALL, DOT, TEXT, TOOLS, ask, call, results, start, told } from "./setup.js";

for (const client of CLIENTS) {
  const { name, protocolVersion } = client;
  /** What a run that leaves calls to the page ends with. */
  const pending = (/** @type {string[]} */ pendingToolCallIds) =>
    protocolVersion && { type: "success", pendingToolCallIds };

  test(`${name}: a tool of the page: the run ends with the call, the next goes on with its result`, async (test) => {
    const { server, upstream } = await start(test);
    upstream.says("A color?", { content: "Let me ask.", toolCalls: [call("call_1", "pick", { title: "a color" })] });
    upstream.says("picked a color", { content: "So be it." });
    const page = new AguiPage(test, server, client, { tools: TOOLS });

    const first = await page.say("A color?");

    const [{ id, ...made }, ...more] = page.open;
    assert.deepEqual([made, more], [{ name: "pick", input: { title: "a color" } }, []]);
    assert.deepEqual(first.story, ["RUN_STARTED", ...TEXT, ...CALL, "RUN_FINISHED"]);
    assert.deepEqual(first.last.outcome, pending([id]));
    // One message of the model's: what it said, and what it called.
    assert.equal(first.all("TOOL_CALL_START")[0].parentMessageId, first.all("TEXT_MESSAGE_START")[0].messageId);

    page.answer();
    const second = await page.run();

    assert.deepEqual(second.story, ["RUN_STARTED", ...TEXT, "RUN_FINISHED"]);
    assert.deepEqual(page.said, [
      "user: A color?",
      'assistant: Let me ask. pick {"title":"a color"}',
      "tool: picked a color",
      "assistant: So be it.",
    ]);
    assert.deepEqual(told(upstream.asked.all[1]), page.said.slice(0, 3));
    assert.deepEqual(results(upstream.asked.all[1]), { call_1: "picked a color" });
  });

  test(`${name}: parallel tools of the page: one run with all results`, async (test) => {
    const { server, upstream } = await start(test);
    const toolCalls = [call("call_1", "pick", { title: "a color" }), call("call_2", "locate")];
    upstream.says("Both.", { toolCalls });
    upstream.says("Oslo", { content: "Got both." });
    const page = new AguiPage(test, server, client, { tools: TOOLS });

    const first = await page.say("Both.");

    assert.deepEqual(
      page.open.map(({ name }) => name),
      ["pick", "locate"],
    );
    assert.deepEqual(first.last.outcome, pending(page.open.map(({ id }) => id)));
    assert.equal(new Set(first.all("TOOL_CALL_START").map(({ parentMessageId }) => parentMessageId)).size, 1);

    page.answer();
    await page.run();

    assert.deepEqual([page.said.at(-1), page.runs.length], ["assistant: Got both.", 2]);
    assert.deepEqual(results(upstream.asked.all[1]), { call_1: "picked a color", call_2: "Oslo" });
  });

  for (const [how, error] of Object.entries({ "says so": "no GPS", "only writes it": undefined })) {
    test(`${name}: a tool of the page that fails and ${how}: the model is told, and goes on`, async (test) => {
      const { server, upstream } = await start(test);
      upstream.says("Where?", { toolCalls: [call("call_1", "locate")] });
      upstream.says("no GPS", { content: "I do not know." });
      const page = new AguiPage(test, server, client, { tools: TOOLS });
      await page.say("Where?");

      const [{ id }] = page.open;
      page.add({ role: "tool", toolCallId: id, content: "Error: no GPS", ...(error && { error }) });
      await page.run();

      assert.equal(page.said.at(-1), "assistant: I do not know.");
      assert.deepEqual(results(upstream.asked.all[1]), { call_1: "Error: no GPS" });
    });
  }

  test(`${name}: three continuations`, async (test) => {
    const { server, upstream } = await start(test);
    const step = (/** @type {number} */ n) => ({ toolCalls: [call(`call_${n}`, "pick", { title: `${n}` })] });
    upstream.says("begin", { content: "Let me see.", ...step(1) });
    upstream.says("picked 1", step(2));
    upstream.says("picked 2", step(3));
    upstream.says("picked 3", { content: "I have seen it." });
    const page = new AguiPage(test, server, client, { tools: TOOLS });

    await page.converse("begin");

    const steps = [1, 2, 3].flatMap((n) => [
      `assistant: ${n === 1 ? "Let me see. " : ""}pick {"title":"${n}"}`,
      `tool: picked ${n}`,
    ]);
    assert.deepEqual(page.said, ["user: begin", ...steps, "assistant: I have seen it."]);
    assert.deepEqual([page.runs.length, upstream.asked.all.length], [4, 4]);
    assert.deepEqual(told(upstream.asked.all[3]), page.said.slice(0, -1));
  });

  test(`${name}: tools of the server, of a client and of the page in one step`, async (test) => {
    const { server, upstream } = await start(test);
    const laptop = await Laptop.connect(test, server, "laptop", { greet: GREET });
    const toolCalls = [
      call("call_1", "client_laptop_greet", { name: "Ada" }),
      call("call_2", "locate"),
      call("call_3", "list_tools"),
    ];
    upstream.says("All.", { toolCalls });
    // The results come in the order of the calls: the server's own is the last.
    upstream.says("]", { content: "Got all." });
    const page = new AguiPage(test, server, client, { tools: TOOLS, forwardedProps: { clientID: "laptop" } });

    const first = await page.say("All.");

    assert.deepEqual(
      laptop.calls.all.map(({ tool, input, sessionID }) => ({ tool, input, sessionID })),
      [{ tool: "client_laptop_greet", input: { name: "Ada" }, sessionID: "thread" }],
    );
    const ids = Object.fromEntries(
      first.all("TOOL_CALL_START").map(({ toolCallName, toolCallId }) => [toolCallName, toolCallId]),
    );
    assert.deepEqual(Object.keys(ids).toSorted(), ["client_laptop_greet", "list_tools", "locate"]);
    const given = Object.fromEntries(
      first.all("TOOL_CALL_RESULT").map(({ toolCallId, content }) => [toolCallId, content]),
    );
    assert.deepEqual(Object.keys(given).toSorted(), [ids.client_laptop_greet, ids.list_tools].toSorted());
    assert.equal(given[ids.client_laptop_greet], "Hello, Ada!");
    assert.deepEqual(first.last.outcome, pending([ids.locate]));
    assert.deepEqual(
      page.open.map(({ id }) => id),
      [ids.locate],
    );

    page.answer();
    const second = await page.run();

    const { call_1: greeting, call_2: town, call_3: list } = results(upstream.asked.all[1]);
    assert.deepEqual([greeting, town, list], ["Hello, Ada!", "Oslo", given[ids.list_tools]]);
    assert.deepEqual(second.story, ["RUN_STARTED", ...TEXT, "RUN_FINISHED"]);
    assert.equal(upstream.asked.all.length, 2);
  });

  test(`${name}: a client's tool alone is run within the run, and the model goes on in it`, async (test) => {
    const { server, upstream } = await start(test);
    await Laptop.connect(test, server, "laptop", { greet: GREET, fail: { run: () => Promise.reject("out of paper") } });
    upstream.says("Greet.", { toolCalls: [call("call_1", "client_laptop_greet", { name: "Ada" })] });
    upstream.says("Hello, Ada!", { content: "Now print.", toolCalls: [call("call_2", "client_laptop_fail")] });
    upstream.says("out of paper", { content: "I cannot print." });
    const page = new AguiPage(test, server, client, { tools: TOOLS, forwardedProps: { clientID: "laptop" } });

    const run = await page.say("Greet.");

    assert.deepEqual(run.story, [
      "RUN_STARTED",
      ...CALL,
      "TOOL_CALL_RESULT",
      ...TEXT,
      ...CALL,
      "TOOL_CALL_RESULT",
      ...TEXT,
      "RUN_FINISHED",
    ]);
    assert.deepEqual([page.open, page.said.at(-1)], [[], "assistant: I cannot print."]);
    assert.deepEqual(page.said.slice(1, 3), ['assistant: client_laptop_greet {"name":"Ada"}', "tool: Hello, Ada!"]);
    assert.deepEqual(run.last.outcome, protocolVersion && { type: "success" });
    // All of it comes back with the next message: nothing is told to the model twice.
    upstream.says("Thanks.", { content: "Welcome." });
    await page.say("Thanks.");
    assert.deepEqual(told(upstream.asked.all[3]).length, 7);
  });

  test(`${name}: a picture that a client's tool gives: in the result if the page can take it`, async (test) => {
    const { server, upstream } = await start(test);
    const picture = { mime: "image/png", filename: "dot.png", url: `data:image/png;base64,${DOT}` };
    const look = { run: () => ({ output: "a dot", attachments: [picture] }) };
    await Laptop.connect(test, server, "laptop", { look });
    upstream.says("Look.", { toolCalls: [call("call_1", "client_laptop_look")] });
    upstream.says("And now?", { content: "The same." });
    upstream.says("", { content: "I see." });
    const page = new AguiPage(test, server, client, { forwardedProps: { clientID: "laptop" } });

    const run = await page.say("Look.");

    const [{ content }] = run.all("TOOL_CALL_RESULT");
    const source = { type: "data", value: DOT, mimeType: "image/png" };
    if (protocolVersion) {
      assert.deepEqual(content, [
        { type: "text", text: "a dot" },
        { type: "image", source, metadata: { filename: "dot.png" } },
      ]);
    } else assert.equal(content, "a dot");
    // The client sends it back as it was: it is known already.
    await page.say("And now?");
    assert.equal(page.said.at(-1), "assistant: The same.");
  });

  test(`${name}: input that does not fit is not handed to the page`, async (test) => {
    const { server, upstream } = await start(test);
    upstream.says("A color?", { toolCalls: [call("call_1", "pick", { title: 1 })] });
    upstream.says("picked a color", { content: "So be it." });
    upstream.says('"string"', { toolCalls: [call("call_2", "pick", { title: "a color" })] });
    const page = new AguiPage(test, server, client, { tools: TOOLS });

    const run = await page.say("A color?");

    assert.deepEqual(
      run.all("TOOL_CALL_RESULT").map(({ toolCallId }) => toolCallId),
      [run.all("TOOL_CALL_START")[0].toolCallId],
    );
    assert.deepEqual(
      page.open.map(({ input }) => input),
      [{ title: "a color" }],
    );
    page.answer();
    await page.run();
    assert.equal(page.said.at(-1), "assistant: So be it.");
  });

  test(`${name}: thoughts, calls and texts in any order of one step, in small pieces`, async (test) => {
    const { server, upstream } = await start(test);
    const { name: tool, arguments: input } = call("", "pick", { title: "a coloúr 🎨" });
    upstream.says(
      "A color?",
      {
        reasoning: "They want a color.",
        blocks: [
          { type: "toolCall", id: "call_1", name: tool, arguments: input },
          { type: "text", text: "I ask." },
          { type: "toolCall", id: "call_2", name: "locate", arguments: "{}" },
          { type: "text", text: "And look." },
        ],
      },
      { chunkSize: 3 },
    );
    upstream.says("Oslo", { content: "So be it." });
    const page = new AguiPage(test, server, client, { tools: TOOLS });

    const first = await page.say("A color?");

    assert.deepEqual(
      page.open.map(({ name, input }) => [name, input]),
      [
        ["pick", { title: "a coloúr 🎨" }],
        ["locate", {}],
      ],
    );
    assert.ok(first.all("TOOL_CALL_ARGS").length > 4, "the arguments come in pieces");
    // No message is there twice.
    const ids = page.agent.messages.map(({ id }) => id);
    assert.deepEqual(ids, [...new Set(ids)]);
    const texts = page.agent.messages.map((message) => (message.role === "assistant" ? message.content : ""));
    assert.equal(texts.join(""), "I ask.And look.");

    page.answer();
    await page.run();

    assert.equal(page.said.at(-1), "assistant: So be it.");
    assert.deepEqual(results(upstream.asked.all[1]), { call_1: "picked a coloúr 🎨", call_2: "Oslo" });
  });

  test(`${name}: calls that cannot be made: of no tool, and with arguments that are no JSON`, async (test) => {
    const { server, upstream } = await start(test);
    upstream.says("Go.", {
      toolCalls: [call("call_1", "fly"), { id: "call_2", name: "pick", arguments: '{"title": "a c' }],
    });
    upstream.says("", { content: "I cannot." });
    const page = new AguiPage(test, server, client, { tools: TOOLS });

    const run = await page.say("Go.");

    const calls = run.all("TOOL_CALL_START").map(({ toolCallId }) => toolCallId);
    assert.deepEqual(
      run
        .all("TOOL_CALL_RESULT")
        .map(({ toolCallId }) => toolCallId)
        .toSorted(),
      calls.toSorted(),
    );
    assert.deepEqual([calls.length, page.said.at(-1), run.last.type], [2, "assistant: I cannot.", "RUN_FINISHED"]);
  });

  test(`${name}: a run that is aborted takes its call back from the client`, async (test) => {
    const { server, upstream } = await start(test);
    const laptop = await Laptop.connect(test, server, "laptop", { wait: NEVER_DONE });
    upstream.says("Wait.", { toolCalls: [call("call_1", "client_laptop_wait")] });
    upstream.says("And now?", { content: "Done waiting." });
    const page = new AguiPage(test, server, client, { forwardedProps: { clientID: "laptop" } });

    const said = page.say("Wait.");
    const { requestID } = await laptop.calls.until("the client is called", () => true);
    // Before it has an answer at all, the published client tells of no end.
    await until("the page has seen the call", async () => page.open.length === 1);
    page.agent.abortRun();
    await said;

    await laptop.cancelled.until("the call is taken back", (cancelled) => cancelled.requestID === requestID);
    await until("the turn is over", async () => {
      const { body } = await ask(server, "/session/status");
      return body.thread === undefined || body.thread.type === "idle";
    });
    assert.equal(page.ends[0].code, "abort");
    assert.equal(upstream.asked.all.length, 1);
    await page.say("And now?");
    assert.equal(page.said.at(-1), "assistant: Done waiting.");
  });

  test(`${name}: a turn that is stopped elsewhere is a run that was cancelled`, async (test) => {
    const { server, upstream } = await start(test);
    const laptop = await Laptop.connect(test, server, "laptop", { wait: NEVER_DONE });
    upstream.says("Wait.", { toolCalls: [call("call_1", "client_laptop_wait")] });
    const page = new AguiPage(test, server, client, { forwardedProps: { clientID: "laptop" } });

    const said = page.say("Wait.");
    await laptop.calls.until("the client is called", () => true);
    await ask(server, "/session/thread/abort", { method: "POST" });
    const run = await said;

    if (protocolVersion) assert.deepEqual([run.last.type, run.last.outcome], ["RUN_FINISHED", { type: "cancelled" }]);
    else assert.deepEqual([run.last.type, run.last.code], ["RUN_ERROR", "cancelled"]);
  });

  test(`${name}: a tool of the page with the name of another is refused`, async (test) => {
    const server = await Server.start(test);
    const tools = { list_tools: { run: () => "" } };
    const page = new AguiPage(test, server, client, { tools, complaints: /HTTP 400/ });

    await assert.rejects(page.say("Hello"), (/** @type {any} */ error) => {
      assert.deepEqual([error.status, error.payload.code], [400, "INVALID_REQUEST"]);
      assert.match(error.payload.error, /"list_tools" has the name of another/);
      return true;
    });
  });

  test(`${name}: the page's own name of a tool, whatever the model calls it`, async (test) => {
    const { server, upstream } = await start(test);
    const names = () => upstream.asked.all.map(({ body }) => body.tools.map(({ function: { name } }) => name));
    upstream.says("Where?", () => ({ toolCalls: [call("call_1", names()[0].at(-1))] }));
    upstream.says("Oslo", { content: "In Oslo." });
    const page = new AguiPage(test, server, client, { tools: { "where.am:i": TOOLS.locate } });

    await page.converse("Where?");

    assert.match(names()[0].at(-1), /^[\w-]{1,64}$/);
    assert.deepEqual(page.said, ["user: Where?", "assistant: where.am:i {}", "tool: Oslo", "assistant: In Oslo."]);
    assert.deepEqual(names()[1], names()[0]);
  });

  test(`${name}: without a key, the scripted model calls the tools of the page`, async (test) => {
    const server = await Server.start(test);
    const page = new AguiPage(test, server, client, { tools: TOOLS });

    await page.converse('call pick {"title": "a color"}\ncall locate {}');

    assert.deepEqual(page.said.slice(2, 4).toSorted(), ["tool: Oslo", "tool: picked a color"]);
    assert.match(page.said[4], /^assistant: .*Oslo/s);
    assert.equal(page.runs.length, 2);
  });
}
