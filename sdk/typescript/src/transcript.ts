// What of a turn is new: events and messages in, pieces out, each once.
//
// The same text comes in several ways: as growth of a part, as the part as a whole, and, after a lost connection, in the
// messages that are read again. Here is known what was given out of each part, so that only the rest is.

import type { Event, Message, MessageWithParts, Part, ToolState } from "./wire.js";

/** A tool call, as a part of a message. */
export type ToolPart = Part & { type: "tool"; callID: string; tool: string; state: ToolState };

/** Something new. */
export type Piece =
  /** More of the answer. */
  | { type: "text"; text: string; partID: string; messageID: string }
  /** More of what the model thinks before it answers. */
  | { type: "reasoning"; text: string; partID: string; messageID: string }
  /** A tool call, as it is now; `name` is the tool's own, without the client's. */
  | { type: "tool"; name: string; part: ToolPart };

interface GivenText {
  kind: "text" | "reasoning";
  messageID: string;
  text: string;
  /** Whether `text` is all that the part had when it was last told: only then does growth fit onto it. */
  isCurrent: boolean;
}

/** How far a call is; it never goes back. */
const PROGRESS: Record<string, number> = { pending: 0, running: 1, completed: 2, error: 2 };

/** One turn: a user's message and all that answers it. Its size is that of the turn, which the server bounds. */
export class Transcript {
  readonly #question: string;
  readonly #prefix: string;
  readonly #answers = new Set<string>();
  readonly #texts = new Map<string, GivenText>();
  /** What was told of each call: how far it is, and how much of its arguments was written. */
  readonly #calls = new Map<string, { progress: number; written: number }>();

  /** The turn that answers the message `question`, in a session whose tools are those of the client. */
  constructor(question: string, clientID: string) {
    this.#question = question;
    this.#prefix = `client_${clientID}_`;
  }

  /** What an event adds; events of anything but this turn add nothing. */
  hear(event: Event): Piece[] {
    switch (event.type) {
      case "message.updated":
        this.isAnswer(event.properties.info);
        return [];
      case "message.part.updated": {
        const { part } = event.properties;
        return this.#answers.has(part.messageID) ? this.#take(part) : [];
      }
      case "message.part.delta": {
        const { partID, field, delta } = event.properties;
        return field === "text" ? this.#grow(partID, delta) : [];
      }
      default:
        return [];
    }
  }

  /** What the messages of the session, as they were read, add. */
  read(messages: MessageWithParts[]): Piece[] {
    const answers = messages.filter(({ info }) => this.isAnswer(info));
    const pieces = answers.flatMap(({ parts }) => parts.flatMap((part) => this.#take(part)));
    // Events may be on their way that are older than this.
    this.loseTrack();
    return pieces;
  }

  /** Events were missed: growth is not to be trusted until a part is told as a whole again. */
  loseTrack(): void {
    for (const given of this.#texts.values()) given.isCurrent = false;
  }

  /** Whether there is something of the answer. */
  get hasAnswers(): boolean {
    return this.#answers.size > 0;
  }

  /** Whether a message belongs to the answer. */
  isAnswer(info: Message): boolean {
    if (info.parentID !== this.#question) return false;
    this.#answers.add(info.id);
    return true;
  }

  #take(part: Part): Piece[] {
    if (part.type === "text" || part.type === "reasoning") return this.#takeText(part, part.type);
    return isToolPart(part) ? this.#takeCall(part) : [];
  }

  /** A text as a whole: what of it was not given out yet. */
  #takeText(part: Part, kind: "text" | "reasoning"): Piece[] {
    const whole = part.text ?? "";
    const { messageID } = part;
    const known = this.#texts.get(part.id)?.text ?? "";
    if (whole.length < known.length && known.startsWith(whole)) {
      // Older than what was given out.
      this.#texts.set(part.id, { kind, messageID, text: known, isCurrent: false });
      return [];
    }
    this.#texts.set(part.id, { kind, messageID, text: whole, isCurrent: true });
    // A text only ever grows; one that does not begin as it did would be another one.
    const text = whole.startsWith(known) ? whole.slice(known.length) : whole;
    return text === "" ? [] : [{ type: kind, text, partID: part.id, messageID }];
  }

  #grow(partID: string, delta: string): Piece[] {
    const given = this.#texts.get(partID);
    if (!given?.isCurrent || delta === "") return [];
    given.text += delta;
    return [{ type: given.kind, text: delta, partID, messageID: given.messageID }];
  }

  #takeCall(part: ToolPart): Piece[] {
    // While it is pending its arguments grow; otherwise only its status changes.
    const written = part.state.raw?.length ?? 0;
    const progress = PROGRESS[part.state.status] ?? 0;
    const known = this.#calls.get(part.id);
    const isNew = !known || progress > known.progress || (progress === known.progress && written > known.written);
    if (!isNew) return [];
    this.#calls.set(part.id, { progress, written });
    const name = part.tool.startsWith(this.#prefix) ? part.tool.slice(this.#prefix.length) : part.tool;
    return [{ type: "tool", name, part }];
  }
}

export function isToolPart(part: Part): part is ToolPart {
  return part.type === "tool" && part.state != null && part.tool != null && part.callID != null;
}
