//! When something is wrong: each operation says so for itself, names the file, and leaves the others alone.

use std::fs::OpenOptions;
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::Arc;

use handback_core::store::{
    CallFilter, CallStore, IfFull, Message, Most, RunStore, Session, SessionFilter, SessionStore, StoreError,
};
use handback_server::store::{Bounds, Sqlite};
use handback_testkit::Scratch;
use handback_testkit::store_contract::samples::{
    begun, events, finished, head, request_id, run, run_id, seen_messages, session, session_id, text_part, texts, user,
};
use rusqlite::Connection;

use super::sqlite;

/// Checks that an error names the file, and gives the rest of it.
#[track_caller]
fn cause(error: &StoreError, path: &Path) -> String {
    let start = format!("the store failed: {}: ", path.canonicalize().unwrap().display());
    let error = error.to_string();
    error.strip_prefix(&start).unwrap_or_else(|| panic!("{error} does not start with {start}")).to_owned()
}

#[tokio::test]
async fn a_full_file_fails_what_does_not_fit_and_nothing_else() {
    let scratch = Scratch::new();
    let path = scratch.join("handback.db");
    let store = Sqlite::open(&path, Bounds { file_bytes: 1 << 20, ..Bounds::default() }).unwrap();
    store.save_session(&Arc::new(session("ses_1")), IfFull::Fails).await.unwrap();
    let large = Message { parts: vec![text_part("prt_1", &"x".repeat(2 << 20))], ..user("ses_1", "large") };
    let small = Arc::new(user("ses_1", "small"));
    // All of them wait together, and are written together.
    let other = Connection::open(&path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let before = store.save_session(&Arc::new(session("ses_2")), IfFull::Fails);
    let between = store.save_message(&small);
    let failing = store.save_message(&Arc::new(large));
    let read = store.session(&session_id("ses_2"));
    let deleted = store.delete_session(&session_id("ses_2"));
    let after = store.begin(&begun(&Arc::new(head("r1", "desk", ""))), IfFull::Fails);
    other.execute_batch("COMMIT").unwrap();

    let full = failing.await.unwrap_err();
    assert!(matches!(full, StoreError::Full(_)), "{full:?}");
    assert_eq!(cause(&full, &path), "database or disk is full");
    before.await.unwrap();
    between.await.unwrap();
    after.await.unwrap();
    assert!(read.await.unwrap().is_some());
    assert!(deleted.await.unwrap());
    // Nothing is left of what failed, and what was written stays.
    let messages = store.messages(&session_id("ses_1")).await.unwrap();
    assert_eq!(seen_messages(&messages), seen_messages(&[small]));
    drop(store);
    let store = sqlite(&scratch);
    assert_eq!(store.messages(&session_id("ses_1")).await.unwrap().len(), 1);
    assert_eq!(store.list_sessions(&SessionFilter::default(), None, Most::items(10)).await.unwrap().items.len(), 1);
}

#[tokio::test]
async fn a_full_file_takes_more_after_something_was_deleted() {
    let scratch = Scratch::new();
    let path = scratch.join("handback.db");
    let store = Sqlite::open(&path, Bounds { file_bytes: 1 << 20, ..Bounds::default() }).unwrap();
    let fill = |number: usize| {
        let id = format!("ses_{number}");
        let parts = vec![text_part("prt_1", &"x".repeat(100_000))];
        (Arc::new(session(&id)), Arc::new(Message { parts, ..user(&id, "msg_1") }))
    };
    let mut kept = 0;
    loop {
        let (session, message) = fill(kept);
        if store.save_session(&session, IfFull::Fails).await.is_err() || store.save_message(&message).await.is_err() {
            break;
        }
        kept += 1;
    }
    assert!((5..11).contains(&kept), "{kept}");
    assert!(store.delete_session(&session_id("ses_0")).await.unwrap());
    let (session, message) = fill(kept);
    store.save_session(&session, IfFull::Fails).await.unwrap();
    store.save_message(&message).await.unwrap();
    assert_eq!(seen_messages(&store.messages(&session.id).await.unwrap()), seen_messages(&[message]));
}

#[tokio::test]
async fn a_row_that_cannot_be_read_is_named() {
    let scratch = Scratch::new();
    let path = scratch.join("handback.db");
    let store = sqlite(&scratch);
    for id in ["ses_1", "ses_2"] {
        store.save_session(&Arc::new(session(id)), IfFull::Fails).await.unwrap();
        store.save_message(&Arc::new(user(id, &format!("msg of {id}")))).await.unwrap();
        store.finish(&finished(head(&format!("r of {id}"), "desk", id)), IfFull::Fails).await.unwrap();
        store.save_run(&Arc::new(run(id, &format!("run of {id}"))), IfFull::Fails).await.unwrap();
        store.append_run_events(&session_id(id), &run_id(&format!("run of {id}")), 0, events(&["a"])).await.unwrap();
    }
    let other = Connection::open(&path).unwrap();
    let damage = |script| other.execute_batch(script).unwrap();
    let (one, two) = (session_id("ses_1"), session_id("ses_2"));

    damage("UPDATE session SET content = '{' WHERE id = 'ses_1'");
    let error = cause(&store.session(&one).await.unwrap_err(), &path);
    assert!(error.starts_with("the session ses_1 cannot be read: "), "{error}");
    assert!(store.list_sessions(&SessionFilter::default(), None, Most::items(10)).await.is_err());
    assert!(store.session(&two).await.unwrap().is_some());

    damage("UPDATE part SET body = '{\"Text\":{}}' WHERE number >> 24 = 1");
    let error = cause(&store.messages(&one).await.unwrap_err(), &path);
    assert!(error.starts_with("the part prt_1 cannot be read: "), "{error}");
    damage("UPDATE message SET role = '' WHERE number = 1");
    let error = cause(&store.messages(&one).await.unwrap_err(), &path);
    assert!(error.starts_with("the message msg of ses_1 cannot be read: "), "{error}");
    assert_eq!(store.messages(&two).await.unwrap().len(), 1);

    damage("UPDATE call SET client = 'not allowed' WHERE request = 'r of ses_1'");
    let error = cause(&store.finished(&request_id("r of ses_1")).await.unwrap_err(), &path);
    assert!(error.starts_with("the call r of ses_1 cannot be read: "), "{error}");
    assert!(store.finished(&request_id("r of ses_2")).await.unwrap().is_some());
    let filter = CallFilter { session: Some(two.clone()), ..CallFilter::default() };
    assert_eq!(store.list_finished(&filter, None, Most::items(10)).await.unwrap().items.len(), 1);

    damage("UPDATE run SET content = '{}' WHERE session = 1");
    let error = cause(&store.runs(&one).await.unwrap_err(), &path);
    assert!(error.starts_with("the run run of ses_1 cannot be read: "), "{error}");
    damage("UPDATE run_event SET event = CAST(x'ff' AS TEXT) WHERE run = 1");
    let error = cause(&store.run_events(&one, &run_id("run of ses_1"), 0).await.unwrap_err(), &path);
    assert!(error.starts_with("the events of the run run of ses_1 cannot be read: "), "{error}");
    assert_eq!(store.runs(&two).await.unwrap().len(), 1);
    assert_eq!(texts(&store.run_events(&two, &run_id("run of ses_2"), 0).await.unwrap()), ["a"]);

    // What is written anew is whole again, and what is broken can be deleted.
    store.save_session(&Arc::new(session("ses_1")), IfFull::Fails).await.unwrap();
    assert!(store.session(&one).await.unwrap().is_some());
    assert!(store.delete_session(&one).await.unwrap());
    assert_eq!(store.list_finished(&CallFilter::default(), None, Most::items(10)).await.unwrap().items.len(), 1);
}

#[tokio::test]
async fn a_damaged_file_is_named() {
    let scratch = Scratch::new();
    let path = scratch.join("handback.db");
    let store = sqlite(&scratch);
    store.save_session(&Arc::new(session("ses_1")), IfFull::Fails).await.unwrap();
    store.save_message(&Arc::new(user("ses_1", "msg_1"))).await.unwrap();
    drop(store);
    let page: u64 = {
        let other = Connection::open(&path).unwrap();
        let page = other.query_row("SELECT rootpage FROM sqlite_schema WHERE name = 'part'", [], |row| row.get(0));
        u64::from(page.unwrap_or(0u32))
    };
    let mut file = OpenOptions::new().write(true).open(&path).unwrap();
    file.seek(SeekFrom::Start((page - 1) * 4_096)).unwrap();
    file.write_all(&[0xee; 4_096]).unwrap();
    drop(file);

    let store = sqlite(&scratch);
    let id = session_id("ses_1");
    assert_eq!(cause(&store.messages(&id).await.unwrap_err(), &path), "database disk image is malformed");
    let message = Arc::new(user("ses_1", "msg_2"));
    assert_eq!(cause(&store.save_message(&message).await.unwrap_err(), &path), "database disk image is malformed");
    // What lies elsewhere in the file goes on.
    assert!(store.session(&id).await.unwrap().is_some());
    store.save_session(&Arc::new(Session { title: "new".into(), ..session("ses_1") }), IfFull::Fails).await.unwrap();
    store.finish(&finished(head("r1", "desk", "")), IfFull::Fails).await.unwrap();
}

#[tokio::test]
async fn too_much_that_waits_is_refused_at_once() {
    let scratch = Scratch::new();
    let path = scratch.join("handback.db");
    let store = Sqlite::open(&path, Bounds { queued: 10, ..Bounds::default() }).unwrap();
    let other = Connection::open(&path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    // Some are taken out of the queue before the file turns out to be held, but no more than once.
    let writes: Vec<_> = (0..100)
        .map(|number| store.begin(&begun(&Arc::new(head(&format!("r{number}"), "desk", ""))), IfFull::Fails))
        .collect();
    let (mut written, mut refused) = (0, 0);
    other.execute_batch("COMMIT").unwrap();
    for write in writes {
        match write.await {
            Ok(_) => written += 1,
            Err(error) => {
                assert_eq!(cause(&error, &path), "too many operations wait to be written");
                refused += 1;
            }
        }
    }
    assert!((10..=20).contains(&written) && written + refused == 100, "{written} {refused}");
    // Once there is room again, it is taken.
    store.begin(&begun(&Arc::new(head("later", "desk", ""))), IfFull::Fails).await.unwrap();
}

#[tokio::test]
async fn too_many_bytes_that_wait_are_refused_at_once() {
    let scratch = Scratch::new();
    let path = scratch.join("handback.db");
    let store = Sqlite::open(&path, Bounds { queued_bytes: 1 << 20, ..Bounds::default() }).unwrap();
    store.save_session(&Arc::new(session("ses_1")), IfFull::Fails).await.unwrap();
    let large = |number: usize| {
        let parts = vec![text_part("prt_1", &"x".repeat(300_000))];
        Arc::new(Message { parts, ..user("ses_1", &format!("msg_{number}")) })
    };
    let other = Connection::open(&path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let writes: Vec<_> = (0..100).map(|number| store.save_message(&large(number))).collect();
    other.execute_batch("COMMIT").unwrap();
    let mut written = 0;
    for write in writes {
        written += usize::from(write.await.is_ok());
    }
    // Four exceed the bound; as many may have been taken before.
    assert!((4..=8).contains(&written), "{written}");
    assert_eq!(store.messages(&session_id("ses_1")).await.unwrap().len(), written);
}
