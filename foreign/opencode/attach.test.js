// `opencode attach`, opencode's terminal, against a server that wants keys.

import assert from "node:assert/strict";

import { GREET, Laptop } from "../support/laptop.js";
import { test } from "../support/patience.js";
import { Server } from "../support/server.js";
import { environment, OPENCODE, Terminal } from "./setup.js";

const KEY = "the key of opencode's terminal";
const CONFIG = `auth.tokenSecret = "a secret that signs the tokens of this test"\n`;
const LAPTOP = "Talk of the laptop";
const PHONE = "Talk of the phone";
const CALL = 'call greet {"name": "Ada"}';
/** How opencode shows a call: the tool, and what it was called with. */
const SHOWN_CALL = "client_laptop_greet [name=Ada]";

test("attach: the application opens a session of a client, whose tool runs, and a new one of nobody", async (test) => {
  const { server, laptop } = await setUp(test);
  const terminal = await open(test, server, KEY);

  await terminal.press("C-x", "l");
  await terminal.until("both sessions are listed", (screen) => screen.includes(LAPTOP) && screen.includes(PHONE));
  await terminal.type(LAPTOP);
  await terminal.until("one session is left", (screen) => !screen.includes(PHONE));
  await terminal.press("Enter");
  await terminal.shows("Context");
  await say(terminal, CALL);
  await terminal.shows(SHOWN_CALL);
  await terminal.shows("Hello, Ada!");
  assert.equal(laptop.calls.all.length, 1);

  await terminal.press("C-x", "n");
  await terminal.until("the session is closed", (screen) => !screen.includes(LAPTOP));
  await say(terminal, "hello there");
  await terminal.shows("I am the scripted demo model");

  await terminal.press("C-x", "q");
  assert.equal(await terminal.ended(), 0);
});

test("attach: with a client's token there are its own sessions only, and a new one has its tools", async (test) => {
  const { server, laptop } = await setUp(test);
  const { token } = await post(server, "/auth/client-token", { clientID: "laptop" });
  const terminal = await open(test, server, token);

  await terminal.press("C-x", "l");
  assert.doesNotMatch(await terminal.shows(LAPTOP), new RegExp(PHONE));
  await terminal.press("Escape");
  await terminal.until("the list is closed", (screen) => !screen.includes(LAPTOP));
  await say(terminal, CALL);
  await terminal.shows("Hello, Ada!");
  assert.equal(laptop.calls.all.length, 1);
});

/**
 * A server with a client that has a tool, and a session of that client and of another.
 *
 * @param {import("node:test").TestContext} test
 */
async function setUp(test) {
  const server = await Server.start(test, { key: KEY, config: CONFIG });
  const laptop = await Laptop.connect(test, server, "laptop", { greet: GREET });
  await post(server, "/session", { title: LAPTOP, clientID: "laptop" });
  await post(server, "/session", { title: PHONE, clientID: "phone" });
  return { server, laptop };
}

/**
 * @param {Server} server
 * @param {string} path
 * @param {object} body
 */
async function post({ url, headers }, path, body) {
  const response = await fetch(url + path, { method: "POST", headers, body: JSON.stringify(body) });
  assert.equal(response.status, 200);
  return response.json();
}

/**
 * @param {import("node:test").TestContext} test
 * @param {Server} server
 * @param {string} password
 */
async function open(test, server, password) {
  const terminal = await Terminal.open(test, await environment(password), [OPENCODE, "attach", server.url]);
  await terminal.shows("ctrl+p commands");
  await terminal.shows("Ask anything");
  return terminal;
}

/**
 * @param {Terminal} terminal
 * @param {string} text
 */
async function say(terminal, text) {
  await terminal.type(text);
  await terminal.press("Enter");
}
