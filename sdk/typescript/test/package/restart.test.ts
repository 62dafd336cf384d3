// A server that is killed at the worst moment and started again where it was: whoever waits notices nothing but the time.

import assert from "node:assert/strict";
import type { TestContext } from "node:test";

import {
  type CallEvent,
  createHandbackClient,
  type Effect,
  HandbackError,
  type HandbackClientOptions,
  type TurnEvent,
} from "../../src/node.js";
import { deferred, Log, test, within } from "../support/patience.js";
import { Server, type Settings } from "../support/server.js";
import { until } from "../support/until.js";
import { Provider } from "./provider.js";

/** A server that remembers, and a client of it with a tool that answers when the test says so. */
async function stage(
  test: TestContext,
  settings: Settings = {},
  { effect = "write", ...options }: Partial<HandbackClientOptions> & { effect?: Effect } = {},
) {
  const server = await Server.start(test, { isLasting: true, ...settings });
  const reconnect = { first: 20, longest: 200 };
  const client = createHandbackClient({ baseUrl: server.url, clientID: "laptop", reconnect, ...options });
  server.guest({ disconnect: () => client.close() });
  client.clientTools.on("state", () => undefined);
  const calls = new Log<CallEvent>();
  client.clientTools.on("call", (event) => calls.add(event));
  const output = deferred<string>();
  await client.clientTools.register("wait", { description: "Waits", effect }, () => output.promise);
  const started = () => calls.until("the call starts", ({ type }) => type === "started");
  const runs = () => calls.all.filter(({ type }) => type === "started").length;
  return { server, client, calls, output, started, runs };
}

type Stage = Awaited<ReturnType<typeof stage>>;

type Messages = { info: { role: string; error?: { name: string } } }[];

/** Who said something in a session, in order. */
async function speakers({ client }: Stage, sessionID: string): Promise<string[]> {
  const messages = await client.http.request<Messages>("GET", ["session", sessionID, "message"]);
  return messages.map(({ info }) => [info.role, info.error?.name].filter(Boolean).join(": "));
}

/** What becomes of the server and the handler after the call has started. */
const MOMENTS: Record<string, (stage: Stage) => Promise<void>> = {
  "killed while the handler runs": async ({ server, calls, output }) => {
    const { requestID } = calls.all[0] ?? assert.fail();
    await server.stop();
    await server.restart();
    await until("it is offered again", async () => {
      const { attempt } = await server.get<{ attempt: number }>(`calls/${requestID}`);
      return attempt === 2;
    });
    output.resolve("done");
  },
  "away when the handler ends": async ({ server, calls, output }) => {
    await server.stop();
    output.resolve("done");
    await calls.until("the handler ends", ({ type }) => type === "finished");
    await server.restart();
  },
  "killed again and again": async ({ server, output }) => {
    for (let lives = 0; lives < 3; lives += 1) {
      await server.stop();
      await server.restart();
    }
    output.resolve("done");
  },
  "stopped while the handler runs": async ({ server, output }) => {
    await server.stop("SIGTERM");
    await server.restart();
    output.resolve("done");
  },
};

/** A server that is asked to stop does not wait for calls. */
const SHORT_DRAIN = "[limits]\ndrainTimeout = 100\n";

for (const useWebSocket of [false, true]) {
  const over = useWebSocket ? "WebSocket" : "SSE";
  for (const [moment, happens] of Object.entries(MOMENTS)) {
    test(`${over}: a call of the application whose server is ${moment} is run once and answered`, async (test) => {
      const stages = await stage(test, { config: SHORT_DRAIN }, { useWebSocket });
      await stages.client.clientTools.connect();
      const executing = stages.client.execute("client_laptop_wait", { number: 1 });
      await stages.started();
      await happens(stages);
      assert.deepEqual(await within("the result", executing), { status: "success", title: "", output: "done" });
      assert.equal(stages.runs(), 1);
    });

    test(`${over}: a prompt whose server is ${moment} is said once and answered`, async (test) => {
      const stages = await stage(test, { config: SHORT_DRAIN }, { useWebSocket });
      const session = await stages.client.startSession();
      const answering = session.prompt("call wait {}");
      await stages.started();
      await happens(stages);
      const { text, info } = await within("the answer", answering);
      assert.match(text, /answered: done/);
      assert.deepEqual([info.finish, info.error, stages.runs()], ["stop", undefined, 1]);
      assert.deepEqual(await speakers(stages, session.session.id), ["user", "assistant", "assistant"]);
    });
  }
}

test("a prompt whose server is killed while the model speaks has the answer that the model gives then", async (test) => {
  const provider = await Provider.start(test);
  const { server, client } = await stage(test, { config: provider.config });
  const session = await client.startSession({ tools: false });
  const seen = new Log<TurnEvent>();
  const reading = (async () => {
    for await (const event of session.stream("hello")) seen.add(event);
  })();
  (await provider.asked()).says("Good ");
  await seen.until("a piece comes", ({ type }) => type === "text");
  await server.stop();
  await server.restart();
  const speech = await within("the model is asked again", provider.asked());
  speech.says("Good ");
  speech.says("day");
  speech.ends();
  await within("the answer", reading);
  const last = seen.all.at(-1);
  assert.equal(last?.type === "done" && last.message.text, "Good day");
});

