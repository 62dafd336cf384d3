import assert from "node:assert/strict";
import { test } from "node:test";

import { createHandbackClient, type HandbackClient, type Permission, type TurnEvent } from "../../src/node.js";
import { startServer } from "./server.js";

const ASK = `[agents.default.permission]\nclient_tools = "ask"\n`;

async function offerGreeting(client: HandbackClient): Promise<unknown[]> {
  const inputs: unknown[] = [];
  const parameters = { type: "object", properties: { name: { type: "string" } }, required: ["name"] } as const;
  await client.clientTools.register("greet", { description: "Greets somebody", parameters }, (input) => {
    inputs.push(input);
    return `Hello, ${input.name}!`;
  });
  return inputs;
}

async function toolsOn(client: HandbackClient): Promise<string[]> {
  const tools = await client.http.request<{ id: string }[]>("GET", ["client-tools", "tools", client.clientID]);
  return tools.map(({ id }) => id);
}

async function offeredIn(client: HandbackClient, sessionID: string): Promise<string[]> {
  const tools = await client.http.request<{ id: string }[]>("GET", ["session", sessionID, "tools"]);
  // The server has tools of its own.
  return tools.map(({ id }) => id).filter((id) => id.startsWith("client_"));
}

test("a model calls a tool of this client, and the stream tells of it", async (test) => {
  const { client } = await startServer(test, { clientID: "laptop" });
  const inputs = await offerGreeting(client);
  const session = await client.startSession();
  const told: string[] = [];
  let text = "";
  let last: TurnEvent | undefined;
  for await (const event of session.stream('call greet {"name":"Ada"}')) {
    if (event.type === "tool") told.push(`${event.name} ${event.part.state.status}`);
    if (event.type === "text") text += event.text;
    last = event;
  }
  assert.deepEqual(inputs, [{ name: "Ada" }]);
  // How often the arguments were told while they were written is the model's affair.
  assert.deepEqual([...new Set(told)].slice(-2), ["greet running", "greet completed"]);
  assert.match(text, /Hello, Ada!/);
  assert.equal(last?.type === "done" && last.message.text, text);
});

test("the tools are connected while a session needs them, and gone when the last is closed", async (test) => {
  const { client } = await startServer(test, { clientID: "laptop" });
  await offerGreeting(client);
  assert.deepEqual(await toolsOn(client), []);
  const first = await client.startSession();
  const second = await client.startSession();
  const without = await client.startSession({ tools: false });
  const ids = await Promise.all([first, second, without].map(({ session }) => offeredIn(client, session.id)));
  assert.deepEqual(ids, [["client_laptop_greet"], ["client_laptop_greet"], []]);
  await first.close();
  await without.close();
  await first.close();
  assert.deepEqual([client.clientTools.state, await toolsOn(client)], ["open", ["client_laptop_greet"]]);
  // One that is started while the last goes has its tools all the same.
  const [third] = await Promise.all([client.startSession(), second.close()]);
  assert.deepEqual(await offeredIn(client, third.session.id), ["client_laptop_greet"]);
  await third.close();
  assert.deepEqual([client.clientTools.state, await toolsOn(client)], ["closed", []]);
});

test("tools that were connected by hand stay when a session is closed", async (test) => {
  const { client } = await startServer(test, { clientID: "laptop" });
  await offerGreeting(client);
  await client.clientTools.connect();
  const session = await client.startSession();
  await session.close();
  assert.deepEqual([client.clientTools.state, await toolsOn(client)], ["open", ["client_laptop_greet"]]);
  await client.close();
  assert.deepEqual([client.clientTools.state, await toolsOn(client)], ["closed", []]);
});

test("a session whose tools are refused is not started, and does not stay", async (test) => {
  const { client } = await startServer(test);
  const parameters = { type: "no such type" };
  await client.clientTools.register("odd", { description: "", parameters }, () => "");
  await assert.rejects(client.startSession(), { name: "HandbackError", kind: "refused", status: 400 });
  assert.deepEqual(await client.http.request("GET", ["session"]), []);
});

test("calls that ask are decided by whoever streams", async (test) => {
  const { client } = await startServer(test, { config: ASK });
  const inputs = await offerGreeting(client);
  const session = await client.startSession();
  const ends: unknown[] = [];
  const lines = 'call greet {"name":"Ada"}\ncall greet {"name":"Bob"}';
  for await (const event of session.stream(lines)) {
    if (event.type === "permission") {
      const { name } = event.permission.input;
      if (name === "Ada") await event.reply("once", { input: { name: "Grace" } });
      else await event.reply("reject", { message: "not him" });
    }
    if (event.type === "tool" && event.part.state.time?.end != null) ends.push(event.part.state.output ?? event.part.state.error);
  }
  assert.deepEqual(inputs, [{ name: "Grace" }]);
  assert.equal(ends.length, 2);
  assert.ok(ends.includes("Hello, Grace!"));
  assert.ok(ends.some((end) => String(end).includes("not him")), String(ends));
});

test("calls that ask are decided by what was passed to prompt", async (test) => {
  const { client } = await startServer(test, { config: ASK });
  const inputs = await offerGreeting(client);
  const session = await client.startSession();
  const asked: unknown[] = [];
  const onPermission = (permission: Permission) => {
    asked.push(permission.input);
    return "always" as const;
  };
  await session.prompt('call greet {"name":"Ada"}', { onPermission });
  await session.prompt('call greet {"name":"Bob"}', { onPermission });
  assert.deepEqual([asked, inputs], [[{ name: "Ada" }], [{ name: "Ada" }, { name: "Bob" }]]);
});

test("a decision that fails ends the turn with its error", async (test) => {
  const { client } = await startServer(test, { config: ASK });
  const inputs = await offerGreeting(client);
  const session = await client.startSession();
  const onPermission = () => Promise.reject(new Error("the dialog broke"));
  await assert.rejects(session.prompt('call greet {"name":"Ada"}', { onPermission }), new Error("the dialog broke"));
  const status = await client.http.request<Record<string, unknown>>("GET", ["session", "status"]);
  assert.deepEqual([inputs, status[session.session.id]], [[], { type: "idle" }]);
});

test("an abort reaches the tool that is running", async (test) => {
  const { client } = await startServer(test);
  const stop = new AbortController();
  const ended = new Promise<string>((resolve) => {
    client.clientTools.on("call", (event) => {
      if (event.type === "started") stop.abort(new Error("enough"));
      else resolve(event.type);
    });
  });
  await client.clientTools.register("wait", { description: "Waits" }, (_input, { signal }) => {
    return new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
  });
  const session = await client.startSession();
  await assert.rejects(session.prompt("call wait {}", { signal: stop.signal }), new Error("enough"));
  assert.equal(await ended, "cancelled");
});

test("a client that is not named has a random name of its own", () => {
  const names = [1, 2].map(() => createHandbackClient({ baseUrl: "http://127.0.0.1:1" }).clientID);
  for (const name of names) assert.match(name, /^[0-9a-f]{20}$/);
  assert.notEqual(names[0], names[1]);
});
