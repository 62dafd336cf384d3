import assert from "node:assert/strict";
import { mock, test } from "node:test";

import { Backoff } from "../../src/backoff.js";

test("delays double up to the longest, lose half at most, and start over", () => {
  const random = mock.method(Math, "random", () => 1);
  try {
    const backoff = new Backoff(1000, 30_000);
    assert.deepEqual(Array.from({ length: 7 }, () => backoff.next()), [1000, 2000, 4000, 8000, 16_000, 30_000, 30_000]);
    backoff.reset();
    random.mock.mockImplementation(() => 0);
    assert.deepEqual([backoff.next(), backoff.next()], [500, 1000]);
  } finally {
    random.mock.restore();
  }
});
