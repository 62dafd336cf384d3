// Waiting that can be given up.

/** What is promised, or a rejection with the signal's reason if it fires first. */
export async function unlessAborted<T>(promised: Promise<T>, signal: AbortSignal): Promise<T> {
  let giveUp: (() => void) | undefined;
  const aborted = new Promise<never>((_, reject) => {
    giveUp = () => reject(signal.reason);
    if (signal.aborted) giveUp();
    else signal.addEventListener("abort", giveUp, { once: true });
  });
  try {
    return await Promise.race([promised, aborted]);
  } finally {
    if (giveUp) signal.removeEventListener("abort", giveUp);
  }
}

/**
 * A signal that fires with the first of others, until it is released. `AbortSignal.any` would do, but Node 20 leaks it
 * as long as the longest of them lives.
 */
export class LinkedSignal {
  readonly #controller = new AbortController();
  readonly #links: [AbortSignal, () => void][] = [];

  constructor(...signals: (AbortSignal | undefined)[]) {
    for (const signal of signals) {
      if (!signal) continue;
      const fire = () => this.#controller.abort(signal.reason);
      if (signal.aborted) fire();
      else signal.addEventListener("abort", fire, { once: true });
      this.#links.push([signal, fire]);
    }
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  release(): void {
    for (const [signal, fire] of this.#links) signal.removeEventListener("abort", fire);
  }
}

/** Wakes one who waits; a wake while nobody waits is kept for the next. */
export class Bell {
  #isRung = false;
  #wake: (() => void) | undefined;

  ring(): void {
    this.#isRung = true;
    this.#wake?.();
  }

  /** Waits until it rings, or `longest` ms; says whether it rang. */
  async wait(longest: number): Promise<boolean> {
    if (!this.#isRung) {
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, longest);
        this.#wake = () => {
          clearTimeout(timer);
          resolve();
        };
      });
      this.#wake = undefined;
    }
    const rang = this.#isRung;
    this.#isRung = false;
    return rang;
  }
}
