// Clients in Python: Microsoft's agent framework, and the protocol's own types. Each file is a test of its own, which
// gets a server.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { resolve } from "node:path";
import { promisify } from "node:util";

import { GREET, Laptop } from "../support/laptop.js";
import { test, within } from "../support/patience.js";
import { Server } from "../support/server.js";

const HERE = resolve(import.meta.dirname, "../python");
const PYTHON = resolve(import.meta.dirname, "../.venv/bin/python");
const ASK = '[agents.default.permission]\nclient_tools = "ask"';

for (const file of ["agent_framework_test.py", "protocol_test.py"]) {
  test(`python: ${file}`, async (test) => {
    const server = await Server.start(test, { config: ASK });
    await Laptop.connect(test, server, "laptop", { greet: GREET });
    const env = { HANDBACK_URL: server.url, PYTHONDONTWRITEBYTECODE: "1" };

    const running = promisify(execFile)(PYTHON, [file], { cwd: HERE, env, signal: server.closing });
    const { stderr } = await within(`${file} is through`, running).catch((cause) => {
      throw new Error(cause.code === "ENOENT" ? "`make foreign` installs Python's packages" : cause.stderr, { cause });
    });

    assert.match(stderr, /^Ran [1-9]\d* tests in .*\s+OK$/m);
  });
}
