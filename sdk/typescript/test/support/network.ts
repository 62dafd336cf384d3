// A network that can be cut, for one client.

export class Network {
  #cut = new AbortController();
  #isCut = false;

  /** In place of the global one. */
  readonly fetch: typeof globalThis.fetch = async (input, init = {}) => {
    if (this.#isCut) throw new TypeError("fetch failed", { cause: new Error("the network is cut") });
    const signals = [this.#cut.signal, ...(init.signal ? [init.signal] : [])];
    return globalThis.fetch(input, { ...init, signal: AbortSignal.any(signals) });
  };

  cut(): void {
    this.#isCut = true;
    this.#cut.abort(new Error("the network is cut"));
  }

  mend(): void {
    this.#isCut = false;
    this.#cut = new AbortController();
  }
}
