// The page that may be left at any time.

/** Calls back whenever nobody looks at the page any more, which is also the last that it hears. Gives a way to stop. */
export function whenHidden(callBack: () => void): () => void {
  const page: Document | undefined = globalThis.document;
  const changed = () => {
    if (page?.visibilityState === "hidden") callBack();
  };
  page?.addEventListener("visibilitychange", changed);
  return () => page?.removeEventListener("visibilitychange", changed);
}
