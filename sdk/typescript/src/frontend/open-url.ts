// The handler of `open-url`: opens an address beside the page.

import { randomHex } from "../client-id.js";
import type { FrontendToolHandler } from "./state.js";

export interface OpenUrlInput {
  url: string;
  title?: string;
  timeoutSec?: number;
}

export interface OpenUrlOutput {
  url: string;
  viewKey: string;
}

/** What `window.open` gives, as far as it matters. */
export interface OpenedView {
  readonly closed: boolean;
}

export interface OpenUrlOptions {
  /**
   * Opens an address in a view of that name; by default in a new window. A view that is `null` or closed is one that the
   * browser has blocked; `undefined` is one that is no window, such as a panel of the page.
   */
  open?: ((url: string, viewKey: string) => OpenedView | null | undefined) | undefined;
  /** The name of the view, for the page and the model to speak of it. By default always a new one. */
  viewKey?: string | undefined;
}

/** Opens addresses of the web, and nothing else. What it gives names the view that was opened. */
export function openUrl({ open = openWindow, viewKey: given }: OpenUrlOptions = {}): FrontendToolHandler<OpenUrlInput> {
  return (input): OpenUrlOutput => {
    const address = webAddress((input as Partial<OpenUrlInput> | null | undefined)?.url);
    const viewKey = given ?? `view-${randomHex(8)}`;
    const view = open(address.href, viewKey);
    if (view === null || view?.closed) throw new Error("The browser blocked the pop-up; press Open to open it");
    return { url: input.url, viewKey };
  };
}

/**
 * Opens a new window whose page has no way back to this one. `noopener` would take that away too, but with it `window.open`
 * gives `null` whether or not the window was blocked. Right after `window.open` the new window still shows an empty page
 * of this origin, so its `opener` can be set before the address is loaded. That does not hold for a window that is there
 * already: so it is never opened by a name, which would find one, and make this page its opener again.
 */
function openWindow(url: string): OpenedView | null {
  const view = window.open(url, "_blank");
  if (view) view.opener = null;
  return view;
}

/** The address as the browser reads it, so that what is checked is what is opened. */
function webAddress(url: unknown): URL {
  if (typeof url !== "string") throw new TypeError("the url is not a text");
  let address: URL;
  try {
    address = new URL(url);
  } catch {
    throw new TypeError(`${JSON.stringify(url)} is not a whole URL, such as https://example.com`);
  }
  if (address.protocol === "http:" || address.protocol === "https:") return address;
  throw new TypeError(`only http: and https: are opened, not ${address.protocol}`);
}
