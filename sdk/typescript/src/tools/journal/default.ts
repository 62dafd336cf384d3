// The journal of a manager that is given none.

import type { Journal } from "./journal.js";
import { localStorageJournal } from "./local-storage.js";
import { memoryJournal } from "./memory.js";

/** The page's storage where there is a page and it may store something; memory elsewhere. */
export function defaultJournal(): Journal {
  if (!("document" in globalThis)) return memoryJournal();
  try {
    const { localStorage: storage, navigator } = globalThis;
    const probe = "handback:probe";
    storage.setItem(probe, "");
    storage.removeItem(probe);
    return localStorageJournal(storage, navigator.locks);
  } catch {
    // A sandboxed frame, a private window, a full disk: a call that comes again has an unknown outcome then.
    return memoryJournal();
  }
}
