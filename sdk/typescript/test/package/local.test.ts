import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { chmod, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { text } from "node:stream/consumers";
import { test, type TestContext } from "node:test";

import { createHandback, HandbackError } from "../../src/node.js";
import { BINARY, startServer } from "./server.js";

const ENTRY = resolve(import.meta.dirname, "../../src/node.ts");

async function isUp(url: string): Promise<boolean> {
  return fetch(`${url}/healthz`).then(
    ({ ok }) => ok,
    () => false,
  );
}

/** Resolves when nobody listens there any more; the runner ends a test for which that does not come. */
async function isDown(url: string): Promise<void> {
  while (await isUp(url)) await new Promise((resolve) => setImmediate(resolve));
}

/** A program in Node that starts a server, prints where it is, and goes on as the test says. */
function program(test: TestContext, then: string): ChildProcess & { stdout: NonNullable<ChildProcess["stdout"]> } {
  const source = `
    import { createHandback } from ${JSON.stringify(ENTRY)};
    const { client, server } = await createHandback({ binary: ${JSON.stringify(BINARY)}, cwd: ${JSON.stringify(tmpdir())} });
    console.log(server.url);
    ${then}`;
  const child = spawn(process.execPath, ["--import", "tsx", "--input-type=module", "--eval", source], {
    stdio: ["ignore", "pipe", "ignore"],
    cwd: resolve(import.meta.dirname, "../.."),
  });
  test.after(() => child.kill("SIGKILL"));
  return child;
}

function firstLine(child: ChildProcess & { stdout: NonNullable<ChildProcess["stdout"]> }): Promise<string> {
  return new Promise((resolve, reject) => {
    let said = "";
    child.stdout.setEncoding("utf8").on("data", (text: string) => {
      said += text;
      if (said.includes("\n")) resolve(said.slice(0, said.indexOf("\n")));
    });
    child.once("close", () => reject(new Error("it ended before it said anything")));
  });
}

function ended(child: ChildProcess): Promise<unknown> {
  return new Promise((resolve) => child.once("exit", (code, signal) => resolve(signal ?? code)));
}

/** A program in place of the binary. */
async function pretend(test: TestContext, script: string): Promise<string> {
  const home = await mkdtemp(join(tmpdir(), "handback-package-"));
  test.after(() => rm(home, { recursive: true, force: true }));
  const path = join(home, "handback");
  await writeFile(path, `#!/bin/sh\n${script}\n`);
  await chmod(path, 0o755);
  return path;
}

test("a server is there until it is closed", async (test) => {
  const { client, server } = await startServer(test, { clientID: "laptop" });
  assert.match(server.url, /^http:\/\/127\.0\.0\.1:\d+$/);
  assert.equal(await isUp(server.url), true);
  assert.deepEqual([client.clientID, client.http.baseUrl], ["laptop", server.url]);
  await client.clientTools.connect();
  await Promise.all([server.close(), server.close()]);
  assert.deepEqual([await isUp(server.url), client.clientTools.state], [false, "closed"]);
});

test("a signal stops it", async (test) => {
  const stop = new AbortController();
  const { server } = await startServer(test, { signal: stop.signal });
  stop.abort();
  await isDown(server.url);
  await assert.rejects(createHandback({ binary: BINARY, signal: AbortSignal.abort(new Error("no")) }), new Error("no"));
});

test("a program that does not close its server ends all the same, and the server with it", async (test) => {
  const child = program(test, "");
  const end = ended(child);
  const url = (await text(child.stdout)).trim();
  assert.deepEqual([await end, url.startsWith("http://127.0.0.1:")], [0, true]);
  await isDown(url);
});

for (const [how, then, code] of [["throws", "throw new Error('on purpose');", 1], ["exits", "process.exit(3);", 3]] as const) {
  test(`a program that ${how} takes its server with it`, async (test) => {
    const child = program(test, then);
    const end = ended(child);
    const url = (await text(child.stdout)).trim();
    assert.deepEqual([await end, url.startsWith("http://127.0.0.1:")], [code, true]);
    await isDown(url);
  });
}

for (const signal of ["SIGTERM", "SIGINT", "SIGHUP"] as const) {
  test(`a program that is ended with ${signal} takes its server with it`, async (test) => {
    const child = program(test, "setInterval(() => {}, 1000);");
    const end = ended(child);
    const url = await firstLine(child);
    assert.equal(await isUp(url), true);
    child.kill(signal);
    assert.equal(await end, signal);
    await isDown(url);
  });
}

test("a program may handle its signals itself", async (test) => {
  const handler = "process.once('SIGTERM', async () => { await server.close(); process.exitCode = 7; clearInterval(timer); });";
  const child = program(test, `const timer = setInterval(() => {}, 1000);${handler}`);
  const end = ended(child);
  const url = await firstLine(child);
  child.kill("SIGTERM");
  assert.equal(await end, 7);
  assert.equal(await isUp(url), false);
});

test("what kept it from starting is told", async (test) => {
  const cases: [Parameters<typeof createHandback>[0], RegExp][] = [
    [{ binary: "/no/such/handback" }, /^\/no\/such\/handback cannot be started: .*ENOENT; install it .*, or say where it is/],
    [{ binary: BINARY, arguments: ["--no-such-flag"] }, /cannot be started: it ended with code \d+\. It said:\n.*--no-such-flag/s],
    [{ binary: await pretend(test, "echo trouble >&2; exec sleep 60"), startTimeout: 500 }, /it does not listen after 0\.5 s/],
  ];
  for (const [options, expected] of cases) {
    const error = await createHandback(options).catch((error: unknown) => error);
    assert.ok(error instanceof HandbackError && error.kind === "unreachable", String(error));
    assert.match(error.message, expected);
  }
});

test("a server that writes a lot is not held up by it", async (test) => {
  const megabytes = "head -c 3000000 /dev/zero | tr '\\0' x >&2; head -c 3000000 /dev/zero | tr '\\0' y";
  const binary = await pretend(test, `echo "handback listening on http://127.0.0.1:1"; ${megabytes}; echo; echo written; exec sleep 60`);
  let isWritten: (() => void) | undefined;
  const written = new Promise<void>((resolve) => (isWritten = resolve));
  const onOutput = (text: string) => text.includes("written") && isWritten?.();
  const { server } = await createHandback({ binary, onOutput });
  // The server does not keep this process alive.
  const timer = setInterval(() => undefined, 1000);
  await written;
  clearInterval(timer);
  await server.close();
});
