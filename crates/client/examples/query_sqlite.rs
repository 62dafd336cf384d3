//! Lets a model query a SQLite database, and change nothing.
//!
//! ```sh
//! cargo run --example query_sqlite -- shop.db
//! handback chat --client database 'call query_sqlite {"sql": "SELECT * FROM customers"}'
//! ```
//!
//! It is the connection that cannot write, whatever the query says: it is opened for reading, and can attach no other
//! file, neither to read it nor to write a copy there.

use std::path::{Path, PathBuf};

use anyhow::Context;
use handback_client::schemars::{self, JsonSchema};
use handback_client::{Api, CancellationToken, ClientTools, Effect, Options, Tool, ToolError};
use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use rusqlite::limits::Limit;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags, Row};
use serde::Deserialize;
use serde_json::{Value, json};

/// How many rows are given; the rest is left out.
const MAX_ROWS: usize = 1_000;
/// How many bytes the rows have, as JSON, and the largest value; rows beyond are left out, a larger value is an error.
const MAX_BYTES: usize = 256 * 1024;
/// How much memory SQLite takes for all queries, in bytes; one that needs more is an error.
const MAX_MEMORY: usize = 64 * 1024 * 1024;
/// After so many steps of a query it is looked whether somebody still waits for it.
const STEPS_PER_LOOK: i32 = 1_000;

#[derive(Deserialize, JsonSchema)]
struct Input {
    /// One SQL statement in SQLite's dialect. The tables are listed in `sqlite_schema`.
    sql: String,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    let url = std::env::var("HANDBACK_URL").unwrap_or_else(|_| "http://127.0.0.1:4096".to_owned());
    let database = PathBuf::from(std::env::args_os().nth(1).context("usage: query_sqlite DATABASE")?);
    // What is wrong with the file is better told now than to a model.
    open(&database, CancellationToken::new()).with_context(|| database.display().to_string())?;

    let path = database.clone();
    let query_sqlite = Tool::typed("query_sqlite", "Queries the user's SQLite database", move |input: Input, call| {
        let path = path.clone();
        // A long query keeps a thread busy, not the connection.
        let query = move || query(&open(&path, call.cancellation)?, &input.sql);
        async move { tokio::task::spawn_blocking(query).await? }
    });

    let tools = ClientTools::new(Api::new(&url, None)?, "database", Options::default());
    tools.register(query_sqlite.effect(Effect::Read)).await?;
    println!("offering {} at {url}; Ctrl-C ends it", database.display());
    tokio::select! {
        ended = tools.run(None, CancellationToken::new()) => ended?,
        pressed = tokio::signal::ctrl_c() => pressed?,
    }
    tools.disconnect().await;
    Ok(())
}

/// A connection for one query, which ends when the call does.
fn open(path: &Path, cancellation: CancellationToken) -> rusqlite::Result<Connection> {
    let mut connection = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    connection.set_limit(Limit::SQLITE_LIMIT_ATTACHED, 0)?;
    connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, MAX_BYTES as i32)?;
    connection.execute_batch(&format!("PRAGMA temp_store = memory; PRAGMA hard_heap_limit = {MAX_MEMORY}"))?;
    connection.progress_handler(STEPS_PER_LOOK, Some(move || cancellation.is_cancelled()))?;
    connection.authorizer(Some(allow_all_but_settings))?;
    Ok(connection)
}

/// Some settings are those of the whole process, and so of the queries after this one.
fn allow_all_but_settings(context: AuthContext<'_>) -> Authorization {
    match context.action {
        AuthAction::Pragma { .. } => Authorization::Deny,
        _ => Authorization::Allow,
    }
}

fn query(connection: &Connection, sql: &str) -> Result<String, ToolError> {
    let mut statement = connection.prepare(sql)?;
    let columns: Vec<String> = statement.column_names().map(str::to_owned).collect();
    let (mut found, mut bytes, mut is_complete) = (Vec::new(), 0, true);
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let values = read(row, columns.len())?;
        bytes += values.to_string().len();
        if found.len() == MAX_ROWS || bytes > MAX_BYTES {
            is_complete = false;
            break;
        }
        found.push(values);
    }
    Ok(json!({ "columns": columns, "rows": found, "complete": is_complete }).to_string())
}

fn read(row: &Row<'_>, columns: usize) -> rusqlite::Result<Value> {
    (0..columns).map(|column| row.get_ref(column).map(to_json)).collect()
}

fn to_json(value: ValueRef<'_>) -> Value {
    match value {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(number) => number.into(),
        ValueRef::Real(number) => number.into(),
        ValueRef::Text(text) => String::from_utf8_lossy(text).into(),
        ValueRef::Blob(bytes) => format!("a blob of {} bytes", bytes.len()).into(),
    }
}
