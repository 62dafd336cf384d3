// A process stays while it is connected, and can go when it is not.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { join } from "node:path";

import { test, within } from "../support/patience.js";
import { Server } from "../support/server.js";

const SCRIPT = join(import.meta.dirname, "../support/guest-process.ts");

for (const transport of ["SSE", "WebSocket"]) {
  test(`${transport}: a process stays while it is connected, and ends by itself after it has disconnected`, async (context) => {
    const server = await Server.start(context);
    const child = spawn(process.execPath, ["--import", "tsx", SCRIPT, server.url, transport], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    context.after(() => child.kill("SIGKILL"));
    const exited = new Promise((resolve) => child.once("exit", resolve));
    await within("it is connected", new Promise((resolve) => child.stdout.once("data", resolve)));
    assert.equal(child.exitCode, null);
    const { body } = await server.execute("client_guest_tool");
    assert.deepEqual(body, { status: "success", title: "", output: "done" });
    const began = performance.now();
    assert.equal(await within("it ends", exited), 0);
    assert.ok(performance.now() - began < 4000, "nothing holds it");
  });
}
