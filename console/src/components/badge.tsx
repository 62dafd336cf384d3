import type { ComponentChildren } from "preact";

export type Tone = "good" | "bad" | "busy" | "wait" | "calm";

/** A word that stands out; never by its colour alone. */
export function Badge({ tone, children }: { tone: Tone; children: ComponentChildren }) {
  return <span class={`badge ${tone}`}>{children}</span>;
}
