// What happens to the page that this runs in, if there is one.

/** Whether this is a browser or one of its workers. There, an event stream takes one of six connections to a host. */
export function isBrowser(): boolean {
  return "document" in globalThis || "WorkerGlobalScope" in globalThis;
}

export interface PageListener {
  /** The network is back, or somebody looks at the page again: it is worth a try. */
  awake(): void;
  /** The page was out of use, and its connections with it. */
  restored(): void;
}

/** Listens to the page. Gives a way to stop. */
export function listenToPage(listener: PageListener): () => void {
  if (!isBrowser()) return () => undefined;
  const page: Document | undefined = globalThis.document;
  const online = () => listener.awake();
  const visible = () => {
    if (page?.visibilityState === "visible") listener.awake();
  };
  const shown = (event: PageTransitionEvent) => {
    if (event.persisted) listener.restored();
  };
  globalThis.addEventListener("online", online);
  globalThis.addEventListener("pageshow", shown);
  page?.addEventListener("visibilitychange", visible);
  return () => {
    globalThis.removeEventListener("online", online);
    globalThis.removeEventListener("pageshow", shown);
    page?.removeEventListener("visibilitychange", visible);
  };
}
