// Lets a model query a SQLite database, and change nothing.
//
//   npx tsx examples/query-sqlite.ts shop.db
//   handback chat --client database 'call query_sqlite {"sql": "SELECT * FROM customers"}'
//
// It is the connection that cannot write, whatever the query says: it is opened for reading, and can attach no other
// file, neither to read it nor to write a copy there. Queries run in processes of their own: one that does not end is ended.

import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { realpath } from "node:fs/promises";

import { ClientToolsManager } from "@handback/client";
// The API of `node:sqlite`, which can take its place where Node has `limits` and `setAuthorizer`.
import { constants, DatabaseSync } from "@photostructure/sqlite";

/** How many rows are given; the rest is left out. */
const MAX_ROWS = 1000;
/** How many bytes the rows have, as JSON, and the largest value; rows beyond are left out, a larger value is an error. */
const MAX_BYTES = 256 * 1024;
/** How long a query may take, in ms; then it is ended. */
const TIMEOUT = 10_000;
/** How many queries run at once; one more is an error. */
const MAX_QUERIES = 8;

const [argument, role] = process.argv.slice(2);
if (argument === undefined) throw new Error("usage: query-sqlite.ts DATABASE");
const database = await realpath(argument);
/** Processes that wait for a query. */
const idle = new Set<ChildProcess>();
let running = 0;
if (role === "query") process.on("message", (sql: string) => process.send?.(answer(sql)));
else await offer();

async function offer(): Promise<void> {
  const url = process.env["HANDBACK_URL"] ?? "http://127.0.0.1:4096";
  const tools = new ClientToolsManager("database", url);
  await tools.register(
    "query_sqlite",
    {
      description: "Queries the user's SQLite database",
      parameters: {
        type: "object",
        properties: {
          sql: {
            type: "string",
            description: "One SQL statement in SQLite's dialect. The tables are listed in `sqlite_schema`.",
          },
        },
        required: ["sql"],
      },
      effect: "read",
      timeout: TIMEOUT,
    },
    ({ sql }, { signal }) => runQuery(sql, signal),
  );
  await tools.connect();
  process.once("SIGINT", () => void tools.disconnect());
  console.log(`offering ${database} at ${url}; Ctrl-C ends it`);
}

async function runQuery(sql: string, signal: AbortSignal): Promise<string> {
  signal.throwIfAborted();
  if (running >= MAX_QUERIES) throw new Error("too many queries run at once");
  const [child = startProcess()] = idle;
  idle.delete(child);
  running += 1;
  const end = () => child.kill("SIGKILL");
  signal.addEventListener("abort", end);
  try {
    child.send(sql);
    const [{ error, ...rows }] = (await once(child, "message", { signal })) as [{ error?: string }];
    idle.add(child);
    if (error !== undefined) throw new Error(error);
    return JSON.stringify(rows);
  } finally {
    signal.removeEventListener("abort", end);
    running -= 1;
  }
}

/** Runs this file once more, to answer queries. It ends with this process, which does not wait for it. */
function startProcess(): ChildProcess {
  const child = fork(import.meta.filename, [database, "query"]);
  child.once("exit", () => idle.delete(child));
  child.unref();
  child.channel?.unref();
  return child;
}

function answer(sql: string): object {
  try {
    return query(sql);
  } catch (error) {
    return { error: error instanceof Error ? error.message : String(error) };
  }
}

function query(sql: string): { columns: string[]; rows: unknown[]; complete: boolean } {
  const options = { readOnly: true, limits: { attach: 0, length: MAX_BYTES }, timeout: 5000 };
  using connection = new DatabaseSync(database, { ...options, returnArrays: true, readBigInts: true });
  // Some settings are those of the whole process, and so of the queries after this one.
  connection.setAuthorizer((action) => (action === constants.SQLITE_PRAGMA ? constants.SQLITE_DENY : constants.SQLITE_OK));
  const statement = connection.prepare(sql);
  // It is the first of them, with its parameters filled in.
  if (statement.expandedSQL?.trim() !== sql.trim()) throw new Error("only one statement can be run, without parameters");
  const columns = statement.columns().map(({ name }) => name);
  const rows: unknown[] = [];
  let bytes = 0;
  for (const values of statement.iterate() as Iterable<unknown[]>) {
    const row = values.map(toJson);
    bytes += Buffer.byteLength(JSON.stringify(row));
    if (rows.length === MAX_ROWS || bytes > MAX_BYTES) return { columns, rows, complete: false };
    rows.push(row);
  }
  return { columns, rows, complete: true };
}

function toJson(value: unknown): unknown {
  if (typeof value === "bigint") return Number.isSafeInteger(Number(value)) ? Number(value) : String(value);
  return value instanceof Uint8Array ? `a blob of ${value.length} bytes` : value;
}
