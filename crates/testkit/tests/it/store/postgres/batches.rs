//! What is written together: one bad write fails alone, and the others are written once.

use std::sync::Arc;

use handback_core::store::{
    Begun, CallFilter, CallStore, IfFull, Message, Most, Outcome, RunStore, SessionFilter, SessionStore, StoreError,
};
use handback_server::store::Postgres;
use handback_testkit::postgres::query;
use handback_testkit::store_contract::samples::{
    begun, events, finished, head, request_id, run, run_id, seen_messages, session, session_id, text_part, texts, user,
};
use handback_testkit::{Relay, TestDatabase};

use super::open;

/// A store with sessions `ses_1` and `ses_2`, a run and a finished call.
async fn store(relay: &Relay) -> Arc<Postgres> {
    let store = open(relay.url()).await;
    for id in ["ses_1", "ses_2"] {
        store.save_session(&Arc::new(session(id)), IfFull::Fails).await.unwrap();
    }
    store.save_run(&Arc::new(run("ses_1", "run_1")), IfFull::Fails).await.unwrap();
    store.finish(&finished(head("over", "desk", "ses_1")), IfFull::Fails).await.unwrap();
    store
}

/// Asks for things while a first write is under way, so that the others wait, and are written together.
async fn together<T>(relay: &Relay, store: &Postgres, ask: impl FnOnce() -> T) -> T {
    relay.hold();
    drop(store.save_session(&Arc::new(session("ses_0")), IfFull::Fails));
    handback_testkit::server::until("it is under way", async || store.queued() == 0).await;
    let asked = ask();
    assert!(store.queued() > 1);
    relay.open();
    asked
}

async fn a_bad_write_fails_alone(bad: &str, first: usize, complaint: &str) {
    let database = TestDatabase::create();
    let relay = Relay::before(&database.url()).await;
    let store = store(&relay).await;
    let (ses_1, run_1) = (session_id("ses_1"), run_id("run_1"));
    let (deleted, late, begun, bad, told, saved) = together(&relay, &store, || {
        let told = [events(&[bad]), events(&["b"])];
        (
            store.delete_session(&session_id("ses_2")),
            store.keep_late(&request_id("over"), Outcome::Error("late".into())),
            store.begin(&begun(&Arc::new(head("r1", "desk", ""))), IfFull::Fails),
            store.append_run_events(&ses_1, &run_1, first, told[0].clone()),
            store.append_run_events(&ses_1, &run_1, 0, told[1].clone()),
            store.save_message(&Arc::new(user("ses_1", "msg_1"))),
        )
    })
    .await;
    let error = bad.await.unwrap_err();
    assert!(matches!(&error, StoreError::Failed(cause) if cause.contains(complaint)), "{error:?}");
    // What can be answered once is answered as if it had been written alone.
    assert!(deleted.await.unwrap(), "the session was there");
    assert!(late.await.unwrap(), "it was the first late answer");
    assert!(matches!(begun.await.unwrap(), Begun::New));
    told.await.unwrap();
    saved.await.unwrap();
    assert_eq!(texts(&store.run_events(&ses_1, &run_1, 0).await.unwrap()), ["b"]);
    assert_eq!(store.messages(&ses_1).await.unwrap().len(), 1);
    assert_eq!(store.open_calls().await.unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_that_postgresql_refuses_fails_alone() {
    a_bad_write_fails_alone("no text has a \0", 0, "invalid byte sequence").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_writes_are_committed_together() {
    let database = TestDatabase::create();
    let relay = Relay::before(&database.url()).await;
    let store = store(&relay).await;
    let before = store.commits();
    let writes = together(&relay, &store, || {
        let begin = |number| store.begin(&begun(&Arc::new(head(&format!("r{number}"), "a", ""))), IfFull::Fails);
        (0..1_000).map(begin).collect::<Vec<_>>()
    })
    .await;
    for write in writes {
        write.await.unwrap();
    }
    // What was under way before, and then 512 at a time.
    assert_eq!(store.commits(), before + 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_s_events_after_a_gap_fail_alone() {
    a_bad_write_fails_alone("late", 7, "event 7 of the run run_1 cannot be kept: only 0 are kept before it").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_row_that_cannot_be_read_is_named_and_disturbs_no_write() {
    let database = TestDatabase::create();
    let relay = Relay::before(&database.url()).await;
    let store = store(&relay).await;
    query(&database.url(), "UPDATE handback.session SET content = '{' WHERE id = 'ses_1'").unwrap();
    let (read, list, deleted, saved) = together(&relay, &store, || {
        let saved = store.save_message(&Arc::new(user("ses_1", "msg_1")));
        let read = store.session(&session_id("ses_1"));
        let list = store.list_sessions(&SessionFilter::default(), None, Most::items(10));
        (read, list, store.delete_session(&session_id("ses_2")), saved)
    })
    .await;
    let error = read.await.unwrap_err().to_string();
    let named = format!("{}: the session ses_1 cannot be read: ", relay.url().replace("postgres@", ""));
    assert!(error.starts_with(&format!("the store failed: {named}")), "{error}");
    list.await.unwrap_err();
    assert!(deleted.await.unwrap(), "the session was there");
    saved.await.unwrap();
    assert_eq!(store.messages(&session_id("ses_1")).await.unwrap().len(), 1);

    // What is written anew is whole again.
    store.save_session(&Arc::new(session("ses_1")), IfFull::Fails).await.unwrap();
    assert!(store.session(&session_id("ses_1")).await.unwrap().is_some());
    query(&database.url(), "UPDATE handback.call SET client = 'not allowed' WHERE request = 'over'").unwrap();
    let error = store.finished(&request_id("over")).await.unwrap_err().to_string();
    assert!(error.contains(": the call over cannot be read: "), "{error}");
    store.list_finished(&CallFilter::default(), None, Most::items(10)).await.unwrap_err();
}

/// Only the parts that changed are sent, and a message that was not kept has none.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_is_whole_though_it_was_first_saved_before_its_session() {
    let database = TestDatabase::create();
    let relay = Relay::before(&database.url()).await;
    let store = store(&relay).await;
    let parts = vec![text_part("prt_1", "one"), text_part("prt_2", "two")];
    let message = Arc::new(Message { parts, ..user("ses_3", "msg_1") });
    let all = together(&relay, &store, || {
        [
            store.save_message(&message),
            store.save_session(&Arc::new(session("ses_3")), IfFull::Fails),
            store.save_message(&message),
        ]
    })
    .await;
    for write in all {
        write.await.unwrap();
    }
    let kept = store.messages(&session_id("ses_3")).await.unwrap();
    assert_eq!(seen_messages(&kept), seen_messages(&[message]));
}
