//! A process that is killed in the middle of writing: what it was told is written, is written.

use std::collections::{HashMap, HashSet};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use handback_core::store::{CallStore, Outcome, RunStore, SessionStore};
use handback_server::store::{Bounds, OpenError, Sqlite};
use handback_testkit::Scratch;
use handback_testkit::store_contract::samples::{finished, head, request_id, run_id, seen_call, session_id};
use rusqlite::Connection;

/// Starts a process that writes to a file.
fn writer(path: &Path, round: usize) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_store_writer"));
    command.arg(path).arg(round.to_string()).stdin(Stdio::null());
    command
}

/// The same, once it has the file open.
fn writing(path: &Path, round: usize) -> (Child, BufReader<ChildStdout>) {
    let mut child = writer(path, round).stdout(Stdio::piped()).spawn().unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    assert_eq!(line, "open\n");
    (child, out)
}

/// What the store acknowledged.
#[derive(Default)]
struct Acknowledged {
    begun: HashSet<String>,
    finished: HashSet<String>,
    /// How many parts each session's message, and how many events its run has at least.
    saved: HashMap<String, usize>,
}

impl Acknowledged {
    fn add(&mut self, line: &str) {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["begun", call] => _ = self.begun.insert(call.to_owned()),
            ["finished", call] => _ = self.finished.insert(call.to_owned()),
            ["saved", session, parts] => _ = self.saved.insert(session.to_owned(), parts.parse().unwrap()),
            _ => panic!("{line:?}"),
        }
    }

    async fn check(&self, store: &Sqlite) {
        for id in &self.finished {
            let found = store.finished(&request_id(id)).await.unwrap();
            let (session, _) = id.rsplit_once('.').unwrap();
            let expected = finished(head(id, "desk", session));
            assert_eq!(found.as_deref().map(seen_call), Some(seen_call(&expected)), "{id}");
        }
        let open = store.open_calls().await.unwrap();
        for id in self.begun.difference(&self.finished) {
            if open.iter().any(|call| call.head.request.as_str() == id) {
                continue;
            }
            // It may just have been finished, and nobody was told any more.
            let found = store.finished(&request_id(id)).await.unwrap().expect(id);
            assert!(matches!(&found.outcome, Outcome::Success(success) if success.output == "done"), "{id}");
        }
        for (session, parts) in &self.saved {
            let messages = store.messages(&session_id(session)).await.unwrap();
            assert_eq!(messages.len(), 1, "{session}");
            let told = store.run_events(&session_id(session), &run_id("run"), 0).await.unwrap();
            assert!(told.len() >= *parts, "{session}: {} of {parts} events", told.len());
            assert!(messages[0].parts.len() >= *parts, "{session}: {} of {parts}", messages[0].parts.len());
        }
    }
}

#[tokio::test]
async fn what_was_acknowledged_survives_a_kill() {
    let scratch = Scratch::new();
    let path = scratch.join("handback.db");
    let mut acknowledged = Acknowledged::default();
    for round in 0..3 {
        let (mut child, out) = writing(&path, round);
        let mut lines = out.lines();
        // Each time somewhere else, in the middle of it all.
        let enough = 1_000 + 777 * round;
        lines.by_ref().take(enough).for_each(|line| acknowledged.add(&line.unwrap()));
        child.kill().unwrap();
        // It had said more by then.
        lines.for_each(|line| acknowledged.add(&line.unwrap()));
        child.wait().unwrap();

        let bounds = Bounds { calls: 1_000_000, ..Bounds::default() };
        let store = Sqlite::open(&path, bounds).unwrap();
        acknowledged.check(&store).await;
        assert!(acknowledged.finished.len() > 300, "{}", acknowledged.finished.len());
        let other = Connection::open(&path).unwrap();
        let check: String = other.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
        assert_eq!(check, "ok");
        assert!(!other.prepare("PRAGMA foreign_key_check").unwrap().exists([]).unwrap());
    }
}

#[test]
fn a_second_process_is_refused_until_the_first_is_gone() {
    let scratch = Scratch::new();
    let path = scratch.join("handback.db");
    let (mut child, _out) = writing(&path, 0);
    let refused = Sqlite::open(&path, Bounds::default()).expect_err("the file is in use");
    assert!(matches!(refused, OpenError::InUse { .. }), "{refused:?}");
    let other = writer(&path, 1).output().unwrap();
    assert!(!other.status.success());
    assert_eq!(String::from_utf8(other.stderr).unwrap(), format!("{refused}\n"));

    child.kill().unwrap();
    child.wait().unwrap();
    drop(Sqlite::open(&path, Bounds::default()).unwrap());
}
