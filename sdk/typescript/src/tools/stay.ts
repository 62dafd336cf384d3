// The time from `connect` to `disconnect`, or to an end that no retry mends.

import { HandbackError, type Http } from "../http.js";
import type { Calls, Surroundings } from "./calls.js";
import type { StateEvent } from "./events.js";
import { listenToPage } from "./page.js";
import type { Reconnect } from "./reconnect.js";
import type { Registrations } from "./registrations.js";
import { SUPERSEDED } from "./socket.js";
import { follow, pause } from "./time.js";
import { type Address, randomName, type Receiver, type Transport } from "./transport.js";

/** How long the goodbye may take, in ms. A server that cannot be reached leaves it to the grace. */
const GOODBYE = 5000;

export interface StayParts {
  readonly http: Http;
  readonly address: Address;
  readonly registrations: Registrations;
  readonly reconnect: Reconnect;
  newTransport(receiver: Receiver): Transport;
  newCalls(send: Surroundings["send"]): Calls;
  /** The connection has changed. */
  become(state: StateEvent): void;
  /** It could not be opened, or is lost, and nobody knows it yet. */
  warn(error: Error): void;
}

export class Stay {
  /** Resolves when it is over; there as soon as that is to be. */
  leaving: Promise<void> | undefined;

  readonly #parts: StayParts;
  readonly #transport: Transport;
  readonly #calls: Calls;
  /** Fires when there is to be no connection any more. */
  readonly #stop = new AbortController();
  /** Ends the delay before the next try. */
  #wake = new AbortController();
  /** Ends the connection, if there is one. */
  #drop: (reason: HandbackError) => void = () => {};
  /** Whether the server may know of a connection. */
  #wasOpen = false;
  #state: StateEvent = { state: "connecting" };

  constructor(parts: StayParts) {
    this.#parts = parts;
    this.#calls = parts.newCalls((requestID, result, signal) => this.#transport.send(requestID, result, signal));
    this.#transport = parts.newTransport({
      request: (request) => this.#calls.take(request),
      cancel: (requestID, reason) => this.#calls.cancel(requestID, reason),
    });
  }

  /** The name of its connection. */
  get connection(): string {
    return this.#parts.address.connection;
  }

  begin(): void {
    const stopListening = listenToPage({
      awake: () => {
        if (this.#state.state === "retrying") this.#wake.abort();
      },
      restored: () => {
        this.#wake.abort();
        this.#drop(new HandbackError("interrupted", "the page was out of use, and its connection with it"));
      },
    });
    this.#stop.signal.addEventListener("abort", stopListening);
    this.#become({ state: "connecting" });
    void this.#stayConnected();
  }

  /** Ends it with a goodbye. What waits for the server to confirm it is rejected. */
  leave(error: HandbackError): Promise<void> {
    return this.leaving ?? this.#end(() => this.#leave(error));
  }

  /** It is known to be over before anything is told: whoever is may disconnect, or connect again, right then. */
  #end(run: () => Promise<void>): Promise<void> {
    let isOver = () => {};
    this.leaving = new Promise((resolve) => (isOver = resolve));
    void run().finally(isOver);
    return this.leaving;
  }

  async #leave(error: HandbackError): Promise<void> {
    this.#parts.registrations.detach(error);
    // A connection that is there stays until all is said.
    if (this.#state.state !== "open") this.#stop.abort();
    await this.#calls.stop("this client disconnects");
    if (this.#wasOpen) await this.#sayGoodbye();
    this.#stop.abort();
    this.#become({ state: "closed" });
  }

  async #sayGoodbye(): Promise<void> {
    const { clientID, connection } = this.#parts.address;
    const goodbye = { body: { clientID, connection }, timeout: GOODBYE };
    try {
      await this.#parts.http.request("POST", ["client-tools", "disconnect"], goodbye);
    } catch (error) {
      // The server ends it when the grace is over. Whoever disconnects cannot do anything about it.
      if (!(error instanceof HandbackError)) console.warn("handback: there was no goodbye:", error);
    }
  }

  /** Connects again and again, until it is over or no try mends it. */
  async #stayConnected(): Promise<void> {
    const { reconnect, warn } = this.#parts;
    for (;;) {
      this.#wake = new AbortController();
      const error = await this.#connectOnce();
      if (this.leaving) return;
      // Nobody else has this name: it was an older try of ours, which the network delivered late. Under another name that
      // cannot happen again, and whoever took over does no harm.
      if (error instanceof HandbackError && error.code === SUPERSEDED) this.#parts.address.connection = randomName();
      const retryIn = reconnect.delayAfter(error);
      if (retryIn === undefined) return this.#end(() => this.#giveUp(error));
      this.#become({ state: "retrying", error, retryIn });
      if (reconnect.isFirstFailure) warn(error);
      await pause(retryIn, this.#wake.signal, this.#stop.signal);
      if (this.leaving) return;
    }
  }

  /** Opens a connection, then registers the tools, and keeps both until it is lost. Gives the reason. */
  async #connectOnce(): Promise<Error> {
    const { controller, release } = follow(this.#stop.signal);
    this.#drop = (reason) => controller.abort(reason);
    try {
      const { lost } = await this.#transport.open(controller.signal);
      this.#wasOpen = true;
      return await Promise.race([lost, this.#offer(controller.signal)]);
    } catch (error) {
      return error as Error;
    } finally {
      release();
      controller.abort();
    }
  }

  /** After the connection is open: it keeps what is registered from being cleared away. */
  async #offer(signal: AbortSignal): Promise<never> {
    const { registrations, reconnect } = this.#parts;
    await registrations.restore(signal);
    signal.throwIfAborted();
    reconnect.opened();
    this.#become({ state: "open" });
    return registrations.keepUp(signal);
  }

  /** No try mends it. What handlers still say may be delivered all the same. */
  async #giveUp(error: Error): Promise<void> {
    this.#stop.abort();
    const stopped = this.#calls.stop(`the connection is closed: ${error.message}`);
    this.#parts.registrations.detach(error);
    this.#become({ state: "closed", error });
    await stopped;
  }

  #become(state: StateEvent): void {
    this.#state = state;
    this.#parts.become(state);
  }
}
