// One turn: something is said, what comes of it is told, and in the end there is the answer.
//
// The events tell what happens; whether the turn is over, and what the answer is, is read from the server itself. So it
// does not matter which events were missed while a connection was lost.

import { hasText } from "./answer.js";
import { Backoff } from "./backoff.js";
import { HandbackError } from "./error.js";
import type { Notice } from "./feed.js";
import type { Http } from "./http.js";
import { type Answer, type ReplyOptions, TurnFailed, type TurnNews } from "./news.js";
import type { SessionFeeds } from "./session-feeds.js";
import { countdown, delayAfter, persist } from "./tools/retry.js";
import { Transcript } from "./transcript.js";
import { Bell, unlessAborted } from "./waiting.js";
import type { Event, MessageWithParts, Permission, PermissionResponse, Prompt, Reply, Status } from "./wire.js";

/** When nothing was heard for this long, the server is asked whether the turn is still under way; in ms. */
const QUIET = 15_000;
/** After a look that failed or showed no end, another one comes this soon; in ms. */
const LOOK_AGAIN = 1_000;
/** How long an abort waits for the server before it leaves the turn to itself; in ms. */
const STOP_TIMEOUT = 5_000;
/** How long a turn may stand still without an end in a session that is idle: somebody else may take it up; in ms. */
const STOPPED = 5_000;
/** So many of the newest messages are read: more than a turn has. */
const NEWEST_MESSAGES = "256";

/** The tools of the client that prompts, as far as a turn is concerned. */
export interface TurnTools {
  /** The connection over which they are called; the calls of the turn come there. */
  connection(): string | undefined;
  /**
   * Resolves when they can be called, once the server has confirmed them anew if it may be another one than before;
   * rejects when the patience is over.
   */
  ready(wait: { signal: AbortSignal; patience: number; isServerInDoubt: boolean }): Promise<void>;
}

export interface TurnSettings {
  http: Http;
  feeds: SessionFeeds;
  clientID: string;
  sessionID: string;
  /** What is said, with an id of its own: it may have to be said again, and must not be taken for something new. */
  prompt: Prompt & { messageID: string };
  /** How long a lost server is waited for; in ms. */
  patience: number;
  tools: TurnTools;
  tell: (news: TurnNews) => void;
}

export class Turn {
  readonly #settings: TurnSettings;
  readonly #transcript: Transcript;
  readonly #bell = new Bell();
  readonly #ended = new AbortController();
  /** The asks that were told: each comes in more than one event. */
  readonly #asks = new Set<string>();
  #saying: Promise<void> | undefined;
  /** Whether a try to say it was made: it may have been heard. */
  #mayBeSaid = false;
  /** Whether the server was lost since the turn began: another process may be in its place, which knows no tools. */
  #isServerInDoubt = false;
  #isConnected = false;
  #missedEvents = false;
  #mustLook = false;
  /** Until then the server is left alone, as it could not be read. */
  #restsUntil = 0;
  readonly #lookAgain = new Backoff(LOOK_AGAIN, LOOK_AGAIN);
  /** Since when the session is idle although the turn has not ended. */
  #stoppedAt: number | undefined;
  /** Since when there are no events, or the server cannot be read, and what failed last. */
  #lost: { since: number; error: HandbackError } | undefined;
  #failure: { error: unknown } | undefined;

  constructor(settings: TurnSettings) {
    this.#settings = settings;
    this.#transcript = new Transcript(settings.prompt.messageID, settings.clientID);
  }

