// What is sent back for a call.

import type { components } from "../wire.js";

export type ToolResult = components["schemas"]["ToolResult"];

interface Fields {
  title?: unknown;
  output?: unknown;
  metadata?: unknown;
  attachments?: unknown;
}

export function failure(error: string): ToolResult {
  return { status: "error", error };
}

/** The result of a handler that gave this. It is plain JSON from here on: whatever the handler still does to it. */
export function resultOf(given: unknown): ToolResult {
  const isObject = typeof given === "object" && !Array.isArray(given);
  if (typeof given !== "string" && given !== undefined && !isObject) {
    const kind = Array.isArray(given) ? "an array" : `a ${typeof given}`;
    return failure(
      `the tool ran, but gave ${kind}; it must give a string or {title?, output?, metadata?, attachments?}`,
    );
  }
  try {
    // Reading it may run code of the tool, too.
    const fields: Fields = typeof given === "string" ? { output: given } : (given ?? {});
    const { title, output, metadata, attachments } = fields;
    return JSON.parse(JSON.stringify({ status: "success", title, output, metadata, attachments })) as ToolResult;
  } catch (error) {
    return failure(`the tool ran, but its result cannot be written as JSON: ${messageOf(error)}`);
  }
}

/** What was thrown, for the model to read. Not only errors have a message: some libraries throw objects. */
export function messageOf(thrown: unknown): string {
  try {
    const message = (thrown as { message?: unknown } | null | undefined)?.message ?? "";
    if (message !== "") return String(message);
    return thrown instanceof Error ? thrown.name : String(thrown);
  } catch {
    return "the tool threw something that cannot be shown";
  }
}
