// The conversation that this tab shows.

import { type Call, HandbackError, type HandbackEvent, type MessageWithParts, type Session, type Status } from "@handback/client";
import { effect, signal } from "@preact/signals";

import { messageOf, request } from "../api";
import { type Notice, playgroundTopic, subscribe } from "../events";
import { Beat } from "../world/beat";
import type { OutcomeStatus } from "../world/calls";
import { isPlayground, newClientID } from "./identity";
import { OPEN_URL } from "./offer";
import { takeUp, watch } from "./opening";
import { followAddress, goTo, sessionID } from "./place";
import { connectionName, offeredAs, offerTools, whenReady } from "./tools";
import { MOST_MESSAGES, Transcript, type Turn } from "./transcript";

/** How long a prompt waits until this page is ready for what comes of it, in ms. */
const READY_PATIENCE = 3000;
/** How long to wait after a failure that may pass, in ms. */
const PATIENCE = 2000;

/** What is not so any more once the server is heard. */
const KEY_WANTED = "The server wants a key. Enter it, then send this again.";
const UNREACHABLE = "The server cannot be reached. See that it runs (`handback serve`), then send this again.";

export class Conversation {
  /** None until something was said. */
  id: string | undefined;
  /** Whose tools can be called; unknown until the session was read. */
  #clientID: string | undefined;
  readonly isBusy = signal(false);
  /** What was just said, until the server has it. */
  readonly sending = signal<string | undefined>(undefined);
  /** Why the last wish was not granted. */
  readonly trouble = signal<string | undefined>(undefined);
  /** Whether the server does not know the session. */
  readonly isGone = signal(false);
  /** Whether it was read, as far as there is something to read. */
  readonly isRead = signal(false);
  /** How calls ended, by `callID`: a part says only that it failed. */
  readonly outcomes = signal<ReadonlyMap<string, OutcomeStatus>>(new Map());
  readonly #transcript = new Transcript();
  readonly #beat = new Beat();
  /** Ends what is being sent. */
  #sending: AbortController | undefined;
  /** What is told while the messages are read: by the latest reading, which alone counts. */
  #meanwhile: HandbackEvent[] | undefined;
  #isClosed = false;
  #unsubscribe = () => {};

  constructor(id: string | undefined) {
    this.id = id;
    this.isRead.value = id === undefined;
  }

