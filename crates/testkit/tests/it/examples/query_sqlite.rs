use std::fs;
use std::path::Path;
use std::time::Duration;

use handback_testkit::Scratch;
use handback_testkit::server::until;
use rusqlite::Connection;
use serde_json::{Value, json};

use super::Example;

/// Numbers without end.
const NUMBERS: &str = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)";

fn database(path: &Path) {
    let connection = Connection::open(path).unwrap();
    connection
        .execute_batch(
            "CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT, credit REAL, photo BLOB);
             CREATE INDEX names ON customers (name);
             INSERT INTO customers VALUES (1, 'Ada', 2.5, x'ff00'), (9007199254740993, 'Grace', NULL, NULL)",
        )
        .unwrap();
}

async fn started(scratch: &Scratch) -> Example {
    let path = scratch.join("shop.db");
    database(&path);
    Example::start("database", "query_sqlite", &[&path]).await
}

async fn rows(example: &Example, sql: &str) -> Value {
    serde_json::from_str(&example.output(&json!({ "sql": sql })).await).unwrap()
}

#[tokio::test]
async fn rows_are_given_as_json() {
    let scratch = Scratch::new();
    let example = started(&scratch).await;
    let expected = json!({
        "columns": ["id", "name", "credit", "photo"],
        "rows": [[1, "Ada", 2.5, "a blob of 2 bytes"], [9_007_199_254_740_993_i64, "Grace", null, null]],
        "complete": true,
    });
    assert_eq!(rows(&example, "SELECT * FROM customers; -- all").await, expected);
    let none = json!({ "columns": ["id"], "rows": [], "complete": true });
    assert_eq!(rows(&example, "SELECT id FROM customers WHERE name = 'Bob'").await, none);
    let error = example.error(&json!({ "sql": "SELECT * FROM nowhere" })).await;
    assert!(error.contains("no such table: nowhere"), "{error}");
}

#[tokio::test]
async fn rows_and_bytes_are_bounded() {
    let scratch = Scratch::new();
    let example = started(&scratch).await;
    let answer = answer_to(&example, &format!("{NUMBERS} SELECT i FROM n")).await;
    assert_eq!((answer["rows"].as_array().unwrap().len(), &answer["complete"]), (1_000, &json!(false)));
    let answer = answer_to(&example, &format!("{NUMBERS} SELECT hex(zeroblob(50000)) FROM n")).await;
    assert_eq!((answer["rows"].as_array().unwrap().len(), &answer["complete"]), (2, &json!(false)));
    let error = example.error(&json!({ "sql": "SELECT zeroblob(300000)" })).await;
    assert!(error.contains("string or blob too big"), "{error}");
    let error = example.error(&json!({ "sql": format!("{NUMBERS} SELECT i FROM n ORDER BY i DESC") })).await;
    assert!(error.contains("out of memory"), "{error}");
    // That was the memory of one query.
    assert_eq!(rows(&example, "SELECT 1 AS one").await["rows"], json!([[1]]));
}

/// All of the answer: what a model reads of it is cut by the server.
async fn answer_to(example: &Example, sql: &str) -> Value {
    let call = json!({ "toolID": "client_database_query_sqlite", "input": { "sql": sql } });
    let answer = example.server.execute(call).await.unwrap().body;
    serde_json::from_str(answer["output"].as_str().expect("an output")).unwrap()
}

#[tokio::test]
async fn nothing_is_written_and_no_other_file_is_read() {
    let scratch = Scratch::new();
    let example = started(&scratch).await;
    let (file, other, copy) = (scratch.join("shop.db"), scratch.join("other.db"), scratch.join("copy.db"));
    database(&other);
    let before = (fs::read(&file).unwrap(), fs::read(&other).unwrap(), files(&scratch));
    let attacks = [
        "DELETE FROM customers".to_owned(),
        "UPDATE customers SET name = 'Eve'".to_owned(),
        "INSERT INTO customers (name) VALUES ('Eve') RETURNING id".to_owned(),
        "WITH gone AS (SELECT 1) DELETE FROM customers RETURNING id".to_owned(),
        "DROP TABLE customers".to_owned(),
        "CREATE TABLE eve (id)".to_owned(),
        "REINDEX".to_owned(),
        "VACUUM".to_owned(),
        format!("VACUUM INTO '{}'", copy.display()),
        format!("ATTACH '{}' AS other", other.display()),
        format!("ATTACH 'file:{}?mode=rwc' AS copy", copy.display()),
        "ATTACH ':memory:' AS memory".to_owned(),
        "PRAGMA user_version = 7".to_owned(),
        "PRAGMA journal_mode = wal".to_owned(),
        "PRAGMA writable_schema = on".to_owned(),
        "PRAGMA query_only = off".to_owned(),
        "PRAGMA hard_heap_limit = 1".to_owned(),
        "SELECT 1; DELETE FROM customers".to_owned(),
        "SELECT 1; SELECT 2".to_owned(),
        "SELECT load_extension('eve')".to_owned(),
        "SELECT writefile('eve', 'x')".to_owned(),
        "".to_owned(),
    ];
    for sql in &attacks {
        let error = example.error(&json!({ "sql": sql })).await;
        assert!(!error.is_empty(), "{sql}");
    }
    assert!(before == (fs::read(&file).unwrap(), fs::read(&other).unwrap(), files(&scratch)), "nothing has changed");
    assert_eq!(rows(&example, "SELECT count(*) AS n FROM customers").await["rows"], json!([[2]]));
}

fn files(scratch: &Scratch) -> Vec<String> {
    let mut names: Vec<_> =
        fs::read_dir(scratch.path()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[tokio::test]
async fn a_query_that_never_ends_is_stopped_by_a_cancel() {
    let scratch = Scratch::new();
    let example = started(&scratch).await;
    let sql = format!("{NUMBERS} SELECT count(*) FROM n, customers");
    let call = json!({ "toolID": "client_database_query_sqlite", "requestID": "endless", "input": { "sql": sql } });
    let endless = example.server.execute(call);
    let path = scratch.join("shop.db");
    until("the query runs", async || is_being_read(&path)).await;
    example.server.cancel("endless", "never mind").await.must_be(200, &json!({ "success": true }));
    endless.await.unwrap().must_fail(409, "CANCELLED");
    until("the query has stopped", async || !is_being_read(&path)).await;
    assert_eq!(rows(&example, "SELECT 1 AS one").await["rows"], json!([[1]]));
}

/// Whether somebody holds a lock on it.
fn is_being_read(database: &Path) -> bool {
    let connection = Connection::open(database).unwrap();
    connection.busy_timeout(Duration::ZERO).unwrap();
    let locked = connection.execute_batch("BEGIN EXCLUSIVE; ROLLBACK");
    locked.is_err_and(|error| error.sqlite_error_code() == Some(rusqlite::ErrorCode::DatabaseBusy))
}
