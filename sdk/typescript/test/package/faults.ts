// A `fetch` over a network that fails where a test wants it to.

export class Faults {
  /** Requests that were made: method and path. */
  readonly requests: string[] = [];
  /** Those whose path ends so fail from now on, before (`unsent`) or after (`unanswered`) the server had them. */
  readonly failing = new Map<string, { how: "unsent" | "unanswered"; times: number }>();
  /** Event streams that are open: what cuts each. */
  readonly #open = new Set<() => void>();
  #opened = 0;
  #isDown = false;
  readonly #watchers = new Set<() => void>();

  readonly fetch: typeof globalThis.fetch = async (input, init) => {
    const { pathname } = new URL(String(input));
    this.requests.push(`${init?.method ?? "GET"} ${pathname}`);
    this.#look();
    const [path, fault] = [...this.failing].find(([path]) => pathname.endsWith(path)) ?? [];
    if (path !== undefined && fault && (fault.times -= 1) === 0) this.failing.delete(path);
    if (this.#isDown || fault?.how === "unsent") throw failure("ECONNREFUSED");
    const response = await globalThis.fetch(input, init);
    if (fault || this.#isDown) {
      await response.body?.cancel();
      throw failure("ECONNRESET");
    }
    const isStream = response.headers.get("content-type") === "text/event-stream";
    return isStream && response.body ? this.#cuttable(response, response.body) : response;
  };

  /** Waits until a request is made to a path that ends so. */
  requested(path: string): Promise<void> {
    return this.#oneMore(() => this.requests.filter((request) => request.endsWith(path)).length);
  }

  /** Waits until an event stream is opened. */
  opened(): Promise<void> {
    return this.#oneMore(() => this.#opened);
  }

  async #oneMore(count: () => number): Promise<void> {
    const before = count();
    await new Promise<void>((resolve) => {
      const watcher = () => {
        if (count() === before) return;
        this.#watchers.delete(watcher);
        resolve();
      };
      this.#watchers.add(watcher);
    });
  }

  /** Cuts all event streams; new ones may be opened. */
  cut(): void {
    for (const cut of [...this.#open]) cut();
  }

  /** Cuts everything, and lets nothing through until `up`. */
  down(): void {
    this.#isDown = true;
    this.cut();
  }

  up(): void {
    this.#isDown = false;
  }

  #look(): void {
    for (const watcher of [...this.#watchers]) watcher();
  }

  #cuttable(response: Response, body: ReadableStream<Uint8Array>): Response {
    const reader = body.getReader();
    const stream = new ReadableStream<Uint8Array>({
      start: (controller) => {
        const cut = () => {
          this.#open.delete(cut);
          controller.error(failure("ECONNRESET"));
          reader.cancel().catch(() => undefined);
        };
        this.#open.add(cut);
        this.#opened += 1;
        this.#look();
      },
      pull: async (controller) => {
        const { done, value } = await reader.read();
        if (done) controller.close();
        else controller.enqueue(value);
      },
      cancel: (reason) => reader.cancel(reason),
    });
    return new Response(stream, { status: response.status, headers: response.headers });
  }
}

function failure(code: string): TypeError {
  return new TypeError("fetch failed", { cause: Object.assign(new Error(`the test says ${code}`), { code }) });
}