/** Requests that are lost with the server, and whether it had them. */
const LOSSES = ["/session", "/prompt_async", "/client-tools/execute", "/client-tools/result"].flatMap((path) =>
  (["before", "after"] as const).map((moment) => ({ path, moment })),
);

for (const { path, moment } of LOSSES) {
  test(`a server that is killed ${moment} it took a request (${path}) is sent it again, and does it once`, async (test) => {
    const killed = deferred();
    let isLost = false;
    const fetch: typeof globalThis.fetch = async (input, init) => {
      const isMeant = !isLost && String(input).endsWith(path);
      isLost ||= isMeant;
      if (isMeant && moment === "after") await globalThis.fetch(input, init);
      if (isMeant) {
        await stages.server.stop();
        killed.resolve();
      }
      // A server that is gone gives the failure that there is then.
      return globalThis.fetch(input, init);
    };
    // The server may have been about to give the call to the client: then a `write` would not be run any more.
    const stages = await stage(test, {}, { fetch, effect: "idempotent" });
    const { server, client, calls, output } = stages;
    output.resolve("done");
    const isPrompt = !path.startsWith("/client-tools");
    const working = (async () => {
      const session = await client.startSession();
      const prompt = async () => (await session.prompt("call wait {}")).text;
      const execute = async () => JSON.stringify(await client.execute("client_laptop_wait"));
      return { id: session.session.id, answer: await (isPrompt ? prompt() : execute()) };
    })();
    await within("it is killed", killed.promise);
    await server.restart();
    const { id, answer } = await within("the answer", working);
    assert.match(answer, isPrompt ? /answered: done/ : /^{"status":"success","title":"","output":"done"}$/);
    assert.deepEqual([stages.runs(), calls.all.filter(({ type }) => type === "undelivered")], [1, []]);
    assert.deepEqual(await speakers(stages, id), isPrompt ? ["user", "assistant", "assistant"] : []);
    const sessions = await client.http.request<{ id: string }[]>("GET", ["session"]);
    assert.deepEqual(sessions.map((session) => session.id), [id]);
  });
}

test("a prompt and a call that are made while the server is away are taken when it is back", async (test) => {
  const { server, client, output } = await stage(test);
  output.resolve("done");
  const session = await client.startSession();
  await server.stop();
  const results = Promise.all([session.prompt("call wait {}"), client.execute("client_laptop_wait")]);
  await server.restart();
  const [{ text }, result] = await within("both are answered", results);
  assert.match(text, /answered: done/);
  assert.deepEqual(result, { status: "success", title: "", output: "done" });
});

test("a turn that is aborted while the server is away does not go on when it is back", async (test) => {
  const stages = await stage(test);
  const { server, client } = stages;
  const session = await client.startSession();
  const stop = new AbortController();
  const answering = session.prompt("call wait {}", { signal: stop.signal });
  await stages.started();
  await server.stop();
  stop.abort(new Error("enough"));
  await server.restart();
  await assert.rejects(within("the end", answering), new Error("enough"));
  stages.output.resolve("too late");
  assert.deepEqual(await speakers(stages, session.session.id), ["user", "assistant: MessageAbortedError"]);
});

test("a call that is aborted while the server is away is cancelled when it is back", async (test) => {
  const { server, client, output, started } = await stage(test);
  await client.clientTools.connect();
  const stop = new AbortController();
  const executing = client.execute("client_laptop_wait", {}, { requestID: "mine", signal: stop.signal });
  await started();
  await server.stop();
  stop.abort(new Error("enough"));
  await server.restart();
  await assert.rejects(within("the end", executing), new Error("enough"));
  output.resolve("too late");
  const { outcome } = await server.get<{ outcome: unknown }>("calls/mine");
  assert.deepEqual(outcome, { status: "cancelled", error: "Cancelled" });
});

test("a prompt that the network brings twice is said once", async (test) => {
  const fetch: typeof globalThis.fetch = async (input, init) => {
    if (String(input).endsWith("/prompt_async")) await globalThis.fetch(input, init);
    return globalThis.fetch(input, init);
  };
  const stages = await stage(test, {}, { fetch });
  stages.output.resolve("done");
  const session = await stages.client.startSession();
  assert.match((await within("the answer", session.prompt("call wait {}"))).text, /answered: done/);
  assert.deepEqual(await speakers(stages, session.session.id), ["user", "assistant", "assistant"]);
});

test("a server that forgets its sessions when it is restarted says that there is none", async (test) => {
  const provider = await Provider.start(test);
  const { server, client } = await stage(test, { config: provider.config, isLasting: false });
  const session = await client.startSession({ tools: false });
  const answering = session.prompt("hello").catch((error: unknown) => error);
  await provider.asked();
  await server.stop();
  await server.restart();
  const error = await within("the end", answering);
  assert.ok(error instanceof HandbackError, String(error));
  assert.deepEqual([error.kind, error.status], ["refused", 404]);
});
