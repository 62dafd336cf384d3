import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";

import { defaultClientID } from "../../src/client-id.js";

/** Makes this look like a page. */
function page(test: TestContext, localStorage: PropertyDescriptor): void {
  Object.defineProperty(globalThis, "document", { value: {}, configurable: true });
  Object.defineProperty(globalThis, "localStorage", { configurable: true, ...localStorage });
  test.after(() => {
    Reflect.deleteProperty(globalThis, "document");
    Reflect.deleteProperty(globalThis, "localStorage");
  });
}

test("a browser keeps its name", (test) => {
  const kept = new Map<string, string>();
  const storage = {
    getItem: (key: string) => kept.get(key) ?? null,
    setItem: (key: string, value: string) => void kept.set(key, value),
  };
  page(test, { value: storage });
  const name = defaultClientID();
  assert.match(name, /^[0-9a-f]{20}$/);
  assert.equal(defaultClientID(), name);
  assert.deepEqual([...kept], [["handback.clientID", name]]);
  kept.set("handback.clientID", "something else's");
  assert.match(defaultClientID(), /^[0-9a-f]{20}$/);
});

test("a page that may not keep anything has a name all the same", (test) => {
  const deny = () => {
    throw new Error("denied");
  };
  page(test, { get: deny });
  assert.match(defaultClientID(), /^[0-9a-f]{20}$/);
  page(test, { value: { getItem: () => null, setItem: deny } });
  assert.notEqual(defaultClientID(), defaultClientID());
});
