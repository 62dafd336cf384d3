// Who is connected, and with which tools.

import { type HandbackEvent, HandbackError, type Tool } from "@handback/client";
import { computed, signal } from "@preact/signals";

import { messageOf, request } from "../api";
import { type Connection, connection } from "../events";

export interface Client {
  id: string;
  connections: number;
  tools: number;
  calls: number;
  since: string;
}

/** How long to wait for more before clients are read again, in ms. */
const GATHER = 300;
/** No event tells of connections that come and go: they are read so often while somebody looks, in ms. */
const LOOK = 3000;

/** In natural order: client2 is before client10. */
export const clients = signal<readonly Client[]>([]);
/** The connection in which they were last read; none if that failed. */
const readIn = signal<Connection | undefined>(undefined);
/** Whether what is known of them is so now: it may be old since the connection was lost. */
export const areClientsCurrent = computed(() => connection.value.state === "open" && readIn.value === connection.value);
export const clientsTrouble = signal<string | undefined>(undefined);
/** The tools of the clients that somebody looks at. */
export const toolsOf = signal<ReadonlyMap<string, readonly Tool[]>>(new Map());

const watched = new Set<string>();
let due: ReturnType<typeof setTimeout> | undefined;

/** Reads them soon. */
export function wantClients(): void {
  due ??= setTimeout(() => void readClients(), GATHER);
}

/** Reads them soon, and the tools that somebody looks at. */
export function wantAllClients(): void {
  wantClients();
  for (const clientID of watched) void readTools(clientID);
}

/** Keeps them fresh until the returned function is called. */
export function watchClients(): () => void {
  wantClients();
  const interval = setInterval(() => document.visibilityState === "visible" && wantClients(), LOOK);
  return () => clearInterval(interval);
}

/** Keeps the tools of a client fresh until the returned function is called. */
export function watchTools(clientID: string): () => void {
  watched.add(clientID);
  void readTools(clientID);
  return () => void watched.delete(clientID);
}

export function hearOfClients(event: HandbackEvent): void {
  if (!event.type.startsWith("client-tool.")) return;
  wantClients();
  if (event.type !== "client-tool.registered" && event.type !== "client-tool.unregistered") return;
  if (watched.has(event.properties.clientID)) void readTools(event.properties.clientID);
}

const { compare } = new Intl.Collator("en", { numeric: true });

async function readClients(): Promise<void> {
  const now = connection.value;
  try {
    const read = await request<Client[]>("GET", ["client-tools", "clients"]);
    clients.value = read.sort((one, other) => compare(one.id, other.id));
    readIn.value = now;
    clientsTrouble.value = undefined;
  } catch (error) {
    readIn.value = undefined;
    note(error);
  } finally {
    due = undefined;
    // Whoever wanted them meanwhile has waited for this reading, which may be of before.
    if (connection.value !== now) wantClients();
  }
}

async function readTools(clientID: string): Promise<void> {
  try {
    const tools = await request<Tool[]>("GET", ["client-tools", "tools", clientID]);
    // Only of those that are looked at now.
    const kept = [...toolsOf.value].filter(([id]) => watched.has(id));
    toolsOf.value = new Map([...kept, [clientID, tools]]);
    clientsTrouble.value = undefined;
  } catch (error) {
    note(error);
  }
}

/** A lost connection is shown by the page as a whole. */
function note(error: unknown): void {
  if (!(error instanceof HandbackError) || !error.transient) clientsTrouble.value = messageOf(error);
}
