import assert from "node:assert/strict";
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import type { TestContext } from "node:test";

import { DatabaseSync } from "@photostructure/sqlite";

import { test } from "../support/patience.js";
import { until } from "../support/until.js";
import { Example, scratch } from "./example.js";

/** Numbers without end. */
const NUMBERS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)";
const TOOL = "client_database_query_sqlite";

function makeDatabase(path: string): void {
  const database = new DatabaseSync(path);
  database.exec(`
    CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT, credit REAL, photo BLOB);
    CREATE INDEX names ON customers (name);
    INSERT INTO customers VALUES (1, 'Ada', 2.5, x'ff00'), (9007199254740993, 'Grace', NULL, NULL)`);
  database.close();
}

async function start(test: TestContext): Promise<{ example: Example; folder: string; file: string }> {
  const folder = await scratch(test);
  const file = join(folder, "shop.db");
  makeDatabase(file);
  return { example: await Example.start(test, "query-sqlite", "database", file), folder, file };
}

async function rows(example: Example, sql: string): Promise<unknown> {
  return JSON.parse(await example.output({ sql }));
}

/** All of the answer: what a model reads of it is cut by the server. */
async function answerTo(example: Example, sql: string): Promise<{ rows: unknown[]; complete: boolean }> {
  const { body } = await example.server.execute(TOOL, { input: { sql } });
  return JSON.parse((body as { output: string }).output) as { rows: unknown[]; complete: boolean };
}

test("rows are given as JSON, and bounded", async (test) => {
  const { example } = await start(test);
  assert.deepEqual(await rows(example, "SELECT *, id FROM customers;"), {
    columns: ["id", "name", "credit", "photo", "id"],
    rows: [
      [1, "Ada", 2.5, "a blob of 2 bytes", 1],
      ["9007199254740993", "Grace", null, null, "9007199254740993"],
    ],
    complete: true,
  });
  assert.equal(await example.error({ sql: "SELECT * FROM nowhere" }), "no such table: nowhere");

  const many = await answerTo(example, `${NUMBERS} SELECT i FROM n`);
  assert.deepEqual([many.rows.length, many.complete], [1000, false]);
  const large = await answerTo(example, `${NUMBERS} SELECT hex(zeroblob(50000)) FROM n`);
  assert.deepEqual([large.rows.length, large.complete], [2, false]);
  assert.equal(await example.error({ sql: "SELECT zeroblob(300000)" }), "string or blob too big");
});

test("nothing is written and no other file is read", async (test) => {
  const { example, folder, file } = await start(test);
  const [other, copy] = [join(folder, "other.db"), join(folder, "copy.db")];
  makeDatabase(other);
  const all = async () => [await readFile(file), await readFile(other), await readdir(folder)];
  const before = await all();
  for (const sql of [
    "DELETE FROM customers",
    "UPDATE customers SET name = 'Eve'",
    "INSERT INTO customers (name) VALUES ('Eve') RETURNING id",
    "WITH gone AS (SELECT 1) DELETE FROM customers RETURNING id",
    "DROP TABLE customers",
    "CREATE TABLE eve (id)",
    "REINDEX",
    "VACUUM",
    `VACUUM INTO '${copy}'`,
    `ATTACH '${other}' AS other`,
    `ATTACH 'file:${copy}?mode=rwc' AS copy`,
    "ATTACH ':memory:' AS memory",
    "PRAGMA user_version = 7",
    "PRAGMA journal_mode = wal",
    "PRAGMA writable_schema = on",
    "PRAGMA temp_store_directory = '/'",
    "SELECT 1; DELETE FROM customers",
    "SELECT 1; SELECT 2",
    "SELECT 1; -- and so on",
    "SELECT ?",
    "SELECT load_extension('eve')",
    "SELECT writefile('eve', 'x')",
    "",
  ]) {
    assert.notEqual(await example.error({ sql }), "", sql);
  }
  assert.deepEqual(await all(), before);
  assert.deepEqual(await rows(example, "SELECT count(*) AS n FROM customers"), { columns: ["n"], rows: [[2]], complete: true });
});

test("queries run at once, but not too many", async (test) => {
  const { example, file } = await start(test);
  const endless = { input: { sql: `${NUMBERS} SELECT count(*) FROM n, customers` } };
  const names = ["a", "b", "c", "d", "e", "f", "g", "h", "i"];
  const calls = names.map(async (requestID) => {
    const { status, body } = await example.server.execute(TOOL, { ...endless, requestID });
    return { requestID, status, body };
  });
  const refused = await Promise.race(calls);
  assert.deepEqual(refused.body, { status: "error", error: "too many queries run at once" });
  for (const name of names) if (name !== refused.requestID) await example.server.cancel(name, "enough");
  const statuses = (await Promise.all(calls)).map(({ status }) => status);
  assert.deepEqual(statuses.sort(), [200, 409, 409, 409, 409, 409, 409, 409, 409]);
  await until("all have stopped", () => !isBeingRead(file));
  assert.deepEqual(await rows(example, "SELECT 1 AS one"), { columns: ["one"], rows: [[1]], complete: true });
});

test("a query that never ends is stopped by a cancel", async (test) => {
  const { example, file } = await start(test);
  const input = { sql: `${NUMBERS} SELECT count(*) FROM n, customers` };
  const endless = example.server.execute(TOOL, { requestID: "endless", input });
  await until("the query runs", () => isBeingRead(file));
  await example.server.cancel("endless", "never mind");
  assert.equal((await endless).status, 409);
  await until("the query has stopped", () => !isBeingRead(file));
  assert.deepEqual(await rows(example, "SELECT 1 AS one"), { columns: ["one"], rows: [[1]], complete: true });
});

/** Whether somebody holds a lock on it. */
function isBeingRead(path: string): boolean {
  const database = new DatabaseSync(path);
  try {
    database.exec("BEGIN EXCLUSIVE; ROLLBACK");
    return false;
  } catch (error) {
    if (/locked/.test(String(error))) return true;
    throw error;
  } finally {
    database.close();
  }
}
