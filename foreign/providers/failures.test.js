// Providers that refuse, fail, stall and break off, as aimock plays them: turns end with a clear error, and in time.

import assert from "node:assert/strict";

import { test } from "../support/patience.js";
import { KEY, THROW, WIRES, start, textOf } from "./setup.js";

/** How often a request is sent before its failure counts. */
const TRIES = 4;

for (const [name, wire] of Object.entries(WIRES)) {
  const model = `${wire.providerID}/some-model`;

  test(`${name}: a key that is refused`, async (test) => {
    const { upstream, say, listen } = await start(test, { keys: ["sk-another-key"] });
    const events = await listen();

    const { info } = await say(wire, "Hello.");

    assert.ok(info.error?.name === "ProviderAuthError");
    assert.equal(info.error.data.providerID, wire.providerID);
    assert.match(
      info.error.data.message,
      new RegExp(`^${model} answered 401 Unauthorized: .*providers.${wire.providerID}.apiKey`),
    );
    assert.ok(!JSON.stringify(info).includes(KEY), "the key is not shown");
    assert.equal(upstream.asked.all.length, 1);
    const failed = await events.until("the failure is told", (event) => event.type === "session.error");
    assert.ok(failed.type === "session.error");
    assert.deepEqual(failed.properties.error, info.error);
  });

  test(`${name}: too many requests, then an answer`, async (test) => {
    const { upstream, say } = await start(test);
    let requests = 0;
    upstream.says("Hello.", () => {
      requests += 1;
      return requests === 1
        ? { error: { message: "slow down" }, status: 429, retryAfter: 0 }
        : { content: "Hello to you." };
    });

    const { info, parts } = await say(wire, "Hello.");

    assert.deepEqual([info.error, textOf(parts), requests], [undefined, "Hello to you.", 2]);
  });

  test(`${name}: an error that does not go away`, async (test) => {
    const { upstream, say } = await start(test);
    upstream.says("Hello.", { error: { message: "the model fell over" }, status: 500 });

    const { info } = await say(wire, "Hello.");

    const message = `${model} answered 500 Internal Server Error, ${TRIES} times: the model fell over`;
    assert.deepEqual(info.error, { name: "APIError", data: { message, statusCode: 500, isRetryable: true } });
    assert.equal(upstream.asked.all.length, TRIES);
  });

  test(`${name}: a request that is refused is not repeated`, async (test) => {
    const { upstream, say } = await start(test);
    upstream.says("Hello.", { error: { message: "no such model" }, status: 404 });
    upstream.says("And now?", { content: "Now it works." });

    const { info } = await say(wire, "Hello.");

    assert.ok(info.error?.name === "APIError");
    assert.deepEqual([info.error.data.statusCode, info.error.data.isRetryable], [404, false]);
    assert.match(info.error.data.message, /no such model/);
    assert.equal(upstream.asked.all.length, 1);
    // The session is none the worse for it.
    assert.equal(textOf((await say(wire, "And now?")).parts), "Now it works.");
  });

  test(`${name}: an answer that breaks off`, async (test) => {
    const { upstream, client, sessionID, say } = await start(test);
    upstream.says(
      "Tell me.",
      { content: "Once upon a time there was a tape." },
      { chunkSize: 5, latency: 20, truncateAfterChunks: 6 },
    );

    const { info, parts } = await say(wire, "Tell me.");

    assert.ok(info.error?.name === "APIError");
    assert.match(info.error.data.message, new RegExp(`^${model} cut its answer short`));
    assert.equal(info.error.data.isRetryable, true);
    // What was said is kept, and nothing was asked twice.
    assert.ok("Once upon a time there was".startsWith(textOf(parts)) && textOf(parts) !== "", textOf(parts));
    assert.equal(upstream.asked.all.length, 1);
    const { data: messages } = await client.session.messages({ sessionID }, THROW);
    assert.deepEqual(messages.at(-1), { info, parts });
  });

  test(`${name}: an answer that is no stream`, async (test) => {
    const { upstream, say } = await start(test);
    upstream.says("Hello.", { content: "Hello to you." }, { chaos: { malformedRate: 1 } });

    const { info } = await say(wire, "Hello.");

    assert.ok(info.error?.name === "APIError");
    assert.match(info.error.data.message, new RegExp(`^${model} .*malformed json`));
  });

  test(`${name}: a connection that breaks before an answer`, async (test) => {
    const { upstream, say } = await start(test);
    upstream.says("Hello.", { content: "Hello to you." }, { chaos: { disconnectRate: 1 } });

    const { info } = await say(wire, "Hello.");

    assert.ok(info.error?.name === "APIError");
    assert.match(info.error.data.message, new RegExp(`^${model} gave no answer, ${TRIES} times`));
    assert.equal(upstream.asked.all.length, TRIES);
  });

  test(`${name}: a stall in the middle of an answer, and one before it`, async (test) => {
    const { upstream, say } = await start(test, { settings: "stallTimeout = 200" });
    const never = 60_000;
    const midway = { ttftMs: 0, interChunkDelaysMs: [0, 0, never], totalDurationMs: never };
    const atOnce = { ttftMs: never, interChunkDelaysMs: [], totalDurationMs: never };
    upstream.says("Begin.", { content: "A story without an end." }, { chunkSize: 5, recordedTimings: midway });
    upstream.says("Begin not.", { content: "Nothing." }, { recordedTimings: atOnce });

    const { info: began } = await say(wire, "Begin.");
    assert.ok(began.error?.name === "APIError");
    assert.equal(began.error.data.message, `${model} sent nothing for 200 ms`);

    // Before its first word a model may have to be loaded: it is given five times as long.
    const { info: silent } = await say(wire, "Begin not.");
    assert.ok(silent.error?.name === "APIError");
    assert.equal(silent.error.data.message, `${model} sent nothing for 1 s`);
  });
}
