// The package in Node. Whatever needs Node or `ws` is reached from here alone, so that a browser never sees it: what
// differs is handed to the shared code as an option (the WebSocket, for example), not looked up by it.

export * from "./index.js";
