// Lets a model query a SQLite database, and change nothing.
//
//   npx tsx examples/query-sqlite.ts shop.db
//   handback chat --client database 'call query_sqlite {"sql": "SELECT * FROM customers"}'
//
// It is the connection that cannot write, whatever the query says: it is opened for reading, and can attach no other
// file, neither to read it nor to write a copy there. Each query has a process of its own, which can be ended at any time.

import { execFile } from "node:child_process";
import { realpath } from "node:fs/promises";
import { text } from "node:stream/consumers";
import { promisify } from "node:util";

import { ClientToolsManager } from "@handback/client";
// The API of `node:sqlite`, which this can be replaced with once Node has its `limits`.
import { DatabaseSync } from "@photostructure/sqlite";

/** How many rows are given; the rest is left out. */
const MAX_ROWS = 1000;
/** How many bytes the rows have, as JSON, and the largest value; rows beyond are left out, a larger value is an error. */
const MAX_BYTES = 256 * 1024;
/** How long a query may take, in ms; then it is ended. */
const TIMEOUT = 10_000;

const [argument, role] = process.argv.slice(2);
if (argument === undefined) throw new Error("usage: query-sqlite.ts DATABASE");
const database = await realpath(argument);
if (role === "query") await answer();
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

/** Runs this file once more, for one query, which ends when the call does. */
async function runQuery(sql: string, signal: AbortSignal): Promise<string> {
  const command = [...process.execArgv, import.meta.filename, database, "query"];
  const options = { signal, killSignal: "SIGKILL", maxBuffer: 2 * MAX_BYTES } as const;
  const running = promisify(execFile)(process.execPath, command, options);
  // One that was ended does not read it, which is told by its end.
  running.child.stdin?.on("error", () => undefined).end(sql);
  const { error, ...rows } = JSON.parse((await running).stdout) as { error?: string };
  if (error !== undefined) throw new Error(error);
  return JSON.stringify(rows);
}

async function answer(): Promise<void> {
  const sql = await text(process.stdin);
  try {
    console.log(JSON.stringify(query(sql)));
  } catch (error) {
    console.log(JSON.stringify({ error: error instanceof Error ? error.message : String(error) }));
  }
}

function query(sql: string): { columns: string[]; rows: unknown[]; complete: boolean } {
  const options = { readOnly: true, limits: { attach: 0, length: MAX_BYTES }, timeout: 5000 };
  const connection = new DatabaseSync(database, { ...options, returnArrays: true, readBigInts: true });
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
