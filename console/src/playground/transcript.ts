// The messages of a session: read as a whole, then kept up by events.

import type { HandbackEvent, Message, MessageWithParts, Part } from "@handback/client";

/** What somebody said, and the messages that answer it: one for each step. */
export interface Turn {
  id: string;
  question: MessageWithParts | undefined;
  answers: MessageWithParts[];
}

/** How many messages are kept: the newest. Older ones are on the server. */
export const MOST_MESSAGES = 500;

export class Transcript {
  /** In order. */
  #messages = new Map<string, MessageWithParts>();
  /** Texts that were told as a whole since the messages were read: only onto those does growth fit. */
  readonly #whole = new Set<string>();

  /** Whether there may be older messages than those that are here. */
  get isFull(): boolean {
    return this.#messages.size >= MOST_MESSAGES;
  }

  /** Takes the messages as they were read, and what was told while they were: it may be older, but newer follows. */
  read(messages: readonly MessageWithParts[], meanwhile: readonly HandbackEvent[]): void {
    this.#messages = new Map(messages.map((message) => [message.info.id, message]));
    this.#whole.clear();
    for (const event of meanwhile) this.hear(event);
  }

  /** Whether an event has changed something. */
  hear(event: HandbackEvent): boolean {
    if (event.type === "message.updated") return this.#takeMessage(event.properties.info);
    if (event.type === "message.part.updated") return this.#takePart(event.properties.part);
    if (event.type === "message.part.removed") return this.#removePart(event.properties);
    if (event.type !== "message.part.delta" || event.properties.field !== "text") return false;
    const { messageID, partID, delta } = event.properties;
    return this.#grow(messageID, partID, delta);
  }

  /** The oldest first. */
  turns(): Turn[] {
    const turns = new Map<string, Turn>();
    const turnOf = (id: string): Turn => {
      const turn = turns.get(id) ?? { id, question: undefined, answers: [] };
      turns.set(id, turn);
      return turn;
    };
    for (const message of this.#messages.values()) {
      const { id, role, parentID } = message.info;
      if (role === "user") turnOf(id).question = message;
      else turnOf(parentID ?? id).answers.push(message);
    }
    return [...turns.values()];
  }

  #takeMessage(info: Message): boolean {
    const parts = this.#messages.get(info.id)?.parts ?? [];
    this.#messages.set(info.id, { info, parts });
    const [oldest] = this.#messages.values();
    if (this.#messages.size > MOST_MESSAGES && oldest) this.#drop(oldest);
    return true;
  }

  #drop({ info, parts }: MessageWithParts): void {
    this.#messages.delete(info.id);
    for (const { id } of parts) this.#whole.delete(id);
  }

  #removePart({ messageID, partID }: { messageID: string; partID: string }): boolean {
    const message = this.#messages.get(messageID);
    if (!message) return false;
    this.#messages.set(messageID, { ...message, parts: message.parts.filter(({ id }) => id !== partID) });
    return this.#whole.delete(partID);
  }

  #takePart(part: Part): boolean {
    const message = this.#messages.get(part.messageID);
    // A message is told before its parts: this one is too old to be kept.
    if (!message) return false;
    const isKnown = message.parts.some(({ id }) => id === part.id);
    const parts = isKnown ? message.parts.map((known) => (known.id === part.id ? part : known)) : [...message.parts, part];
    this.#messages.set(part.messageID, { ...message, parts });
    this.#whole.add(part.id);
    return true;
  }

  #grow(messageID: string, partID: string, delta: string): boolean {
    const part = this.#messages.get(messageID)?.parts.find(({ id }) => id === partID);
    if (!part || !this.#whole.has(partID)) return false;
    return this.#takePart({ ...part, text: (part.text ?? "") + delta });
  }
}
