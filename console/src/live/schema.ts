// A form made from a JSON Schema: which fields it has, and the input that comes of what is typed.

/** Deeper than so many levels a value is typed as JSON. */
const DEEPEST = 5;

type Json = Record<string, unknown>;

interface Common {
  title: string;
  description: string;
  isRequired: boolean;
}

export type Field = Common &
  (
    | { kind: "string" | "number" | "json" }
    | { kind: "choice"; choices: unknown[] }
    | { kind: "list"; item: Field }
    | { kind: "object"; fields: [name: string, field: Field][] }
  );

/** What is typed so far: text, or a part for every item or field. */
export type Draft = string | Draft[] | { [name: string]: Draft };

/** What is typed as JSON, and is none. */
export class NotJson extends Error {
  constructor(title: string, cause: unknown) {
    super(`${title}: ${cause instanceof Error ? cause.message : String(cause)}`, { cause });
  }
}

/** The field for a schema. What has no field of its own is typed as JSON. */
export function fieldOf(schema: unknown, title: string, isRequired: boolean, depth = 0): Field {
  const said = isObject(schema) ? schema : {};
  const description = typeof said["description"] === "string" ? said["description"] : "";
  const common = { title, description, isRequired };
  const { type, properties, items } = said;
  if (Array.isArray(said["enum"])) return { ...common, kind: "choice", choices: said["enum"] };
  if (type === "boolean") return { ...common, kind: "choice", choices: [true, false] };
  if (type === "string") return { ...common, kind: "string" };
  if (type === "number" || type === "integer") return { ...common, kind: "number" };
  if (type === "array" && isObject(items) && depth < DEEPEST) {
    return { ...common, kind: "list", item: fieldOf(items, `${title} item`, true, depth + 1) };
  }
  if (type === "object" && isObject(properties) && depth < DEEPEST && Object.keys(properties).length > 0) {
    const required = Array.isArray(said["required"]) ? said["required"] : [];
    const fields = Object.entries(properties).map(([name, inner]): [string, Field] => [
      name,
      fieldOf(inner, name, required.includes(name), depth + 1),
    ]);
    return { ...common, kind: "object", fields };
  }
  return { ...common, kind: "json" };
}

/** What a form starts with. */
export function emptyDraft(field: Field, schema?: unknown): Draft {
  const preset = isObject(schema) ? schema["default"] : undefined;
  if (field.kind === "object") {
    const properties = isObject(schema) && isObject(schema["properties"]) ? schema["properties"] : {};
    return Object.fromEntries(field.fields.map(([name, inner]) => [name, emptyDraft(inner, properties[name])]));
  }
  if (field.kind === "list") return [];
  if (preset === undefined) return "";
  if (field.kind === "choice") return field.choices.includes(preset) ? String(field.choices.indexOf(preset)) : "";
  return field.kind === "json" || typeof preset === "object" ? JSON.stringify(preset) : String(preset);
}

/** The input; `undefined` for what is left out. The server says what does not fit. */
export function inputOf(field: Field, draft: Draft): unknown {
  switch (field.kind) {
    case "object": {
      if (!field.isRequired && !isTyped(draft)) return undefined;
      const parts = isObject(draft) ? (draft as { [name: string]: Draft }) : {};
      const entries = field.fields.map(([name, inner]) => [name, inputOf(inner, parts[name] ?? "")] as const);
      return Object.fromEntries(entries.filter(([, value]) => value !== undefined));
    }
    case "list": {
      const items = Array.isArray(draft) ? draft : [];
      return items.length > 0 || field.isRequired ? items.map((item) => inputOf(field.item, item)) : undefined;
    }
    default:
      return leafOf(field, typeof draft === "string" ? draft : "");
  }
}

/** Whether anything was typed into a part of a form. */
function isTyped(draft: Draft): boolean {
  if (typeof draft === "string") return draft !== "";
  return Array.isArray(draft) ? draft.length > 0 : Object.values(draft).some(isTyped);
}

function leafOf(field: Exclude<Field, { kind: "object" | "list" }>, text: string): unknown {
  // An empty text is one that was typed, where there has to be one.
  if (text === "") return field.kind === "string" && field.isRequired ? "" : undefined;
  switch (field.kind) {
    case "choice":
      return field.choices[Number(text)];
    case "number":
      // What is no number is sent as it is, for the server to say so.
      return text.trim() !== "" && Number.isFinite(Number(text)) ? Number(text) : text;
    case "json":
      try {
        return JSON.parse(text) as unknown;
      } catch (error) {
        throw new NotJson(field.title, error);
      }
    case "string":
      return text;
  }
}

function isObject(value: unknown): value is Json {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
