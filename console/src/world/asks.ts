// Calls that wait until somebody allows them.

import { type HandbackEvent, HandbackError, type Permission, type Reply, type ReplyOptions } from "@handback/client";
import { signal } from "@preact/signals";

import { messageOf, request } from "../api";

/** The oldest first. */
export const asks = signal<readonly Permission[]>([]);
export const asksTrouble = signal<string | undefined>(undefined);

/** Those that were answered while the list was on its way. */
const answered = new Set<string>();

export async function readAsks(): Promise<void> {
  answered.clear();
  try {
    const listed = await request<Permission[]>("GET", ["permission"]);
    asks.value = listed.filter(({ id }) => !answered.has(id));
    asksTrouble.value = undefined;
  } catch (error) {
    if (!(error instanceof HandbackError) || !error.transient) asksTrouble.value = messageOf(error);
  }
}

export function hearOfAsks(event: HandbackEvent): void {
  if (event.type === "permission.updated") {
    const asked = event.properties;
    asks.value = [...asks.value.filter(({ id }) => id !== asked.id), asked];
  } else if (event.type === "permission.replied") {
    const { permissionID } = event.properties;
    if (answered.size < 1000) answered.add(permissionID);
    asks.value = asks.value.filter(({ id }) => id !== permissionID);
  }
}

/** Answers; whoever was faster counts, and then it is just gone. */
export async function replyTo(ask: Permission, reply: Reply, more: ReplyOptions = {}): Promise<void> {
  try {
    await request("POST", ["permission", ask.id, "reply"], { body: { reply, ...more } });
  } catch (error) {
    if (!(error instanceof HandbackError) || error.status !== 404) throw error;
  }
  asks.value = asks.value.filter(({ id }) => id !== ask.id);
}
