// Runs without tools, as npm `@ag-ui/client` has them with an agent of its own kind.

import assert from "node:assert/strict";
import { createHash } from "node:crypto";

import { AgentCapabilitiesSchema as OldCapabilities } from "ag-ui-core-0";
import { AgentCapabilitiesSchema as Capabilities } from "ag-ui-core-1/schemas";

import { AguiPage, CLIENTS } from "../support/agui.js";
import { test, until, within } from "../support/patience.js";
import { Provider } from "../support/provider.js";
import { Server } from "../support/server.js";
import { DOT, TEXT, ask, instructions, start, told } from "./setup.js";

for (const client of CLIENTS) {
  const { name, protocolVersion } = client;
  const success = protocolVersion && { type: "success" };

  test(`${name}: a plain answer`, async (test) => {
    const { server, upstream } = await start(test);
    upstream.says("Hello", { content: "Hello to you." });
    const page = new AguiPage(test, server, client);

    const run = await page.say("Hello");

    assert.deepEqual(page.said, ["user: Hello", "assistant: Hello to you."]);
    assert.deepEqual(run.story, ["RUN_STARTED", ...TEXT, "RUN_FINISHED"]);
    assert.deepEqual([run.input.protocolVersion, run.last.outcome], [protocolVersion, success]);
    assert.equal(page.ends[0].outcome, "success");
    // What the server keeps is what the page shows, under the same id.
    const { body: stored } = await ask(server, "/session/thread/message");
    assert.equal(stored.at(-1).info.id, page.agent.messages[1].id);
  });

  test(`${name}: what is said later knows what was said before, once`, async (test) => {
    const { server, upstream } = await start(test);
    upstream.says("I am Ada", { content: "Hello, Ada." });
    upstream.says("Who am I?", { content: "You are Ada." });
    const page = new AguiPage(test, server, client);

    await page.say("I am Ada");
    await page.say("Who am I?");

    const said = ["user: I am Ada", "assistant: Hello, Ada.", "user: Who am I?"];
    assert.deepEqual(page.said, [...said, "assistant: You are Ada."]);
    assert.deepEqual(told(upstream.asked.all[1]), said);
  });

  test(`${name}: the history of a thread that the server does not know is taken over`, async (test) => {
    const { server, upstream } = await start(test);
    upstream.says("Who am I?", { content: "You are Ada." });
    const messages = [
      { id: "1", role: "user", content: "I am Ada" },
      { id: "2", role: "assistant", content: "Let me see.", toolCalls: [toolCall("t", "locate", "{}")] },
      { id: "3", role: "tool", toolCallId: "t", content: "Oslo" },
      { id: "4", role: "assistant", content: "Hello, Ada of Oslo." },
    ];
    const page = new AguiPage(test, server, client, { messages });

    await page.say("Who am I?");

    assert.deepEqual(told(upstream.asked.all[0]), [
      "user: I am Ada",
      "assistant: Let me see. locate {}",
      "tool: Oslo",
      "assistant: Hello, Ada of Oslo.",
      "user: Who am I?",
    ]);
    assert.equal(page.said.at(-1), "assistant: You are Ada.");
  });

  test(`${name}: a history of others is told to the model as it can take it`, async (test) => {
    const { server, upstream } = await start(test);
    upstream.says("Who am I?", { content: "You are Ada." });
    const id = `call:${"1".repeat(60)}`;
    const messages = [
      { id: "1", role: "user", content: "I am Ada" },
      { id: "2", role: "assistant", toolCalls: [toolCall(id, "where.am:i", "{}"), toolCall("open", "locate", "{")] },
      { id: "3", role: "tool", toolCallId: id, content: "Oslo" },
    ];
    const page = new AguiPage(test, server, client, { messages });

    await page.say("Who am I?");

    const [, { tool_calls: calls }, ...results] = upstream.asked.all[0].body.messages.filter(
      ({ role }) => role !== "system",
    );
    for (const { function: made } of calls) {
      assert.match(made.name, /^[\w-]{1,64}$/);
      assert.doesNotThrow(() => JSON.parse(made.arguments));
    }
    // Each call has a result, and by its own id.
    assert.deepEqual(
      results.slice(0, 2).map(({ role, tool_call_id }) => [role, tool_call_id]),
      calls.map(({ id }) => ["tool", id]),
    );
    assert.equal(page.said.at(-1), "assistant: You are Ada.");
  });

  test(`${name}: the same question again is answered anew`, async (test) => {
    const { server, upstream } = await start(test);
    let answers = 0;
    upstream.says("A number?", () => ({ content: `${++answers}` }));
    const page = new AguiPage(test, server, client);
    await page.say("A number?");

    page.agent.setMessages(/** @type {any} */ (page.agent.messages.slice(0, 1)));
    await page.run();

    assert.deepEqual(page.said, ["user: A number?", "assistant: 2"]);
    assert.deepEqual(told(upstream.asked.all[1]), ["user: A number?"]);
  });

  test(`${name}: context, and what the application says to the model, are instructions`, async (test) => {
    const { server, upstream } = await start(test, '[agents.default]\nsystem = "Be kind."');
    upstream.says("Hello", { content: "Hello to you." });
    const page = new AguiPage(test, server, client, {
      context: [{ description: "The user's town", value: "Oslo" }],
      messages: [
        { id: "1", role: "system", content: "Be brief." },
        { id: "2", role: "developer", content: "Be exact." },
      ],
    });

    await page.say("Hello");

    const [asked] = upstream.asked.all;
    for (const words of ["Be kind.", "The user's town", "Oslo", "Be brief.", "Be exact."]) {
      assert.ok(instructions(asked).includes(words), `${words}\n${instructions(asked)}`);
    }
    assert.deepEqual(told(asked), ["user: Hello"]);
  });

  test(`${name}: images are shown to the model`, async (test) => {
    const { server, upstream } = await start(test);
    upstream.says("What is it?", { content: "A dot." });
    const page = new AguiPage(test, server, client);

    await page.say([
      { type: "image", source: { type: "data", value: DOT, mimeType: "image/png" } },
      { type: "text", text: "What is it?" },
    ]);

    const { content } = upstream.asked.all[0].body.messages.at(-1);
    assert.deepEqual(content, [
      { type: "image_url", image_url: { url: `data:image/png;base64,${DOT}` } },
      { type: "text", text: "What is it?" },
    ]);
    assert.equal(page.said.at(-1), "assistant: A dot.");
  });

  test(`${name}: what the model thinks`, async (test) => {
    const { server, upstream } = await start(test);
    upstream.says("Why?", { content: "Because.", reasoning: "They want a reason." });
    const page = new AguiPage(test, server, client);

    const run = await page.say("Why?");

    assert.deepEqual(run.story, [
      "RUN_STARTED",
      "REASONING_START",
      "REASONING_MESSAGE_START",
      "REASONING_MESSAGE_CONTENT",
      "REASONING_MESSAGE_END",
      "REASONING_END",
      ...TEXT,
      "RUN_FINISHED",
    ]);
    assert.deepEqual(page.said, ["user: Why?", "reasoning: They want a reason.", "assistant: Because."]);
    // The client sends it back with the rest; it is nothing that was said.
    upstream.says("Really?", { content: "Yes." });
    await page.say("Really?");
    assert.deepEqual(page.said.slice(3), ["user: Really?", "assistant: Yes."]);
    const [, asked] = upstream.asked.all;
    assert.deepEqual(told(asked), ["user: Why?", "assistant: Because.", "user: Really?"]);
  });

  test(`${name}: the state of the page comes back as it was`, async (test) => {
    const { server, upstream } = await start(test);
    upstream.says("Hello", { content: "Hello to you." });
    const state = { draft: { title: null, lines: [] } };
    const page = new AguiPage(test, server, client, { state });

    const run = await page.say("Hello");

    assert.deepEqual(run.events.all[1], { type: "STATE_SNAPSHOT", snapshot: state });
    assert.deepEqual([page.agent.state, run.all("STATE_SNAPSHOT").length], [state, 1]);
    assert.deepEqual(
      run.story.filter((type) => type !== "STATE_SNAPSHOT"),
      ["RUN_STARTED", ...TEXT, "RUN_FINISHED"],
    );
  });

  test(`${name}: what a run cost`, async (test) => {
    const { server, upstream } = await start(test);
    const usage = {
      prompt_tokens: 20,
      completion_tokens: 10,
      total_tokens: 30,
      prompt_tokens_details: { cached_tokens: 5 },
      completion_tokens_details: { reasoning_tokens: 4 },
    };
    upstream.says("Hello", { content: "Hello to you.", usage });
    const page = new AguiPage(test, server, client);

    const run = await page.say("Hello");

    const [{ provider, model, inputTokens, outputTokens }, ...more] = run.last.usage;
    assert.deepEqual([provider, model, inputTokens, outputTokens, more], ["mock", "some-model", 20, 10, []]);
  });

  test(`${name}: another model, as forwardedProps say`, async (test) => {
    const { server, upstream } = await start(test);
    upstream.says("Hello", { content: "Hello to you." });
    const page = new AguiPage(test, server, client, { forwardedProps: { model: "mock/another-model" } });

    await page.say("Hello");

    assert.equal(upstream.asked.all[0].body.model, "another-model");
  });

  test(`${name}: an agent by its name, and what it says it can do`, async (test) => {
    const { server, upstream } = await start(test, '[agents.pirate]\nsystem = "Talk like a pirate."');
    upstream.says("Hello", { content: "Arr." });
    const page = new AguiPage(test, server, client, { path: "/agui/pirate" });

    await page.say("Hello");

    assert.match(instructions(upstream.asked.all[0]), /Talk like a pirate/);
    for (const path of ["/agui", "/agui/pirate"]) {
      const { status, body } = await ask(server, path);
      assert.equal(status, 200);
      assert.deepEqual(Capabilities.parse(body), OldCapabilities.parse(body));
      assert.equal(body.tools.clientProvided, true);
      assert.equal(body.humanInTheLoop.interrupts, true);
    }
    assert.equal((await ask(server, "/agui/nobody")).status, 404);
  });

  test(`${name}: an agent that is not there`, async (test) => {
    const server = await Server.start(test);
    const page = new AguiPage(test, server, client, { path: "/agui/nobody", complaints: /HTTP 404/ });

    await assert.rejects(page.say("Hello"), (/** @type {any} */ error) => {
      assert.deepEqual([error.status, error.payload.code], [404, "NOT_FOUND"]);
      assert.match(error.payload.error, /nobody/);
      return true;
    });
  });

  test(`${name}: with a key, as a header says it, and without`, async (test) => {
    const key = "sk-of-the-application";
    const digest = createHash("sha256").update(key).digest("hex");
    const server = await Server.start(test, { config: `[auth]\nkeys = ["${digest}"]` });
    const page = new AguiPage(test, server, client, { headers: { Authorization: `Bearer ${key}` } });
    const stranger = new AguiPage(test, server, client, { complaints: /HTTP 401/ });

    await page.say("Hello");

    assert.match(page.said.at(-1) ?? "", /^assistant: \S/);
    await assert.rejects(stranger.say("Hello"), (/** @type {any} */ error) => {
      assert.deepEqual([error.status, error.payload.code], [401, "UNAUTHORIZED"]);
      return true;
    });
  });

  test(`${name}: an error of the provider ends the run, and the next message is answered`, async (test) => {
    const { server, upstream } = await start(test);
    upstream.says("fail", { error: { message: "the model is on holiday" }, status: 400 });
    upstream.says("well?", { content: "I am back" });
    const page = new AguiPage(test, server, client);

    const run = await page.say("fail");

    assert.deepEqual(run.story, ["RUN_STARTED", "RUN_ERROR"]);
    assert.match(run.last.message, /the model is on holiday/);
    assert.equal(page.ends[0].message, run.last.message);

    await page.say("well?");

    assert.equal(page.said.at(-1), "assistant: I am back");
  });

  test(`${name}: an answer that breaks off: what was said is there, and the run fails`, async (test) => {
    const { server, upstream } = await start(test);
    const story = "Once upon a time there was a tape.";
    upstream.says("Tell me.", { content: story }, { chunkSize: 5, latency: 20, truncateAfterChunks: 6 });
    const page = new AguiPage(test, server, client);

    const run = await page.say("Tell me.");

    assert.deepEqual(run.story, ["RUN_STARTED", ...TEXT, "RUN_ERROR"]);
    assert.match(run.last.message, /cut its answer short/);
    const [, answer] = page.agent.messages;
    assert.ok(answer.content && story.startsWith(String(answer.content)), String(answer.content));
  });

  test(`${name}: comments while the model is silent do no harm`, async (test) => {
    const provider = await Provider.start(test);
    const config = `model = "local/any"\n[clientTools]\nkeepaliveInterval = 20\n${provider.config}`;
    const server = await Server.start(test, { config });
    const page = new AguiPage(test, server, client);

    const said = page.say("Hello");
    const speech = await provider.asked();
    await page.until("RUN_STARTED");
    const quiet = async () => {
      const before = page.lastRun.comments.all.length;
      await page.lastRun.comments.until("two comments", () => page.lastRun.comments.all.length >= before + 2);
    };
    await quiet();
    speech.says("Hello ");
    await page.until("TEXT_MESSAGE_CONTENT");
    await quiet();
    speech.says("to you.");
    speech.ends();
    const run = await said;

    assert.deepEqual(run.story, ["RUN_STARTED", ...TEXT, "RUN_FINISHED"]);
    assert.equal(page.said.at(-1), "assistant: Hello to you.");
  });

  test(`${name}: a run that is aborted is over at the server, and the next message is answered`, async (test) => {
    const { server, upstream } = await start(test);
    const slow = { ttftMs: 0, interChunkDelaysMs: [0, 0, 60_000], totalDurationMs: 60_000 };
    upstream.says("Tell me.", { content: "A story without an end." }, { chunkSize: 5, recordedTimings: slow });
    upstream.says("And now?", { content: "The end." });
    const page = new AguiPage(test, server, client);

    const said = page.say("Tell me.");
    const asked = await upstream.asked.until("the model is asked", () => true);
    await page.until("TEXT_MESSAGE_CONTENT");
    page.agent.abortRun();
    await said;

    await within("the server lets go of the model", asked.abandoned);
    assert.equal(page.ends[0].code, "abort");
    await page.say("And now?");
    assert.equal(page.said.at(-1), "assistant: The end.");
  });

  test(`${name}: a run whose page has gone goes on, if the server is told so`, async (test) => {
    const provider = await Provider.start(test);
    const config = `model = "local/any"\n[agui]\nonDisconnect = "continue"\n${provider.config}`;
    const server = await Server.start(test, { config });
    const page = new AguiPage(test, server, client);

    const said = page.say("Hello");
    const speech = await provider.asked();
    speech.says("Hello ");
    await page.until("TEXT_MESSAGE_CONTENT");
    page.agent.abortRun();
    await said;
    // Word by word, so that the server has the time to see that the page has gone; somebody else reads along.
    const { body } = await fetch(`${server.url}/api/chat/thread/stream`, { signal: server.closing });
    const told = body?.pipeThrough(new TextDecoderStream()).getReader() ?? assert.fail("nothing is told");
    for (const word of ["to ", "you ", "and ", "to ", "all."]) {
      speech.says(word);
      await until(`"${word}" is told`, async () => (await told.read()).value?.includes(`"${word}"`) ?? false);
    }
    speech.ends();
    await until("the answer is there", async () => {
      const { body } = await ask(server, "/session/thread/message");
      return body.at(-1).parts.some(({ text }) => text === "Hello to you and to all.");
    });
  });

  test(`${name}: a server that is stopped ends its runs`, async (test) => {
    const provider = await Provider.start(test);
    const config = `model = "local/any"\n[limits]\ndrainTimeout = 100\n${provider.config}`;
    const server = await Server.start(test, { config });
    const page = new AguiPage(test, server, client);

    const said = page.say("Hello");
    const speech = await provider.asked();
    speech.says("Hel");
    await page.until("TEXT_MESSAGE_CONTENT");
    await server.stop("SIGTERM");
    const run = await said;

    assert.deepEqual(run.story, ["RUN_STARTED", ...TEXT, "RUN_ERROR"]);
    assert.equal(page.ends.length, 1);
  });

  test(`${name}: two pages of one thread: one is answered after the other, and leaves without it`, async (test) => {
    const provider = await Provider.start(test);
    const server = await Server.start(test, { config: `model = "local/any"\n${provider.config}` });
    const [one, two, three] = [1, 2, 3].map(() => new AguiPage(test, server, client));

    const saidByOne = one.say("I am one");
    const first = await provider.asked();
    const saidByTwo = two.say("I am two");
    await two.until("RUN_STARTED");
    const saidByThree = three.say("I am three");
    await three.until("RUN_STARTED");
    two.agent.abortRun();
    await saidByTwo;
    first.says("Hello, one.");
    first.ends();
    await saidByOne;
    const last = await provider.asked();
    last.says("Hello, three.");
    last.ends();
    await saidByThree;

    assert.deepEqual(one.said, ["user: I am one", "assistant: Hello, one."]);
    assert.deepEqual(three.said, ["user: I am three", "assistant: Hello, three."]);
  });

  test(`${name}: two threads at the same time do not hear each other`, async (test) => {
    const provider = await Provider.start(test);
    const server = await Server.start(test, { config: `model = "local/any"\n${provider.config}` });
    const [one, two] = ["one", "two"].map((threadId) => new AguiPage(test, server, client, { threadId }));

    const saidToOne = one.say("hello one");
    const first = await provider.asked();
    const saidToTwo = two.say("hello two");
    const second = await provider.asked();
    second.says("this is two");
    await two.until("TEXT_MESSAGE_CONTENT");
    first.says("this is one");
    first.ends();
    await saidToOne;
    assert.deepEqual([one.agent.isRunning, two.agent.isRunning], [false, true]);
    second.ends();
    await saidToTwo;

    assert.deepEqual(one.said, ["user: hello one", "assistant: this is one"]);
    assert.deepEqual(two.said, ["user: hello two", "assistant: this is two"]);
  });
}

/**
 * A call as it is in a message.
 *
 * @param {string} id
 * @param {string} name
 * @param {string} input
 */
function toolCall(id, name, input) {
  return { id, type: "function", function: { name, arguments: input } };
}
