// Says what changes to those who do not see it.

import { signal } from "@preact/signals";

const said = signal("");

/** Read out when the reader has time; only the latest counts. */
export function announce(text: string): void {
  said.value = text;
}

export function Announcer() {
  return (
    <div class="hidden" role="status" aria-live="polite">
      {said.value}
    </div>
  );
}
