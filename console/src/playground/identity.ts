// Who this page is to the server.

import { Kept } from "../storage";

const kept = new Kept(() => localStorage, "handback.playground");
const PREFIX = "playground";

/**
 * A client for one conversation. A call that no tab has asked for goes to any connection of its client: were all tabs one
 * client, a question of one conversation would be asked in the tab that shows another. The first part is this browser's, for people
 * to tell their clients from those of others.
 */
export function newClientID(): string {
  return `${PREFIX}-${browserName()}-${randomHex(3)}`;
}

/** Whether a session was begun in a playground: only there may this page offer its tools in the client's name. */
export function isPlayground(clientID: string): boolean {
  return clientID.startsWith(`${PREFIX}-`);
}

function browserName(): string {
  const known = kept.value;
  if (known !== undefined && /^[0-9a-f]{6}$/.test(known)) return known;
  const name = randomHex(3);
  kept.value = name;
  return name;
}

function randomHex(bytes: number): string {
  const random = crypto.getRandomValues(new Uint8Array(bytes));
  return Array.from(random, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
