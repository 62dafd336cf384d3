// A client: its tools, and the connection over which they are called.

import { HandbackError, Http } from "../http.js";
import { Calls } from "./calls.js";
import { Credentials } from "./credentials.js";
import { type ConnectionState, Listeners, type ManagerEvents, type StateEvent } from "./events.js";
import { defaultJournal } from "./journal/default.js";
import type { Journal } from "./journal/journal.js";
import type { JsonSchema } from "./json-schema.js";
import type { ClientToolsOptions } from "./options.js";
import { isBrowser } from "./page.js";
import { Reconnect } from "./reconnect.js";
import { Registrations } from "./registrations.js";
import type { WebSocketConstructor } from "./socket.js";
import { SocketTransport } from "./socket-transport.js";
import { SseTransport } from "./sse-transport.js";
import { Stay } from "./stay.js";
import { ServerClock } from "./time.js";
import { makeTool, type ToolDefinition, type ToolHandler, type ToolInput, type ToolParameters } from "./tool.js";
import { randomName } from "./transport.js";

const GRACE = 30_000;
const SILENCE = 90_000;
const DELAYS = { first: 1000, longest: 30_000 };

/**
 * Offers tools to a server and runs them when they are called.
 *
 * The server takes all connections of one `clientID` for the same client, and gives a call to any of them: each should
 * offer the same tools, and register them before it connects.
 */
export class ClientToolsManager {
  readonly clientID: string;
  readonly #options: ClientToolsOptions;
  /** None: calls come as server-sent events. */
  readonly #WebSocket: WebSocketConstructor | undefined;
  readonly #credentials: Credentials;
  readonly #clock = new ServerClock();
  readonly #http: Http;
  readonly #journal: Journal;
  readonly #registrations: Registrations;
  readonly #listeners = new Listeners<ManagerEvents>();
  #state: StateEvent = { state: "closed" };
  /** From the first `connect` on, this or the last one. */
  #stay: Stay | undefined;
  /** How often `disconnect` was called, to see whether it was while something else waited. */
  #disconnects = 0;

  constructor(clientID: string, baseUrl: string, options: ClientToolsOptions = {}) {
    this.clientID = clientID;
    this.#options = options;
    this.#WebSocket = chooseWebSocket(options);
    this.#credentials = new Credentials(options.token);
    this.#http = new Http({ baseUrl, token: this.#credentials.token, fetch: this.#fetchAndReadClock(options.fetch) });
    this.#journal = options.journal ?? defaultJournal();
    this.#registrations = new Registrations(this.#http, clientID, (error) => this.#mayPass(error));
  }

  get state(): ConnectionState {
    return this.#state.state;
  }

  /** Why there is no connection, if it was not wanted so. */
  get error(): Error | undefined {
    return this.#state.error;
  }

  /**
   * The name of the connection, from `connect` to `disconnect`. A prompt that says it has its calls run here as long as
   * this connection is there, and not in another tab of the same client. It may change when a connection is lost.
   */
  get connection(): string | undefined {
    return this.#stay?.leaving ? undefined : this.#stay?.connection;
  }

  /**
   * What a request of another library sends with a prompt, so that it has the tools of this client and its calls run here:
   * `new DefaultChatTransport({ api, headers: () => manager.headers() })`. Ask for them each time.
   */
  headers(): Record<string, string> {
    const { clientID, connection } = this;
    return { "x-handback-client": clientID, ...(connection !== undefined && { "x-handback-connection": connection }) };
  }

  /** Calls `listener` with what happens to the connection (`state`) or to calls (`call`). Gives a way to stop that. */
  on<Name extends keyof ManagerEvents>(name: Name, listener: (event: ManagerEvents[Name]) => void): () => void {
    return this.#listeners.add(name, listener);
  }

