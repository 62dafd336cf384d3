import { type ReadonlySignal, signal } from "@preact/signals";

/** How long to wait after a change before the next is shown, in ms: nobody reads faster. */
const REST = 80;

/** Tells the page that something has changed: once a frame at most, and less often if it never stops. */
export class Beat {
  readonly #count = signal(0);
  #isDue = false;
  #last = Number.NEGATIVE_INFINITY;

  /** Reading its value makes a component follow. */
  get signal(): ReadonlySignal<number> {
    return this.#count;
  }

  readonly mark = (): void => {
    if (this.#isDue) return;
    this.#isDue = true;
    const rest = this.#last + REST - performance.now();
    if (rest > 0) setTimeout(() => requestAnimationFrame(this.#tell), rest);
    else requestAnimationFrame(this.#tell);
  };

  readonly #tell = (): void => {
    this.#isDue = false;
    this.#last = performance.now();
    this.#count.value += 1;
  };
}
