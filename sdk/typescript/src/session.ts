// A conversation in a session: what is said in it, one turn after the other.

import { randomHex } from "./client-id.js";
import { HandbackError } from "./error.js";
import type { Http } from "./http.js";
import type { Answer, Ask, ReplyOptions, TurnNews } from "./news.js";
import type { SessionFeeds } from "./session-feeds.js";
import { Turn, type TurnTools } from "./turn.js";
import { TurnQueue } from "./turn-queue.js";
import { LinkedSignal, unlessAborted } from "./waiting.js";
import type { Model, Permission, PromptPart, Reply, Session } from "./wire.js";

/** How long a lost server is waited for; in ms. */
const PATIENCE = 120_000;

/** A model: `"provider/model"`, or its two names. */
export type ModelName = string | { providerID: string; modelID: string };

/** What is said: a text, or parts such as texts and files. */
export type PromptInput = string | PromptPart[];

export interface TurnOptions {
  /** Stops the turn, on the server too: its open calls are cancelled. */
  signal?: AbortSignal | undefined;
  /** The model of this turn. */
  model?: ModelName | undefined;
  /** The agent of this turn. */
  agent?: string | undefined;
  /** Instructions in place of the agent's. */
  system?: string | undefined;
  /** Tools switched on or off for this turn, by name, full id or pattern. */
  tools?: Record<string, boolean> | undefined;
  /** How long a server that is lost is waited for before the turn is given up, in ms; 2 minutes by default. */
  patience?: number | undefined;
}

/** The answer to an ask. */
export type PermissionAnswer = Reply | ({ reply: Reply } & ReplyOptions);

export interface PromptOptions extends TurnOptions {
  /**
   * Decides about calls that wait to be allowed: `once`, `always` or `reject`. Without it somebody else must answer, or
   * they are denied in the end. What it throws ends the turn, and is what `prompt` rejects with.
   */
  onPermission?: ((permission: Permission) => PermissionAnswer | Promise<PermissionAnswer>) | undefined;
}

/** What `stream` gives: pieces as they come, and `done` as the last. */
export type TurnEvent = TurnNews | { type: "done"; message: Answer };

/** What a session needs of its surroundings. */
export interface SessionSettings {
  http: Http;
  feeds: SessionFeeds;
  clientID: string;
  session: Session;
  /** The tools that its turns may call. */
  tools: TurnTools;
  /** Called once, when it is closed and its turns are over. */
  onClosed: () => Promise<void>;
}

/** A session that was started, see `startSession`. Its functions may be taken apart from it. */
export class SessionHandle {
  readonly #settings: SessionSettings;
  readonly #closing = new AbortController();
  /** Settles when the turns so far are over. */
  #turns: Promise<void> = Promise.resolve();
  #closed: Promise<void> | undefined;

  /** The session, as it was when it was started. */
  readonly session: Session;

  constructor(settings: SessionSettings) {
    this.#settings = settings;
    this.session = settings.session;
  }

  /**
   * Says something and waits for the answer: the last message of the turn, and its text. Rejects with a `TurnFailed` when
   * the turn ends with an error, with the signal's reason when that fires, and with a `HandbackError` when the server is
   * gone for too long or refuses. Turns of a session run one after the other.
   */
  readonly prompt = async (input: PromptInput, options: PromptOptions = {}): Promise<Answer> => {
    const { onPermission } = options;
    const failing = new AbortController();
    const link = new LinkedSignal(options.signal, failing.signal);
    try {
      return await this.#turn(input, options, link.signal, (news) => {
        if (news.type !== "permission" || !onPermission) return;
        decide(news, onPermission).catch((error: unknown) => failing.abort(error));
      });
    } finally {
      link.release();
    }
  };

  /**
   * Says something and gives the answer as it comes. It begins when it is read. It throws where `prompt` rejects; who
   * leaves the loop early stops the turn.
   */
  readonly stream = (input: PromptInput, options: TurnOptions = {}): AsyncGenerator<TurnEvent, void, undefined> =>
    this.#stream(input, options);

  /**
   * Ends it: a turn under way is stopped, and the tools are disconnected unless another session of this client uses
   * them. The session itself stays on the server.
   */
  readonly close = (): Promise<void> => {
    this.#closed ??= this.#close();
    return this.#closed;
  };

  async *#stream(input: PromptInput, options: TurnOptions): AsyncGenerator<TurnEvent, void, undefined> {
    const queue = new TurnQueue();
    const leaving = new AbortController();
    const link = new LinkedSignal(options.signal, leaving.signal);
    const turn = this.#turn(input, options, link.signal, queue.push);
    const over = turn.then(
      () => queue.end({}),
      (error: unknown) => queue.end({ error }),
    );
    try {
      yield* queue.read();
      yield { type: "done", message: await turn };
    } finally {
      leaving.abort(new HandbackError("closed", "the stream was left"));
      await over;
      link.release();
    }
  }

  async #close(): Promise<void> {
    this.#closing.abort(new HandbackError("closed", "the session was closed"));
    await this.#turns;
    await this.#settings.onClosed();
  }

  #turn(
    input: PromptInput,
    options: TurnOptions,
    signal: AbortSignal | undefined,
    tell: (news: TurnNews) => void,
  ): Promise<Answer> {
    const link = new LinkedSignal(this.#closing.signal, signal);
    const before = this.#turns;
    const run = async () => {
      try {
        await unlessAborted(before, link.signal);
        return await this.#newTurn(input, options, tell).run(link.signal);
      } finally {
        link.release();
      }
    };
    const turn = run();
    // One that is given up while it waits does not let the next one overtake those before.
    this.#turns = Promise.allSettled([before, turn]).then(() => undefined);
    return turn;
  }

  #newTurn(input: PromptInput, options: TurnOptions, tell: (news: TurnNews) => void): Turn {
    const { http, feeds, clientID } = this.#settings;
    const { agent, system, tools, patience = PATIENCE } = options;
    const parts: PromptPart[] = typeof input === "string" ? [{ type: "text", text: input }] : input;
    const prompt = {
      messageID: `msg_${randomHex(16)}`,
      parts,
      ...(options.model !== undefined && { model: parseModel(options.model) }),
      ...(agent !== undefined && { agent }),
      ...(system !== undefined && { system }),
      ...(tools !== undefined && { tools }),
    };
    const settings = { http, feeds, clientID, sessionID: this.session.id, prompt, patience, tell };
    return new Turn({ ...settings, tools: this.#settings.tools });
  }
}

async function decide(ask: Ask, onPermission: NonNullable<PromptOptions["onPermission"]>): Promise<void> {
  const answer = await onPermission(ask.permission);
  const { reply, ...options } = typeof answer === "string" ? { reply: answer } : answer;
  try {
    await ask.reply(reply, options);
  } catch (error) {
    // Somebody else was quicker, or its time was over.
    if (!(error instanceof HandbackError) || error.status !== 404 || error.isProxyAnswer) throw error;
  }
}

export function parseModel(model: ModelName): Model {
  if (typeof model !== "string") return model;
  // A model's name may have slashes of its own.
  const [, providerID, modelID] = /^([^/]+)\/(.+)$/.exec(model) ?? [];
  if (!providerID || !modelID) throw new TypeError(`"${model}" is not a model: write it as "provider/model"`);
  return { providerID, modelID };
}
