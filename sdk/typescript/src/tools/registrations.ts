// The tools of a client, and what the server is told about them.

import { HandbackError, type Http } from "../http.js";
import { persist } from "./retry.js";
import { aborted, follow } from "./time.js";
import type { Tool } from "./tool.js";

/** How many changes may wait for the server; one more is refused. */
const MAX_CHANGES = 1024;

/** Something that the server is to be told, in its turn. */
interface Change {
  /** The tool that it brings, by name. */
  readonly adds?: Tool;
  apply(signal: AbortSignal): Promise<void>;
  confirmed(): void;
  refused(error: unknown): void;
}

export class Registrations {
  readonly #http: Http;
  readonly #clientID: string;
  readonly #mayPass: (error: unknown) => boolean;
  /** By name, in order of registration. */
  readonly #tools = new Map<string, Tool>();
  /** Where the tools are offered: in a session, or (`undefined`) in all. Empty while there is no connection to be. */
  readonly #scopes = new Set<string | undefined>();
  readonly #changes: Change[] = [];
  /** Fires when a change was added. */
  #added = new AbortController();
  #isAttached = false;
  /** Gives up the change that is being made. */
  #giveUp = () => {};

  constructor(http: Http, clientID: string, mayPass: (error: unknown) => boolean) {
    this.#http = http;
    this.#clientID = clientID;
    this.#mayPass = mayPass;
  }

  /** The tool with this full id. One that the server was told of counts, although it may not have confirmed it yet. */
  find(fullID: string): Tool | undefined {
    const known = this.#tools.values();
    const coming = this.#changes.flatMap(({ adds }) => adds ?? []);
    return [...known, ...coming].find((tool) => this.#fullID(tool.wire.id) === fullID);
  }

  /** From now on, changes wait for the server to confirm them. */
  attach(scope: string | undefined): void {
    this.#isAttached = true;
    this.#scopes.add(scope);
  }

  /** Nobody is there to confirm anything any more. */
  detach(error: Error): void {
    this.#isAttached = false;
    this.#scopes.clear();
    for (const change of this.#changes.splice(0)) change.refused(error);
    this.#giveUp();
  }

  register(tool: Tool): Promise<void> {
    if (!this.#isAttached) {
      this.#tools.set(tool.wire.id, tool);
      return Promise.resolve();
    }
    return this.#queue((signal) => this.#add(tool, signal), tool);
  }

  unregister(id: string): Promise<void> {
    if (!this.#isAttached) {
      this.#tools.delete(id);
      return Promise.resolve();
    }
    return this.#queue((signal) => this.#remove(id, signal));
  }

  /** Offers all tools in a session (`undefined`: in all) as well; resolves at once if they are offered there. */
  offerIn(scope: string | undefined): Promise<void> {
    return this.#queue(async (signal) => {
      if (this.#scopes.has(scope)) return;
      await this.#post([...this.#tools.values()], scope, signal);
      this.#scopes.add(scope);
    });
  }

  /** Registers all tools again, in its turn; resolves when the server has confirmed them. */
  confirm(): Promise<void> {
    return this.#queue(async (signal) => {
      for (const scope of this.#scopes) await this.#post([...this.#tools.values()], scope, signal);
    });
  }

  /** Registers all tools again, on a new connection. What fails is the connection's to try again. */
  async restore(signal: AbortSignal): Promise<void> {
    for (const scope of this.#scopes) await this.#register([...this.#tools.values()], scope, signal);
  }

  /** Tells the server of every change, one after the other, until the signal fires or the token is not accepted. */
  async keepUp(signal: AbortSignal): Promise<never> {
    for (;;) {
      const change = this.#changes[0];
      if (!change) {
        await aborted(this.#added.signal, signal);
        signal.throwIfAborted();
        this.#added = new AbortController();
        continue;
      }
      const { controller, release } = follow(signal);
      this.#giveUp = () => controller.abort();
      try {
        await change.apply(controller.signal);
        change.confirmed();
      } catch (error) {
        // It stays, and is made on the next connection.
        if (signal.aborted || isUnauthorized(error)) throw error;
        change.refused(error);
      } finally {
        release();
      }
      if (this.#changes[0] === change) this.#changes.shift();
    }
  }

  #queue(apply: Change["apply"], adds?: Tool): Promise<void> {
    if (this.#changes.length >= MAX_CHANGES) {
      return Promise.reject(new RangeError(`${MAX_CHANGES} changes wait for the server already; await them`));
    }
    return new Promise((confirmed, refused) => {
      this.#changes.push({ apply, confirmed, refused, ...(adds && { adds }) });
      this.#added.abort();
    });
  }

  /** The tool is there before the server knows of it: a call may be faster than the confirmation. */
  async #add(tool: Tool, signal: AbortSignal): Promise<void> {
    const { id } = tool.wire;
    const former = this.#tools.get(id);
    this.#tools.set(id, tool);
    const taken: (string | undefined)[] = [];
    try {
      for (const scope of this.#scopes) {
        await this.#post([tool], scope, signal);
        taken.push(scope);
      }
    } catch (error) {
      if (former) this.#tools.set(id, former);
      else this.#tools.delete(id);
      // One session took it and another one did not: as before is better than in between.
      if (!signal.aborted) await this.#takeBack(id, former, taken, signal);
      throw error;
    }
  }

  async #takeBack(id: string, former: Tool | undefined, scopes: (string | undefined)[], signal: AbortSignal) {
    if (former) for (const scope of scopes) await this.#post([former], scope, signal);
    else if (scopes.length > 0) await this.#remove(id, signal);
  }

  /** The tool goes when the server has let go of it: until then it may be called. */
  async #remove(id: string, signal: AbortSignal): Promise<void> {
    const body = { clientID: this.#clientID, toolIDs: [this.#fullID(id)] };
    const request = () => this.#http.request("POST", ["client-tools", "unregister"], { body, signal });
    await persist(request, { signal, mayPass: this.#mayPass });
    this.#tools.delete(id);
  }

  async #post(tools: Tool[], scope: string | undefined, signal: AbortSignal): Promise<void> {
    await persist(() => this.#register(tools, scope, signal), { signal, mayPass: this.#mayPass });
  }

  async #register(tools: Tool[], scope: string | undefined, signal: AbortSignal): Promise<void> {
    const body = { clientID: this.#clientID, sessionID: scope, tools: tools.map(({ wire }) => wire) };
    await this.#http.request("POST", ["client-tools", "register"], { body, signal });
  }

  #fullID(id: string): string {
    return `client_${this.#clientID}_${id}`;
  }
}

function isUnauthorized(error: unknown): boolean {
  return error instanceof HandbackError && error.status === 401;
}
