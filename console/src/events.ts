// All that happens on the server, as it happens: one stream for the whole tab.

import type { HandbackEvent } from "@handback/client";
import { EventFeed, type Listener, type Notice } from "@handback/feed";
import { effect, signal } from "@preact/signals";

import { askForKey, http, isKeyWanted, key, messageOf } from "./api";

export type { HandbackEvent, Listener, Notice };

export type Connection =
  | { state: "connecting" }
  | { state: "open" }
  /** It is tried again by itself. */
  | { state: "lost"; reason: string }
  /** It is not. */
  | { state: "failed"; reason: string };

/** Whether the page hears what happens. */
export const connection = signal<Connection>({ state: "connecting" });

const listeners = new Set<Listener>();
let stop: (() => void) | undefined;

/**
 * Tells what happens from now on, until the returned function is called. What was before `connected` is not told: read
 * it then. `connected` comes at once if the stream is open.
 */
export function subscribe(listener: Listener): () => void {
  const told: Listener = (notice) => listener(notice);
  listeners.add(told);
  if (connection.value.state === "open") told({ type: "connected" });
  return () => void listeners.delete(told);
}

/** Connects anew, without waiting for the next try. */
export function reconnect(): void {
  stop?.();
  connection.value = { state: "connecting" };
  stop = new EventFeed(http.value).subscribe(hear);
}

/** Opens the stream, and opens it again when the key is another, until the returned function is called. */
export function start(): () => void {
  const stopFollowing = effect(() => {
    void key.value;
    reconnect();
  });
  return () => {
    stopFollowing();
    stop?.();
  };
}

function hear(notice: Notice): void {
  if (notice.type === "connected") connection.value = { state: "open" };
  if (notice.type === "lost") connection.value = { state: "lost", reason: messageOf(notice.error) };
  if (notice.type === "failed") {
    askForKey(notice.error);
    const reason = isKeyWanted.value ? "a key is needed" : messageOf(notice.error);
    connection.value = { state: "failed", reason };
  }
  for (const listener of [...listeners]) listener(notice);
}
