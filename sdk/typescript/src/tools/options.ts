// How a manager is set up.

import type { HttpOptions, Token } from "../http.js";
import type { Journal } from "./journal/journal.js";
import type { WebSocketConstructor } from "./socket.js";

export interface ClientToolsOptions {
  /** How long a call may take, in ms, for tools that do not say; the server decides if absent. */
  timeout?: number | undefined;
  /** Whether calls come over a WebSocket; otherwise as server-sent events. By default in browsers only. */
  useWebSocket?: boolean | undefined;
  /** How long the server keeps tools and calls when the connection is lost, in ms; 30 s by default, at most 5 min. */
  grace?: number | undefined;
  /** An application key or a client token, or how to get one: a function may renew it. */
  token?: Token | undefined;
  /** Used instead of the global one. */
  fetch?: HttpOptions["fetch"];
  /** Used instead of the global one. */
  WebSocket?: WebSocketConstructor | undefined;
  /**
   * Where calls are written down, so that none is run twice. By default the browser's storage, or memory: then the
   * outcome of a call that this process was given before it was restarted is unknown.
   */
  journal?: Journal | undefined;
  /** The first and the longest delay between two tries to connect, in ms; 1 s and 30 s by default. */
  reconnect?: { first: number; longest: number } | undefined;
  /** How many tries in a row may fail; by default there is no end to it. */
  maxReconnectAttempts?: number | undefined;
  /** A connection that is silent for so long is dead; in ms, 90 s by default. The server says something every 30 s. */
  silence?: number | undefined;
}
