// Those who talk while the server is killed: each says one thing after the other, and comes back until it is answered.

import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";

import { createOpencodeClient } from "@opencode-ai/sdk/v2";
import { lastAssistantMessageIsCompleteWithToolCalls } from "ai";

import { FrontendToolExecutor } from "../../sdk/typescript/dist/node.js";
import { AguiPage } from "../support/agui.js";
import { Page, textOf } from "../support/page.js";
import { until } from "../support/patience.js";

/** @typedef {import("./world.js").World} World */

/**
 * A conversation.
 *
 * @typedef {object} Talk
 * @property {string} session where it is kept
 * @property {string[]} tools what may be called in it
 * @property {(text: string) => Promise<string>} say gives the answer
 */

/** A tool of a page: the stream ends with the call, and the next request has its result. */
const PICK = {
  description: "Lets the user pick",
  parameters: { type: "object", properties: { word: { type: "string" } }, required: ["word"] },
};

/**
 * With Handback's own SDK.
 *
 * @param {World} world
 * @param {string} agent
 * @returns {Promise<Talk>}
 */
export async function talkWithSdk(world, agent) {
  const session = await world.client.startSession();
  const onPermission = () => /** @type {const} */ ("once");
  return {
    session: session.session.id,
    tools: ["read", "write"],
    say: async (text) => (await session.prompt(text, { agent, onPermission })).text,
  };
}

/**
 * With the SDK of opencode, which tries nothing again by itself.
 *
 * @param {World} world
 * @param {string} agent
 * @returns {Promise<Talk>}
 */
export async function talkWithOpencode(world, agent) {
  const opencode = createOpencodeClient({ baseUrl: world.server.url });
  const metadata = { clientID: "laptop" };
  const session = await world.insist("a session", async () => (await opencode.session.create({ metadata })).data);
  const sessionID = session.id;
  const allow = async () => {
    const { data: asks = [] } = await opencode.permission.list({});
    const own = asks.filter((ask) => ask.sessionID === sessionID);
    await Promise.all(own.map(({ id: requestID }) => opencode.permission.reply({ requestID, reply: "once" })));
  };
  const say = async (/** @type {string} */ text) => {
    const messageID = `msg_${randomUUID().replaceAll("-", "")}`;
    const parts = [{ type: /** @type {const} */ ("text"), text }];
    await world.insist("the prompt is taken", async () => {
      const { response } = await opencode.session.promptAsync({ sessionID, messageID, parts, agent });
      // It is there already.
      if (response?.status === 409) return true;
      return response?.ok ? true : undefined;
    });
    return world.insist("the prompt is answered", async () => {
      await allow();
      const { data: messages = [] } = await opencode.session.messages({ sessionID });
      const answers = messages.filter(({ info }) => info.role === "assistant" && info.parentID === messageID);
      const last = answers.at(-1);
      if (last?.info.role !== "assistant" || last.info.finish !== "stop") return undefined;
      return last.parts.map((part) => (part.type === "text" ? part.text : "")).join("");
    });
  };
  return { session: sessionID, tools: ["read", "write"], say };
}

/**
 * With the AI SDK's chat: tools of the laptop, a tool that the server leaves to the page, and a tool of the page's own. What
 * is cut off it takes up as a page that is loaded again.
 *
 * @param {World} world
 * @param {import("node:test").TestContext} test
 * @param {string} agent
 * @param {string} id its name begins with `chat`
 * @returns {Promise<Talk>}
 */
