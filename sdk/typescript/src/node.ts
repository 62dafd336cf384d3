// The package in Node. Whatever needs Node or `ws` is reached from here alone, so that a browser never sees it.

import { HandbackClient, type HandbackClientOptions } from "./client.js";
import { type HandbackOptions, type LocalServer, startHandback } from "./local.js";
import { ClientToolsManager } from "./tools/node.js";

export * from "./index.js";
export type { HandbackOptions, LocalServer } from "./local.js";
export { directoryJournal } from "./tools/journal/directory.js";
// In place of those of the other entry.
export { ClientToolsManager };

/** A client of the server at `baseUrl`: register tools with its `clientTools`, then start a session. */
export function createHandbackClient(options: HandbackClientOptions): HandbackClient {
  return new HandbackClient(options, ClientToolsManager);
}

/** Starts the `handback` binary on a free port, with a client of it. It is gone when this process is. */
export function createHandback(options: HandbackOptions = {}): Promise<{ client: HandbackClient; server: LocalServer }> {
  return startHandback(options, createHandbackClient);
}
