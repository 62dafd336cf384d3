// A program on the types that openapi-typescript makes of the description: it registers a tool, has another one called,
// and has a turn. `clients.test.js` puts the types beside it, compiles it and runs it.

import assert from "node:assert/strict";

import createClient from "openapi-fetch";

import type { components, paths } from "./api.js";

const { HANDBACK_URL: baseUrl, HANDBACK_KEY: key } = process.env;
const api = createClient<paths>({ baseUrl, headers: { authorization: `Bearer ${key}` } });

const parameters = { type: "object", properties: { text: { type: "string" } } };
const note: components["schemas"]["Tool"] = { id: "note", description: "Notes something", effect: "write", parameters };
const registered = await api.POST("/client-tools/register", { body: { clientID: "program", tools: [note] } });
assert.deepEqual(registered.data?.registered, ["client_program_note"], JSON.stringify(registered.error));
const listed = await api.GET("/client-tools/tools/{clientID}", { params: { path: { clientID: "program" } } });
assert.deepEqual(listed.data?.[0].parameters, parameters);

const input = { name: "Ada" };
const called = await api.POST("/client-tools/execute", { body: { toolID: "client_laptop_greet", input } });
const result = called.data;
assert.ok(result && "status" in result && result.status === "success", JSON.stringify(called.error));
assert.equal(result.output, "Hello, Ada!");

const session = await api.POST("/session", { body: { clientID: "laptop", title: "Generated" } });
assert.ok(session.data, JSON.stringify(session.error));
const answer = await api.POST("/session/{sessionID}/message", {
  params: { path: { sessionID: session.data.id } },
  body: { parts: [{ type: "text", text: 'call greet {"name": "Ada"}' }] },
});
const texts = answer.data?.parts.flatMap(({ type, text }) => (type === "text" ? [text] : []));
assert.deepEqual(texts, ["The tool `greet` answered: Hello, Ada!"], JSON.stringify(answer.error));

// What is wrong does not compile: the types are not `any`.
export const wrong = () => [
  // @ts-expect-error A tool has an id.
  api.POST("/client-tools/register", { body: { clientID: "program", tools: [{}] } }),
  // @ts-expect-error An input is an object.
  api.POST("/client-tools/execute", { body: { toolID: "client_laptop_greet", input: "Ada" } }),
  // @ts-expect-error There is no such path.
  api.GET("/sessions"),
  // @ts-expect-error An answer has no such member.
  answer.data?.text,
];
