// A client of a server: its tools, and its sessions.

import { hasText } from "./answer.js";
import { defaultClientID, randomHex } from "./client-id.js";
import { HandbackError } from "./error.js";
import { type ExecuteOptions, Execution } from "./execute.js";
import { Http, type HttpOptions } from "./http.js";
import { type ModelName, parseModel, SessionHandle } from "./session.js";
import { SessionFeeds } from "./session-feeds.js";
import type { ClientToolsManager } from "./tools/manager.js";
import type { ClientToolsOptions } from "./tools/options.js";
import { countdown, isLost, persist } from "./tools/retry.js";
import { after, follow } from "./tools/time.js";
import type { TurnTools } from "./turn.js";
import { unlessAborted } from "./waiting.js";
import type { CreateSession, Session, ToolResult } from "./wire.js";

/** How long a server that is away is waited for when a session is started; in ms. */
const PATIENCE = 10_000;

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
  readonly #feeds: SessionFeeds;
  readonly #sessions = new Set<SessionHandle>();
  /** How many sessions use the tools. */
  #users = 0;
  /** Whether the tools were connected for sessions, and so are disconnected with the last. */
  #ownsConnection = false;
  /** Settles when the tools that the last session used are disconnected. */
  #released: Promise<void> = Promise.resolve();
  /** Fires when the client is closed: sessions that are being started then are given up. */
  #closing = new AbortController();

  /** With the manager that fits the platform. */
  constructor(options: HandbackClientOptions, Manager: typeof ClientToolsManager) {
    const { baseUrl, clientID, ...rest } = options;
    this.clientID = clientID ?? defaultClientID();
    this.http = new Http(options);
    this.clientTools = new Manager(this.clientID, baseUrl, rest);
    this.#feeds = new SessionFeeds(this.http);
  }

  /**
   * Makes a session of this client, and connects the tools for it unless `tools` is false: when it resolves, a model can
   * call them there. A server that is away, while it is restarted perhaps, is waited for up to 10 s.
   */
  readonly startSession = async (options: StartSessionOptions = {}): Promise<SessionHandle> => {
    const { signal } = this.#closing;
    const session = await this.#open(options, signal);
    await this.#released;
    const usesTools = options.tools !== false;
    try {
      signal.throwIfAborted();
      if (usesTools) await this.#connectTools(session);
    } catch (error) {
      // One that was made for nothing does not stay, if that can be helped.
      if (options.sessionID === undefined) await this.http.request("DELETE", ["session", session.id]).catch(ignoreFailure);
      throw error;
    }
    const { http, clientID } = this;
    const onClosed = async () => {
      this.#sessions.delete(handle);
      if (usesTools) await this.#releaseTools();
    };
    const tools: TurnTools = { connection: () => this.clientTools.connection, ready: (wait) => this.#toolsReady(wait) };
    const handle = new SessionHandle({ http, feeds: this.#feeds, clientID, session, tools, onClosed });
    this.#sessions.add(handle);
    return handle;
  };

  /**
   * Calls a tool by its full id, as the application, and gives what it answered; a tool that failed has answered, too. Rejects
   * with a `HandbackError` when the call ends without an answer: `TIMEOUT`, `CANCELLED`, `CLIENT_DISCONNECTED`, … A server
   * that is lost meanwhile is waited for until the call's deadline.
   */
  readonly execute = (
    toolID: string,
    input: Record<string, unknown> = {},
    options: ExecuteOptions = {},
  ): Promise<ToolResult> => new Execution(this.http, toolID, input, options).run(options.signal);

  /** Closes all sessions that were started, ends those that are being started, and disconnects the tools. */
  readonly close = async (): Promise<void> => {
    this.#closing.abort(new HandbackError("closed", "the client was closed"));
    this.#closing = new AbortController();
    await Promise.all([...this.#sessions].map((session) => session.close()));
    await this.clientTools.disconnect();
  };

  async #open({ tools, sessionID, model, ...said }: StartSessionOptions, signal: AbortSignal): Promise<Session> {
    const remaining = countdown(PATIENCE);
    const insist = (attempt: () => Promise<Session>) => persist(attempt, { signal, remaining, mayPass: isLost });
    const isAnswer = hasText("id");
    if (sessionID !== undefined) return insist(() => this.http.request("GET", ["session", sessionID], { isAnswer }));
    const request: CreateSession = {
      // With an id, so that a request whose answer was lost makes no second session.
      id: `ses_${randomHex(16)}`,
      clientID: this.clientID,
      ...(model !== undefined && { model: parseModel(model) }),
    };
    return insist(() => this.http.request("POST", ["session"], { body: { ...said, ...request }, isAnswer }));
  }

  async #connectTools(session: Session): Promise<void> {
    if (this.#users === 0) this.#ownsConnection = this.clientTools.state === "closed";
    this.#users += 1;
    try {
      await this.clientTools.connect(session.id);
    } catch (error) {
      await this.#releaseTools();
      throw error;
    }
  }

  /** After a restart of the server, say, a model must not be asked before it can be offered the tools again. */
  async #toolsReady({ signal, patience, isServerInDoubt }: Parameters<TurnTools["ready"]>[0]): Promise<void> {
    const tools = this.clientTools;
    if (tools.state === "open" && !isServerInDoubt) return;
    const { controller, release } = follow(signal);
    const callOff = after(patience, () => controller.abort());
    try {
      await unlessAborted(tools.confirm(), controller.signal);
    } catch (cause) {
      signal.throwIfAborted();
      // It was disconnected, or refused for good: whoever prompts all the same does without the tools.
      if (tools.state === "closed") return;
      const reason = (controller.signal.aborted ? tools.error?.message : String(cause)) ?? "there is no connection";
      throw new HandbackError("interrupted", `the tools cannot be called: ${reason}`, { cause: tools.error ?? cause });
    } finally {
      callOff();
      release();
    }
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
