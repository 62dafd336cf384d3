// Conditions of things that do not tell when they change.

import { setTimeout as pause } from "node:timers/promises";

import { PATIENCE } from "./patience.js";

/** How often a condition is looked at, in ms. */
const INTERVAL = 20;

/** Waits until a condition holds. */
export async function until(what: string, holds: () => boolean | Promise<boolean>): Promise<void> {
  const started = performance.now();
  while (!(await holds())) {
    if (performance.now() - started > PATIENCE) throw new Error(`it did not come true in time: ${what}`);
    await pause(INTERVAL);
  }
}
