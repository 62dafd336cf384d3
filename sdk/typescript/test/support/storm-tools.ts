// What the client of a storm offers.

import { ClientToolsManager } from "../../src/tools/node.js";
import type { ClientToolsOptions } from "../../src/tools/options.js";
import type { ToolCall } from "../../src/tools/tool.js";

/** What the storm asks of a handler. */
interface Order {
  act: "answer" | "fail" | "hang";
  /** How long it works, in ms. */
  work: number;
  word: string;
}

async function obey({ act, work, word }: Order, { requestID, signal }: ToolCall): Promise<string> {
  await new Promise((resolve) => setTimeout(resolve, work));
  if (act === "answer") return `${requestID} was asked for ${word}`;
  if (act === "fail") throw new Error(`${requestID} was asked to fail`);
  if (!signal.aborted) await new Promise((resolve) => signal.addEventListener("abort", resolve));
  throw new Error("the call was over");
}

/** A client with the tools of a storm; `say` is told of every run before it begins. */
export async function connectToStorm(
  url: string,
  options: ClientToolsOptions,
  say: (line: string) => void,
): Promise<ClientToolsManager> {
  const manager = new ClientToolsManager("storm", url, {
    reconnect: { first: 5, longest: 50 },
    silence: 300,
    ...options,
  });
  manager.on("state", () => {});
  for (const effect of ["read", "idempotent", "write"] as const) {
    await manager.register(effect, { description: "", effect }, (input, call) => {
      say(`run ${call.requestID} ${effect}`);
      return obey(input as unknown as Order, call);
    });
  }
  await manager.connect();
  return manager;
}
