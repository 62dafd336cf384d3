// Which conversation this tab is in: it is in the address, so that another tab can show it too.

import { signal } from "@preact/signals";

import { Kept } from "../storage";

const PATH = "#/session/";
/** Kept as long as the tab lives, for the way back from the other pages. */
const kept = new Kept(() => sessionStorage, "handback.session");

/** None: one begins with what is said first. */
export const sessionID = signal<string | undefined>(undefined);

/** Follows the address, until the page is left. */
export function followAddress(): void {
  window.addEventListener("hashchange", read);
  read();
}

/** Goes to a conversation, or to a new one. */
export function goTo(id: string | undefined): void {
  kept.value = id;
  sessionID.value = id;
  window.location.hash = id === undefined ? "#/" : PATH + encodeURIComponent(id);
}

function read(): void {
  const { hash } = window.location;
  if (hash.startsWith(PATH)) {
    const id = decode(hash.slice(PATH.length));
    if (id !== "") kept.value = id;
    sessionID.value = id || undefined;
  } else if (hash === "" || hash === "#/") {
    const id = kept.value;
    sessionID.value = id;
    if (id !== undefined) history.replaceState(null, "", PATH + encodeURIComponent(id));
  }
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    // Somebody typed it; the server does not know it, and the page says so.
    return text;
  }
}
