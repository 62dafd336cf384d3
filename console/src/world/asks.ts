// Calls that wait until somebody allows them.

import { type HandbackEvent, HandbackError, type Permission, type Reply, type ReplyOptions } from "@handback/client";
import { signal } from "@preact/signals";

import { messageOf, request } from "../api";

/** The oldest first. */
export const asks = signal<readonly Permission[]>([]);
export const asksTrouble = signal<string | undefined>(undefined);

/** How long to wait after a failure that may pass, in ms. */
const PATIENCE = 2000;
/** How many asks are told of while the list is on its way; with more, the list is read again. */
const MOST_HEARD = 1000;

/** What was told while the list is on its way, by id: the ask, or nothing where it was answered. */
type Heard = Map<string, Permission | undefined>;

/** Of the latest reading, which alone counts; none when it is over. */
let heard: Heard | undefined;

export async function readAsks(): Promise<void> {
  const meanwhile: Heard = new Map();
  heard = meanwhile;
  try {
    const listed = await request<Permission[]>("GET", ["permission"]);
    if (heard !== meanwhile) return;
    heard = undefined;
    const told = [...meanwhile.values()].filter((ask) => ask !== undefined);
    asks.value = [...listed.filter(({ id }) => !meanwhile.has(id)), ...told];
    asksTrouble.value = undefined;
    if (meanwhile.size >= MOST_HEARD) void readAsks();
  } catch (error) {
    if (heard !== meanwhile) return;
    if (error instanceof HandbackError && error.transient) {
      setTimeout(() => heard === meanwhile && void readAsks(), error.retryAfter ?? PATIENCE);
    } else {
      heard = undefined;
      asksTrouble.value = messageOf(error);
    }
  }
}

export function hearOfAsks(event: HandbackEvent): void {
  if (event.type === "permission.updated") take(event.properties.id, event.properties);
  else if (event.type === "permission.replied") take(event.properties.permissionID, undefined);
}

/** Answers; whoever was faster counts, and then it is just gone. */
export async function replyTo(ask: Permission, reply: Reply, more: ReplyOptions = {}): Promise<void> {
  try {
    await request("POST", ["permission", ask.id, "reply"], { body: { reply, ...more } });
  } catch (error) {
    if (!(error instanceof HandbackError) || error.status !== 404) throw error;
  }
  take(ask.id, undefined);
}

/** An ask that is new, or was answered. */
function take(id: string, ask: Permission | undefined): void {
  if (heard && heard.size < MOST_HEARD) heard.set(id, ask);
  const others = asks.value.filter((known) => known.id !== id);
  asks.value = ask ? [...others, ask] : others;
}
