// What the browser keeps for the page. It may keep nothing, by the user's wish or for want of room: then it is kept until
// the page is left.

export class Kept {
  /** Looked up late: where nothing is kept, even that fails. */
  readonly #storage: () => Storage;
  readonly #place: string;
  #value: string | undefined;

  constructor(storage: () => Storage, place: string) {
    this.#storage = storage;
    this.#place = place;
  }

  get value(): string | undefined {
    try {
      return this.#storage().getItem(this.#place) ?? this.#value;
    } catch {
      return this.#value;
    }
  }

  set value(value: string | undefined) {
    this.#value = value;
    try {
      if (value === undefined) this.#storage().removeItem(this.#place);
      else this.#storage().setItem(this.#place, value);
    } catch {
      // It is kept here.
    }
  }
}
