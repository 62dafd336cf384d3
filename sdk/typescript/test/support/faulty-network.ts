// A way to a server that is cut and stalled at any byte, by chance but the same every time.

import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import type { TestContext } from "node:test";

/** Chances that can be repeated (mulberry32). */
export function chances(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
  };
}

export class FaultyNetwork {
  static async start(context: TestContext, target: number, chance: () => number): Promise<FaultyNetwork> {
    const network = new FaultyNetwork(target, chance);
    await new Promise<void>((resolve) => network.#listener.listen(0, "127.0.0.1", resolve));
    context.after(() => {
      network.#listener.close();
      for (const socket of network.#sockets) socket.destroy();
    });
    return network;
  }

  /** Whether things go wrong. */
  isFaulty = true;
  /** How many connections were cut. */
  cuts = 0;
  readonly #target: number;
  readonly #chance: () => number;
  readonly #sockets = new Set<Socket>();
  readonly #listener = createServer((socket) => this.#carry(socket));

  private constructor(target: number, chance: () => number) {
    this.#target = target;
    this.#chance = chance;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#listener.address() as AddressInfo).port}`;
  }

  #carry(near: Socket): void {
    const far = connect(this.#target, "127.0.0.1");
    const ends = [near, far];
    for (const end of ends) {
      this.#sockets.add(end);
      end.on("error", () => {});
      end.on("close", () => {
        this.#sockets.delete(end);
        for (const other of ends) other.destroy();
      });
    }
    this.#pass(near, far);
    this.#pass(far, near);
  }

  #pass(from: Socket, to: Socket): void {
    from.on("data", (bytes) => {
      if (!this.isFaulty || this.#chance() > 0.03) return void to.write(bytes);
      // A part of it gets through, and then nothing for a while or for ever.
      to.write(bytes.subarray(0, Math.floor(this.#chance() * bytes.length)));
      this.cuts += 1;
      from.pause();
      setTimeout(() => from.destroy(), this.#chance() < 0.5 ? 0 : 50);
    });
    from.on("end", () => to.end());
  }
}
