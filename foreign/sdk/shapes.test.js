// All that the server sends, against the SDK's own types: what a real server sent is written down as TypeScript, and
// compiled. A member that the types call required and that is missing, or one of another type, does not compile.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { join, resolve } from "node:path";

import { createOpencodeClient } from "@opencode-ai/sdk/v2";

import { listen } from "../support/events.js";
import { Laptop, NEVER_DONE } from "../support/laptop.js";
import { test } from "../support/patience.js";
import { Server } from "../support/server.js";
import { Upstream } from "../support/upstream.js";

const THROW = /** @type {const} */ ({ throwOnError: true });
const IMAGE = "data:image/png;base64,iVBORw0KGgo=";
const ROOT = resolve(import.meta.dirname, "..");
const COMPILER = join(ROOT, "node_modules/typescript/bin/tsc");

/** What the types say that we do not, on purpose. */
const TYPES = `
import type * as v1 from "@opencode-ai/sdk";
import type * as v2 from "@opencode-ai/sdk/v2";

type Bare<Event> = Event extends { type: infer Type; properties: infer Properties }
  ? { type: Type; properties: Properties }
  : never;
// An event is its type and its properties. It has no id, and a part no time at which it was told.
type Event2 = Bare<Exclude<v2.Event, v2.EventMessagePartUpdated | v2.EventPermissionAsked>>
  | { type: "message.part.updated"; properties: Omit<v2.EventMessagePartUpdated["properties"], "time"> }
  | { type: "permission.asked"; properties: Permission2 };
// \`tool\` is the tool, for both generations; the message and the call are beside it.
type Permission2 = Omit<v2.PermissionRequest, "tool"> & { tool: string; messageID: string; callID: string };

declare function check<Type>(): <Value extends Type>(value: Value) => void;
`;
/** Events that only the newer types have, and only the older. */
const ONLY_NEWER = ["message.part.delta", "permission.asked"];
const ONLY_OLDER = ["permission.updated"];

test("whatever the server sends is what the SDK's types say", async (test) => {
  const sent = await everything(test);

  const parts = sent.messages.flatMap(({ parts }) => parts);
  const kinds = [
    ...parts,
    ...sent.events.flatMap((event) => (event.type === "message.part.updated" ? [event.properties.part] : [])),
  ];
  assert.deepEqual(unique(kinds.map((part) => (part.type === "tool" ? `tool ${part.state.status}` : part.type))), [
    "file",
    "reasoning",
    "step-finish",
    "step-start",
    "text",
    "tool completed",
    "tool error",
    "tool pending",
    "tool running",
  ]);
  assert.deepEqual(unique(sent.events.map(({ type }) => type)), [
    "client-tool.completed",
    "client-tool.executing",
    "client-tool.failed",
    "client-tool.registered",
    "client-tool.request",
    "client-tool.unregistered",
    "message.part.delta",
    "message.part.updated",
    "message.updated",
    "permission.asked",
    "permission.replied",
    "permission.updated",
    "server.connected",
    "session.created",
    "session.deleted",
    "session.error",
    "session.idle",
    "session.status",
    "session.updated",
  ]);
  const errors = sent.messages.flatMap(({ info }) =>
    info.role === "assistant" && info.error ? [info.error.name] : [],
  );
  assert.deepEqual(unique(errors), ["APIError", "MessageAbortedError", "ProviderAuthError", "UnknownError"]);

  // The SDK knows nothing of our own events.
  const events = sent.events.filter(({ type }) => !type.startsWith("client-tool."));
  const lines = [
    check("v1.Session[]", sent.sessions),
    check("v2.Session[]", sent.sessions),
    check("{ [id: string]: v1.SessionStatus }", sent.status),
    check("{ [id: string]: v2.SessionStatus }", sent.status),
    ...sent.messages.map((message) => check("{ info: v1.Message; parts: v1.Part[] }", message)),
    ...sent.messages.map((message) => check("{ info: v2.Message; parts: v2.Part[] }", message)),
    check("v1.Permission[]", sent.permissions),
    check("Permission2[]", sent.permissions),
    check("v1.NotFoundError", sent.unknown),
    check("v2.NotFoundError", sent.unknown),
    check("v1.BadRequestError", sent.invalid),
    check("v2.BadRequestError", sent.invalid),
    ...events.filter(({ type }) => !ONLY_NEWER.includes(type)).map((event) => check("v1.Event", event)),
    ...events.filter(({ type }) => !ONLY_OLDER.includes(type)).map((event) => check("Event2", event)),
  ];
  // What is not of the type does not compile: the compiler does look at it.
  const {
    sessions: [session],
    messages: [{ info }],
    permissions: [permission],
  } = sent;
  const [part] = parts;
  const refused = [
    check("v1.Session", { ...session, title: undefined }),
    check("v2.Session", { ...session, time: {} }),
    check("v1.Message", { ...info, role: "nobody" }),
    check("v2.Part", { ...part, messageID: 7 }),
    check("v1.Permission", { ...permission, title: undefined }),
    check("Permission2", { ...permission, always: undefined }),
    check("v1.Event", { type: "session.idle", properties: {} }),
    check("Event2", { type: "session.idle", properties: {} }),
  ];
  lines.push(...refused.map((line) => `// @ts-expect-error\n${line}`));
  assert.equal(await compile(TYPES + lines.join("\n")), "");
});

