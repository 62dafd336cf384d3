import assert from "node:assert/strict";

import { HandbackError } from "../../src/http.js";
import { Credentials } from "../../src/tools/credentials.js";
import { Reconnect } from "../../src/tools/reconnect.js";
import { test } from "../support/patience.js";

const DELAYS = { first: 1000, longest: 30_000 };
const LOST = new HandbackError("interrupted", "lost");
const refused = (status: number) => new HandbackError("refused", "refused", { status });

function make(maxAttempts = Number.POSITIVE_INFINITY): Reconnect {
  return new Reconnect(DELAYS, maxAttempts, new Credentials(undefined));
}

test("delays double up to the longest, and start over after a connection that was open, however briefly", (context) => {
  context.mock.method(Math, "random", () => 1);
  const reconnect = make();
  const delays = (count: number) => Array.from({ length: count }, () => reconnect.delayAfter(LOST));
  assert.deepEqual(delays(7), [1000, 2000, 4000, 8000, 16_000, 30_000, 30_000]);
  assert.equal(reconnect.isFirstFailure, false);
  for (let count = 0; count < 3; count += 1) {
    reconnect.opened();
    // A server that takes a connection and closes it at once is not asked without a pause.
    assert.deepEqual(delays(1), [1000]);
    assert.equal(reconnect.isFirstFailure, true);
  }
  assert.deepEqual(delays(2), [2000, 4000]);
});

test("the server's wish for patience is heeded for a minute at most", () => {
  const busy = (retryAfter: number) => new HandbackError("refused", "busy", { status: 503, retryAfter });
  assert.equal(make().delayAfter(busy(20_000)), 20_000);
  assert.equal(make().delayAfter(busy(3_600_000)), 60_000);
});

test("what no try mends is final, at the first connection or always", () => {
  const errors: Record<string, Error> = {
    lost: LOST,
    busy: refused(503),
    bad: refused(400),
    elsewhere: new HandbackError("unexpected", "a page"),
    denied: refused(401),
    forbidden: refused(403),
    bug: new TypeError("a bug"),
  };
  const passing = (isOpened: boolean) => {
    const names = [];
    for (const [name, error] of Object.entries(errors)) {
      const reconnect = make();
      if (isOpened) reconnect.opened();
      if (reconnect.delayAfter(error) !== undefined) names.push(name);
    }
    return names;
  };
  assert.deepEqual(passing(false), ["lost", "busy"]);
  assert.deepEqual(passing(true), ["lost", "busy", "bad", "elsewhere"]);
});

test("a refused token is final once the function gives no other", async () => {
  /** A try whose token is refused; says whether another one is made. */
  const refusing = (token: () => string) => {
    const credentials = new Credentials(token);
    const reconnect = new Reconnect(DELAYS, Number.POSITIVE_INFINITY, credentials);
    const attempt = async () => {
      assert.ok(typeof credentials.token === "function");
      await credentials.token();
      return reconnect.delayAfter(refused(401)) !== undefined;
    };
    return { reconnect, attempt };
  };
  const tokens = ["a", "b", "b"];
  const same = refusing(() => tokens.shift() ?? "c");
  assert.deepEqual([await same.attempt(), await same.attempt(), await same.attempt()], [true, true, false]);
  const valid = refusing(() => "valid");
  assert.equal(await valid.attempt(), true, "another one may come");
  valid.reconnect.opened();
  assert.equal(await valid.attempt(), true, "it was accepted in between");
  assert.equal(await valid.attempt(), false);
});

test("only so many failures in a row are borne", () => {
  const reconnect = make(1);
  assert.notEqual(reconnect.delayAfter(LOST), undefined);
  reconnect.opened();
  assert.notEqual(reconnect.delayAfter(LOST), undefined, "a good connection lies between");
  assert.equal(reconnect.delayAfter(LOST), undefined);
});
