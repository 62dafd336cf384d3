// Clients that generators make of the description, in TypeScript and in Python. A program on each makes a call and has a
// turn. Generators leave out what they do not understand, and warn of it: a warning is a failure.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { copyFile, mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { promisify } from "node:util";

import { GREET, Laptop } from "../support/laptop.js";
import { test, within } from "../support/patience.js";
import { Server } from "../support/server.js";

const HERE = import.meta.dirname;
const FOREIGN = resolve(HERE, "..");
const DESCRIPTION = resolve(FOREIGN, "../crates/server/openapi.json");
const PYTHON = join(FOREIGN, ".venv/bin");
const KEY = "the key of the generated clients";
/** The events of `/event`: each has a member `properties`, for which this generator has no name. No operation uses them. */
const EXPECTED_WARNINGS = ["Unable to parse schema /components/schemas/Event"];

test("openapi-typescript: a program on its types compiles, and makes a call and a turn", async (test) => {
  const { server, folder } = await setUp(test);
  await copyFile(join(HERE, "program.ts"), join(folder, "program.ts"));
  const settings = { extends: "../../tsconfig.json", compilerOptions: { noEmit: false }, include: ["."] };
  await writeFile(join(folder, "tsconfig.json"), JSON.stringify(settings));

  const generator = join(HERE, "node_modules/.bin/openapi-typescript");
  const { stderr } = await run(server, generator, [DESCRIPTION, "--output", join(folder, "api.d.ts")]);
  assert.doesNotMatch(stderr, /warn/i);
  await run(server, join(FOREIGN, "node_modules/.bin/tsc"), ["--project", folder]);
  await run(server, process.execPath, [join(folder, "program.js")]);
});

test("openapi-python-client: a program on its client makes a call and a turn", async (test) => {
  const { server, folder } = await setUp(test);

  const config = ["--config", join(HERE, "openapi-python-client.yaml"), "--meta", "none"];
  const output = ["--output-path", join(folder, "generated")];
  const generator = join(PYTHON, "openapi-python-client");
  const { stderr } = await run(server, generator, ["generate", "--path", DESCRIPTION, ...config, ...output]);
  assert.deepEqual(stderr.match(/^(WARNING|Unable to (parse|process) schema) .*$/gm), EXPECTED_WARNINGS, stderr);
  await run(server, join(PYTHON, "python"), [join(HERE, "program.py")], { PYTHONPATH: folder });
});

/**
 * A server that wants a key, a client with a tool, and a folder for what is generated. It is in this folder's
 * `test-output`, where programs find their packages.
 *
 * @param {import("node:test").TestContext} test
 */
async function setUp(test) {
  const server = await Server.start(test, { key: KEY });
  await Laptop.connect(test, server, "laptop", { greet: GREET });
  await mkdir(join(FOREIGN, "test-output"), { recursive: true });
  const folder = await mkdtemp(join(FOREIGN, "test-output/description-"));
  test.after(() => rm(folder, { recursive: true }));
  return { server, folder };
}

/**
 * Runs a program to its end, which must be a good one.
 *
 * @param {Server} server
 * @param {string} program
 * @param {string[]} parameters
 * @param {Record<string, string>} [env]
 */
function run(server, program, parameters, env) {
  const ours = { PATH: process.env.PATH, HANDBACK_URL: server.url, HANDBACK_KEY: KEY, PYTHONDONTWRITEBYTECODE: "1" };
  const running = promisify(execFile)(program, parameters, { env: { ...ours, ...env }, signal: server.closing });
  return within(`${program} is through`, running).catch((cause) => {
    throw new Error(`${cause.message}\n${cause.stdout}`, { cause });
  });
}