/**
 * A line that compiles if the value is of the type.
 *
 * @param {string} type
 * @param {unknown} value
 */
function check(type, value) {
  return `check<${type}>()(${JSON.stringify(value)});`;
}

/** @param {string[]} names */
const unique = (names) => [...new Set(names)].sort();

/**
 * What the compiler has to say about a text.
 *
 * @param {string} text
 * @returns {Promise<string>}
 */
async function compile(text) {
  // Below node_modules, so that the SDK is found.
  const parent = join(ROOT, "node_modules/.cache");
  await mkdir(parent, { recursive: true });
  const folder = await mkdtemp(join(parent, "shapes-"));
  try {
    await writeFile(join(folder, "shapes.mts"), text);
    const options = [
      "--ignoreConfig",
      "--noEmit",
      "--strict",
      "--target",
      "es2022",
      "--module",
      "nodenext",
      "--skipLibCheck",
    ];
    return await new Promise((said) => {
      const files = [...options, join(folder, "shapes.mts")];
      execFile(process.execPath, [COMPILER, ...files], { cwd: folder }, (error, output, complaints) => {
        said(error ? `${output}${complaints}` || String(error) : "");
      });
    });
  } finally {
    await rm(folder, { recursive: true });
  }
}

/**
 * One of each of all that there is: a server whose sessions meet everything that a session can meet.
 *
 * @param {import("node:test").TestContext} test
 */
async function everything(test) {
  const upstream = await Upstream.start(test);
  const config = `
    [providers.mock]
    kind = "openai"
    baseURL = "${upstream.url}/v1"
    [agents.default.permission.tools]
    "client_laptop_photo" = "ask"
  `;
  const server = await Server.start(test, { config });
  const client = createOpencodeClient({ baseUrl: server.url });
  const events = await listen(server, (signal) => client.event.subscribe({}, { signal }));
  const laptop = await Laptop.connect(test, server, "laptop", {
    photo: {
      run: () => ({
        title: "A photo",
        output: "taken",
        attachments: [{ mime: "image/png", filename: "photo.png", url: IMAGE }],
      }),
    },
    breaks: { run: () => Promise.reject(new Error("it broke")) },
    again: { run: () => "again" },
    wait: NEVER_DONE,
  });
  const call = (name) => ({ name: `client_laptop_${name}`, arguments: "{}", id: `call_${name}` });
  upstream.says("take a photo", {
    reasoning: "A photo is wanted.",
    content: "I take one.",
    toolCalls: [call("photo"), call("breaks")],
  });
  upstream.says("call call_photo]", { content: "Here it is." });
  // It does not listen when it is told that this leads nowhere.
  for (const told of ["again", "answer with what you have."]) upstream.says(told, { toolCalls: [call("again")] });
  upstream.says("wait", { toolCalls: [call("wait")] });
  upstream.says("key", { error: { message: "no such key" }, status: 401 });
  upstream.says("bad", { error: { message: "bad request" }, status: 400 });

  const { data: parent } = await client.session.create({ title: "The first" }, THROW);
  const model = { providerID: "mock", modelID: "gpt-5" };
  const settings = {
    parentID: parent.id,
    agent: "default",
    model: { providerID: "mock", id: "gpt-5" },
    metadata: { clientID: "laptop" },
  };
  const { data: session } = await client.session.create(settings, THROW);
  const sessionID = session.id;
  const say = (text) => client.session.prompt({ sessionID, model, parts: [{ type: "text", text }] }, THROW);

  const file = { type: /** @type {const} */ ("file"), mime: "image/png", filename: "like-this.png", url: IMAGE };
  const photo = client.session.prompt(
    {
      sessionID,
      system: "Be brief.",
      tools: { list_tools: false },
      parts: [file, { type: "text", text: "take a photo" }],
    },
    THROW,
  );
  const asked = await events.until("somebody is asked", (event) => event.type === "permission.asked");
  assert.ok(asked.type === "permission.asked");
  const { data: permissions } = await client.permission.list({}, THROW);
  const { data: status } = await client.session.status({}, THROW);
  await client.permission.reply({ requestID: asked.properties.id, reply: "once" }, THROW);
  await photo;
  await say("again");
  await say("the key");
  await say("bad");
  const waiting = say("wait");
  await laptop.calls.until("the call comes", ({ tool }) => tool === "client_laptop_wait");
  await client.session.abort({ sessionID }, THROW);
  await waiting;

  const { data: messages } = await client.session.messages({ sessionID }, THROW);
  const { data: sessions } = await client.session.list({}, THROW);
  const { error: unknown } = await client.session.get({ sessionID: "ses_none" });
  const { error: invalid } = await client.session.prompt({ sessionID, parts: [] });
  await client.session.delete({ sessionID }, THROW);
  await fetch(`${server.url}/client-tools/unregister`, { method: "POST", body: '{"clientID": "laptop"}' });
  await events.until(
    "the tools are gone",
    (event) => /** @type {string} */ (event.type) === "client-tool.unregistered",
  );
  return { events: events.all, messages, permissions, sessions, status, unknown, invalid };
}
