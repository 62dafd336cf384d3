// A client: its tools, and the connection over which they are called.

import { HandbackError, Http } from "../http.js";
import { Calls } from "./calls.js";
import { Credentials } from "./credentials.js";
import { type ConnectionState, Listeners, type ManagerEvents, type StateEvent } from "./events.js";
import { defaultJournal } from "./journal/default.js";
import type { Journal } from "./journal/journal.js";
import type { JsonSchema } from "./json-schema.js";
import type { ClientToolsOptions } from "./options.js";
import { isBrowser, listenToPage } from "./page.js";
import { Reconnect } from "./reconnect.js";
import { Registrations } from "./registrations.js";
import { SocketTransport } from "./socket-transport.js";
import { SseTransport } from "./sse-transport.js";
import { follow, pause, ServerClock } from "./time.js";
import { makeTool, type ToolDefinition, type ToolHandler, type ToolInput, type ToolParameters } from "./tool.js";
import type { Address, Receiver, Transport } from "./transport.js";

const GRACE = 30_000;
const SILENCE = 90_000;
const DELAYS = { first: 1000, longest: 30_000 };
/** How long the goodbye may take, in ms. A server that cannot be reached leaves it to the grace. */
const GOODBYE = 5000;

/** The time from `connect` to `disconnect`, or to an end that no retry mends. */
interface Attachment {
  readonly transport: Transport;
  readonly calls: Calls;
  readonly reconnect: Reconnect;
  /** Fires when there is to be no connection any more. */
  readonly stop: AbortController;
  /** Ends the delay before the next try. */
  wake: AbortController;
  /** Ends the connection, if there is one. */
  drop: () => void;
  /** Whether the server may know of a connection. */
  wasOpen: boolean;
}

/**
 * Offers tools to a server and runs them when they are called.
 *
 * The server takes all connections of one `clientID` for the same client, and gives a call to any of them: each should
 * offer the same tools, and register them before it connects.
 */
export class ClientToolsManager {
  readonly clientID: string;
  readonly #options: ClientToolsOptions;
  readonly #http: Http;
  readonly #credentials: Credentials;
  readonly #clock = new ServerClock();
  readonly #journal: Journal;
  readonly #registrations: Registrations;
  readonly #address: Address;
  readonly #listeners = new Listeners<ManagerEvents>();
  #state: StateEvent = { state: "closed" };
  #attachment: Attachment | undefined;
  /** The disconnecting that is under way. */
  #leaving: Promise<void> | undefined;
  /** How often `disconnect` was called, to see whether it was while something else waited. */
  #disconnects = 0;