export async function talkWithAiSdk(world, test, agent, id) {
  const { server } = world;
  const executor = new FrontendToolExecutor({ baseUrl: server.url, claimant: id });
  const wordIn = (/** @type {{ url: string }} */ { url }) => url.slice("https://example.com/".length);
  executor.register("open-url", (/** @type {{ url: string }} */ input) => world.run(wordIn(input)));
  /** What came of the calls of the page's own tool, which are run once. */
  const picked = new Map();
  /**
   * A page that shows what was said before.
   *
   * @param {import("ai").UIMessage[]} messages
   */
  const load = (messages) =>
    new Page(test, server, {
      id,
      messages,
      body: { clientID: "laptop", agent, tools: [{ name: "pick", ...PICK }] },
      sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithToolCalls,
      onToolCall: executor.onToolCall,
    });
  /**
   * Runs the calls of the page's own tool that wait for that, and says whether there were any.
   *
   * @param {Page} page
   */
  const pick = async (page) => {
    const isOpen = (/** @type {any} */ part) => part.type === "tool-pick" && part.state === "input-available";
    const open = /** @type {any[]} */ (page.lastMessage?.parts.filter(isOpen) ?? []);
    for (const { toolCallId, input } of open) {
      if (!picked.has(toolCallId)) picked.set(toolCallId, await world.run(input.word));
      // With the last one the page asks for the answer.
      await page.addToolOutput({ tool: "pick", toolCallId, output: picked.get(toolCallId) });
    }
    return open.length > 0;
  };
  const stored = async () => {
    const { status, body } = await world.ask(`/api/chat/${id}`);
    assert.ok([200, 404].includes(status), `the chat: ${status}`);
    return /** @type {import("ai").UIMessage[]} */ (status === 404 ? [] : body.messages);
  };
  /**
   * The answer to the last message, if the page shows all of it.
   *
   * @param {Page} page
   */
  const shown = ({ status, lastMessage: last }) =>
    status === "ready" && last?.role === "assistant" && last.parts.at(-1)?.type === "text" ? textOf(last) : undefined;

  /** @type {import("ai").UIMessage[]} */
  let messages = [];
  const say = async (/** @type {string} */ text) => {
    let page = load(messages);
    await page.sendMessage({ text });
    const question = page.messages.findLast(({ role }) => role === "user");
    assert.ok(question);
    const answered = await world.insist(`${id}: "${text}" is answered`, async () => {
      await until("the page is settled", async () => ["ready", "error"].includes(page.status));
      if (shown(page) === undefined && (page.status === "error" || !(await pick(page)))) {
        const known = await stored();
        const isTaken = known.some((message) => message.id === question.id);
        page = load(isTaken ? known : [...messages, question]);
        // If the turn has ended since, there is nothing to resume, and the next page shows the answer.
        await (isTaken ? page.resumeStream() : page.sendMessage());
      }
      return shown(page);
    });
    messages = page.messages;
    return answered;
  };
  return { session: id, tools: ["read", "write", "open-url", "pick"], say };
}

/**
 * With a published AG-UI client, in a thread whose runs it asks for from their beginning until one has told all.
 *
 * @param {World} world
 * @param {import("node:test").TestContext} test
 * @param {string} agent
 * @param {import("../support/agui.js").Client} client
 * @returns {Promise<Talk>}
 */
export async function talkWithAgui(world, test, agent, client) {
  const room = `/api/v1/rooms/${agent}/agui`;
  const { body: thread } = await world.ask(room, {});
  const threadId = thread.thread_id;
  const path = `${room}/${threadId}`;
  const tools = { pick: { ...PICK, run: (/** @type {{ word: string }} */ { word }) => world.runAtOnce(word) } };
  let [runId] = Object.keys(thread.runs);
  /** @type {any[]} */
  let messages = [];
  let isFirst = true;
  /** @param {any[]} [resume] */
  const run = async (resume) => {
    if (!isFirst) ({ run_id: runId } = (await world.ask(path, { parent_run_id: runId })).body);
    isFirst = false;
    return world.insist(`the run ${runId} is over`, async () => {
      const page = new AguiPage(test, world.server, client, {
        path: `${path}/${runId}`,
        threadId,
        tools,
        messages,
        forwardedProps: { clientID: "laptop" },
        headers: { "last-event-id": `${runId}:` },
        complaints: /./,
        isCut: true,
      });
      await page.run({ runId, ...(resume && { resume }) });
      return page.lastRun.events.all.at(-1)?.type === "RUN_FINISHED" ? page : undefined;
    });
  };
  const say = async (/** @type {string} */ text) => {
    messages = [...messages, { id: randomUUID(), role: "user", content: text }];
    /** @type {any[] | undefined} */
    let resume;
    for (;;) {
      const page = await run(resume);
      const { pendingInterrupts } = page.agent;
      const responses = pendingInterrupts.map(({ id }) => [id, { status: "resolved", payload: { approved: true } }]);
      resume =
        responses.length > 0
          ? client.client.buildResumeArray(/** @type {any} */ (pendingInterrupts), Object.fromEntries(responses))
          : undefined;
      const goesOn = page.open.length > 0 || resume !== undefined;
      if (resume === undefined) page.answer();
      ({ messages } = page.agent);
      if (!goesOn) return String(messages.at(-1)?.content);
    }
  };
  return { session: threadId, tools: ["read", "write", "pick"], say };
}
