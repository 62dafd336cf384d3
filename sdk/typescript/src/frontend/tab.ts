// The tab that the page is in, if there is one: what it keeps over a reload.

import type { LocksLike, StorageLike } from "../tools/journal/local-storage.js";

export interface Tab {
  /** What a reload leaves, and other tabs do not see. */
  readonly storage: StorageLike | undefined;
  /** Shared by all tabs of the origin. */
  readonly locks: LocksLike | undefined;
  /** When this page was loaded: it tells one load from the next. */
  readonly load: number;
}

/** The tab of this page, with these in place of what it has. Looked at when it is needed: a server renders pages, too. */
export function thisTab(given: { storage?: StorageLike | undefined; locks?: LocksLike | undefined }): Tab {
  const load = performance.timeOrigin;
  // Newer Nodes have a storage and locks, too: only those of a page are meant.
  if (!("document" in globalThis)) return { storage: given.storage, locks: given.locks, load };
  return { storage: given.storage ?? sessionStorageOrNone(), locks: given.locks ?? globalThis.navigator.locks, load };
}

function sessionStorageOrNone(): StorageLike | undefined {
  try {
    return globalThis.sessionStorage;
  } catch {
    // A sandboxed frame may not even look at it.
    return undefined;
  }
}
