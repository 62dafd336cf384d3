// What a turn tells, and what comes of it.

import { HandbackError } from "./error.js";
import type { Piece } from "./transcript.js";
import type { Message, Part, Permission, Reply } from "./wire.js";

/** The last message of a turn. */
export interface Answer {
  info: Message;
  parts: Part[];
  /** The texts among the parts, joined. */
  text: string;
}

/** How to answer an ask. */
export interface ReplyOptions {
  /** The input to use in place of the model's; it must fit the tool's schema. */
  input?: Record<string, unknown>;
  /** Why it is rejected, for the model. */
  message?: string;
}

/** A call waits until somebody allows it. */
export interface Ask {
  permission: Permission;
  /**
   * Answers: `once`, `always` (for this tool, as long as the session lives) or `reject`. Rejects with status 404 if it
   * was answered elsewhere or its time is over. Tries again while the server is lost.
   */
  reply(reply: Reply, options?: ReplyOptions): Promise<void>;
}

/** What a turn tells while it goes on. */
export type TurnNews = Piece | ({ type: "permission" } & Ask);

/** The turn ended with an error: the provider failed, somebody aborted it, the server was stopped, … Or it has no end. */
export class TurnFailed extends HandbackError {
  override readonly name = "TurnFailed";
  /** The last message, as far as it came. */
  readonly answer: Answer;

  constructor(answer: Answer) {
    const { error } = answer.info;
    const reason = error?.data.message || error?.name || "the turn has stopped before its end";
    super("failed", reason, { code: error?.name, details: error?.data });
    this.answer = answer;
  }
}
