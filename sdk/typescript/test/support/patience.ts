// Nothing waits for ever, and nothing waits longer than it must.

import { test as unbounded, type TestContext } from "node:test";

/** How long anything may take on a slow machine that has other work, too; in ms. */
export const PATIENCE = 40_000;

/** A test, which is over in time: what it waits for without saying so, it does not wait for long. */
export function test(name: string, run: (test: TestContext) => Promise<void> | void, timeout = 3 * PATIENCE): void {
  void unbounded(name, { timeout }, run);
}

/** What is promised, or an error that says what did not come. */
export async function within<T>(what: string, promised: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`it did not happen in time: ${what}`)), PATIENCE);
  });
  try {
    return await Promise.race([promised, late]);
  } finally {
    clearTimeout(timer);
  }
}

/** Things as they come, and a way to wait for one. */
export class Log<T> {
  /** All that came, in order. */
  readonly all: T[] = [];
  readonly #waiting = new Set<() => void>();

  add(item: T): void {
    this.all.push(item);
    for (const look of this.#waiting) look();
  }

  /** The first item like that, now or later. */
  async until(what: string, like: (item: T) => boolean): Promise<T> {
    return within(what, this.eventually(like));
  }

  /** The same, however long it takes: the test has its own limit. */
  eventually(like: (item: T) => boolean): Promise<T> {
    return new Promise<T>((resolve) => {
      const look = () => {
        const item = this.all.find(like);
        if (item === undefined) return;
        this.#waiting.delete(look);
        resolve(item);
      };
      this.#waiting.add(look);
      look();
    });
  }

  /** Waits until there are so many. */
  async count(what: string, count: number): Promise<T[]> {
    await this.until(what, () => this.all.length >= count);
    return this.all;
  }
}

/** A promise, and who settles it. */
export function deferred<T = void>(): {
  promise: Promise<T>;
  resolve: (value: T) => void;
  reject: (error: unknown) => void;
} {
  let resolve: (value: T) => void = () => {};
  let reject: (error: unknown) => void = () => {};
  const promise = new Promise<T>((onResolve, onReject) => {
    resolve = onResolve;
    reject = onReject;
  });
  return { promise, resolve, reject };
}
