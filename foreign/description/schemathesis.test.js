// Every operation of the description, asked by schemathesis with all kinds of good and bad requests: the server does not
// fail, and answers as the description says. `schemathesis.toml` says what is asked, and what is excepted.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { test } from "node:test";
import { promisify } from "node:util";

import { Server } from "../support/server.js";

const CONFIG = join(import.meta.dirname, "schemathesis.toml");
const DESCRIPTION = resolve(import.meta.dirname, "../../crates/server/openapi.json");
const PROGRAM = resolve(import.meta.dirname, "../.venv/bin/schemathesis");
const KEY = "the key of schemathesis";
/** Who asks for these needs no key. */
const OPEN = ["GET /healthz", "GET /readyz"];
/** How long a run may take on a slow machine; in ms. */
const PATIENCE = 240_000;

test("with a key, every operation answers as described", { timeout: PATIENCE }, async (test) => {
  const answers = await ask(test, ["--header", `Authorization: Bearer ${KEY}`]);

  assert.deepEqual([...answers.keys()].sort(), await operations());
  // The key was taken everywhere: what was checked is more than refusals.
  assert.deepEqual(refusedOnly(answers), []);
});

// Whatever is asked comes to the same refusal: a few requests are enough.
test("without a key, every operation refuses as described", { timeout: PATIENCE }, async (test) => {
  const answers = await ask(test, ["--phases", "fuzzing", "--max-examples", "2"]);

  const all = await operations();
  assert.deepEqual([...answers.keys()].sort(), all);
  assert.deepEqual(
    refusedOnly(answers),
    all.filter((operation) => !OPEN.includes(operation)),
  );
});

/**
 * Lets schemathesis ask, and gives the statuses that each operation answered with.
 *
 * @param {import("node:test").TestContext} test
 * @param {string[]} options
 */
async function ask(test, options) {
  const server = await Server.start(test, { key: KEY, config: `auth.tokenSecret = "${"secret ".repeat(8)}"` });
  const folder = await mkdtemp(join(tmpdir(), "handback-schemathesis-"));
  test.after(() => rm(folder, { recursive: true }));
  const file = join(folder, "report.ndjson");
  const report = ["--report", "ndjson", "--report-ndjson-path", file];
  const parameters = ["--config-file", CONFIG, "run", DESCRIPTION, "--url", server.url, ...report, ...options];
  // It leaves its caches where it runs.
  const settings = { cwd: folder, signal: server.closing, maxBuffer: 2 ** 26 };
  await promisify(execFile)(PROGRAM, parameters, settings).catch((cause) => {
    throw new Error(cause.code === "ENOENT" ? "`make foreign` installs schemathesis" : cause.stdout, { cause });
  });
  return statuses(await readFile(file, "utf8"));
}

/** @param {string} report */
function statuses(report) {
  /** @type {Map<string, Set<number>>} */
  const answers = new Map();
  for (const line of report.trim().split("\n")) {
    const { label, interactions = {} } = JSON.parse(line).ScenarioFinished?.recorder ?? {};
    for (const { response } of Object.values(interactions)) {
      answers.set(label, (answers.get(label) ?? new Set()).add(response.status_code));
    }
  }
  return answers;
}

/**
 * The operations that answered with nothing but 401.
 *
 * @param {Map<string, Set<number>>} answers
 */
function refusedOnly(answers) {
  const refused = [...answers].filter(([, statuses]) => [...statuses].every((status) => status === 401));
  return refused.map(([operation]) => operation).sort();
}

/** All operations of the description. */
async function operations() {
  const { paths } = JSON.parse(await readFile(DESCRIPTION, "utf8"));
  const names = Object.entries(paths).flatMap(([path, item]) =>
    Object.keys(item).map((method) => `${method.toUpperCase()} ${path}`),
  );
  return names.sort();
}
