// A token that may be renewed.

import { HandbackError } from "../error.js";
import type { Token } from "../http.js";
import { messageOf } from "./result.js";

export class Credentials {
  /** What requests carry. A function that fails is like a server that cannot be reached: it is asked again. */
  readonly token: Token | undefined;
  /** Whether another token may come. */
  readonly isRenewable: boolean;
  /** What the function gave after the last refusal. */
  #afterRefusal: string | undefined;
  readonly #ask: () => Promise<string | undefined>;

  constructor(token: Token | undefined) {
    this.isRenewable = typeof token === "function";
    const ask = async () => {
      if (typeof token !== "function") return token ?? "";
      try {
        return await token();
      } catch (cause) {
        throw new HandbackError("unreachable", `there is no token: ${messageOf(cause)}`, { cause });
      }
    };
    this.#ask = ask;
    this.token = this.isRenewable ? ask : token;
  }

  /** The server has accepted the token. */
  accepted(): void {
    this.#afterRefusal = undefined;
  }

  /**
   * The server has refused the token. Whether the next one may be accepted: not if it is the one that was given after
   * the last refusal, and so was refused this time.
   */
  async mayBeRenewed(): Promise<boolean> {
    if (!this.isRenewable) return false;
    const next = await this.#ask().catch(() => undefined);
    if (next !== undefined && next === this.#afterRefusal) return false;
    this.#afterRefusal = next;
    return true;
  }
}
