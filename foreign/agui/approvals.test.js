// Calls that somebody has to allow: the run ends with an interrupt, and the next one answers it.

import assert from "node:assert/strict";

import { AguiPage, CLIENTS } from "../support/agui.js";
import { GREET, Laptop } from "../support/laptop.js";
import { test, until } from "../support/patience.js";
import { CALL, TEXT, TOOLS, ask, call, results, start } from "./setup.js";

const ASK = `
[agents.default.permission]
client_tools = "ask"
`;
const APPROVED = { status: "resolved", payload: { approved: true } };
const DENIED = { status: "resolved", payload: { approved: false } };

/**
 * A page whose model has called a client's tool that has to be allowed, once for each name.
 *
 * @param {import("node:test").TestContext} test
 * @param {import("../support/agui.js").Client} client
 * @param {{ config?: string, names?: string[] }} [settings]
 */
async function interrupted(test, client, { config = "", names = ["Ada"] } = {}) {
  const { server, upstream } = await start(test, ASK + config);
  const laptop = await Laptop.connect(test, server, "laptop", { greet: GREET });
  const toolCalls = names.map((name, place) => call(`call_${place + 1}`, "client_laptop_greet", { name }));
  upstream.says("Greet.", { content: "With pleasure.", toolCalls });
  upstream.says("!", { content: "Greeted." });
  const settings = { tools: TOOLS, forwardedProps: { clientID: "laptop" } };
  const page = new AguiPage(test, server, client, settings);
  const run = await page.say("Greet.");
  const { pendingInterrupts: interrupts } = page.agent;
  return { server, upstream, laptop, settings, page, run, interrupts };
}

