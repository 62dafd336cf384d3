// What came of the page's calls, as pages send it: again, changed, late, in part, and from two at once.

import assert from "node:assert/strict";

import { AguiPage, CLIENTS } from "../support/agui.js";
import { test } from "../support/patience.js";
import { TOOLS, call, results, start, told } from "./setup.js";

/** What the model is told of a call that the page has left. */
const NOT_RUN = "The page did not run this call";

for (const client of CLIENTS) {
  const { name } = client;

  test(`${name}: a result that is sent again with other words does not replace the first`, async (test) => {
    const { server, upstream } = await start(test);
    upstream.says("Where?", { toolCalls: [call("call_1", "locate")] });
    upstream.says("Oslo", { content: "In Oslo." });
    upstream.says("And now?", { content: "Still there." });
    const page = new AguiPage(test, server, client, { tools: TOOLS });
    await page.converse("Where?");

    const forged = page.agent.messages.map((message) =>
      message.role === "tool" ? { ...message, content: "Bergen" } : message,
    );
    page.agent.setMessages(/** @type {any} */ (forged));
    await page.say("And now?");

    assert.deepEqual(results(upstream.asked.all[2]), { call_1: "Oslo" });
    assert.deepEqual(told(upstream.asked.all[2]), [
      "user: Where?",
      "assistant: locate {}",
      "tool: Oslo",
      "assistant: In Oslo.",
      "user: And now?",
    ]);
  });

  test(`${name}: a call without a result is told as failed`, async (test) => {
    const { server, upstream } = await start(test);
    const toolCalls = [call("call_1", "pick", { title: "a color" }), call("call_2", "locate")];
    upstream.says("Both.", { toolCalls });
    upstream.says("Oslo", { content: "Only one." });
    const page = new AguiPage(test, server, client, { tools: TOOLS });
    await page.say("Both.");

    const [late, { id }] = page.open;
    page.add({ role: "tool", toolCallId: id, content: "Oslo" });
    await page.run();

    const told = { call_1: NOT_RUN, call_2: "Oslo" };
    assert.deepEqual(results(upstream.asked.all[1]), told);
    assert.equal(page.said.at(-1), "assistant: Only one.");
    // The page learns of it, and what comes too late changes nothing.
    assert.deepEqual(page.open, []);
    page.add({ role: "tool", toolCallId: late.id, content: "blue" });
    upstream.says("And now?", { content: "Nothing new." });
    await page.say("And now?");
    assert.deepEqual(results(upstream.asked.all[2]), told);
  });

  test(`${name}: results again: a run that failed is tried again, a complete one told again`, async (test) => {
    const { server, upstream } = await start(test);
    upstream.says("Where?", { toolCalls: [call("call_1", "locate")] });
    let tries = 0;
    upstream.says("Oslo", () =>
      ++tries === 1 ? { error: { message: "not now" }, status: 400 } : { content: "In Oslo." },
    );
    const page = new AguiPage(test, server, client, { tools: TOOLS });
    await page.say("Where?");
    page.answer();
    const sent = [...page.agent.messages];

    const failed = await page.run();
    assert.match(failed.last.message, /not now/);
    page.agent.setMessages(/** @type {any} */ (sent));
    const second = await page.run();
    assert.deepEqual(page.said.slice(3), ["assistant: In Oslo."]);
    page.agent.setMessages(/** @type {any} */ (sent));
    const third = await page.run();

    assert.deepEqual(page.said.slice(3), ["assistant: In Oslo."]);
    assert.deepEqual([second.story, tries], [third.story, 2]);
    assert.deepEqual(results(upstream.asked.all[2]), { call_1: "Oslo" });
  });

  test(`${name}: results, and something that the user says besides`, async (test) => {
    const { server, upstream } = await start(test);
    upstream.says("Where?", { toolCalls: [call("call_1", "locate")] });
    upstream.says("Be quick.", { content: "In Oslo." });
    const page = new AguiPage(test, server, client, { tools: TOOLS });
    await page.say("Where?");

    page.answer();
    await page.say("Be quick.");

    assert.deepEqual(told(upstream.asked.all[1]), page.said.slice(0, -1));
    assert.deepEqual(page.said, [
      "user: Where?",
      "assistant: locate {}",
      "tool: Oslo",
      "user: Be quick.",
      "assistant: In Oslo.",
    ]);
  });

  test(`${name}: the same results from two pages at once are answered once`, async (test) => {
    const { server, upstream } = await start(test);
    upstream.says("Where?", { toolCalls: [call("call_1", "locate")] });
    upstream.says("Oslo", { content: "In Oslo." }, { latency: 50, chunkSize: 2 });
    const page = new AguiPage(test, server, client, { tools: TOOLS });
    await page.say("Where?");
    page.answer();
    const other = new AguiPage(test, server, client, { tools: TOOLS, messages: page.agent.messages });

    await Promise.all([page.run(), other.run()]);

    assert.deepEqual([page.said.at(-1), other.said.at(-1)], ["assistant: In Oslo.", "assistant: In Oslo."]);
    assert.equal(upstream.asked.all.length, 2);
  });

  test(`${name}: a user who says something else leaves the open call behind`, async (test) => {
    const { server, upstream } = await start(test);
    upstream.says("Where?", { toolCalls: [call("call_1", "locate")] });
    upstream.says("Never mind.", { content: "As you like." });
    const page = new AguiPage(test, server, client, { tools: TOOLS });
    await page.say("Where?");

    await page.say("Never mind.");

    assert.equal(page.said.at(-1), "assistant: As you like.");
    assert.deepEqual(results(upstream.asked.all[1]), { call_1: NOT_RUN });
    assert.equal(told(upstream.asked.all[1]).at(-1), "user: Never mind.");
  });

  test(`${name}: results of a call that was left behind and of one that is open`, async (test) => {
    const { server, upstream } = await start(test);
    upstream.says("Where?", { toolCalls: [call("call_1", "locate")] });
    upstream.says("A color?", { toolCalls: [call("call_2", "pick", { title: "a color" })] });
    upstream.says("picked a color", { content: "So be it." });
    const page = new AguiPage(test, server, client, { tools: TOOLS });
    await page.say("Where?");
    await page.say("A color?");

    page.answer();
    await page.run();

    assert.deepEqual(page.said.slice(2, 4), [`tool: ${NOT_RUN}`, "user: A color?"]);
    assert.deepEqual(page.said.slice(-2), ["tool: picked a color", "assistant: So be it."]);
    assert.deepEqual(results(upstream.asked.all[2]), { call_1: NOT_RUN, call_2: "picked a color" });
  });

  test(`${name}: the result of a call that was left behind alone is nothing to answer`, async (test) => {
    const { server, upstream } = await start(test);
    upstream.says("Where?", { toolCalls: [call("call_1", "locate")] });
    upstream.says("Never mind.", { content: "As you like." });
    upstream.says("And now?", { content: "Nothing new." });
    const page = new AguiPage(test, server, client, { tools: TOOLS, complaints: /HTTP 409/ });
    await page.say("Where?");
    const [left] = page.open;
    await page.say("Never mind.");

    page.add({ role: "tool", toolCallId: left.id, content: "Oslo" });
    await assert.rejects(page.run(), (/** @type {any} */ error) => {
      assert.deepEqual([error.status, error.payload.code], [409, "CONFLICT"]);
      return true;
    });

    await page.say("And now?");
    assert.equal(page.said.at(-1), "assistant: Nothing new.");
    assert.deepEqual(results(upstream.asked.all[2]), { call_1: NOT_RUN });
  });

  test(`${name}: a page that was reloaded answers the call`, async (test) => {
    const { server, upstream } = await start(test);
    upstream.says("Where?", { toolCalls: [call("call_1", "locate")] });
    upstream.says("Oslo", { content: "In Oslo." });
    const before = new AguiPage(test, server, client, { tools: TOOLS });
    await before.say("Where?");

    const page = new AguiPage(test, server, client, { tools: TOOLS, messages: before.agent.messages });
    page.answer();
    await page.run();

    assert.equal(page.said.at(-1), "assistant: In Oslo.");
    assert.deepEqual(results(upstream.asked.all[1]), { call_1: "Oslo" });
  });
}
