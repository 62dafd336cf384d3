import assert from "node:assert/strict";
import { chmod, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test, type TestContext } from "node:test";

import { HandbackError, TurnFailed } from "../../src/node.js";
import { lastingPort } from "../support/port.js";
import { Provider } from "./provider.js";
import { BINARY, startServer } from "./server.js";

/** A server that can be made to crash: the binary, and a way to kill what it became. */
async function mortalServer(test: TestContext, settings: { config: string; arguments: string[]; ephemeral: boolean }) {
  const home = await mkdtemp(join(tmpdir(), "handback-crash-"));
  test.after(() => rm(home, { recursive: true, force: true }));
  const binary = join(home, "handback");
  await writeFile(binary, `#!/bin/sh\necho $$ > ${home}/pid\nexec ${BINARY} "$@"\n`);
  await chmod(binary, 0o755);
  const started = await startServer(test, { ...settings, binary, listen: `127.0.0.1:${await lastingPort()}` });
  const crash = async () => process.kill(Number(await readFile(join(home, "pid"), "utf8")), "SIGKILL");
  return { ...started, crash };
}

test("a server that crashes and comes back: the turn says so, the session goes on, its tools are there", async (test) => {
  const provider = await Provider.start(test);
  const data = await mkdtemp(join(tmpdir(), "handback-data-"));
  test.after(() => rm(data, { recursive: true, force: true }));
  const settings = { config: provider.config, arguments: ["--data", data], ephemeral: false };
  const { client, server, crash } = await mortalServer(test, settings);
  client.clientTools.on("state", () => undefined);
  await client.clientTools.register("greet", { description: "Greets" }, () => "Hello!");
  const session = await client.startSession();
  const answering = session.prompt("hello");
  (await provider.asked()).says("Good ");
  await crash();
  await startServer(test, { ...settings, listen: new URL(server.url).host });
  const error = await answering.catch((error: unknown) => error);
  assert.ok(error instanceof TurnFailed, String(error));
  assert.deepEqual(
    [error.code, error.message],
    ["MessageAbortedError", "The server was restarted before this turn was over"],
  );
  const again = session.prompt("call greet {}", { model: "demo/scripted" });
  assert.match((await again).text, /Hello!/);
});

test("a server that forgets its sessions when it is restarted says that there is none", async (test) => {
  const provider = await Provider.start(test);
  const settings = { config: provider.config, arguments: [], ephemeral: true };
  const { client, server, crash } = await mortalServer(test, settings);
  const session = await client.startSession({ tools: false });
  const answering = session.prompt("hello");
  await provider.asked();
  await crash();
  await startServer(test, { ...settings, listen: new URL(server.url).host });
  const error = await answering.catch((error: unknown) => error);
  assert.ok(error instanceof HandbackError, String(error));
  assert.deepEqual([error.kind, error.status], ["refused", 404]);
});
