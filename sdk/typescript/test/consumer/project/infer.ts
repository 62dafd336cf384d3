// The type of a handler's input, as it follows from the parameters.

import { type ClientToolsManager, type FromJsonSchema, type JsonSchema, type ToolInput, type ToolOutput } from "@handback/client";
import { z } from "zod";

type Same<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false;
const same = <A, B>(_: Same<A, B>): void => undefined;

const nested = {
  type: "object",
  properties: {
    name: { type: "string" },
    mode: { enum: ["fast", "slow", null] },
    kind: { const: "file" },
    tags: { type: "array", items: { type: "string" } },
    rows: { type: "array", items: { type: "object", properties: { id: { type: "integer" } }, required: ["id"] } },
    size: { type: ["number", "null"] },
    target: { anyOf: [{ type: "string" }, { type: "object", properties: { x: { type: "number" } }, required: ["x"] }] },
    anything: {},
    reference: { $ref: "#/$defs/a" },
    counts: { type: "object", additionalProperties: { type: "integer" } },
  },
  required: ["name", "kind", "rows"],
} as const;
same<
  FromJsonSchema<typeof nested>,
  {
    name: string;
    kind: "file";
    rows: { id: number }[];
    mode?: "fast" | "slow" | null;
    tags?: string[];
    size?: number | null;
    target?: string | { x: number };
    anything?: unknown;
    reference?: unknown;
    counts?: Record<string, number>;
  }
>(true);
same<ToolInput<JsonSchema>, Record<string, unknown>>(true);
same<ToolInput<Record<string, string>>, Record<string, unknown>>(true);
const parameters = z.object({ day: z.string().transform((day) => new Date(day)), note: z.string().optional() });
same<ToolInput<typeof parameters>["day"], Date>(true);

export async function register(tools: ClientToolsManager, maybe: string | undefined): Promise<void> {
  await tools.register("none", { description: "" }, (input) => {
    same<typeof input, Record<string, unknown>>(true);
    return "";
  });
  await tools.register("empty", { description: "", parameters: { type: "object", properties: {} } }, (input) => {
    same<typeof input, {}>(true);
    return "";
  });
  await tools.register("inline", { description: "", parameters: { type: "object", properties: { a: { enum: ["x", "y"] } }, required: ["a"] } }, async ({ a }) => {
    same<typeof a, "x" | "y">(true);
    return a;
  });
  // What may be absent may be undefined, also where that is told apart.
  const version = maybe;
  await tools.register("maybe", { description: "", parameters: undefined, timeout: undefined, effect: undefined, version }, (): ToolOutput => {
    return { title: maybe, output: "", metadata: undefined, attachments: undefined };
  });
}
