// Schemas as zod makes them, of both generations, and values for them.

import { z } from "zod";
import { z as z3 } from "zod/v3";
import { zodToJsonSchema } from "zod-to-json-schema";

const PERSON = { email: "ada@example.org", id: "8d1e6f0a-57f5-4a4e-9d43-5cf60e6c2f7a", at: "2026-01-31T12:00:00Z" };
const SHAPES = { circle: { kind: "circle", radius: 1 }, square: { kind: "square", side: 2 } };

/** @type {{ name: string, values: unknown[] }[]} */
const VALUES = [
  {
    name: "texts",
    values: [
      PERSON,
      { ...PERSON, email: "a.b+c@x-y.example.co" },
      ...["", "ada", "ada@example", ".ada@example.org", "a..b@example.org", "a@b@c.de"].map((email) => ({ ...PERSON, email })),
      ...["", "8d1e6f0a57f54a4e9d435cf60e6c2f7a", "zd1e6f0a-57f5-4a4e-9d43-5cf60e6c2f7a"].map((id) => ({ ...PERSON, id })),
      ...["2026-02-29T12:00:00Z", "2024-02-29T12:00:00Z", "2026-01-31", "now"].map((at) => ({ ...PERSON, at })),
      { ...PERSON, code: "AB-1" },
      { ...PERSON, code: "ab-1" },
      { ...PERSON, extra: 1 },
      { email: PERSON.email },
      {},
    ],
  },
  {
    name: "shapes",
    values: [
      { shape: SHAPES.circle },
      { shape: SHAPES.square, tags: { a: 1 }, pair: [1, "a"], list: [1, 2] },
      { shape: { kind: "circle", side: 1 } },
      { shape: { kind: "line" } },
      { shape: SHAPES.circle, tags: { a: "x" } },
      { shape: SHAPES.circle, pair: ["a", 1] },
      { shape: SHAPES.circle, pair: [1] },
      { shape: SHAPES.circle, list: [] },
      { shape: SHAPES.circle, list: [1, 2, 3, 4] },
      { shape: SHAPES.circle, count: 1.5 },
      { shape: SHAPES.circle, count: 10 },
      { shape: SHAPES.circle, count: 4, color: "red", maybe: null },
      { shape: SHAPES.circle, color: "blue" },
    ],
  },
  {
    name: "a tree",
    values: [
      { name: "root" },
      { name: "root", children: [{ name: "twig", children: [{ name: "leaf" }] }] },
      { name: "root", children: [{ name: "twig", children: [{ name: 5 }] }] },
      { children: [] },
    ],
  },
];

const texts = z.strictObject({
  email: z.email(),
  id: z.uuid(),
  at: z.iso.datetime(),
  code: z.string().regex(/^[A-Z]{2}-\d+$/).max(10).optional(),
});
const shapes = z.object({
  shape: z.discriminatedUnion("kind", [
    z.object({ kind: z.literal("circle"), radius: z.number().positive() }),
    z.object({ kind: z.literal("square"), side: z.number().min(1) }),
  ]),
  tags: z.record(z.string(), z.number()).optional(),
  pair: z.tuple([z.number(), z.string()]).optional(),
  list: z.array(z.number()).min(1).max(3).optional(),
  count: z.int().lt(10).optional(),
  color: z.enum(["red", "green"]).optional(),
  maybe: z.string().nullable().optional(),
});
const tree = z.object({
  name: z.string(),
  get children() {
    return z.array(tree).optional();
  },
});

const texts3 = z3
  .object({
    email: z3.string().email(),
    id: z3.string().uuid(),
    at: z3.string().datetime(),
    code: z3.string().regex(/^[A-Z]{2}-\d+$/).max(10).optional(),
  })
  .strict();
const shapes3 = z3.object({
  shape: z3.discriminatedUnion("kind", [
    z3.object({ kind: z3.literal("circle"), radius: z3.number().positive() }),
    z3.object({ kind: z3.literal("square"), side: z3.number().min(1) }),
  ]),
  tags: z3.record(z3.number()).optional(),
  pair: z3.tuple([z3.number(), z3.string()]).optional(),
  list: z3.array(z3.number()).min(1).max(3).optional(),
  count: z3.number().int().lt(10).optional(),
  color: z3.enum(["red", "green"]).optional(),
  maybe: z3.string().nullable().optional(),
});
/** @type {z3.ZodType<unknown>} */
const tree3 = z3.object({ name: z3.string(), children: z3.lazy(() => z3.array(tree3)).optional() });

/** @param {unknown} type */
const of3 = (type) => zodToJsonSchema(/** @type {never} */ (type));

/** @type {[string, unknown][]} */
const SCHEMAS = [
  ["texts", z.toJSONSchema(texts)],
  ["texts", z.toJSONSchema(texts, { target: "draft-7" })],
  ["texts", of3(texts3)],
  ["shapes", z.toJSONSchema(shapes)],
  ["shapes", z.toJSONSchema(shapes, { target: "draft-7" })],
  ["shapes", of3(shapes3)],
  ["a tree", z.toJSONSchema(tree)],
  ["a tree", of3(tree3)],
];

export const cases = SCHEMAS.map(([name, schema]) => ({
  name: `${name} (${/** @type {{ $schema?: string }} */ (schema).$schema})`,
  schema,
  values: VALUES.find((known) => known.name === name)?.values ?? [],
}));
