import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";

import { HandbackError, type TurnEvent, TurnFailed } from "../../src/node.js";
import { Faults } from "./faults.js";
import { Provider } from "./provider.js";
import { startServer } from "./server.js";

/** A server whose model says what the test wants, over a network that fails where it wants. */
async function stage(test: TestContext) {
  const provider = await Provider.start(test);
  const faults = new Faults();
  const { client } = await startServer(test, { config: provider.config, fetch: faults.fetch });
  const session = await client.startSession({ tools: false });
  return { provider, faults, client, session };
}

/** All that a stream gives, and its end. */
async function collect(stream: AsyncIterable<TurnEvent>, seen: TurnEvent[] = []): Promise<TurnEvent[]> {
  for await (const event of stream) seen.push(event);
  return seen;
}

function texts(events: TurnEvent[]): string {
  return events.map((event) => (event.type === "text" ? event.text : "")).join("");
}

test("prompt gives the last message of the turn and its text", async (test) => {
  const { provider, client, session } = await stage(test);
  const answering = session.prompt("hello");
  const speech = await provider.asked();
  speech.says("Good ");
  speech.says("day");
  speech.ends();
  const answer = await answering;
  assert.equal(answer.text, "Good day");
  assert.equal(answer.info.role, "assistant");
  const messages = await client.http.request<unknown[]>("GET", ["session", session.session.id, "message"]);
  const { text, ...message } = answer;
  assert.deepEqual(messages.slice(1), [message]);
});

test("stream gives the thoughts and the text as they come, then the message", async (test) => {
  const { provider, session } = await stage(test);
  const stream = session.stream("hello");
  const first = stream.next();
  const speech = await provider.asked();
  speech.thinks("Who is that?");
  const thought = (await first).value;
  assert.deepEqual({ ...thought, partID: "", messageID: "" }, { type: "reasoning", text: "Who is that?", partID: "", messageID: "" });
  const second = stream.next();
  speech.says("Good ");
  const text = (await second).value;
  assert.deepEqual({ ...text, partID: "", messageID: "" }, { type: "text", text: "Good ", partID: "", messageID: "" });
  speech.says("day");
  speech.ends();
  const rest = await collect(stream);
  assert.equal(texts(rest), "day");
  const last = rest.at(-1);
  assert.equal(last?.type === "done" && last.message.text, "Good day");
});

test("no piece is missing or comes twice when events are lost in between", async (test) => {
  const { provider, faults, session } = await stage(test);
  const stream = session.stream("hello");
  const first = stream.next();
  const speech = await provider.asked();
  let expected = "one ";
  speech.says("one ");
  const seen = [(await first).value as TurnEvent];
  const reading = collect(stream, seen);
  for (const word of ["two ", "three ", "four "]) {
    // The stream of events is opened again after each cut; the words in between come with no event of ours.
    const again = faults.opened();
    faults.cut();
    speech.says(word);
    await again;
    speech.says(`${word.trim()} again `);
    expected += `${word}${word.trim()} again `;
  }
  speech.ends();
  await reading;
  assert.equal(texts(seen), expected);
  const last = seen.at(-1);
  assert.equal(last?.type === "done" && last.message.text, expected);
});

test("a prompt is said once although the network loses its answer", async (test) => {
  const { provider, faults, client, session } = await stage(test);
  faults.failing.set("/prompt_async", { how: "unanswered", times: 2 });
  const answering = session.prompt("hello");
  const speech = await provider.asked();
  speech.says("once");
  speech.ends();
  assert.equal((await answering).text, "once");
  const tries = faults.requests.filter((request) => request.endsWith("/prompt_async"));
  assert.equal(tries.length, 3);
  const messages = await client.http.request<{ info: { role: string } }[]>("GET", ["session", session.session.id, "message"]);
  assert.deepEqual(messages.map(({ info }) => info.role), ["user", "assistant"]);
});

test("a prompt is said although the first tries do not reach the server", async (test) => {
  const { provider, faults, session } = await stage(test);
  faults.failing.set("/prompt_async", { how: "unsent", times: 2 });
  faults.failing.set("/event", { how: "unsent", times: 1 });
  const answering = session.prompt("hello");
  const speech = await provider.asked();
  speech.says("at last");
  speech.ends();
  assert.equal((await answering).text, "at last");
});

test("an answer that came while the network was down is read when it is back", async (test) => {
  const { provider, faults, session } = await stage(test);
  const stream = session.stream("hello");
  const first = stream.next();
  const speech = await provider.asked();
  speech.says("before ");
  const seen = [(await first).value as TurnEvent];
  faults.down();
  const again = faults.requested("/event");
  speech.says("and after");
  speech.ends();
  await again;
  faults.up();
  await collect(stream, seen);
  assert.equal(texts(seen), "before and after");
});

