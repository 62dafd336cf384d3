import assert from "node:assert/strict";
import { test } from "node:test";

import { emptyDraft, fieldOf, inputOf, NotJson } from "../../src/live/schema.js";

test("what has no field of its own is typed as JSON", () => {
  const kinds = [{}, true, undefined, { type: ["string", "null"] }, { $ref: "#" }, { type: "object" }, { type: "array" }, { oneOf: [] }];
  assert.deepEqual(kinds.map((schema) => fieldOf(schema, "x", false).kind), kinds.map(() => "json"));
});

test("what is nested too deeply is typed as JSON", () => {
  let schema: unknown = { type: "string" };
  for (let depth = 0; depth < 20; depth += 1) schema = { type: "object", properties: { inner: schema } };
  let field = fieldOf(schema, "", true);
  let depth = 0;
  while (field.kind === "object") {
    field = field.fields[0]?.[1] ?? field;
    depth += 1;
  }
  assert.deepEqual([field.kind, depth], ["json", 5]);
});

test("a draft becomes the input, without what was left out", () => {
  const schema = {
    type: "object",
    properties: {
      text: { type: "string", default: "preset" },
      empty: { type: "string" },
      number: { type: "integer", default: 0 },
      flag: { type: "boolean", default: false },
      any: { default: { a: 1 } },
      choice: { enum: [1, "1", null], default: "1" },
      list: { type: "array", items: { type: "number" } },
      inner: { type: "object", properties: { x: { type: "string" }, y: { type: "number" } }, required: ["x"] },
    },
    required: ["list"],
  };
  const field = fieldOf(schema, "", true);
  const draft = emptyDraft(field, schema);
  assert.deepEqual(inputOf(field, draft), { text: "preset", number: 0, flag: false, any: { a: 1 }, choice: "1", list: [] });
  const typed = { ...(draft as object), number: "1e3", list: ["2", "x"], choice: "2", any: "[1]", text: "", inner: { y: "1" } };
  const inner = { x: "", y: 1 };
  assert.deepEqual(inputOf(field, typed), { number: 1000, list: [2, "x"], flag: false, choice: null, any: [1], inner });
});

test("a field may be called anything", () => {
  const schema = JSON.parse('{"type":"object","properties":{"__proto__":{"type":"string"},"constructor":{"type":"string"}}}') as unknown;
  const field = fieldOf(schema, "", true);
  const draft = JSON.parse('{"__proto__":"a","constructor":"b"}') as Record<string, string>;
  assert.equal(JSON.stringify(inputOf(field, draft)), '{"__proto__":"a","constructor":"b"}');
});

test("text that is no JSON is named", () => {
  assert.throws(() => inputOf(fieldOf({}, "extra", true), "{"), (error) => error instanceof NotJson && error.message.startsWith("extra: "));
});
