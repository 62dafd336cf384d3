// How a tool call stands, in words.

import type { FrontendCallState, ToolPart } from "@handback/client";

import type { Tone } from "../components/badge";
import type { OutcomeStatus } from "../world/calls";

export interface Standing {
  tone: Tone;
  word: string;
  /** Whether nothing more comes of it. */
  isOver: boolean;
}

const ENDED: Partial<Record<OutcomeStatus, Standing>> = {
  timeout: { tone: "bad", word: "Timed out", isOver: true },
  denied: { tone: "bad", word: "Denied", isOver: true },
  cancelled: { tone: "calm", word: "Cancelled", isOver: true },
  disconnected: { tone: "bad", word: "Disconnected", isOver: true },
};

/** How a call stands; `outcome` is what the server's list of calls says, if it still knows it. */
export function standing({ state }: ToolPart, outcome: OutcomeStatus | undefined, isAsked: boolean): Standing {
  if (state.status === "completed" || state.status === "error") {
    // A timeout of a frontend's call is an answer to the model.
    const ended = (outcome && ENDED[outcome]) ?? (ackOf(state.output)?.status === "timeout" ? ENDED.timeout : undefined);
    if (ended) return ended;
    return state.status === "error" ? { tone: "bad", word: "Failed", isOver: true } : { tone: "good", word: "Done", isOver: true };
  }
  if (isAsked) return { tone: "wait", word: "Waits for you", isOver: false };
  return { tone: "busy", word: state.status === "pending" ? "Being written" : "Running", isOver: false };
}

export interface Ack {
  status?: unknown;
  output?: unknown;
}

/** What a frontend's call gave, if that is what it is. */
export function ackOf(output: string | null | undefined): Ack | undefined {
  try {
    const ack: unknown = JSON.parse(output ?? "");
    return typeof ack === "object" && ack !== null && "status" in ack ? ack : undefined;
  } catch {
    return undefined;
  }
}

/** What became of an address that was to be opened, for the user. */
export function opening(part: ToolPart, call: FrontendCallState | undefined): string {
  if (!call) return toldByServer(part);
  const { phase, outcome, error, errorText } = call;
  if (phase === "claiming") return error === undefined ? "Opening…" : "The server could not be asked: trying again";
  if (phase === "waiting") return "Waits to be allowed";
  if (phase === "running") return "Opening…";
  if (phase === "elsewhere") return elsewhere(part);
  if (phase === "unknown" || phase === "expired") return "The call was already over";
  if (phase === "failed" && outcome === undefined) return `The server could not be asked: ${error ?? "it did not say why"}`;
  const untold = phase === "acking" && error !== undefined ? ". The server could not be told: trying again" : "";
  if (outcome !== "success") return notOpened(outcome, errorText) + untold;
  // A person has tried it again, without success.
  if (errorText !== undefined) return notOpened("failed", errorText);
  if (phase === "done" || phase === "acking") return `Opened${untold}`;
  const isRefused = call.ackStatus !== undefined && call.ackStatus < 500 && call.ackStatus !== 429;
  return isRefused ? "Opened, but the call was already over" : "Opened, but the server could not be told";
}

function notOpened(outcome: FrontendCallState["outcome"], reason: string | undefined): string {
  if (outcome === "timeout") return "It was not opened in time";
  if (reason?.startsWith("The browser blocked")) return "The browser blocked it: press Open";
  return `Not opened: ${reason ?? "nobody knows why"}`;
}

/** Another tab has the call; how it ended says the server. */
function elsewhere(part: ToolPart): string {
  if (part.state.status === "running") return "Another tab is opening it";
  return part.state.status === "completed" && ackOf(part.state.output)?.status === "success"
    ? "Another tab has opened it"
    : toldByServer(part);
}

/** Of a call that this tab knows nothing of: it is of an earlier time. */
function toldByServer({ state }: ToolPart): string {
  if (state.status === "error") return notOpened("failed", state.error ?? undefined);
  if (state.status !== "completed") return "";
  return ackOf(state.output)?.status === "success" ? "Opened" : notOpened("timeout", undefined);
}
