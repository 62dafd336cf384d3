// Turns with a model behind either wire, as aimock plays it.

import assert from "node:assert/strict";

import { createOpencodeClient } from "@opencode-ai/sdk/v2";

import { GREET, Laptop } from "../support/laptop.js";
import { test, within } from "../support/patience.js";
import { Server } from "../support/server.js";
import { Upstream } from "../support/upstream.js";
import { THROW, WIRES, start, textOf } from "./setup.js";

const PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg==";
const IMAGE = { mime: "image/png", url: `data:image/png;base64,${PIXEL}` };

for (const [name, wire] of Object.entries(WIRES)) {
  test(`${name}: text streams, and its usage is on the message`, async (test) => {
    const { upstream, say, listen } = await start(test);
    const usage = { prompt_tokens: 20, completion_tokens: 10, input_tokens: 20, output_tokens: 10 };
    upstream.says("Who are you?", { content: "I am kind, and I am made of tape.", usage }, { chunkSize: 5 });
    const events = await listen();

    const { info, parts } = await say(wire, "Who are you?");

    assert.equal(textOf(parts), "I am kind, and I am made of tape.");
    const { input, output } = info.tokens;
    assert.deepEqual(
      [input, output, info.finish, info.providerID, info.modelID],
      [20, 10, "stop", wire.providerID, "some-model"],
    );
    await events.until("the session is idle", (event) => event.type === "session.idle");
    const deltas = events.all.flatMap((event) => (event.type === "message.part.delta" ? [event.properties.delta] : []));
    assert.equal(deltas.join(""), textOf(parts));
    const [asked, ...more] = upstream.asked.all;
    assert.equal(more.length, 0);
    assert.deepEqual([asked.path, asked.body.model, asked.body.stream], [wire.path, "some-model", true]);
    assert.equal(wire.system(asked.body), "You are kind.");
    for (const [header, value] of Object.entries(wire.headers)) assert.equal(asked.headers[header], value);
  });

  test(`${name}: a tool runs on the client, and the model gets its result`, async (test) => {
    const { upstream, server, say } = await start(test);
    const laptop = await Laptop.connect(test, server, "laptop", { greet: GREET });
    const call = { id: "call_1", name: "client_laptop_greet", arguments: '{"name": "Ada"}' };
    upstream.says("Greet Ada.", { content: "At once.", toolCalls: [call] });
    upstream.says("Hello, Ada!", { content: "Ada is greeted." });

    const { parts } = await say(wire, "Greet Ada.");

    assert.equal(textOf(parts), "Ada is greeted.");
    assert.deepEqual(
      laptop.calls.all.map(({ tool, input }) => [tool, input]),
      [["client_laptop_greet", { name: "Ada" }]],
    );
    // Our own id of the call goes to the client, the provider's own goes back to the provider.
    assert.notEqual(laptop.calls.all[0].callID, "call_1");
    const [first, second] = upstream.asked.all.map(({ body }) => body);
    assert.deepEqual([wire.tools(first), wire.results(first)], [["list_tools", "client_laptop_greet"], []]);
    assert.deepEqual(wire.calls(second), [{ id: "call_1", name: "client_laptop_greet", input: { name: "Ada" } }]);
    assert.deepEqual(
      wire.results(second).map(({ id, text }) => [id, text]),
      [["call_1", "Hello, Ada!"]],
    );
  });

  test(`${name}: calls run at once, each fails alone, and the results are in the model's order`, async (test) => {
    const { upstream, server, say } = await start(test);
    /** @type {(value?: unknown) => void} */
    let release = () => {};
    const last = new Promise((released) => (release = released));
    await Laptop.connect(test, server, "laptop", {
      // Each waits for the last.
      slow: { run: () => last.then(() => "slow, but done") },
      broken: { run: () => last.then(() => Promise.reject(new Error("the printer is on fire"))) },
      quick: { run: () => (release(), "quick") },
    });
    const toolCalls = ["slow", "broken", "quick"].map((tool) => ({
      id: `call_${tool}`,
      name: `client_laptop_${tool}`,
      arguments: "{}",
    }));
    upstream.says("All of it.", { toolCalls });
    upstream.says("quick", { content: "Some of it worked." });

    const { parts } = await say(wire, "All of it.");

    assert.equal(textOf(parts), "Some of it worked.");
    const results = wire.results(upstream.asked.all[1].body);
    assert.deepEqual(
      results.map(({ id, text }) => [id, text]),
      [
        ["call_slow", "slow, but done"],
        ["call_broken", "the printer is on fire"],
        ["call_quick", "quick"],
      ],
    );
    if (wire === WIRES.Anthropic)
      assert.deepEqual(
        results.map(({ failed }) => failed),
        [false, true, false],
      );
  });

  test(`${name}: arguments that are no JSON, and a tool that does not exist, are told to the model`, async (test) => {
    const { upstream, server, client, sessionID, say } = await start(test);
    const laptop = await Laptop.connect(test, server, "laptop", { greet: GREET });
    const toolCalls = [
      { id: "call_cut", name: "client_laptop_greet", arguments: '{"name": "A' },
      { id: "call_unfit", name: "client_laptop_greet", arguments: '{"name": 7}' },
      { id: "call_unknown", name: "make_coffee", arguments: "{}" },
    ];
    upstream.says("Try.", { toolCalls });
    upstream.says("", { content: "I could not." });

    const { parts } = await say(wire, "Try.");

    assert.equal(textOf(parts), "I could not.");
    assert.equal(laptop.calls.all.length, 0);
    const told = Object.fromEntries(wire.results(upstream.asked.all[1].body).map(({ id, text }) => [id, text]));
    // As Anthropic, aimock has `{}` in the place of what is no JSON.
    assert.match(told.call_cut, wire === WIRES.OpenAI ? /JSON/ : /"name" is a required property/);
    assert.match(told.call_unfit, /name.*7 is not of type "string"/);
    assert.match(told.call_unknown, /make_coffee/);
    const { data: messages } = await client.session.messages({ sessionID }, THROW);
    const states = messages
      .flatMap((message) => message.parts)
      .flatMap((part) => (part.type === "tool" ? [part.state.status] : []));
    assert.deepEqual(states, ["error", "error", "error"]);
  });

  test(`${name}: images of the user and of tools reach the model as it wants them`, async (test) => {
    const { upstream, server, say } = await start(test);
    await Laptop.connect(test, server, "laptop", { photo: { run: () => ({ output: "taken", attachments: [IMAGE] }) } });
    upstream.says("One like this.", {
      toolCalls: [{ id: "call_photo", name: "client_laptop_photo", arguments: "{}" }],
    });
    upstream.says("", { content: "There." });

    const { parts } = await say(wire, "One like this.", { type: "file", filename: "this.png", ...IMAGE });

    assert.equal(textOf(parts), "There.");
    const [first, second] = upstream.asked.all.map(({ body }) => wire.images(body));
    const image = wire.image("image/png", PIXEL);
    assert.deepEqual([first, second], [[image], [image, image]]);
  });

  test(`${name}: names that it does not take get an alias, and the client the name that it knows`, async (test) => {
    const { upstream, client, server } = await start(test);
    const clientID = `ada@example.com:${"long".repeat(20)}`;
    const laptop = await Laptop.connect(test, server, clientID, { "read.file": GREET, "read:file": GREET });
    const { data: session } = await client.session.create({ metadata: { clientID } }, THROW);
    const names = await offered(server.url, session.id);
    upstream.says("Read.", {
      toolCalls: [{ id: "call_1", name: names[`client_${clientID}_read:file`], arguments: '{"name": "Ada"}' }],
    });
    upstream.says("Hello, Ada!", { content: "Read." });

    const model = { providerID: wire.providerID, modelID: "some-model" };
    await client.session.prompt({ sessionID: session.id, model, parts: [{ type: "text", text: "Read." }] }, THROW);

    const sent = wire.tools(upstream.asked.all[0].body);
    assert.deepEqual(sent, Object.values(names));
    assert.equal(new Set(sent).size, 3);
    for (const name of sent) assert.match(name, /^[A-Za-z0-9_-]{1,64}$/);
    assert.deepEqual(
      laptop.calls.all.map(({ tool }) => tool),
      [`client_${clientID}_read:file`],
    );
  });

  test(`${name}: abort closes the request`, async (test) => {
    const { upstream, client, sessionID, say, listen } = await start(test);
    const never = { ttftMs: 0, interChunkDelaysMs: [0, 0, 60_000], totalDurationMs: 60_000 };
    upstream.says("Go on.", { content: "A story without an end." }, { chunkSize: 4, recordedTimings: never });
    const events = await listen();
    const turn = say(wire, "Go on.");
    await events.until("it speaks", (event) => event.type === "message.part.delta");

    await client.session.abort({ sessionID }, THROW);

    const [asked] = upstream.asked.all;
    await within("the request is closed", asked.abandoned);
    const { info, parts } = await turn;
    assert.equal(info.error?.name, "MessageAbortedError");
    assert.ok("A story without an end".startsWith(textOf(parts)), textOf(parts));
  });
}

