// Types that follow from schemas are checked by the compiler: what is marked as an error must be one.

import assert from "node:assert/strict";

import { z } from "zod";

import { ClientToolsManager } from "../../src/tools/manager.js";
import { memoryJournal } from "../../src/tools/journal/memory.js";
import type { FromJsonSchema } from "../../src/tools/json-schema.js";
import type { StandardSchema } from "../../src/tools/standard-schema.js";
import { makeTool, type ToolCall, type ToolInput } from "../../src/tools/tool.js";
import { test } from "../support/patience.js";

type Same<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false;
const same = <A, B>(_: Same<A, B>) => {};

const CALL: ToolCall = {
  tool: "client_laptop_tool",
  requestID: "r",
  sessionID: "s",
  messageID: "m",
  callID: "c",
  attempt: 1,
  deadline: new Date(0),
  signal: new AbortController().signal,
};

test("the input's type follows from a JSON Schema", () => {
  const schema = {
    type: "object",
    properties: {
      path: { type: "string", description: "Where" },
      lines: { type: "integer" },
      mode: { enum: ["text", "binary"] },
      kind: { const: 5 },
      tags: { type: "array", items: { type: "string" } },
      limit: { type: ["number", "null"] },
      where: {
        anyOf: [{ type: "string" }, { type: "object", properties: { x: { type: "number" } }, required: ["x"] }],
      },
      headers: { type: "object", additionalProperties: { type: "boolean" } },
      anything: { $ref: "#/$defs/other" },
    },
    required: ["path", "mode", "tags"],
  } as const;
  same<
    FromJsonSchema<typeof schema>,
    {
      path: string;
      mode: "text" | "binary";
      tags: string[];
      lines?: number;
      kind?: 5;
      limit?: number | null;
      where?: string | { x: number };
      headers?: Record<string, boolean>;
      anything?: unknown;
    }
  >(true);
  same<ToolInput<{ type: "object" }>, Record<string, unknown>>(true);
  same<ToolInput<Record<string, unknown>>, Record<string, unknown>>(true);
  same<ToolInput<{ type: "object"; properties: { a: { type: "string" } }; required: string[] }>, { a?: string }>(true);
});

test("the handler's input is typed where the tool is written", async () => {
  const manager = new ClientToolsManager("laptop", "http://127.0.0.1:1", { journal: memoryJournal() });
  const object = { type: "object", properties: { a: { type: "string" } }, required: ["a"] } as const;
  await manager.register(
    "inline",
    { description: "", parameters: { type: "object", properties: { a: { type: "string" } } } },
    (input) => {
      same<typeof input, { a?: string }>(true);
      return input.a ?? "";
    },
  );
  await manager.register("constant", { description: "", parameters: object }, ({ a }) => a);
  await manager.register(
    "zod",
    { description: "", parameters: z.object({ at: z.string().transform((text) => new Date(text)) }) },
    (input) => {
      same<typeof input, { at: Date }>(true);
      return input.at.toISOString();
    },
  );
  await manager.register("none", { description: "" }, (input) => {
    same<typeof input, Record<string, unknown>>(true);
    return {};
  });
  // @ts-expect-error there is no such property
  await manager.register("wrong", { description: "", parameters: object }, ({ b }) => String(b));
  // @ts-expect-error a number is no output
  await manager.register("number", { description: "" }, () => 5);
});

test("a Standard Schema is written as JSON Schema, checks the input, and may change it", async () => {
  const schema = z.object({
    at: z.iso.date().transform((text) => new Date(text)),
    tags: z.array(z.string()).default([]),
  });
  const tool = makeTool(
    "tool",
    { description: "", parameters: schema },
    ({ at, tags }) => `${at.getUTCFullYear()} ${tags.length}`,
  );
  assert.deepEqual(Object.keys(tool.wire.parameters?.["properties"] as object), ["at", "tags"]);
  assert.deepEqual(tool.wire.parameters?.["required"], ["at"]);
  assert.equal(await tool.run({ at: "2026-11-15" }, CALL), "2026 0");
  await assert.rejects(
    tool.run({ at: "2026-11-15", tags: [1] }, CALL),
    /^TypeError: the input does not fit: \/tags\/0: .*string/,
  );
});

test("a schema that is a function, checks later, and has its JSON Schema beside it", async () => {
  const jsonSchema = { type: "object" };
  const schema: StandardSchema<unknown, string> = Object.assign(() => {}, {
    "~standard": {
      version: 1,
      vendor: "own",
      validate: async (value: unknown) =>
        value === "good" ? { value: "better" } : { issues: [{ message: "no", path: [{ key: "a" }] }] },
    },
  } as const);
  const tool = makeTool("tool", { description: "", parameters: schema, jsonSchema }, (input) => input);
  assert.deepEqual(tool.wire, { id: "tool", description: "", parameters: jsonSchema });
  assert.equal(await tool.run("good", CALL), "better");
  await assert.rejects(tool.run("bad", CALL), { message: "the input does not fit: /a: no" });
});
