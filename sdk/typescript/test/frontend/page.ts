// A page with an executor, without a browser.

import type { TestContext } from "node:test";

import {
  type FrontendCallState,
  FrontendToolExecutor,
  type FrontendToolExecutorOptions,
} from "../../src/index.js";
import { Log } from "../support/patience.js";
import { type Backend, startBackend } from "./backend.js";
import { Faults } from "./faults.js";

export interface TestPage {
  readonly backend: Backend;
  readonly faults: Faults;
  readonly executor: FrontendToolExecutor;
  /** All states that were shown, of all calls. */
  readonly states: Log<FrontendCallState>;
}

/** A page of a server, which may be that of another page. */
export async function openPage(
  test: TestContext,
  options: FrontendToolExecutorOptions & { backend?: Backend } = {},
): Promise<TestPage> {
  const { backend = await startBackend(test), ...rest } = options;
  const faults = new Faults();
  const executor = new FrontendToolExecutor({ baseUrl: backend.url, fetch: faults.fetch, ...rest });
  // What is still under way when the test is over ends with it.
  test.after(() => Object.assign(faults.always, { claim: { status: 400 }, read: { status: 400 }, ack: { status: 400 } }));
  const states = new Log<FrontendCallState>();
  const shown = new Set<FrontendCallState>();
  executor.subscribe(() => {
    for (const state of executor.getSnapshot().values()) {
      if (!shown.has(state)) states.add(state);
      shown.add(state);
    }
  });
  return { backend, faults, executor, states };
}

/** Each phase once, in order. */
export function phases({ states }: TestPage): string[] {
  return states.all.map(({ phase }) => phase).filter((phase, index, all) => phase !== all[index - 1]);
}

/** A deadline so many milliseconds from now. */
export function soon(milliseconds: number): Date {
  return new Date(Date.now() + milliseconds);
}
