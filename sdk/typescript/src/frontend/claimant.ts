// The name under which a tab claims calls. It is the same after a reload, and no other tab has it.

import { randomHex } from "../client-id.js";
import type { LocksLike, StorageLike } from "../tools/journal/local-storage.js";
import { after } from "../tools/time.js";
import type { Tab } from "./tab.js";

const KEY = "handback:claimant";
/** A page that is reloaded may find its name still held by the page before, for a moment; in ms. */
const PATIENCE = 500;

interface Kept {
  readonly name: string;
  readonly load: number;
}

/**
 * The name that is kept in this tab, or a new one: for a tab that has none, for one that was duplicated (its storage is a
 * copy), and for a second executor of the same page. Without Web Locks (they need https or localhost) a duplicate is not
 * noticed, and both tabs count as one.
 */
export async function claimantOf({ storage, locks, load }: Tab): Promise<string> {
  const kept = parse(storage?.getItem(KEY));
  // Another executor of this page has it, and needs it again after a reload.
  if (kept?.load === load) return randomHex(16);
  const name = kept?.name ?? randomHex(16);
  // Before the lock is there: a second executor must see it at once.
  keep({ name, load }, storage);
  if (await hold(name, locks)) return name;
  const another = randomHex(16);
  keep({ name: another, load }, storage);
  await hold(another, locks);
  return another;
}

function keep(kept: Kept, storage: StorageLike | undefined): void {
  try {
    storage?.setItem(KEY, JSON.stringify(kept));
  } catch {
    // There is no room: after a reload this is another tab, and calls that are under way then end by their deadline.
  }
}

/** Takes the lock of a name until the page is gone; `false` if another page has it. */
function hold(name: string, locks: LocksLike | undefined): Promise<boolean> {
  if (!locks) return Promise.resolve(true);
  return new Promise((resolve) => {
    const late = new AbortController();
    const callOff = after(PATIENCE, () => late.abort());
    const held = () => {
      callOff();
      resolve(true);
      return new Promise<void>(() => undefined);
    };
    locks.request(`${KEY}:${name}`, { signal: late.signal }, held).catch(() => {
      callOff();
      // Where locks are forbidden it is as if there were none.
      resolve(!late.signal.aborted);
    });
  });
}

function parse(text: string | null | undefined): Kept | undefined {
  try {
    const kept = JSON.parse(text ?? "null") as Partial<Kept> | null;
    return typeof kept?.name === "string" && kept.name !== "" ? (kept as Kept) : undefined;
  } catch {
    // Somebody else wrote it.
    return undefined;
  }
}
