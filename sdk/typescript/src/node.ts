// The package in Node. Whatever needs Node or `ws` is reached from here alone, so that a browser never sees it: what
// differs is handed to the shared code as an option (the WebSocket, for example), not looked up by it.

import type { HandbackClient } from "./client.js";
import { createHandbackClient } from "./index.js";
import { type HandbackOptions, type LocalServer, startHandback } from "./local.js";

export * from "./index.js";
export type { HandbackOptions, LocalServer } from "./local.js";

/** Starts the `handback` binary on a free port, with a client of it. It is gone when this process is. */
export function createHandback(options: HandbackOptions = {}): Promise<{ client: HandbackClient; server: LocalServer }> {
  return startHandback(options, createHandbackClient);
}
