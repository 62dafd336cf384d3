// Nothing waits for ever, and nothing waits longer than it must.

import { test as unbounded } from "node:test";

/** How long anything may take on a slow machine; in ms. */
const PATIENCE = 60_000;

/**
 * A test, which is over in time: what it waits for without saying so, it does not wait for long.
 *
 * @param {string} name
 * @param {(test: import("node:test").TestContext) => Promise<void>} run
 */
export function test(name, run) {
  unbounded(name, { timeout: 2 * PATIENCE }, run);
}

/**
 * What is promised, or an error that says what did not come.
 *
 * @template T
 * @param {string} what
 * @param {Promise<T>} promised
 * @returns {Promise<T>}
 */
export async function within(what, promised) {
  /** @type {NodeJS.Timeout | undefined} */
  let timer;
  const late = new Promise((_, fails) => {
    timer = setTimeout(() => fails(new Error(`it did not happen in time: ${what}`)), PATIENCE);
  });
  try {
    return await Promise.race([promised, /** @type {Promise<never>} */ (late)]);
  } finally {
    clearTimeout(timer);
  }
}

/**
 * Asks again and again, until it is so. For what nobody tells of.
 *
 * @param {string} what
 * @param {() => Promise<boolean>} isSo
 */
export async function until(what, isSo) {
  const end = Date.now() + PATIENCE;
  while (!(await within(what, isSo()))) {
    if (Date.now() > end) throw new Error(`it did not happen in time: ${what}`);
    await new Promise((next) => setTimeout(next, 10));
  }
}

/**
 * Things as they come, and a way to wait for one.
 *
 * @template T
 */
export class Log {
  /**
   * All that came, in order.
   * @type {T[]}
   */
  all = [];

  /** @type {Set<() => void>} */
  #waiting = new Set();
  /** @type {unknown} */
  #failure;

  /** @param {T} item */
  add(item) {
    this.all.push(item);
    this.#look();
  }

  /**
   * Nothing more comes.
   *
   * @param {unknown} failure
   */
  fail(failure) {
    this.#failure = failure;
    this.#look();
  }

  #look() {
    for (const look of this.#waiting) look();
  }

  /**
   * The first item like that, now or later.
   *
   * @template {T} [S=T]
   * @param {string} what
   * @param {((item: T) => item is S) | ((item: T) => boolean)} like
   * @returns {Promise<S>}
   */
  async until(what, like) {
    /** @type {() => void} */
    let look = () => {};
    const found = new Promise((found, fails) => {
      look = () => {
        const item = this.all.find(like);
        if (item !== undefined) found(item);
        else if (this.#failure) fails(this.#failure);
      };
      this.#waiting.add(look);
      look();
    });
    try {
      return await within(what, found);
    } finally {
      this.#waiting.delete(look);
    }
  }
}
