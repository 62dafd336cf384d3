// The server that the page came from, and the key to speak to it.

import { HandbackError, Http, type RequestOptions } from "@handback/client";
import { computed, signal } from "@preact/signals";

import { Kept } from "./storage";

/** Kept as long as the tab lives. */
const keptKey = new Kept(() => sessionStorage, "handback.key");

/** Where the server is: the page is at its root, wherever that is. */
export const baseUrl = new URL(".", window.location.href).href;

/** The application key that requests carry. */
export const key = signal<string | undefined>(keptKey.value);

/** Whether the server wants a key, or another one. */
export const isKeyWanted = signal(false);

/** Whether somebody wants to enter another key. */
export const isKeyChanging = signal(false);

/** Requests to the server, with the key of now. */
export const http = computed(() => new Http({ baseUrl, token: key.value }));

/** Uses a key from now on. */
export function useKey(given: string): void {
  keptKey.value = given;
  isKeyWanted.value = false;
  isKeyChanging.value = false;
  key.value = given;
}

/**
 * Whether a key can do all that the console does. A client token is refused with 403 here; in most other places it is
 * accepted, and answered with what concerns its client alone.
 */
export async function checkKey(given: string): Promise<"good" | "wrong" | "client token"> {
  try {
    await new Http({ baseUrl, token: given }).request("HEAD", ["doc"]);
    return "good";
  } catch (error) {
    if (error instanceof HandbackError && error.status === 401) return "wrong";
    if (error instanceof HandbackError && error.status === 403) return "client token";
    throw error;
  }
}

/** JSON there, JSON back. Rejects with a `HandbackError`; whoever has no key is asked for one besides. */
export function request<T>(method: string, path: string[], options?: RequestOptions): Promise<T> {
  return requestWith(http.value, method, path, options);
}

export interface Page<T> {
  entries: T[];
  /** The `cursor` of the page after this one; none if it is the last. */
  next: string | undefined;
}

/** One page of a listing. */
export async function requestPage<T>(path: string[], query: RequestOptions["query"]): Promise<Page<T>> {
  let next: string | undefined;
  // The cursor is in a header, and requests give the body only.
  const listening: typeof fetch = async (input, init) => {
    const response = await fetch(input, init);
    next = response.headers.get("x-next-cursor") ?? undefined;
    return response;
  };
  const paging = new Http({ baseUrl, token: key.value, fetch: listening });
  const entries = await requestWith<T[]>(paging, "GET", path, { query });
  return { entries, next };
}

async function requestWith<T>(by: Http, method: string, path: string[], options?: RequestOptions): Promise<T> {
  const used = key.value;
  try {
    return await by.request<T>(method, path, options);
  } catch (error) {
    // One that was made with the key before says nothing about this one.
    if (key.value === used) askForKey(error);
    throw error;
  }
}

/** Asks for the key, if the lack of it is what failed. */
export function askForKey(error: unknown): void {
  if (error instanceof HandbackError && error.status === 401) isKeyWanted.value = true;
}

/** What went wrong, for people: what the server said, without the request that it was said to. */
export function messageOf(error: unknown): string {
  if (error instanceof HandbackError && error.kind === "refused") return error.message.replace(/ \([A-Z]+ http\S+: \d+\)$/, "");
  return error instanceof Error ? error.message : String(error);
}
