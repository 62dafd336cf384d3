// A way to the server that can be cut, for one page.

import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import type { TestContext } from "node:test";

export class Wire {
  static async to(test: TestContext, port: number): Promise<Wire> {
    const wire = new Wire(port);
    wire.#server.listen(0, "127.0.0.1");
    await once(wire.#server, "listening");
    test.after(() => {
      wire.cut();
      wire.#server.close();
    });
    return wire;
  }

  readonly #port: number;
  readonly #sockets = new Set<Socket>();
  readonly #server = createServer((socket) => this.#carry(socket));
  #isCut = false;

  private constructor(port: number) {
    this.#port = port;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** Ends all connections, and lets no other through. */
  cut(): void {
    this.#isCut = true;
    for (const socket of this.#sockets) socket.resetAndDestroy();
  }

  mend(): void {
    this.#isCut = false;
  }

  #carry(inner: Socket): void {
    if (this.#isCut) return void inner.resetAndDestroy();
    const outer = connect(this.#port, "127.0.0.1");
    for (const [from, to] of [[inner, outer], [outer, inner]] as const) {
      this.#sockets.add(from);
      from.pipe(to);
      // That it was cut is what the other side is told by its end.
      from.on("error", () => undefined);
      from.on("close", () => {
        this.#sockets.delete(from);
        to.destroy();
      });
    }
  }
}
