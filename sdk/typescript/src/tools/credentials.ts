// A token that may be renewed.

import type { Token } from "../http.js";

export class Credentials {
  /** What requests carry. */
  readonly token: Token | undefined;
  /** Whether another token may come. */
  readonly isRenewable: boolean;
  /** What the function gave last. */
  #given: string | undefined;
  /** What was refused last. */
  #refused: string | undefined;

  constructor(token: Token | undefined) {
    this.isRenewable = typeof token === "function";
    this.token = typeof token === "function" ? async () => (this.#given = await token()) : token;
  }

  /** The server has accepted the token. */
  accepted(): void {
    this.#refused = undefined;
  }

  /** The server has refused the token. Whether the next one may be accepted: not if the same was refused before. */
  mayBeRenewed(): boolean {
    if (!this.isRenewable || (this.#given !== undefined && this.#given === this.#refused)) return false;
    this.#refused = this.#given;
    return true;
  }
}
