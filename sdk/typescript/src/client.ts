// A client of a server: its tools, and its sessions.

import { defaultClientID } from "./client-id.js";
import { HandbackError } from "./error.js";
import { EventFeed } from "./feed.js";
import { Http, type HttpOptions } from "./http.js";
import { type ModelName, parseModel, SessionHandle } from "./session.js";
import type { ConnectionState } from "./tools/events.js";
import type { ClientToolsManager } from "./tools/manager.js";
import type { ClientToolsOptions } from "./tools/options.js";
import { pause } from "./tools/time.js";
import type { Readiness } from "./turn.js";
import type { CreateSession, Session } from "./wire.js";

/** Where the server is, who this is, and how its tools are connected. */
export interface HandbackClientOptions extends HttpOptions, Omit<ClientToolsOptions, keyof HttpOptions> {
  /**
   * The name of this client, which its tools and sessions belong to. By default a random one: in a browser it is kept, so
   * that a reload and a second tab are the same client; elsewhere it is new for every client.
   */
  clientID?: string | undefined;
}

export interface StartSessionOptions {
  /** `false`: the tools of this client are not connected for it. */
  tools?: boolean | undefined;
  /** Goes on in a session that is there, instead of making one; the other options do not matter then. */
  sessionID?: string | undefined;
  /** A heading; made from the first prompt by default. */
  title?: string | undefined;
  agent?: string | undefined;
  model?: ModelName | undefined;
  /** The session that it comes from. */
  parentID?: string | undefined;
  /** Whatever is to be kept with it. */
  metadata?: Record<string, unknown> | undefined;
}

/** See `createHandbackClient`. */
export class HandbackClient {
  /** The name of this client. */
  readonly clientID: string;
  /** The tools that this client offers: `register` them, then start a session, or `connect` them yourself. */
  readonly clientTools: ClientToolsManager;
  /** Any other request to the server, with the token: `client.http.request<Session[]>("GET", ["session"])`. */
  readonly http: Http;
  readonly #feed: EventFeed;
  readonly #sessions = new Set<SessionHandle>();
  /** How many sessions use the tools. */
  #users = 0;
  /** Whether the tools were connected for sessions, and so are disconnected with the last. */
  #ownsConnection = false;
  /** Settles when the tools that the last session used are disconnected. */
  #released: Promise<void> = Promise.resolve();

  /** With the manager that fits the platform. */
  constructor(options: HandbackClientOptions, Manager: typeof ClientToolsManager) {
    const { baseUrl, clientID, ...rest } = options;
    this.clientID = clientID ?? defaultClientID();
    this.http = new Http(options);
    this.clientTools = new Manager(this.clientID, baseUrl, rest);
    this.#feed = new EventFeed(this.http);
  }

  /**
   * Makes a session of this client, and connects the tools for it unless `tools` is false: when it resolves, a model can
   * call them there.
   */
  readonly startSession = async (options: StartSessionOptions = {}): Promise<SessionHandle> => {
    const session = await this.#open(options);
    const usesTools = options.tools !== false;
    if (usesTools) await this.#connectTools(session, options);
    const { http, clientID } = this;
    const onClosed = async () => {
      this.#sessions.delete(handle);
      if (usesTools) await this.#releaseTools();
    };
    const ready: Readiness = usesTools ? (signal, patience) => this.#toolsReady(signal, patience) : async () => undefined;
    const handle = new SessionHandle({ http, feed: this.#feed, clientID, session, ready, onClosed });
    this.#sessions.add(handle);
    return handle;
  };

  /** Closes all sessions that were started, and disconnects the tools. */
  readonly close = async (): Promise<void> => {
    await Promise.all([...this.#sessions].map((session) => session.close()));
    await this.clientTools.disconnect();
  };

  async #open({ tools, sessionID, model, ...said }: StartSessionOptions): Promise<Session> {
    if (sessionID !== undefined) return this.http.request("GET", ["session", sessionID]);
    const request: CreateSession = { clientID: this.clientID, ...(model !== undefined && { model: parseModel(model) }) };
    return this.http.request("POST", ["session"], { body: { ...said, ...request } });
  }

  async #connectTools(session: Session, { sessionID }: StartSessionOptions): Promise<void> {
    await this.#released;
    if (this.#users === 0) this.#ownsConnection = this.clientTools.state === "closed";
    this.#users += 1;
    try {
      await this.clientTools.connect(session.id);
    } catch (error) {
      await this.#releaseTools();
      // One that was made for nothing does not stay, if that can be helped.
      if (sessionID === undefined) await this.http.request("DELETE", ["session", session.id]).catch(ignoreFailure);
      throw error;
    }
  }

  /** After a restart of the server, say, a model must not be asked before it can be offered the tools again. */
  async #toolsReady(signal: AbortSignal, patience: number): Promise<void> {
    const isSettled = (state: ConnectionState) => state === "open" || state === "closed";
    if (isSettled(this.clientTools.state)) return;
    const settled = new AbortController();
    const stopListening = this.clientTools.on("state", ({ state }) => isSettled(state) && settled.abort());
    await pause(patience, settled.signal, signal);
    stopListening();
    signal.throwIfAborted();
    if (settled.signal.aborted) return;
    const cause = this.clientTools.error;
    const reason = cause?.message ?? "there is no connection";
    throw new HandbackError("interrupted", `nothing was said, as the tools cannot be called: ${reason}`, { cause });
  }

  async #releaseTools(): Promise<void> {
    this.#users -= 1;
    if (this.#users > 0 || !this.#ownsConnection) return;
    this.#released = this.clientTools.disconnect();
    await this.#released;
  }
}

function ignoreFailure(error: unknown): void {
  if (!(error instanceof HandbackError)) throw error;
}
