// The manager in Node, which has a WebSocket of its own only since version 22.

import { WebSocket as WsWebSocket } from "ws";

import { ClientToolsManager as Manager } from "./manager.js";
import type { ClientToolsOptions } from "./options.js";
import { MAX_MESSAGE } from "./transport.js";

/** How long a peer gets to take leave, in ms. `ws` alone would wait for 30 s, and the process with it. */
const FAREWELL = 1000;

class WebSocketOfWs extends WsWebSocket {
  constructor(url: string) {
    super(url, { maxPayload: MAX_MESSAGE, perMessageDeflate: false });
  }

  override close(code?: number, reason?: string): void {
    super.close(code, reason);
    setTimeout(() => this.terminate(), FAREWELL).unref();
  }
}

export class ClientToolsManager extends Manager {
  constructor(clientID: string, baseUrl: string, options: ClientToolsOptions = {}) {
    super(clientID, baseUrl, { ...options, WebSocket: options.WebSocket ?? globalThis.WebSocket ?? WebSocketOfWs });
  }
}
