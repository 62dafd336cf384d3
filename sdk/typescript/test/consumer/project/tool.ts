// What an application writes, checked as strictly as it can be.

import { ClientToolsManager, createHandbackClient, HandbackError, type Session, TurnFailed } from "@handback/client";
import { z } from "zod";

const client = createHandbackClient({ baseUrl: "http://127.0.0.1:4096", token: async () => "token", useWebSocket: true });

const parameters = z.object({ city: z.string(), days: z.number().default(1) });
await client.clientTools.register("weather", { description: "The weather", parameters, effect: "read" }, (input, call) => {
  const city: string = input.city;
  // The default has been filled in.
  const days: number = input.days;
  const signal: AbortSignal = call.signal;
  return { title: city, output: `${days} sunny days`, metadata: { aborted: signal.aborted, until: call.deadline.toISOString() } };
});

const schema = { type: "object", properties: { path: { type: "string" }, lines: { type: "integer" } }, required: ["path"] } as const;
await client.clientTools.register("read", { description: "Reads a file", parameters: schema }, ({ path, lines }) => {
  const limit: number | undefined = lines;
  return path.slice(0, limit);
});

// @ts-expect-error: the input has no such field
await client.clientTools.register("wrong", { description: "", parameters }, (input) => input.country);
// @ts-expect-error: a number is no output
await client.clientTools.register("wrong", { description: "", parameters }, (input) => input.days);

const manager = new ClientToolsManager("laptop", "http://127.0.0.1:4096");
const stop: () => void = manager.on("call", (event) => console.log(event.type, event.requestID));
manager.on("state", ({ state }) => state === "retrying" && stop());
await manager.connect("ses_1");

const { session, prompt, stream, close } = await client.startSession({ title: "Trip", model: "demo/scripted" });
const made: Session = session;
for await (const event of stream("hello", { signal: AbortSignal.timeout(1000) })) {
  switch (event.type) {
    case "text":
    case "reasoning":
      console.log(event.text);
      break;
    case "tool":
      console.log(event.name, event.part.callID, event.part.state.status);
      break;
    case "permission":
      await event.reply("once", { input: { city: "Oslo" } });
      break;
    case "done":
      console.log(event.message.text, event.message.info.tokens?.output);
      break;
    default:
      event satisfies never;
  }
}
try {
  const { text, parts } = await prompt([{ type: "text", text: "hi" }], { onPermission: ({ tool }) => (tool ? "always" : "reject") });
  console.log(text, parts.length, made.id);
} catch (error) {
  if (error instanceof TurnFailed) console.log(error.answer.info.error?.name);
  else if (error instanceof HandbackError) console.log(error.kind, error.transient);
}
await close();
