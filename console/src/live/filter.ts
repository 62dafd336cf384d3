// Which calls are shown.

import { signal } from "@preact/signals";

import type { CallRow } from "../world/calls";

/** A part of an id or of the names of tool, client and session. */
export const text = signal("");
/** Empty: all of them. */
export const state = signal("");
export const outcome = signal("");

export function isFiltered(): boolean {
  return text.value.trim() !== "" || state.value !== "" || outcome.value !== "";
}

export function clearFilter(): void {
  text.value = "";
  state.value = "";
  outcome.value = "";
}

/** Those that are to be shown, the newest first. */
export function shown(rows: readonly CallRow[]): CallRow[] {
  const words = text.value.toLowerCase().split(/\s+/).filter(Boolean);
  const [wantedState, wantedOutcome] = [state.value, outcome.value];
  const found: CallRow[] = [];
  for (let index = rows.length - 1; index >= 0; index -= 1) {
    const row = rows[index];
    if (!row) continue;
    if (wantedState !== "" && row.state !== wantedState) continue;
    if (wantedOutcome !== "" && row.outcome !== wantedOutcome) continue;
    if (words.every((word) => row.text.includes(word))) found.push(row);
  }
  return found;
}