  constructor(clientID: string, baseUrl: string, options: ClientToolsOptions = {}) {
    this.clientID = clientID;
    this.#options = options;
    this.#credentials = new Credentials(options.token);
    this.#http = new Http({ baseUrl, token: this.#credentials.token, fetch: this.#fetchAndReadClock(options.fetch) });
    this.#journal = options.journal ?? defaultJournal();
    this.#registrations = new Registrations(this.#http, clientID, (error) => this.#mayPass(error));
    this.#address = {
      clientID,
      connection: randomName(),
      grace: options.grace ?? GRACE,
      silence: options.silence ?? SILENCE,
    };
  }

  get state(): ConnectionState {
    return this.#state.state;
  }

  /** Why there is no connection, if it was not wanted so. */
  get error(): Error | undefined {
    return this.#state.error;
  }

  /** Calls `listener` with what happens to the connection (`state`) or to calls (`call`). Gives a way to stop that. */
  on<Name extends keyof ManagerEvents>(name: Name, listener: (event: ManagerEvents[Name]) => void): () => void {
    return this.#listeners.add(name, listener);
  }

  /**
   * Offers a tool; a tool of the same id is replaced. Resolves when the server has confirmed it, at once before
   * `connect`. Rejects with the server's reason if it does not want it.
   */
  async register<const Parameters extends ToolParameters = JsonSchema>(
    id: string,
    definition: ToolDefinition<Parameters>,
    handler: ToolHandler<ToolInput<Parameters>>,
  ): Promise<void> {
    const { timeout } = this.#options;
    const whole = { ...(timeout !== undefined && { timeout }), ...definition };
    await this.#registrations.register(makeTool(id, whole, handler));
  }

  /** Offers a tool no longer. Resolves when the server has confirmed it, at once before `connect`. Calls under way go on. */
  async unregister(id: string): Promise<void> {
    await this.#registrations.unregister(id);
  }

  /**
   * Offers the tools in a session, or in all sessions, and stays connected until `disconnect`. Resolves when the tools
   * can be called. A server that cannot be reached is tried again and again; one that refuses makes it reject.
   */
  async connect(sessionID?: string): Promise<void> {
    const disconnects = this.#disconnects;
    if (this.#leaving) await this.#leaving;
    if (this.#disconnects !== disconnects) throw disconnected();
    if (!this.#attachment) {
      this.#registrations.attach(sessionID);
      this.#attachment = this.#attach();
    }
    await this.#registrations.offerIn(sessionID);
  }

  /**
   * Says goodbye: handlers are told to stop and have 5 s to end, then the tools are gone at once, unless another
   * connection of the same client is there. Never rejects.
   */
  disconnect(): Promise<void> {
    this.#disconnects += 1;
    const attachment = this.#attachment;
    if (attachment) this.#leaving ??= this.#leave(attachment).finally(() => (this.#leaving = undefined));
    return this.#leaving ?? Promise.resolve();
  }

  #attach(): Attachment {
    const { reconnect = DELAYS, maxReconnectAttempts = Number.POSITIVE_INFINITY } = this.#options;
    const receiver: Receiver = {
      request: (request) => attachment.calls.take(request),
      cancel: (requestID, reason) => attachment.calls.cancel(requestID, reason),
    };
    const transport = this.#newTransport(receiver);
    const attachment: Attachment = {
      transport,
      calls: new Calls({
        clientID: this.clientID,
        journal: this.#journal,
        clock: this.#clock,
        find: (tool) => this.#registrations.find(tool),
        send: (requestID, result, signal) => transport.send(requestID, result, signal),
        mayPass: (error) => this.#mayPass(error),
        tell: (event) => this.#listeners.tell("call", event),
      }),
      reconnect: new Reconnect(reconnect, maxReconnectAttempts, this.#credentials),
      stop: new AbortController(),
      wake: new AbortController(),
      drop: () => undefined,
      wasOpen: false,
    };
    const stopListening = listenToPage({
      awake: () => {
        if (this.state === "retrying") attachment.wake.abort();
      },
      restored: () => {
        attachment.wake.abort();
        attachment.drop();
      },
    });
    attachment.stop.signal.addEventListener("abort", stopListening);
    this.#become({ state: "connecting" });
    void this.#stayConnected(attachment);
    return attachment;
  }

  /** Connects again and again, until it is stopped or no try mends it. */
  async #stayConnected(attachment: Attachment): Promise<void> {
    const { stop, reconnect } = attachment;
    while (!stop.signal.aborted) {
      attachment.wake = new AbortController();
      const error = await this.#connectOnce(attachment);
      if (stop.signal.aborted || this.#leaving) return;
      const retryIn = await reconnect.delayAfter(error);
      if (stop.signal.aborted || this.#leaving) return;
      if (retryIn === undefined) return this.#giveUp(attachment, error);
      this.#become({ state: "retrying", error, retryIn });
      if (reconnect.isFirstFailure && !this.#listeners.has("state")) {
        console.warn(`handback: ${error.message} Trying again until it works.`);
      }
      await pause(retryIn, attachment.wake.signal, stop.signal);
    }
  }

  /** Opens a connection, then registers the tools, and keeps both until it is lost. Gives the reason. */
  async #connectOnce(attachment: Attachment): Promise<Error> {
    const { transport, stop } = attachment;
    const { controller, release } = follow(stop.signal);
    attachment.drop = () => controller.abort();
    try {
      const { lost } = await transport.open(controller.signal);
      attachment.wasOpen = true;
      return await Promise.race([lost, this.#offer(attachment, controller.signal)]);
    } catch (error) {
      return error as Error;
    } finally {
      release();
      controller.abort();
    }
  }

  /** After the connection is open: it keeps what is registered from being cleared away. */
  async #offer({ reconnect }: Attachment, signal: AbortSignal): Promise<never> {
    await this.#registrations.restore(signal);
    signal.throwIfAborted();
    reconnect.opened();
    this.#become({ state: "open" });
    return this.#registrations.keepUp(signal);
  }

  /** No try mends it. What handlers still say may be delivered all the same. */
  #giveUp({ calls, stop }: Attachment, error: Error): void {
    stop.abort();
    this.#attachment = undefined;
    this.#leaving = calls.stop(`the connection is closed: ${error.message}`).finally(() => (this.#leaving = undefined));
    this.#registrations.detach(error);
    this.#become({ state: "closed", error });
  }

  async #leave(attachment: Attachment): Promise<void> {
    const { calls, stop } = attachment;
    this.#registrations.detach(disconnected());
    // A connection that is there stays until all is said.
    if (this.state !== "open") stop.abort();
    await calls.stop("this client disconnects");
    if (attachment.wasOpen) await this.#sayGoodbye();
    stop.abort();
    this.#attachment = undefined;
    this.#become({ state: "closed" });
  }

  async #sayGoodbye(): Promise<void> {
    const { clientID, connection } = this.#address;
    try {
      await this.#http.request("POST", ["client-tools", "disconnect"], { body: { clientID, connection }, timeout: GOODBYE });
    } catch (error) {
      // The server ends it when the grace is over. Whoever disconnects cannot do anything about it.
      if (!(error instanceof HandbackError)) console.warn("handback: there was no goodbye:", error);
    }
  }

  #newTransport(receiver: Receiver): Transport {
    const WebSocket = this.#options.WebSocket ?? globalThis.WebSocket;
    const { useWebSocket = isBrowser() && WebSocket !== undefined } = this.#options;
    if (!useWebSocket) return new SseTransport(this.#http, this.#address, receiver);
    if (WebSocket === undefined) throw new TypeError("there is no WebSocket here: pass one as the option `WebSocket`");
    return new SocketTransport(this.#http, this.#address, receiver, WebSocket);
  }

  /** Deadlines are on the server's clock: every answer that says what it shows is welcome. */
  #fetchAndReadClock(given: ClientToolsOptions["fetch"]): typeof globalThis.fetch {
    return async (input, init) => {
      const response = await (given ? given(input, init) : globalThis.fetch(input, init));
      if (response.ok) this.#clock.read(response.headers.get("date"));
      return response;
    };
  }

  /** Whether the same may succeed later, if only with another token. */
  #mayPass(error: unknown): boolean {
    if (!(error instanceof HandbackError)) return false;
    return error.transient || (error.status === 401 && this.#credentials.isRenewable);
  }

  #become(state: StateEvent): void {
    this.#state = state;
    this.#listeners.tell("state", state);
  }
}

function disconnected(): HandbackError {
  return new HandbackError("closed", "disconnect() was called");
}

/** 128 random bits. */
function randomName(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
