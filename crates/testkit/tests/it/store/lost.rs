//! The file deleted, replaced or held by others under a server: it says so, and acknowledges nothing that nobody would
//! find again.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use handback_core::store::{IfFull, SessionStore, StoreError};
use handback_server::store::OpenError;
use handback_testkit::server::{until, until_within};
use handback_testkit::store_contract::samples::{session, session_id};
use handback_testkit::{Answer, Scratch, TestServer};
use rusqlite::Connection;
use serde_json::json;

use super::sqlite;
use crate::log::Log;

async fn serve(scratch: &Scratch) -> TestServer {
    TestServer::with(|config| config.data = Some(scratch.path().to_owned())).await
}

async fn is_ready(server: &TestServer) -> bool {
    match server.get("/readyz").await {
        Answer { status: 200, .. } => true,
        refused => {
            refused.must_fail(503, "UNAVAILABLE");
            false
        }
    }
}

/// A copy of a database that somebody has open, by another name.
fn copy(from: &Path, to: &Path) {
    let into = format!("VACUUM INTO '{}'", to.display());
    Connection::open(from).unwrap().execute_batch(&into).unwrap();
}

#[cfg(unix)]
#[tokio::test]
async fn a_file_that_is_gone_takes_no_writes() {
    for lose in [
        |path: &Path| fs::remove_file(path).unwrap(),
        |path: &Path| fs::rename(path, path.with_extension("away")).unwrap(),
        |path: &Path| {
            let other = path.with_extension("copy");
            copy(path, &other);
            fs::rename(other, path).unwrap();
        },
        |path: &Path| fs::remove_file(path.with_extension("db-wal")).unwrap(),
    ] {
        let scratch = Scratch::new();
        let path = scratch.join("handback.db");
        let server = serve(&scratch).await;
        let kept = server.session(json!({})).await;
        assert!(is_ready(&server).await);
        lose(&path);
        let refused = server.post("/session", json!({})).await;
        assert_eq!((refused.status, &refused.body["name"]), (503, &json!("UnknownError")), "{refused:?}");
        let prompt = json!({ "parts": [{ "type": "text", "text": "hello" }] });
        assert_eq!(server.post(&format!("/session/{kept}/message"), prompt).await.status, 503);
        until("the server is not ready", async || !is_ready(&server).await).await;
        // What was read before is read still.
        assert_eq!(server.get(&format!("/session/{kept}")).await.status, 200);
        assert_eq!(server.get("/healthz").await.status, 200);
        server.stop().await;
    }
}

/// The thread looks by itself: nobody writes, and nobody asks.
#[cfg(unix)]
#[tokio::test]
async fn a_file_that_is_replaced_is_not_touched_any_more() {
    let scratch = Scratch::new();
    let path = scratch.join("handback.db");
    let store = sqlite(&scratch);
    store.save_session(&Arc::new(session("before")), IfFull::Fails).await.unwrap();
    let other = scratch.join("copy.db");
    copy(&path, &other);
    fs::rename(&other, &path).unwrap();
    // Somebody uses the new one, and has a log under its name.
    fs::remove_file(scratch.join("handback.db-wal")).unwrap();
    fs::remove_file(scratch.join("handback.db-shm")).unwrap();
    let user = Connection::open(&path).unwrap();
    user.execute_batch("PRAGMA journal_mode = wal; PRAGMA application_id = 1").unwrap();
    let log = fs::read(scratch.join("handback.db-wal")).unwrap();
    assert!(!log.is_empty());
    let refused = store.save_session(&Arc::new(session("after")), IfFull::Fails).await;
    assert!(matches!(refused, Err(StoreError::Unavailable(_))), "{refused:?}");
    assert!(store.session(&session_id("before")).await.unwrap().is_some());
    assert!(store.close().await.is_err());
    drop(store);
    assert!(fs::read(scratch.join("handback.db-wal")).unwrap() == log);
}

#[tokio::test]
async fn while_another_program_holds_the_file_the_server_is_not_ready() {
    let scratch = Scratch::new();
    let server = serve(&scratch).await;
    assert!(is_ready(&server).await);
    let other = Connection::open(scratch.join("handback.db")).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    until("the server is not ready", async || !is_ready(&server).await).await;
    other.execute_batch("COMMIT").unwrap();
    until("the server is ready again", async || is_ready(&server).await).await;
}

/// The lock is on the database itself.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn without_the_lock_beside_it_a_file_has_one_server_still() {
    let scratch = Scratch::new();
    let path = scratch.join("handback.db");
    let store = sqlite(&scratch);
    fs::remove_file(scratch.join("handback.db-lock")).unwrap();
    // Another process: closing the file in this one would let go of locks.
    let writer =
        Command::new(env!("CARGO_BIN_EXE_store_writer")).arg(&path).arg("1").stdin(Stdio::null()).output().unwrap();
    let expected = OpenError::InUse { path: path.canonicalize().unwrap() };
    assert_eq!((writer.status.code(), String::from_utf8(writer.stderr).unwrap()), (Some(1), format!("{expected}\n")));
    store.save_session(&Arc::new(session("ses_1")), IfFull::Fails).await.unwrap();
}

#[tokio::test]
async fn a_backup_is_made_while_the_server_runs() {
    let scratch = Scratch::new();
    let store = sqlite(&scratch);
    store.save_session(&Arc::new(session("ses_1")), IfFull::Fails).await.unwrap();
    fs::create_dir(scratch.join("backup")).unwrap();
    copy(&scratch.join("handback.db"), &scratch.join("backup/handback.db"));
    store.save_session(&Arc::new(session("ses_2")), IfFull::Fails).await.unwrap();
    let backup = handback_server::store::Sqlite::open(&scratch.join("backup/handback.db"), Default::default()).unwrap();
    assert!(backup.session(&session_id("ses_1")).await.unwrap().is_some());
    assert!(backup.session(&session_id("ses_2")).await.unwrap().is_none());
    backup.save_session(&Arc::new(session("ses_3")), IfFull::Fails).await.unwrap();
}

/// Whoever runs the server learns of it from the log, although nobody writes and nobody asks.
#[cfg(unix)]
#[tokio::test]
async fn that_a_file_is_gone_is_in_the_log_within_ten_seconds() {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt().with_writer(move || writer.clone()).with_ansi(false).finish();
    // The store's thread has none of its own.
    tracing::subscriber::set_global_default(subscriber).unwrap();
    let scratch = Scratch::new();
    let store = sqlite(&scratch);
    store.save_session(&Arc::new(session("ses_1")), IfFull::Fails).await.unwrap();
    fs::remove_file(scratch.join("handback.db")).unwrap();
    let is_logged = async || log.text().contains("ERROR") && log.text().contains("restart the server");
    until_within(Duration::from_secs(10), "the log has it", is_logged).await;
}