test("a server that stays lost is given up when the patience is over", async (test) => {
  const { provider, faults, session } = await stage(test);
  const answering = session.prompt("hello", { patience: 300 });
  await provider.asked();
  faults.down();
  const error = await answering.catch((error: unknown) => error);
  assert.ok(error instanceof HandbackError);
  assert.equal(error.kind, "interrupted");
  assert.match(error.message, /; given up after 0 s, the turn may go on without this client$/);
  faults.up();
});

test("a signal stops the turn on the server before prompt rejects", async (test) => {
  const { provider, client, session } = await stage(test);
  const stop = new AbortController();
  const answering = session.prompt("hello", { signal: stop.signal });
  await provider.asked();
  stop.abort(new Error("enough"));
  await assert.rejects(answering, new Error("enough"));
  const status = await client.http.request<Record<string, unknown>>("GET", ["session", "status"]);
  assert.deepEqual(status[session.session.id], { type: "idle" });
  const messages = await client.http.request<{ info: { error?: { name: string } } }[]>("GET", ["session", session.session.id, "message"]);
  assert.equal(messages.at(-1)?.info.error?.name, "MessageAbortedError");
});

test("a signal that has fired says nothing", async (test) => {
  const { faults, session } = await stage(test);
  await assert.rejects(session.prompt("hello", { signal: AbortSignal.abort(new Error("never")) }), new Error("never"));
  assert.deepEqual(faults.requests, ["POST /session"]);
});

test("leaving the stream stops the turn", async (test) => {
  const { provider, client, session } = await stage(test);
  void provider.asked().then((speech) => speech.says("first"));
  for await (const event of session.stream("hello")) {
    assert.equal(event.type, "text");
    break;
  }
  const status = await client.http.request<Record<string, unknown>>("GET", ["session", "status"]);
  assert.deepEqual(status[session.session.id], { type: "idle" });
});

test("a turn that fails rejects with what happened", async (test) => {
  const { provider, session } = await stage(test);
  provider.failure = { status: 400, message: "no such model" };
  const error = await session.prompt("hello").catch((error: unknown) => error);
  assert.ok(error instanceof TurnFailed);
  assert.deepEqual(
    { kind: error.kind, code: error.code, transient: error.transient, finish: error.answer.info.error?.data.statusCode },
    { kind: "failed", code: "APIError", transient: false, finish: 400 },
  );
  assert.match(error.message, /no such model/);
  const streamed = await collect(session.stream("again")).catch((error: unknown) => error);
  assert.ok(streamed instanceof TurnFailed);
});

test("turns of a session run one after the other", async (test) => {
  const { provider, session } = await stage(test);
  const stop = new AbortController();
  const first = session.prompt("first");
  const given = session.prompt("given up", { signal: stop.signal });
  const third = session.prompt("third");
  const speech = await provider.asked();
  stop.abort(new Error("not any more"));
  await assert.rejects(given, new Error("not any more"));
  speech.says("1");
  speech.ends();
  assert.equal((await first).text, "1");
  const next = await provider.asked();
  next.says("3");
  next.ends();
  assert.equal((await third).text, "3");
});

test("closing stops the turn, and later prompts are refused", async (test) => {
  const { provider, session } = await stage(test);
  const { prompt, close } = session;
  const answering = prompt("hello");
  await provider.asked();
  const closed = close();
  const error = await answering.catch((error: unknown) => error);
  assert.ok(error instanceof HandbackError);
  assert.deepEqual([error.kind, error.message], ["closed", "the session was closed"]);
  await closed;
  await assert.rejects(prompt("more"), { name: "HandbackError", kind: "closed" });
});

test("a session that was deleted ends its turn", async (test) => {
  const { provider, client, session } = await stage(test);
  const answering = session.prompt("hello");
  await provider.asked();
  await client.http.request("DELETE", ["session", session.session.id]);
  const error = await answering.catch((error: unknown) => error);
  assert.ok(error instanceof HandbackError);
  assert.match(error.message, /deleted before it answered|there is no session/);
});

test("a session is made as it was asked for, and taken up again", async (test) => {
  const { client } = await startServer(test, { clientID: "laptop" });
  const made = await client.startSession({ tools: false, title: "Notes", model: "demo/scripted", metadata: { a: 1 } });
  const { id, title, clientID, model, metadata } = made.session;
  assert.deepEqual(
    { title, clientID, model, metadata },
    { title: "Notes", clientID: "laptop", model: { providerID: "demo", id: "scripted" }, metadata: { a: 1 } },
  );
  const again = await client.startSession({ tools: false, sessionID: id });
  assert.deepEqual(again.session, made.session);
  await assert.rejects(client.startSession({ tools: false, sessionID: "ses_none" }), { kind: "refused", status: 404 });
  await assert.rejects(client.startSession({ model: "scripted" }), new TypeError('"scripted" is not a model: write it as "provider/model"'));
});
