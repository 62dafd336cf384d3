import assert from "node:assert/strict";
import { test } from "node:test";

import { duration } from "../../src/live/words.js";

test("times are as short as they can be read", () => {
  const times = [0.25, 4.56, 250.4, 1234, 59_900, 60_000, 119_400, 119_700, 3_599_900];
  const words = ["0.3 ms", "4.6 ms", "250 ms", "1.23 s", "59.9 s", "1 min 0 s", "1 min 59 s", "2 min 0 s", "60 min 0 s"];
  assert.deepEqual(times.map(duration), words);
});
