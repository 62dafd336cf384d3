import type { ComponentChildren } from "preact";

export type Tone = "good" | "bad" | "busy" | "wait" | "calm";

/** A word that stands out; never by its colour alone. */
export function Badge({ tone, title, children }: { tone: Tone; title?: string; children: ComponentChildren }) {
  return (
    <span class={`badge ${tone}`} title={title}>
      {children}
    </span>
  );
}
