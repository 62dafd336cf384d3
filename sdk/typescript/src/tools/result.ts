// What is sent back for a call.

import type { components } from "../wire.js";

export type ToolResult = components["schemas"]["ToolResult"];

export function failure(error: string): ToolResult {
  return { status: "error", error };
}

/** The result of a handler that gave this. It is plain JSON from here on: whatever the handler still does to it. */
export function resultOf(given: unknown): ToolResult {
  let fields: Record<string, unknown>;
  if (typeof given === "string") {
    fields = { output: given };
  } else if (given === undefined || given === null) {
    fields = {};
  } else if (typeof given === "object" && !Array.isArray(given)) {
    const { title, output, metadata, attachments } = given as Record<string, unknown>;
    fields = { title, output, metadata, attachments };
  } else {
    const kind = Array.isArray(given) ? "an array" : `a ${typeof given}`;
    return failure(
      `the tool ran, but gave ${kind}; it must give a string or {title?, output?, metadata?, attachments?}`,
    );
  }
  try {
    return JSON.parse(JSON.stringify({ status: "success", ...fields })) as ToolResult;
  } catch (error) {
    return failure(`the tool ran, but its result cannot be written as JSON: ${messageOf(error)}`);
  }
}

/** What was thrown, for the model to read. */
export function messageOf(thrown: unknown): string {
  if (thrown instanceof Error) return thrown.message || thrown.name;
  try {
    return String(thrown);
  } catch {
    return "the tool threw something that cannot be shown";
  }
}
