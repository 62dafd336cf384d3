//! Rows of a database that an earlier version, another program or a broken disk wrote.

use std::path::Path;
use std::sync::OnceLock;
use std::time::Duration;

use handback_server::config::Config;
use rusqlite::{Connection, params};

use super::requests::Page;
use super::{app, first_line, in_real_time, sections};
use crate::Scratch;

/// The first line of an input whose rows are those of a file of version 1.
const VERSION_1: &[u8] = b"version 1";

/// The columns that can be changed.
const COLUMNS: [(&str, &str); 21] = [
    ("call", "client"),
    ("call", "ending"),
    ("call", "head"),
    ("call", "input"),
    ("call", "late"),
    ("call", "offered"),
    ("call", "request"),
    ("call", "session"),
    ("call", "state"),
    ("client", "content"),
    ("client_tool", "content"),
    ("message", "created"),
    ("message", "id"),
    ("message", "role"),
    ("part", "body"),
    ("part", "id"),
    ("run", "content"),
    ("run_event", "event"),
    ("session", "client"),
    ("session", "content"),
    ("session", "updated"),
];

/// What a server does before its rows are changed: some of everything, with a call and a turn that it leaves open.
const BEFORE: [&str; 9] = [
    "POST /client-tools/register\n\n{\"clientID\":\"tab\",\"tools\":[{\"id\":\"t\",\"timeout\":86400000}]}",
    "POST /client-tools/execute\n\n{\"toolID\":\"client_tab_t\",\"requestID\":\"r1\",\"wait\":false}",
    "POST /client-tools/result\n\n{\"requestID\":\"r1\",\"result\":{\"status\":\"success\",\"output\":\"o\"}}",
    "POST /client-tools/execute\n\n{\"toolID\":\"client_tab_t\",\"requestID\":\"r2\",\"wait\":false}",
    "POST /api/chat\n\n{\"id\":\"chat\",\"messages\":[{\"id\":\"u1\",\"role\":\"user\",\"parts\":[{\"type\":\"text\",\"text\":\"hi\"}]}]}",
    "POST /api/v1/rooms/default/agui\n\n{}",
    "POST /api/v1/rooms/default/agui/$ses/$run\n\n{\"threadId\":\"$ses\",\"runId\":\"$run\",\"messages\":[{\"id\":\"1\",\"role\":\"user\",\"content\":\"call list_tools {}\"}]}",
    "POST /session\n\n{\"clientID\":\"tab\"}",
    "POST /session/$ses/prompt_async\n\n{\"parts\":[{\"type\":\"text\",\"text\":\"call t {}\"}]}",
];

/// What shows the rows.
const AFTER: [&str; 14] = [
    "GET /session",
    "GET /client-tools/calls",
    "GET /client-tools/calls/r1",
    "GET /client-tools/calls/r2",
    "GET /client-tools/clients",
    "GET /client-tools/tools/tab",
    "GET /permission",
    "GET /api/chat/chat",
    "GET /session/chat/message",
    "GET /session/ses_2/message",
    "GET /api/v1/rooms/default/agui",
    "GET /api/v1/rooms/default/agui/$ses",
    "GET /api/v1/rooms/default/agui/$ses/$run",
    "POST /session/chat/message\n\n{\"parts\":[{\"type\":\"text\",\"text\":\"hello\"}]}",
];

/// How long a request waits: threads have the rows.
const PATIENCE: Duration = Duration::from_millis(500);

/// Columns, each with a new value for all rows of its table: a server starts or says why not, and shows what it can read.
pub fn stored_rows(bytes: &[u8]) {
    let (first, rest) = first_line(bytes);
    let (file, changes) = if first == VERSION_1 { (version_1(), rest) } else { (newest(), bytes) };
    let scratch = Scratch::new();
    let path = scratch.join("handback.db");
    std::fs::write(&path, file).unwrap();
    if change(&path, changes) == 0 {
        return;
    }
    in_real_time(async {
        let config = Config { data: Some(scratch.path().to_owned()), ..Config::default() };
        let page = match app(config).await {
            Ok(app) => Page::new(app, PATIENCE),
            Err(error) => return assert!(!error.is_empty()),
        };
        for request in AFTER {
            page.ask(request.as_bytes()).await;
        }
    });
}

/// Changes rows, as far as their tables allow it; returns how many.
fn change(path: &Path, changes: &[u8]) -> usize {
    let connection = Connection::open(path).unwrap();
    let mut changed = 0;
    for section in sections(changes) {
        let (name, value) = first_line(section);
        let Some((table, column)) =
            COLUMNS.iter().find(|(table, column)| [table, ".", column].concat().as_bytes() == name)
        else {
            continue;
        };
        // A number becomes one where the column wants it. Other bytes are taken as they are, as text.
        let sql = format!("UPDATE {table} SET {column} = CAST(?1 AS TEXT)");
        changed += connection.execute(&sql, params![value]).unwrap_or_default();
    }
    changed
}

/// The file that a server of this version leaves.
fn newest() -> &'static [u8] {
    static FILE: OnceLock<Vec<u8>> = OnceLock::new();
    FILE.get_or_init(|| {
        let scratch = Scratch::new();
        in_real_time(async {
            let config = Config { data: Some(scratch.path().to_owned()), ..Config::default() };
            let page = Page::new(app(config).await.unwrap(), PATIENCE);
            for request in BEFORE {
                let status = page.ask(request.as_bytes()).await;
                assert!(status.is_some_and(|status| status.is_success()), "{request}: {status:?}");
            }
            page.app.close_database().await.unwrap();
        });
        std::fs::read(scratch.join("handback.db")).unwrap()
    })
}

/// The file that a server of version 1 left.
fn version_1() -> &'static [u8] {
    static FILE: OnceLock<Vec<u8>> = OnceLock::new();
    FILE.get_or_init(|| {
        let scratch = Scratch::new();
        let path = scratch.join("handback.db");
        let connection = Connection::open(&path).unwrap();
        connection.execute_batch(include_str!("../../tests/it/store/version-1.sql")).unwrap();
        drop(connection);
        std::fs::read(path).unwrap()
    })
}