  /**
   * Offers a tool; a tool of the same id is replaced. Resolves when the server has confirmed it, at once before
   * `connect`. Rejects with the server's reason if it does not want it, and when `disconnect` comes meanwhile.
   */
  async register<const Parameters extends ToolParameters = JsonSchema>(
    id: string,
    definition: ToolDefinition<Parameters>,
    handler: ToolHandler<ToolInput<Parameters>>,
  ): Promise<void> {
    const timeout = definition.timeout ?? this.#options.timeout;
    await this.#registrations.register(makeTool(id, { ...definition, timeout }, handler));
  }

  /** Offers a tool no longer; calls under way go on. Resolves when the server has confirmed it, at once before `connect`. */
  async unregister(id: string): Promise<void> {
    await this.#registrations.unregister(id);
  }

  /**
   * Offers the tools in a session, or in all sessions, and stays connected until `disconnect`. Resolves when the tools
   * can be called. A server that cannot be reached is tried again and again; one that refuses makes it reject.
   */
  async connect(sessionID?: string): Promise<void> {
    const disconnects = this.#disconnects;
    if (this.#stay?.leaving) {
      await this.#stay.leaving;
      if (this.#disconnects !== disconnects) throw disconnected();
    }
    const isGoingOn = this.#stay && !this.#stay.leaving;
    const stay = isGoingOn ? undefined : this.#newStay();
    if (stay) {
      this.#stay = stay;
      this.#registrations.attach(sessionID);
    }
    // Before it begins: whoever is told so may end it at once, and this with it.
    const offered = this.#registrations.offerIn(sessionID);
    stay?.begin();
    await offered;
  }

  /**
   * Registers all tools once more: the server may have been restarted, and the connection not know of it yet. Resolves
   * when the server has confirmed them, at once if there is to be no connection.
   */
  async confirm(): Promise<void> {
    if (this.#stay && !this.#stay.leaving) await this.#registrations.confirm();
  }

  /**
   * Says goodbye: handlers are told to stop and have 5 s to end, then the tools are gone at once, unless another
   * connection of the same client is there. A handler may call it, but should not wait for it: it is waited for itself.
   */
  async disconnect(): Promise<void> {
    this.#disconnects += 1;
    await this.#stay?.leave(disconnected());
  }

  #newStay(): Stay {
    const { clientID } = this;
    const { grace = GRACE, silence = SILENCE, reconnect = DELAYS } = this.#options;
    const { maxReconnectAttempts = Number.POSITIVE_INFINITY } = this.#options;
    const http = this.#http;
    const address = { clientID, connection: randomName(), grace, silence };
    return new Stay({
      http,
      address,
      registrations: this.#registrations,
      reconnect: new Reconnect(reconnect, maxReconnectAttempts, this.#credentials),
      newTransport: (receiver) =>
        this.#WebSocket
          ? new SocketTransport(http, address, receiver, this.#WebSocket)
          : new SseTransport(http, address, receiver),
      newCalls: (send) =>
        new Calls({
          clientID,
          journal: this.#journal,
          clock: this.#clock,
          find: (tool) => this.#registrations.find(tool),
          send,
          mayPass: (error) => this.#mayPass(error),
          tell: (event) => this.#listeners.tell("call", event),
        }),
      become: (state) => {
        this.#state = state;
        this.#listeners.tell("state", state);
      },
      warn: ({ message }) => {
        if (this.#listeners.has("state")) return;
        console.warn(`handback: not connected, trying again until it works: ${message}`);
      },
    });
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
    if (error.status === 401) return this.#credentials.isRenewable;
    return error.transient;
  }
}

function chooseWebSocket({
  useWebSocket,
  WebSocket = globalThis.WebSocket,
}: ClientToolsOptions): WebSocketConstructor | undefined {
  if (!(useWebSocket ?? isBrowser())) return undefined;
  if (useWebSocket && !WebSocket) throw new TypeError("there is no WebSocket here: pass one as the option `WebSocket`");
  return WebSocket;
}

function disconnected(): HandbackError {
  return new HandbackError("closed", "disconnect() was called");
}
