// Those who are connected to a server of a test, and leave before it is gone.

import { within } from "./patience.js";

export interface Guest {
  disconnect(): Promise<void>;
}

export class Guests {
  readonly #all: Guest[] = [];

  add(guest: Guest): void {
    this.#all.push(guest);
  }

  async dismiss(): Promise<void> {
    await Promise.all(this.#all.map((guest) => within("a client disconnects", guest.disconnect())));
  }
}