  /** Follows what happens, until it is closed. */
  begin(): void {
    this.#become(this.id === undefined ? newClientID() : undefined);
    // Without a session there is nothing to hear; the stream tells whether the server is there.
    playgroundTopic.value = this.id === undefined ? { clientID: this.#clientID } : { sessionID: this.id };
    this.#unsubscribe = subscribe((notice) => this.#hear(notice));
  }

  close(): void {
    this.#isClosed = true;
    this.#unsubscribe();
  }

  /** Reading it makes a component follow. */
  turns(): Turn[] {
    void this.#beat.signal.value;
    return this.#transcript.turns();
  }

  /** Whether there may be more of it than `turns` gives. */
  get isLong(): boolean {
    return this.#transcript.isFull;
  }

  /** Says something. Whether the server has it; if not, `trouble` says why, or it was stopped before. */
  async say(text: string): Promise<boolean> {
    const sending = new AbortController();
    this.#sending = sending;
    this.trouble.value = undefined;
    this.sending.value = text;
    try {
      const id = this.id ?? (await this.#create());
      await whenReady(READY_PATIENCE, sending.signal);
      if (sending.signal.aborted) return false;
      const who = { clientID: this.#clientID, connection: connectionName() };
      const body = { parts: [{ type: "text", text }], ...who, tools: { [OPEN_URL]: true } };
      await request("POST", ["session", id, "prompt_async"], { body });
      // The turn could not be stopped before the server had it.
      if (sending.signal.aborted) await this.#abort(id);
      return true;
    } catch (error) {
      this.#refused(error);
      return false;
    } finally {
      this.#sending = undefined;
      this.sending.value = undefined;
    }
  }

  /** Ends the turn, or does not let what is being sent become one. */
  async stop(): Promise<void> {
    if (this.#sending) this.#sending.abort();
    else if (this.id !== undefined) await this.#abort(this.id);
  }

  async #abort(id: string): Promise<void> {
    try {
      await request("POST", ["session", id, "abort"]);
    } catch (error) {
      this.#refused(error);
    }
  }

  async #create(): Promise<string> {
    const { id } = await request<Session>("POST", ["session"], { body: { clientID: this.#clientID } });
    this.id = id;
    goTo(id);
    playgroundTopic.value = { sessionID: id };
    return id;
  }

  #hear(notice: Notice): void {
    if (notice.type === "connected") void this.#read();
    const isHeard = notice.type === "connected" || notice.type === "event";
    if (isHeard && [KEY_WANTED, UNREACHABLE].includes(this.trouble.value ?? "")) this.trouble.value = undefined;
    if (notice.type !== "event" || this.id === undefined) return;
    const { event } = notice;
    watch(event, this.id);
    if (!("sessionID" in event.properties) || event.properties.sessionID !== this.id) return;
    this.#meanwhile?.push(event);
    if (this.#transcript.hear(event)) this.#beat.mark();
    if (event.type === "session.status") this.isBusy.value = event.properties.status.type === "busy";
    if (event.type === "session.deleted") this.#lose();
    if (event.type === "client-tool.failed") void this.#readCalls().catch((error: unknown) => this.#note(error));
  }

  /** Reads all of it: it was opened, or the connection was lost meanwhile. */
  async #read(): Promise<void> {
    const { id } = this;
    if (id === undefined || this.#isClosed) return;
    const meanwhile: HandbackEvent[] = [];
    this.#meanwhile = meanwhile;
    try {
      const session = await request<Session>("GET", ["session", id]);
      if (this.#meanwhile !== meanwhile) return;
      this.#become(session.clientID ?? undefined);
      const messages = await request<MessageWithParts[]>("GET", ["session", id, "message"], {
        query: { limit: String(MOST_MESSAGES) },
      });
      const statuses = await request<Record<string, Status>>("GET", ["session", "status"]);
      if (this.#meanwhile !== meanwhile) return;
      this.#transcript.read(messages, meanwhile);
      const told = meanwhile.flatMap((event) => (event.type === "session.status" ? [event.properties.status] : [])).at(-1);
      this.isBusy.value = (told ?? statuses[id])?.type === "busy";
      this.isRead.value = true;
      this.isGone.value = false;
      if (meanwhile.some(({ type }) => type === "session.deleted")) this.#lose();
      this.#beat.mark();
      await this.#readCalls();
    } catch (error) {
      if (this.#meanwhile !== meanwhile) return;
      if (error instanceof HandbackError && error.transient) setTimeout(() => void this.#read(), PATIENCE);
      else this.#refused(error);
    } finally {
      if (this.#meanwhile === meanwhile) this.#meanwhile = undefined;
    }
  }

  /** How its calls ended, and those that wait for a page like this one. */
  async #readCalls(): Promise<void> {
    const calls = await request<Call[]>("GET", ["client-tools", "calls"], { query: { sessionID: this.id ?? "" } });
    if (this.#isClosed) return;
    this.outcomes.value = new Map(calls.flatMap(({ callID, outcome }) => (outcome ? [[callID, outcome.status]] : [])));
    await takeUp(calls);
  }

  #become(clientID: string | undefined): void {
    if (this.#isClosed) return;
    this.#clientID = clientID;
    offeredAs.value = clientID !== undefined && isPlayground(clientID) ? clientID : undefined;
  }

  /** The server does not know the session any more: nothing can happen in it. */
  #lose(): void {
    this.isGone.value = true;
    this.isBusy.value = false;
  }

  #refused(error: unknown): void {
    if (error instanceof HandbackError && error.status === 404) this.#lose();
    else this.#note(error);
  }

  #note(error: unknown): void {
    this.trouble.value = wordsFor(error);
  }
}

export const conversation = signal(new Conversation(undefined));

let isFollowed = false;

/** Shows the conversation that the address names, from now on; the page goes on answering when another page is shown. */
export function followConversation(): void {
  if (isFollowed) return;
  isFollowed = true;
  followAddress();
  show(new Conversation(sessionID.value));
  effect(() => {
    const id = sessionID.value;
    if (conversation.peek().id !== id) show(new Conversation(id));
  });
  offerTools();
}

/** Begins anew; what was said stays on the server. */
export function startAnew(): void {
  goTo(undefined);
}

function show(next: Conversation): void {
  conversation.peek().close();
  conversation.value = next;
  next.begin();
}

/** What went wrong, and what to do about it. */
function wordsFor(error: unknown): string {
  if (!(error instanceof HandbackError)) return messageOf(error);
  if (error.status === 401) return KEY_WANTED;
  if (error.transient && error.status === undefined) return UNREACHABLE;
  return messageOf(error);
}
