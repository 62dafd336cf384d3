import assert from "node:assert/strict";

import { HandbackError } from "../../src/http.js";
import { Credentials } from "../../src/tools/credentials.js";
import { Reconnect } from "../../src/tools/reconnect.js";
import { FakeTime } from "../support/fake-time.js";
import { test } from "../support/patience.js";

const DELAYS = { first: 1000, longest: 30_000 };
const LOST = new HandbackError("interrupted", "lost");
const refused = (status: number) => new HandbackError("refused", "refused", { status });

function make(token?: () => string, maxAttempts = Number.POSITIVE_INFINITY): Reconnect {
  return new Reconnect(DELAYS, maxAttempts, new Credentials(token));
}

test("delays double up to the longest, and start over after a connection that held for 10 s", async (context) => {
  const time = new FakeTime(context);
  context.mock.method(Math, "random", () => 1);
  const reconnect = make();
  const delays = async (count: number) => {
    const all = [];
    for (let index = 0; index < count; index += 1) all.push(await reconnect.delayAfter(LOST));
    return all;
  };
  assert.deepEqual(await delays(7), [1000, 2000, 4000, 8000, 16_000, 30_000, 30_000]);
  assert.equal(reconnect.isFirstFailure, false);
  reconnect.opened();
  await time.pass(9999);
  assert.deepEqual(await delays(1), [30_000]);
  reconnect.opened();
  await time.pass(10_000);
  assert.deepEqual(await delays(1), [1000]);
  assert.equal(reconnect.isFirstFailure, true);
});

test("the server's wish for patience is heeded for a minute at most", async () => {
  const busy = (retryAfter: number) => new HandbackError("refused", "busy", { status: 503, retryAfter });
  assert.equal(await make().delayAfter(busy(20_000)), 20_000);
  assert.equal(await make().delayAfter(busy(3_600_000)), 60_000);
});

test("what no try mends is final, at the first connection or always", async () => {
  const errors: Record<string, Error> = {
    lost: LOST,
    busy: refused(503),
    bad: refused(400),
    elsewhere: new HandbackError("unexpected", "a page"),
    denied: refused(401),
    forbidden: refused(403),
    bug: new TypeError("a bug"),
  };
  const passing = async (isOpened: boolean) => {
    const names = [];
    for (const [name, error] of Object.entries(errors)) {
      const reconnect = make();
      if (isOpened) reconnect.opened();
      if ((await reconnect.delayAfter(error)) !== undefined) names.push(name);
    }
    return names;
  };
  assert.deepEqual(await passing(false), ["lost", "busy"]);
  assert.deepEqual(await passing(true), ["lost", "busy", "bad", "elsewhere"]);
});

test("a refused token is final once the function gives no other", async () => {
  const tokens = ["b", "b"];
  const same = make(() => tokens.shift() ?? "c");
  assert.notEqual(await same.delayAfter(refused(401)), undefined, "b may be accepted");
  assert.equal(await same.delayAfter(refused(401)), undefined, "b was refused");
  let count = 0;
  const renewed = make(() => `token ${++count}`);
  for (let tries = 0; tries < 3; tries += 1) assert.notEqual(await renewed.delayAfter(refused(401)), undefined);
  const valid = make(() => "valid");
  await valid.delayAfter(refused(401));
  valid.opened();
  assert.notEqual(await valid.delayAfter(refused(401)), undefined, "it was accepted in between");
});

test("only so many failures in a row are borne", async (context) => {
  const time = new FakeTime(context);
  const reconnect = make(undefined, 1);
  assert.notEqual(await reconnect.delayAfter(LOST), undefined);
  reconnect.opened();
  await time.pass(10_000);
  assert.notEqual(await reconnect.delayAfter(LOST), undefined, "a good connection lies between");
  assert.equal(await reconnect.delayAfter(LOST), undefined);
});
