// The name of a client that was not given one.

/** Where a browser keeps it: a reload, and a second tab, are the same client. */
const KEY = "handback.clientID";
/** Short, since it is part of every tool's name, of which models take 64 characters; still nobody has the same. */
const RANDOM_BYTES = 10;

/** A random id: in a browser the one that is kept for this origin, elsewhere a new one. */
export function defaultClientID(): string {
  const storage = localStorageOrNone();
  if (!storage) return randomHex(RANDOM_BYTES);
  try {
    const kept = storage.getItem(KEY);
    if (kept !== null && /^[0-9a-f]{20}$/.test(kept)) return kept;
    storage.setItem(KEY, randomHex(RANDOM_BYTES));
    // Another tab may have been quicker: what is kept counts, for both.
    return storage.getItem(KEY) ?? randomHex(RANDOM_BYTES);
  } catch {
    // Full, or forbidden: the page is a client of its own.
    return randomHex(RANDOM_BYTES);
  }
}

export function randomHex(bytes: number): string {
  const random = crypto.getRandomValues(new Uint8Array(bytes));
  return Array.from(random, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** Newer Nodes have a `localStorage` too, which warns when it is touched: only that of a page is meant. */
function localStorageOrNone(): Storage | undefined {
  if (typeof document === "undefined") return undefined;
  try {
    return globalThis.localStorage;
  } catch {
    // A sandboxed frame may not even look at it.
    return undefined;
  }
}