test("a session goes on with another model, which sees what the first one did", async (test) => {
  const { upstream, server, say } = await start(test);
  await Laptop.connect(test, server, "laptop", { greet: GREET });
  upstream.says("Greet Ada.", {
    toolCalls: [{ id: "call_1", name: "client_laptop_greet", arguments: '{"name": "Ada"}' }],
  });
  upstream.says("Hello, Ada!", { content: "Done." });
  upstream.says("What did you do?", { content: "I greeted Ada." });

  await say(WIRES.OpenAI, "Greet Ada.");
  const { info, parts } = await say(WIRES.Anthropic, "What did you do?");

  assert.deepEqual([info.providerID, textOf(parts)], ["claude", "I greeted Ada."]);
  const { body } = upstream.asked.all[2];
  const [call] = WIRES.Anthropic.calls(body);
  const [result] = WIRES.Anthropic.results(body);
  assert.deepEqual([call.name, call.input, result.text], ["client_laptop_greet", { name: "Ada" }, "Hello, Ada!"]);
  assert.equal(call.id, result.id);
});

test("a key and an address in the environment are enough", async (test) => {
  const upstream = await Upstream.start(test, { keys: ["sk-of-the-environment"] });
  const env = {
    OPENAI_API_KEY: "sk-of-the-environment",
    OPENAI_BASE_URL: `${upstream.url}/v1`,
    HANDBACK_MODEL: "openai/gpt-5",
  };
  const server = await Server.start(test, { env });
  const client = createOpencodeClient({ baseUrl: server.url });
  upstream.says("Hello.", { content: "Hello to you." });
  const { data: session } = await client.session.create({}, THROW);

  const answer = await client.session.prompt(
    { sessionID: session.id, parts: [{ type: "text", text: "Hello." }] },
    THROW,
  );

  assert.equal(textOf(answer.data.parts), "Hello to you.");
  const { providerID, modelID } = answer.data.info;
  assert.deepEqual([providerID, modelID, upstream.asked.all[0].body.model], ["openai", "gpt-5", "gpt-5"]);
});

/**
 * The names under which a model is offered the tools of a session, by their full ids.
 *
 * @param {string} url
 * @param {string} sessionID
 * @returns {Promise<Record<string, string>>}
 */
async function offered(url, sessionID) {
  const tools = await (await fetch(`${url}/session/${sessionID}/tools`)).json();
  return Object.fromEntries(tools.map(({ id, name }) => [id, name]));
}
