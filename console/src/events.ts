// What happens on the server, as it happens: one stream for the whole tab, as narrow as what the tab shows. Browsers open only
// six connections to a host, for all tabs together.

import type { HandbackEvent } from "@handback/client";
import { EventFeed, type Listener, type Notice, type Topic } from "@handback/feed";
import { computed, effect, signal } from "@preact/signals";

import { askForKey, http, isKeyWanted, key, messageOf } from "./api";
import { page } from "./router";

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

/** What the playground wants to hear of; unknown until it was shown. */
export const playgroundTopic = signal<Topic | undefined>(undefined);

const EVERYTHING: Topic = {};
/** What is to be heard of; unknown for a moment when the playground is about to be shown for the first time. */
const topic = computed(() => (page.value.name === "Playground" ? playgroundTopic.value : EVERYTHING));

const listeners = new Set<Listener>();
let stream: { topic: Topic; stop: () => void } | undefined;

/**
 * Tells what happens from now on, as far as the page that is shown wants to hear of it, until the returned function is
 * called. What was before `connected` is not told: read it then. `connected` comes at once if the stream is open, and again
 * when another page wants to hear of something else.
 */
export function subscribe(listener: Listener): () => void {
  const told: Listener = (notice) => listener(notice);
  listeners.add(told);
  if (connection.peek().state === "open" && stream?.topic === topic.peek()) told({ type: "connected" });
  return () => void listeners.delete(told);
}

/** Connects anew, without waiting for the next try. */
export function reconnect(): void {
  if (topic.value === undefined) return;
  stream?.stop();
  connection.value = { state: "connecting" };
  stream = { topic: topic.value, stop: new EventFeed(http.value, topic.value).subscribe(hear) };
}

/** Opens the stream, and another one when the key or the topic is another, until the returned function is called. */
export function start(): () => void {
  const stopFollowing = effect(() => {
    void key.value;
    reconnect();
  });
  return () => {
    stopFollowing();
    stream?.stop();
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
