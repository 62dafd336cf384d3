// A process that connects, runs one call, disconnects, and has nothing left to do.

import { ClientToolsManager } from "../../src/tools/node.js";

const [url = "", transport] = process.argv.slice(2);
const manager = new ClientToolsManager("guest", url, { useWebSocket: transport === "WebSocket" });
await manager.register("tool", { description: "" }, () => "done");
manager.on("call", ({ type }) => {
  if (type === "finished") void manager.disconnect();
});
await manager.connect();
console.log("connected");
