// Which rows of a long list are drawn: those that can be seen, and a few around them.

/** Drawn above and below what can be seen. */
const AROUND = 8;
/** Never more than so many, however high the list is. */
const MOST_DRAWN = 120;

export interface Span {
  first: number;
  /** Not drawn any more. */
  end: number;
}

export function visible(count: number, scrollTop: number, height: number, rowHeight: number): Span {
  // The list may have shrunk since it was scrolled.
  const top = Math.min(scrollTop, Math.max(0, count * rowHeight - height));
  const first = Math.max(0, Math.floor(top / rowHeight) - AROUND);
  const end = Math.min(count, Math.ceil((top + height) / rowHeight) + AROUND, first + MOST_DRAWN);
  return { first, end };
}

/** Where to scroll so that a row can be seen. */
export function scrolledTo(index: number, scrollTop: number, height: number, rowHeight: number): number {
  const top = index * rowHeight;
  return Math.min(top, Math.max(scrollTop, top + rowHeight - height));
}
