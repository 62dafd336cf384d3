import { type ReadonlySignal, signal } from "@preact/signals";

/** Tells the page that something has changed: once a frame at most, however much it was. */
export class Beat {
  readonly #count = signal(0);
  #isDue = false;

  /** Reading its value makes a component follow. */
  get signal(): ReadonlySignal<number> {
    return this.#count;
  }

  readonly mark = (): void => {
    if (this.#isDue) return;
    this.#isDue = true;
    requestAnimationFrame(() => {
      this.#isDue = false;
      this.#count.value += 1;
    });
  };
}
