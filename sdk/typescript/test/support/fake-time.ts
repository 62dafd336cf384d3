// Time that passes when a test says so.
//
// None of the tests in a file that uses this makes a real request: the timers of connections that Node's `fetch` keeps open
// would run on fake time too, and would fail later tests.

import type { TestContext } from "node:test";

export class FakeTime {
  #now = 0;
  readonly #timers: TestContext["mock"]["timers"];

  constructor(context: TestContext) {
    this.#timers = context.mock.timers;
    this.#timers.enable({ apis: ["setTimeout", "Date"], now: Date.parse("2026-11-15T12:00:00Z") });
    context.mock.method(performance, "now", () => this.#now);
  }

  /** Lets time pass, and all that it sets off happen. */
  async pass(milliseconds: number): Promise<void> {
    await settle();
    this.#now += milliseconds;
    this.#timers.tick(milliseconds);
    await settle();
  }
}

/** Lets everything happen that waits for nothing. */
export async function settle(): Promise<void> {
  for (let turn = 0; turn < 5; turn += 1) await new Promise((resolve) => setImmediate(resolve));
}
