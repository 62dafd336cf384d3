// How calls are spoken of.

import type { CallState } from "@handback/client";

import type { Tone } from "../components/badge";
import type { CallRow, OutcomeStatus } from "../world/calls";

export const STATES: Record<CallState, string> = {
  awaiting_approval: "Awaiting approval",
  queued: "Queued",
  offered: "Running",
  done: "Done",
};

export const OUTCOMES: Record<OutcomeStatus, string> = {
  success: "Success",
  error: "Error",
  timeout: "Timeout",
  cancelled: "Cancelled",
  denied: "Denied",
  disconnected: "Disconnected",
};

export type Standing = Pick<CallRow, "state" | "outcome" | "error">;

/** Where a call stands, or how it ended. */
export function standing({ state, outcome, error }: Standing): { tone: Tone; word: string } {
  if (state === "awaiting_approval") return { tone: "wait", word: STATES[state] };
  if (state === "queued") return { tone: "calm", word: STATES[state] };
  if (state === "offered") return { tone: "busy", word: STATES[state] };
  if (outcome === undefined) return error === undefined ? { tone: "calm", word: "Unknown" } : { tone: "bad", word: "Failed" };
  return { tone: outcome === "success" ? "good" : outcome === "cancelled" ? "calm" : "bad", word: OUTCOMES[outcome] };
}

/** A tool's own name, without the client that it belongs to. */
export function shortName(tool: string, clientID: string): string {
  const prefix = `client_${clientID}_`;
  return tool.startsWith(prefix) ? tool.slice(prefix.length) : tool;
}

/** A time, as short as it can be read. */
export function duration(time: number): string {
  if (time < 10) return `${Number(time.toPrecision(time < 1 ? 1 : 2))} ms`;
  if (time < 1000) return `${Math.round(time)} ms`;
  if (time < 60_000) return `${Number((time / 1000).toFixed(time < 10_000 ? 2 : 1))} s`;
  const seconds = Math.round(time / 1000);
  return `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
}

const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false });

export function timeOfDay(time: number): string {
  return clock.format(time);
}
