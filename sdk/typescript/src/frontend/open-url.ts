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
  opener: unknown;
  readonly closed: boolean;
}

export interface OpenUrlOptions {
  /**
   * Opens an address in the view of that name; by default `window.open`. A view that is `null` or closed is one that the
   * browser has blocked; `undefined` is one that is no window, such as a panel of the page.
   */
  open?: ((url: string, viewKey: string) => OpenedView | null | undefined) | undefined;
  /** The name of the view: an address opened under the same name takes the place of the last. By default always a new one. */
  viewKey?: string | undefined;
}

/** Opens addresses of the web, and nothing else. What it gives names the view that was opened. */
export function openUrl(options: OpenUrlOptions = {}): FrontendToolHandler<OpenUrlInput> {
  const { open = (url, viewKey) => window.open(url, viewKey) } = options;
  // To a browser, `_self` and the like are not names.
  if (options.viewKey !== undefined && !/^[^_]/.test(options.viewKey)) {
    throw new TypeError("a viewKey must not be empty or begin with an underscore");
  }
  return (input): OpenUrlOutput => {
    const address = webAddress((input as Partial<OpenUrlInput> | null | undefined)?.url);
    const viewKey = options.viewKey ?? `view-${randomHex(8)}`;
    const view = open(address.href, viewKey);
    if (view === null || view?.closed) throw new Error("The browser blocked the pop-up; press Open to open it");
    if (view) disown(view);
    return { url: input.url, viewKey };
  };
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

/**
 * Takes away the opened page's way back to this one. `noopener` would do that too, but with it `window.open` gives `null`
 * whether or not the window was blocked. Right after `window.open` the new window still shows an empty page of this
 * origin, so its `opener` can be set before the address is loaded.
 */
function disown(view: OpenedView): void {
  try {
    view.opener = null;
  } catch {
    // A window that was opened before under this name, and shows a page of another origin: its opener was taken away then.
  }
}
