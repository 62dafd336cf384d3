// All that happens on the server, as it happens: one stream for the whole tab.

import type { HandbackEvent } from "@handback/client";
import { EventFeed, type Listener, type Notice } from "@handback/feed";
import { effect, signal } from "@preact/signals";

import { askForKey, baseUrl, http, isKeyWanted, key, messageOf } from "./api";

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

/** How often a shared stream says that it is alive, in ms: the SDK takes a long silence for a lost connection. */
const KEEP_ALIVE = 30_000;

/**
 * A `fetch` for clients of the SDK in this page: where they would open a stream of events of their own, they get what
 * this tab's stream tells. A browser has six connections to a server for all tabs.
 */
export const sharedFetch: typeof globalThis.fetch = (input, init) => {
  const url = input instanceof Request ? input.url : String(input);
  if (url.split("?")[0] !== new URL("event", baseUrl).href) return globalThis.fetch(input, init);
  return shareEvents(init?.signal ?? undefined);
};

function shareEvents(signal: AbortSignal | undefined): Promise<Response> {
  return new Promise((resolve, reject) => {
    const encoder = new TextEncoder();
    let stream!: ReadableStreamDefaultController<Uint8Array>;
    const body = new ReadableStream<Uint8Array>({ start: (controller) => void (stream = controller), cancel: () => end() });
    const send = (text: string) => stream.enqueue(encoder.encode(text));
    const keepAlive = setInterval(() => send(": keep-alive\n\n"), KEEP_ALIVE);
    const hearNotice = (notice: Notice) => {
      if (notice.type === "event") return send(`data: ${JSON.stringify(notice.event)}\n\n`);
      if (notice.type !== "connected") return fail(notice.error);
      send('data: {"type":"server.connected","properties":{}}\n\n');
      return resolve(new Response(body, { headers: { "content-type": "text/event-stream" } }));
    };
    let unsubscribe = () => {};
    const onAbort = () => fail(signal?.reason);
    const end = () => {
      clearInterval(keepAlive);
      unsubscribe();
      signal?.removeEventListener("abort", onAbort);
    };
    const fail = (error: unknown) => {
      end();
      stream.error(error);
      reject(error);
    };
    signal?.addEventListener("abort", onAbort, { once: true });
    unsubscribe = subscribe(hearNotice);
  });
}
