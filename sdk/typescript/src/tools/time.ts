// Timers, and the server's clock.

/** What a timer can hold; a longer time is waited for in pieces. */
const LONGEST_TIMER = 2 ** 31 - 1;
/** The longest that Handback lets a call take by default, for a deadline that is not known or cannot be read or placed. */
export const LONGEST_CALL = 24 * 60 * 60 * 1000;
/** The last moment that a `Date` can show. */
const LAST_DATE = 8.64e15;
/** How much later than the server a deadline is seen here, at most: its clock is read in whole seconds; in ms. */
export const CLOCK_RESOLUTION = 1000;
/** How far off a clock may be that was not compared with the server's. */
const SKEW = 5 * 60 * 1000;

/** Runs something later, however much later. Gives a way to call it off. */
export function after(milliseconds: number, run: () => void): () => void {
  const piece = Math.min(milliseconds, LONGEST_TIMER);
  const rest = milliseconds - piece;
  let callOff = () => clearTimeout(timer);
  const timer = setTimeout(() => {
    if (rest > 0) callOff = after(rest, run);
    else run();
  }, piece);
  return () => callOff();
}

/** Waits, at most until one of the signals fires. */
export async function pause(milliseconds: number, ...signals: AbortSignal[]): Promise<void> {
  const over = new AbortController();
  const callOff = after(milliseconds, () => over.abort());
  await aborted(over.signal, ...signals);
  callOff();
}

/** Waits until one of the signals fires. */
export function aborted(...signals: AbortSignal[]): Promise<void> {
  return new Promise((resolve) => {
    if (signals.some((signal) => signal.aborted)) return resolve();
    const end = () => {
      for (const signal of signals) signal.removeEventListener("abort", end);
      resolve();
    };
    for (const signal of signals) signal.addEventListener("abort", end);
  });
}

/** A signal that fires with another one, or by itself. It lets go of the other one when `release` is called. */
export function follow(parent: AbortSignal): { controller: AbortController; release: () => void } {
  const controller = new AbortController();
  const abort = () => controller.abort(parent.reason);
  if (parent.aborted) abort();
  else parent.addEventListener("abort", abort);
  return { controller, release: () => parent.removeEventListener("abort", abort) };
}

/** What the server's clock shows. Deadlines are the server's, and a laptop's clock may be minutes off. */
export class ServerClock {
  readonly #monotonic: () => number;
  #shown: { time: number; at: number } | undefined;

  constructor(monotonic: () => number = () => performance.now()) {
    this.#monotonic = monotonic;
  }

  /**
   * Reads the clock from the `Date` of an answer that just came, where it can be seen. It has whole seconds, so a
   * deadline is taken up to a second too late, and the server has the last word.
   */
  read(date: string | null): void {
    const time = Date.parse(date ?? "");
    if (!Number.isNaN(time)) this.#shown = { time, at: this.#monotonic() };
  }

  /**
   * When an RFC 3339 deadline is. Late rather than early where it is not sure: the server says when the call is over,
   * too, and its word is the last.
   */
  deadline(text: string | undefined): Deadline {
    const time = Date.parse(text ?? "");
    if (Number.isNaN(time)) return this.#in(LONGEST_CALL);
    if (this.#shown) return this.#in(time - this.#shown.time - (this.#monotonic() - this.#shown.at));
    const remaining = time - Date.now() + SKEW;
    return this.#in(remaining > 0 ? remaining : LONGEST_CALL);
  }

  #in(milliseconds: number): Deadline {
    const at = this.#monotonic() + milliseconds;
    return { date: new Date(Math.min(Date.now() + milliseconds, LAST_DATE)), remaining: () => at - this.#monotonic() };
  }
}

export interface Deadline {
  /** On this machine's clock. */
  readonly date: Date;
  /** How long it is until then, in ms; not positive if it is past. */
  remaining(): number;
}
