// What the tabs of a browser share, without a browser.

import type { LocksLike, StorageLike } from "../../src/tools/journal/local-storage.js";

/** `localStorage` with room for so many characters, in one item and in all. */
export class FakeStorage implements StorageLike {
  readonly #items = new Map<string, string>();
  room = Number.POSITIVE_INFINITY;
  capacity = Number.POSITIVE_INFINITY;

  /** The characters of all items but one. */
  sizeWithout(key?: string): number {
    return [...this.#items].reduce((size, [other, value]) => size + (other === key ? 0 : value.length), 0);
  }

  get length(): number {
    return this.#items.size;
  }

  key(index: number): string | null {
    return [...this.#items.keys()][index] ?? null;
  }

  getItem(key: string): string | null {
    return this.#items.get(key) ?? null;
  }

  setItem(key: string, value: string): void {
    const isFull = this.sizeWithout(key) + value.length > this.capacity;
    if (isFull || value.length > this.room) throw new DOMException("the quota has been exceeded", "QuotaExceededError");
    this.#items.set(key, value);
  }

  removeItem(key: string): void {
    this.#items.delete(key);
  }
}

/** What waits for locks and holds them, in all tabs. */
export class FakeLocks {
  readonly #queues = new Map<string, { tab: FakeTab; grant: () => void }[]>();

  /** The locks that are held or waited for. */
  get names(): string[] {
    return [...this.#queues.keys()];
  }

  enter(name: string, tab: FakeTab, grant: () => void): () => void {
    const queue = this.#queues.get(name) ?? [];
    this.#queues.set(name, queue);
    const place = { tab, grant };
    queue.push(place);
    if (queue[0] === place) grant();
    return () => this.#leave(name, (other) => other === place);
  }

  /** A tab is gone, and with it what it holds. */
  forget(tab: FakeTab): void {
    for (const name of this.names) this.#leave(name, (place) => place.tab === tab);
  }

  #leave(name: string, isGone: (place: { tab: FakeTab; grant: () => void }) => boolean): void {
    const queue = this.#queues.get(name) ?? [];
    const holder = queue[0];
    const rest = queue.filter((place) => !isGone(place));
    if (rest.length === 0) this.#queues.delete(name);
    else this.#queues.set(name, rest);
    if (rest[0] !== holder) rest[0]?.grant();
  }
}

/** `navigator.locks` of one tab. */
export class FakeTab implements LocksLike {
  readonly #locks: FakeLocks;

  constructor(locks: FakeLocks) {
    this.#locks = locks;
  }

  async request(name: string, { signal }: { signal: AbortSignal }, run: () => Promise<void>): Promise<void> {
    signal.throwIfAborted();
    let leave = () => {};
    let giveUp = () => {};
    await new Promise<void>((resolve, reject) => {
      giveUp = () => {
        leave();
        reject(signal.reason);
      };
      signal.addEventListener("abort", giveUp);
      leave = this.#locks.enter(name, this, resolve);
    });
    signal.removeEventListener("abort", giveUp);
    await run();
    leave();
  }

  /** Closes the tab: nobody learns what it was doing. */
  close(): void {
    this.#locks.forget(this);
  }
}