  /** Runs the turn to its end. When the signal fires, the turn is stopped on the server too before this rejects. */
  async run(signal: AbortSignal): Promise<Answer> {
    signal.throwIfAborted();
    const { feeds, sessionID } = this.#settings;
    const unsubscribe = feeds.subscribe(sessionID, (notice) => this.#hear(notice));
    try {
      const answer = await unlessAborted(this.#follow(), signal);
      if (answer.info.error) throw new TurnFailed(answer);
      return answer;
    } catch (error) {
      this.#ended.abort();
      if (signal.aborted) await this.#stop();
      throw error;
    } finally {
      this.#ended.abort();
      this.#bell.ring();
      unsubscribe();
    }
  }

  async #follow(): Promise<Answer> {
    for (;;) {
      this.#ended.signal.throwIfAborted();
      if (this.#failure) throw this.#failure.error;
      if (this.#isConnected && !this.#saying) {
        // Only now: whatever comes of it will be heard.
        this.#saying = this.#say();
        await this.#saying;
      }
      // The last look comes when the patience is over.
      const isDue = this.#mustLook && performance.now() >= this.#restsUntil;
      const answer = this.#saying && (isDue || this.#left() <= 0) ? await this.#look() : undefined;
      if (answer) return answer;
      if (this.#lost && this.#left() <= 0) {
        const waited = Math.round(this.#settings.patience / 1000);
        const message = `${this.#lost.error.message}; given up after ${waited} s, the turn may go on without this client`;
        throw new HandbackError("interrupted", message, { cause: this.#lost.error });
      }
      const isSoon = this.#mustLook && this.#saying;
      const longest = isSoon ? Math.max(this.#restsUntil - performance.now(), LOOK_AGAIN) : QUIET;
      const rang = await this.#bell.wait(Math.min(longest, this.#left()));
      if (!rang) this.#mustLook = true;
    }
  }

  /** How much longer a lost server is waited for, in ms. */
  #left(): number {
    return this.#lost ? this.#lost.since + this.#settings.patience - performance.now() : Number.POSITIVE_INFINITY;
  }

  #lose(error: HandbackError): void {
    this.#lost = { since: this.#lost?.since ?? performance.now(), error };
  }

  #hear(notice: Notice): void {
    switch (notice.type) {
      case "connected":
        // On the first connection nothing was missed: nothing was said yet.
        this.#missedEvents ||= this.#saying !== undefined;
        this.#mustLook ||= this.#missedEvents;
        this.#restsUntil = 0;
        this.#isConnected = true;
        // Only what can be read shows that a server is there.
        if (!this.#saying) this.#lost = undefined;
        break;
      case "lost":
        this.#isConnected = false;
        this.#isServerInDoubt = true;
        this.#transcript.loseTrack();
        this.#lose(notice.error);
        break;
      case "failed":
        this.#failure = { error: notice.error };
        break;
      case "event":
        if (!this.#hearEvent(notice.event)) return;
        break;
    }
    this.#bell.ring();
  }

  /** Tells what is new; says whether the turn may be over with it. */
  #hearEvent(event: Event): boolean {
    // A stream may tell of other sessions, too.
    if (!("sessionID" in event.properties) || event.properties.sessionID !== this.#settings.sessionID) return false;
    this.#transcript.hear(event).forEach(this.#settings.tell);
    switch (event.type) {
      case "permission.updated":
      case "permission.asked":
        this.#ask(event.properties);
        return false;
      case "session.deleted":
        this.#failure = { error: new HandbackError("closed", "the session was deleted before it answered") };
        return true;
      case "session.idle":
        this.#mustLook = true;
        return true;
      case "session.status":
        // Busy once more, with something that another has said.
        if (!this.#transcript.hasAnswers) return false;
        this.#mustLook = true;
        return true;
      case "message.updated": {
        const { info } = event.properties;
        // With calls in it another message follows.
        if (!this.#transcript.isAnswer(info) || info.time.completed == null || info.finish === "tool-calls") return false;
        this.#mustLook = true;
        return true;
      }
      default:
        return false;
    }
  }

  /**
   * Says it, once: the server refuses an id that it has, so that a try whose answer was lost does no harm. Each try waits
   * for the tools: a server that was restarted in between would ask the model without them.
   */
  async #say(): Promise<void> {
    const { http, sessionID, prompt, patience, tools } = this.#settings;
    await this.#persist(async () => {
      await tools.ready({ signal: this.#ended.signal, patience, isServerInDoubt: this.#isServerInDoubt });
      const isRepeated = this.#mayBeSaid;
      this.#mayBeSaid = true;
      const connection = tools.connection();
      const body = { ...prompt, ...(connection !== undefined && { connection }) };
      try {
        await http.request("POST", ["session", sessionID, "prompt_async"], { body, isAnswer: isNothing });
      } catch (error) {
        this.#isServerInDoubt = true;
        if (!(error instanceof HandbackError) || error.status !== 409) throw error;
        // Also at the first try: a browser may send a request again by itself.
        if (await this.#isSaid()) return;
        if (!isRepeated) throw error;
        // An earlier try is being taken just now, or too many prompts wait.
        throw new HandbackError("interrupted", error.message, { cause: error });
      }
    });
  }

  async #isSaid(): Promise<boolean> {
    const messages = await this.#messages();
    return messages.some(({ info }) => info.id === this.#settings.prompt.messageID);
  }

  /** Reads and tells what the session has; gives the answer if the turn is over. */
  async #look(): Promise<Answer | undefined> {
    this.#mustLook = false;
    const { sessionID, tell } = this.#settings;
    const read = await this.#read().catch((error: unknown) => this.#missLook(error));
    if (!read) return undefined;
    const { status, messages, asks } = read;
    this.#lost = undefined;
    this.#missedEvents = false;
    this.#transcript.read(messages).forEach(tell);
    asks.forEach((ask) => this.#ask(ask));
    const last = messages.filter(({ info }) => this.#transcript.isAnswer(info)).at(-1);
    if (last && isLast(last)) return toAnswer(last);
    if (status[sessionID]?.type === "busy") {
      this.#stoppedAt = undefined;
      return undefined;
    }
    this.#stoppedAt ??= performance.now();
    if (performance.now() - this.#stoppedAt < Math.min(STOPPED, this.#settings.patience)) {
      this.#mustLook = true;
      return undefined;
    }
    if (!last) throw new HandbackError("unexpected", "nothing has answered, and the session is idle");
    throw new TurnFailed(toAnswer(last));
  }

  /** Reads what the session has. In this order: of a session that is idle, the messages are complete. */
  async #read(): Promise<{ status: Record<string, Status>; messages: MessageWithParts[]; asks: Permission[] }> {
    const { http } = this.#settings;
    const status = await http.request<Record<string, Status>>("GET", ["session", "status"], { isAnswer: isStatuses });
    const messages = await this.#messages();
    const options = { isAnswer: Array.isArray };
    const asks = this.#missedEvents ? await http.request<Permission[]>("GET", ["permission"], options) : [];
    return { status, messages, asks };
  }

  /** The server could not be read, and may be later. */
  #missLook(error: unknown): undefined {
    if (!(error instanceof HandbackError) || !error.transient) throw error;
    this.#lose(error);
    this.#mustLook = true;
    this.#restsUntil = performance.now() + delayAfter(error, this.#lookAgain);
  }

  #messages(): Promise<MessageWithParts[]> {
    const { http, sessionID } = this.#settings;
    const options = { query: { limit: NEWEST_MESSAGES }, isAnswer: Array.isArray };
    return http.request("GET", ["session", sessionID, "message"], options);
  }

  #ask(permission: Permission): void {
    if (permission.sessionID !== this.#settings.sessionID || this.#asks.has(permission.id)) return;
    this.#asks.add(permission.id);
    const reply = (reply: Reply, options?: ReplyOptions) => this.#reply(permission.id, { response: reply, ...options });
    this.#settings.tell({ type: "permission", permission, reply });
  }

  async #reply(permissionID: string, body: PermissionResponse): Promise<void> {
    const { http, sessionID } = this.#settings;
    let mayBeTaken = false;
    await this.#persist(async () => {
      try {
        await http.request("POST", ["session", sessionID, "permissions", permissionID], { body, isAnswer: isTrue });
      } catch (error) {
        if (!(error instanceof HandbackError)) throw error;
        if (!mayBeTaken || error.status !== 404 || error.isProxyAnswer) {
          mayBeTaken = true;
          throw error;
        }
      }
    });
  }

  /** Does something until it is done, as long as the turn is under way and the patience lasts. */
  #persist(attempt: () => Promise<void>): Promise<void> {
    const remaining = countdown(this.#settings.patience);
    return persist(attempt, { signal: this.#ended.signal, remaining, mayPass: isTransient });
  }

  /** Stops the turn on the server. One that cannot be reached is left alone: its turn goes on without this client. */
  async #stop(): Promise<void> {
    if (!this.#saying || !this.#mayBeSaid) return;
    const { http, sessionID } = this.#settings;
    const limit = new AbortController();
    const remaining = countdown(STOP_TIMEOUT);
    const timer = setTimeout(() => limit.abort(), STOP_TIMEOUT);
    try {
      // An abort that overtakes what was said would stop nothing.
      await unlessAborted(this.#saying.catch(() => undefined), limit.signal);
      const abort = () => http.request("POST", ["session", sessionID, "abort"], { signal: limit.signal });
      // A server that is being restarted goes on with the turn.
      await persist(abort, { signal: limit.signal, remaining, mayPass: isTransient });
    } catch {
      // Whoever fired the signal does not wait for the turn any more, and cannot do more about it than was tried.
    } finally {
      clearTimeout(timer);
    }
  }
}

function toAnswer(message: MessageWithParts): Answer {
  return { ...message, text: message.parts.map((part) => (part.type === "text" ? part.text : "")).join("") };
}

/** Whether no other message of the turn follows: one with calls in it has another after it, unless it failed. */
function isLast({ info, parts }: MessageWithParts): boolean {
  if (info.time.completed == null) return false;
  return info.error != null || !parts.some((part) => part.type === "tool");
}

/** Whether the server has taken a prompt: it says no more than that. */
function isNothing(answer: unknown): boolean {
  return answer === undefined;
}

/** Whether the server has taken the answer to an ask. */
function isTrue(answer: unknown): boolean {
  return answer === true;
}

/** Whether an answer is the statuses of sessions, by their ids. */
function isStatuses(answer: unknown): boolean {
  return typeof answer === "object" && answer !== null && Object.values(answer).every(hasText("type"));
}

function isTransient(error: unknown): boolean {
  return error instanceof HandbackError && error.transient;
}
