import assert from "node:assert/strict";
import { test } from "node:test";

import { Kept } from "../../src/storage.js";

test("what the browser keeps is there for the next page", () => {
  const stored = new Map<string, string>();
  const storage = {
    getItem: (place: string) => stored.get(place) ?? null,
    setItem: (place: string, value: string) => void stored.set(place, value),
    removeItem: (place: string) => void stored.delete(place),
  } as unknown as Storage;
  const kept = new Kept(() => storage, "here");
  kept.value = "something";
  assert.deepEqual([...stored], [["here", "something"]]);
  assert.equal(new Kept(() => storage, "here").value, "something");
  kept.value = undefined;
  assert.deepEqual([[...stored], kept.value], [[], undefined]);
});

test("a browser that keeps nothing is no hindrance", () => {
  const kept = new Kept(() => {
    throw new DOMException("not here", "SecurityError");
  }, "here");
  assert.equal(kept.value, undefined);
  kept.value = "something";
  assert.equal(kept.value, "something");
  kept.value = undefined;
  assert.equal(kept.value, undefined);
});
