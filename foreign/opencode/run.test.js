// `opencode run --attach`: one prompt, and the answer on stdout. It leaves as soon as the prompt's request is answered, and
// prints of the answer what it has read of the events by then. So the events must be sent before that answer is.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { once } from "node:events";
import { createServer, request } from "node:http";
import { promisify } from "node:util";

import { GREET, Laptop } from "../support/laptop.js";
import { test, within } from "../support/patience.js";
import { Provider } from "../support/provider.js";
import { Server } from "../support/server.js";
import { environment, leave, OPENCODE } from "./setup.js";

const KEY = "the key of opencode's command line";
const ANSWER = "It is Monday.";

for (const time of [1, 2, 3]) {
  test(`run: the answer is printed, and not the prompt, time ${time}`, async (test) => {
    const provider = await Provider.start(test);
    const server = await Server.start(test, { config: `model = "local/any"\n${provider.config}` });
    const opencode = await run(test, server, ["which", "weekday", "is", "it?"]);

    const answer = async () => {
      const speech = await provider.asked();
      await opencode.follows();
      speech.says(ANSWER);
      speech.ends();
    };
    const [{ stdout }] = await Promise.all([opencode.ended, answer()]);

    assert.equal(stdout, `${ANSWER}\n`);
  });
}

test("run: in a session of a client its tool runs, and the answer is printed", async (test) => {
  const server = await Server.start(test, { key: KEY });
  const { url, headers } = server;
  /** @type {Awaited<ReturnType<typeof run>> | undefined} */
  let opencode;
  const greet = {
    ...GREET,
    run: async (input) => {
      await opencode?.follows();
      return GREET.run(input);
    },
  };
  const laptop = await Laptop.connect(test, server, "laptop", { greet });
  const body = JSON.stringify({ clientID: "laptop" });
  const { id } = await (await fetch(`${url}/session`, { method: "POST", headers, body })).json();

  // opencode puts a word with a space in it into quotes.
  opencode = await run(test, server, ["--session", id, "call", "greet", '{"name":"Ada"}'], KEY);
  const { stdout, stderr } = await opencode.ended;

  assert.deepEqual(laptop.calls.all.map(({ tool, input }) => [tool, input]), [["client_laptop_greet", { name: "Ada" }]]);
  assert.match(stderr, /client_laptop_greet/);
  const messages = await (await fetch(`${url}/session/${id}/message`, { headers })).json();
  const answer = messages.at(-1).parts.find(({ type }) => type === "text").text;
  assert.match(answer, /Hello, Ada!/);
  assert.equal(stdout, `${answer}\n`);
});

/**
 * Starts opencode. A model or tool of a test waits until it `follows` the session: a turn that is over within a few
 * milliseconds can be over before opencode has read its first event, and then it prints nothing, whoever serves it.
 *
 * @param {import("node:test").TestContext} test
 * @param {Server} server
 * @param {string[]} words
 * @param {string} [password]
 */
async function run(test, server, words, password) {
  const env = await environment(password);
  const parameters = ["run", "--attach", await eventsFirst(test, server.url), ...words];
  const running = promisify(execFile)(OPENCODE, parameters, { env, cwd: env.HOME, signal: server.closing });
  const { stdin, stderr } = running.child;
  // It adds to the prompt what it reads there, to the end.
  stdin?.end();
  // The agent and the model, which it prints when it is told of the answer's message.
  const follows = new Promise((follows) => stderr?.on("data", (text) => text.includes("> default") && follows(text)));
  test.after(() => leave(env));
  return { follows: () => within("opencode follows the session", follows), ended: running };
}

/**
 * Another address of the server, where a prompt waits until the events are being read. opencode asks for both at the same
 * time, and never hears what was told before its events began, whoever serves it.
 *
 * @param {import("node:test").TestContext} test
 * @param {string} url
 */
async function eventsFirst(test, url) {
  /** @type {(value?: unknown) => void} */
  let begin = () => {};
  const begun = new Promise((resolve) => (begin = resolve));
  const proxy = createServer(async (incoming, answer) => {
    const { method, headers, url: path = "" } = incoming;
    if (method === "POST" && path.includes("/message")) await begun;
    const forwarded = request(new URL(path, url), { method, headers }, (response) => {
      answer.writeHead(response.statusCode ?? 502, response.headers);
      response.pipe(answer);
      if (path.startsWith("/event")) begin();
    });
    forwarded.on("error", () => answer.destroy());
    answer.on("close", () => forwarded.destroy());
    incoming.pipe(forwarded);
  });
  proxy.listen(0, "127.0.0.1");
  await once(proxy, "listening");
  test.after(() => {
    proxy.closeAllConnections();
    proxy.close();
  });
  const { port } = /** @type {import("node:net").AddressInfo} */ (proxy.address());
  return `http://127.0.0.1:${port}`;
}
