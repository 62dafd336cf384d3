// How long to wait before the next try.

/** Delays that double from a first to a longest one, each shortened by chance to spread clients that lost the same server. */
export class Backoff {
  readonly #first: number;
  readonly #longest: number;
  #next: number;

  /** Both in milliseconds. */
  constructor(first: number, longest: number) {
    this.#first = first;
    this.#longest = longest;
    this.#next = Math.min(first, longest);
  }

  /** The delay before the next try, in milliseconds: between half of the full delay and all of it. */
  next(): number {
    const full = this.#next;
    this.#next = Math.min(full * 2, this.#longest);
    return full / 2 + (full / 2) * Math.random();
  }

  /** Starts over, after a success. */
  reset(): void {
    this.#next = Math.min(this.#first, this.#longest);
  }
}