for (const client of CLIENTS) {
  const { name } = client;

  test(`${name}: an interrupt says what is to be allowed, and until when`, async (test) => {
    const { laptop, run, page, interrupts } = await interrupted(test, client);

    assert.deepEqual(run.story, ["RUN_STARTED", ...TEXT, ...CALL, "RUN_FINISHED"]);
    const [{ toolCallId }] = run.all("TOOL_CALL_START");
    const [{ id, message, responseSchema, expiresAt = "", ...rest }, ...more] = interrupts;
    assert.deepEqual([rest, more], [{ reason: "tool_call", toolCallId }, []]);
    assert.deepEqual(run.last.outcome, { type: "interrupt", interrupts });
    assert.match(id, /\S/);
    assert.match(message ?? "", /greet/);
    assert.deepEqual(Object.keys(responseSchema?.properties ?? {}).toSorted(), [
      "always",
      "approved",
      "editedArgs",
      "reason",
    ]);
    assert.ok(Date.parse(expiresAt) > Date.now(), expiresAt);
    assert.deepEqual([laptop.calls.all, page.ends[0].outcome], [[], "interrupt"]);
  });

  test(`${name}: an interrupt, allowed: the call is made, and the model goes on`, async (test) => {
    const { upstream, laptop, page, interrupts } = await interrupted(test, client);
    const [{ id, toolCallId }] = interrupts;

    const run = await page.resume({ [id]: APPROVED });

    // The call was told before: only what came of it is told now.
    assert.deepEqual(run.story, ["RUN_STARTED", "TOOL_CALL_RESULT", ...TEXT, "RUN_FINISHED"]);
    const [{ toolCallId: answered, content }] = run.all("TOOL_CALL_RESULT");
    assert.deepEqual([answered, content], [toolCallId, "Hello, Ada!"]);
    assert.deepEqual(
      laptop.calls.all.map(({ input }) => input),
      [{ name: "Ada" }],
    );
    assert.deepEqual(results(upstream.asked.all[1]), { call_1: "Hello, Ada!" });
    assert.deepEqual([page.agent.pendingInterrupts, page.said.at(-1)], [[], "assistant: Greeted."]);
  });

  for (const { how, response, refusal } of [
    { how: "denied", response: DENIED, refusal: "The user rejected this call" },
    {
      how: "denied for a reason",
      response: { status: "resolved", payload: { approved: false, reason: "not by me" } },
      refusal: "not by me",
    },
    { how: "cancelled", response: { status: "cancelled" }, refusal: "The user cancelled this call" },
  ]) {
    test(`${name}: an interrupt, ${how}: nothing runs, and the model is told`, async (test) => {
      const { upstream, laptop, page, interrupts } = await interrupted(test, client);
      upstream.says("", { content: "Then not." });
      const [{ id, toolCallId }] = interrupts;

      const run = await page.resume({ [id]: response });

      assert.deepEqual(run.story, ["RUN_STARTED", "TOOL_CALL_RESULT", ...TEXT, "RUN_FINISHED"]);
      const [{ toolCallId: answered, content }] = run.all("TOOL_CALL_RESULT");
      assert.deepEqual([answered, content], [toolCallId, refusal]);
      assert.deepEqual(results(upstream.asked.all[1]), { call_1: refusal });
      assert.deepEqual([laptop.calls.all, page.agent.pendingInterrupts, page.open], [[], [], []]);
    });
  }

  test(`${name}: an interrupt, allowed with other arguments`, async (test) => {
    const { upstream, laptop, page, interrupts } = await interrupted(test, client);
    const [{ id }] = interrupts;

    await page.resume({ [id]: { status: "resolved", payload: { approved: true, editedArgs: { name: "Grace" } } } });

    assert.deepEqual(
      laptop.calls.all.map(({ input }) => input),
      [{ name: "Grace" }],
    );
    assert.deepEqual(results(upstream.asked.all[1]), { call_1: "Hello, Grace!" });
  });

  test(`${name}: arguments that do not fit, or no answer at all, answer nothing`, async (test) => {
    const { laptop, page, interrupts, server, settings } = await interrupted(test, client);
    const [{ id: interruptId }] = interrupts;
    const payloads = [{ approved: true, editedArgs: { name: 1 } }, { approved: "yes" }, {}, undefined];

    for (const payload of payloads) {
      // A new page: the client that was told of an error would take the interrupt for answered.
      const other = new AguiPage(test, server, client, { ...settings, messages: page.agent.messages });
      const run = await other.run({ resume: [{ interruptId, status: "resolved", ...(payload && { payload }) }] });
      assert.deepEqual([run.story, run.last.code], [["RUN_STARTED", "RUN_ERROR"], "invalid_resume"]);
    }
    assert.deepEqual(laptop.calls.all, []);

    await page.resume({ [interruptId]: APPROVED });
    assert.equal(page.said.at(-1), "assistant: Greeted.");
  });

  test(`${name}: an interrupt that is not there`, async (test) => {
    const { upstream, laptop, page, interrupts, server, settings } = await interrupted(test, client);
    const approve = (/** @type {string} */ interruptId) => ({ interruptId, ...APPROVED });
    const among = new AguiPage(test, server, client, { ...settings, messages: page.agent.messages });
    const alone = new AguiPage(test, server, client, { ...settings, threadId: "another thread" });

    const runs = [
      await among.run({ resume: [approve(interrupts[0].id), approve("another")] }),
      await alone.run({ resume: [approve("another")] }),
    ];

    for (const { story, last } of runs) {
      assert.deepEqual([story, last.code], [["RUN_STARTED", "RUN_ERROR"], "unknown_interrupt"]);
    }
    assert.deepEqual([laptop.calls.all, upstream.asked.all.length], [[], 1]);
  });

  test(`${name}: an interrupt that nobody answered in time`, async (test) => {
    const late = await interrupted(test, client, { config: "[clientTools]\napprovalTimeout = 50" });
    const { upstream, laptop, page, interrupts, server, settings } = late;
    upstream.says("Well?", { content: "Too late." });
    upstream.says("", { content: "Nobody says whether I may." });
    const [{ id: interruptId, expiresAt = "" }] = interrupts;
    await until("it has expired, and its turn is over", async () => {
      const { body } = await ask(server, "/session/status");
      return Date.now() > Date.parse(expiresAt) && body.thread?.type !== "busy";
    });
    const other = new AguiPage(test, server, client, { ...settings, messages: page.agent.messages });

    const run = await other.run({ resume: [{ interruptId, ...APPROVED }] });

    assert.deepEqual([run.story, run.last.code], [["RUN_STARTED", "RUN_ERROR"], "unknown_interrupt"]);
    await other.say("Well?");
    assert.deepEqual([other.said.at(-1), laptop.calls.all], ["assistant: Too late.", []]);
  });

  test(`${name}: an interrupt that nobody answered in time, while the model is told so`, async (test) => {
    const late = await interrupted(test, client, { config: "[clientTools]\napprovalTimeout = 50" });
    const { upstream, laptop, page, interrupts, server, settings } = late;
    const never = { ttftMs: 60_000, interChunkDelaysMs: [], totalDurationMs: 60_000 };
    upstream.says("", { content: "Nobody says whether I may." }, { recordedTimings: never });
    const [{ id: interruptId }] = interrupts;
    await upstream.asked.until("the model is told", ({ body }) => body.messages.at(-1).role === "tool");
    const other = new AguiPage(test, server, client, { ...settings, messages: page.agent.messages });

    const run = await other.run({ resume: [{ interruptId, ...APPROVED }] });

    assert.deepEqual([run.story, run.last.code], [["RUN_STARTED", "RUN_ERROR"], "unknown_interrupt"]);
    assert.deepEqual(laptop.calls.all, []);
  });

  test(`${name}: nothing else is answered while an interrupt is open`, async (test) => {
    const { upstream, page, server, settings } = await interrupted(test, client);
    // The client itself refuses to, as long as it knows of the interrupt.
    await assert.rejects(page.say("Hurry up!"), /pending interrupt/);
    const other = new AguiPage(test, server, client, { ...settings, messages: page.agent.messages });

    const run = await other.run();

    assert.deepEqual([run.story, run.last.code], [["RUN_STARTED", "RUN_ERROR"], "interrupts_open"]);
    assert.equal(upstream.asked.all.length, 1);
  });

  test(`${name}: several interrupts of one step are answered at once`, async (test) => {
    const { upstream, laptop, page, interrupts, server, settings } = await interrupted(test, client, {
      names: ["Grace", "Ada"],
    });
    const [first, second] = interrupts;
    const other = new AguiPage(test, server, client, { ...settings, messages: page.agent.messages });

    const half = await other.run({ resume: [{ interruptId: first.id, ...APPROVED }] });
    assert.deepEqual([half.last.type, half.last.code], ["RUN_ERROR", "interrupts_open"]);
    assert.deepEqual(laptop.calls.all, []);
    const run = await page.resume({ [first.id]: DENIED, [second.id]: APPROVED });

    assert.deepEqual(
      laptop.calls.all.map(({ input }) => input),
      [{ name: "Ada" }],
    );
    assert.deepEqual(
      run
        .all("TOOL_CALL_RESULT")
        .map(({ toolCallId }) => toolCallId)
        .toSorted(),
      [first.toolCallId, second.toolCallId].toSorted(),
    );
    assert.deepEqual(results(upstream.asked.all[1]), {
      call_1: "The user rejected this call",
      call_2: "Hello, Ada!",
    });
  });

  test(`${name}: the same answer again makes no call again`, async (test) => {
    const { laptop, page, interrupts, server, settings } = await interrupted(test, client);
    const [{ id: interruptId }] = interrupts;
    const resume = [{ interruptId, ...APPROVED }];
    const messages = [...page.agent.messages];
    await page.run({ resume });

    const other = new AguiPage(test, server, client, { ...settings, messages });
    await other.run({ resume });

    assert.equal(laptop.calls.all.length, 1);
  });

  test(`${name}: what is always allowed is not asked again`, async (test) => {
    const { upstream, laptop, page, interrupts } = await interrupted(test, client);
    const [{ id }] = interrupts;
    await page.resume({ [id]: { status: "resolved", payload: { approved: true, always: true } } });
    upstream.says("Again.", { toolCalls: [call("call_9", "client_laptop_greet", { name: "Grace" })] });

    await page.say("Again.");

    assert.deepEqual(
      laptop.calls.all.map(({ input }) => input),
      [{ name: "Ada" }, { name: "Grace" }],
    );
  });

  test(`${name}: a tool of the page that is asked for, beside one of a client`, async (test) => {
    const { server, upstream } = await start(test, ASK);
    const laptop = await Laptop.connect(test, server, "laptop", { greet: GREET });
    const toolCalls = [call("call_1", "client_laptop_greet", { name: "Ada" }), call("call_2", "locate")];
    upstream.says("Both.", { toolCalls });
    upstream.says("Oslo", { content: "Got both." });
    const settings = { tools: TOOLS, forwardedProps: { clientID: "laptop" } };
    const page = new AguiPage(test, server, client, settings);
    await page.say("Both.");
    const { pendingInterrupts: interrupts } = page.agent;

    await page.resume(Object.fromEntries(interrupts.map(({ id }) => [id, APPROVED])));

    assert.deepEqual([laptop.calls.all.length, page.agent.pendingInterrupts], [1, []]);
    assert.deepEqual(
      page.open.map(({ name }) => name),
      ["locate"],
    );
    page.answer();
    await page.run();
    assert.deepEqual(results(upstream.asked.all[1]), { call_1: "Hello, Ada!", call_2: "Oslo" });
    assert.equal(page.said.at(-1), "assistant: Got both.");
  });
}
