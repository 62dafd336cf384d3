// What a turn tells, kept until it is read.

import type { TurnNews } from "./news.js";

/**
 * News between one who tells and one who reads. While nobody reads, texts of one part are joined and a newer state of a
 * call replaces the older: it never holds more than the turn itself is.
 */
export class TurnQueue {
  readonly #news: TurnNews[] = [];
  #end: { error?: unknown } | undefined;
  #wake: (() => void) | undefined;

  readonly push = (news: TurnNews): void => {
    if (!this.#join(news)) this.#news.push(news);
    this.#wake?.();
  };

  /** Nothing more comes; with an error, reading ends with it. */
  end(end: { error?: unknown }): void {
    this.#end = end;
    this.#wake?.();
  }

  async *read(): AsyncGenerator<TurnNews, void> {
    for (;;) {
      const news = this.#news.shift();
      if (news) {
        yield news;
      } else if (this.#end) {
        if ("error" in this.#end) throw this.#end.error;
        return;
      } else {
        await new Promise<void>((resolve) => (this.#wake = resolve));
      }
    }
  }

  #join(news: TurnNews): boolean {
    if (news.type === "tool") {
      const place = this.#news.findIndex((other) => other.type === "tool" && other.part.id === news.part.id);
      if (place >= 0) this.#news[place] = news;
      return place >= 0;
    }
    const last = this.#news.at(-1);
    if (news.type === "permission" || last?.type !== news.type || last.partID !== news.partID) return false;
    last.text += news.text;
    return true;
  }
}
