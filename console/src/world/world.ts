// What the page knows of the server: read when it connects, then kept up by what it hears.

import { computed, effect, signal, untracked } from "@preact/signals";

import { connection, subscribe } from "../events";
import { page } from "../router";
import { hearOfAsks, readAsks } from "./asks";
import { Beat } from "./beat";
import { Calls } from "./calls";
import { hearOfClients, wantAllClients } from "./clients";
import { Reader } from "./reader";

/** How often calls under way are read again, in ms: no event tells that a client takes one, or loses it. */
const LOOK = 2000;

const beat = new Beat();

export const calls = new Calls();
export const reader = new Reader(calls, beat.mark);
/** Another number whenever calls have changed. */
export const callsBeat = beat.signal;

const isVisible = signal(document.visibilityState === "visible");
document.addEventListener("visibilitychange", () => (isVisible.value = document.visibilityState === "visible"));

/** Whether somebody looks at calls and clients, which are much to read: the playground shows neither, and hears of its own. */
const isLookedAt = computed(() => isVisible.value && page.value.name !== "Playground");

export function follow(): void {
  subscribe((notice) => {
    if (notice.type === "connected") void readAsks();
    if (notice.type !== "event") return;
    hearOfAsks(notice.event);
    const changed = calls.hear(notice.event);
    if (changed?.length !== 0) beat.mark();
    if (!isLookedAt.value) return;
    reader.want(changed);
    hearOfClients(notice.event);
  });
  effect(() => {
    if (!isLookedAt.value || connection.value.state !== "open") return;
    untracked(catchUp);
    const looking = setInterval(readUnderWay, LOOK);
    return () => clearInterval(looking);
  });
}

function catchUp(): void {
  wantAllClients();
  reader.want(undefined);
  // Whatever became of them meanwhile.
  readUnderWay();
}

function readUnderWay(): void {
  reader.want(calls.underWay().map(({ requestID }) => requestID));
}
