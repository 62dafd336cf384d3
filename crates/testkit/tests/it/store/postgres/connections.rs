//! Connections that break or are silent while the database goes on.

use std::sync::Arc;

use handback_core::store::{Begun, CallStore, Ended, IfFull, RunStore, SessionStore};
use handback_testkit::postgres::query;
use handback_testkit::server::until;
use handback_testkit::store_contract::samples::{
    begun, events, finished, head, run, run_id, session, session_id, texts,
};
use handback_testkit::{Relay, TestDatabase};
use tokio::task::JoinSet;

use super::{must_be_unavailable, open, soon};

/// Waits until a query gives this.
async fn until_there(database: &TestDatabase, sql: &str, expected: &str) {
    until(sql, async || query(&database.url(), sql).unwrap() == [expected]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_written_when_the_connection_broke_is_written_once() {
    let database = TestDatabase::create();
    let relay = Relay::before(&database.url()).await;
    let store = open(relay.url()).await;
    store.save_session(&Arc::new(session("ses_1")), IfFull::Fails).await.unwrap();
    store.save_run(&Arc::new(run("ses_1", "run_1")), IfFull::Fails).await.unwrap();
    let before = store.usage(None).await.unwrap().bytes;

    relay.hold_answers();
    let begun = store.begin(&begun(&Arc::new(head("r1", "desk", "ses_1"))), IfFull::Fails);
    until_there(&database, "SELECT count(*) FROM handback.call", "1").await;
    let saved = store.save_session(&Arc::new(session("ses_2")), IfFull::Fails);
    let told = store.append_run_events(&session_id("ses_1"), &run_id("run_1"), 0, events(&["a", "b"]));
    relay.cut();
    relay.open();
    assert!(matches!(soon(begun).await.unwrap(), Begun::New));
    soon(saved).await.unwrap();
    soon(told).await.unwrap();

    // What is counted is counted once.
    relay.hold_answers();
    let told = store.append_run_events(&session_id("ses_1"), &run_id("run_1"), 2, events(&["c"]));
    until_there(&database, "SELECT count(*) FROM handback.run_event", "3").await;
    relay.cut();
    relay.open();
    soon(told).await.unwrap();
    assert_eq!(store.open_calls().await.unwrap().len(), 1);
    // An end is the first one although it was there when it was written again.
    relay.hold_answers();
    let ended = store.finish(&finished(head("r1", "desk", "ses_1")), IfFull::Fails);
    until_there(&database, "SELECT count(*) FROM handback.call WHERE ended IS NOT NULL", "1").await;
    relay.cut();
    relay.open();
    assert!(matches!(soon(ended).await.unwrap(), Ended::First));
    let kept = store.run_events(&session_id("ses_1"), &run_id("run_1"), 0).await.unwrap();
    assert_eq!(texts(&kept), ["a", "b", "c"]);
    let session = serde_json::to_string(&session("ses_2")).unwrap().len() as u64;
    assert_eq!(store.usage(None).await.unwrap().bytes, before + session + 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_beginning_that_was_reported_as_failed_leaves_no_open_call() {
    let database = TestDatabase::create();
    let relay = Relay::before(&database.url()).await;
    let store = open(relay.url()).await;
    relay.hold_answers();
    let beginning = store.begin(&begun(&Arc::new(head("r1", "desk", "ses_1"))), IfFull::Fails);
    until_there(&database, "SELECT count(*) FROM handback.call", "1").await;
    relay.close();
    must_be_unavailable(beginning).await;

    relay.open();
    until("it can be written", async || store.is_writable().await).await;
    assert_eq!(store.open_calls().await.unwrap().len(), 0);
    // Whoever was told that it failed may try again.
    let again = store.begin(&begun(&Arc::new(head("r1", "desk", "ses_1"))), IfFull::Fails).await.unwrap();
    assert!(matches!(again, Begun::New), "{again:?}");
    assert_eq!(store.open_calls().await.unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_is_closed_while_its_database_is_away_says_what_was_not_written() {
    let database = TestDatabase::create();
    let relay = Relay::before(&database.url()).await;
    let store = open(relay.url()).await;
    store.save_session(&Arc::new(session("ses_1")), IfFull::Fails).await.unwrap();
    relay.close();
    let waiting = store.save_session(&Arc::new(session("ses_2")), IfFull::Waits);
    must_be_unavailable(store.save_session(&Arc::new(session("ses_3")), IfFull::Fails)).await;
    soon(store.close()).await.unwrap();
    must_be_unavailable(waiting).await;
    let kept = open(&database.url()).await;
    assert!(kept.session(&session_id("ses_1")).await.unwrap().is_some());
    assert!(kept.session(&session_id("ses_2")).await.unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_reads_of_a_database_that_is_silent_fail_together() {
    let database = TestDatabase::create();
    let relay = Relay::before(&database.url()).await;
    let store = open(relay.url()).await;
    relay.hold();
    relay.cut();
    let mut reads: JoinSet<_> = (0..100).map(|_| store.session(&session_id("ses_1"))).collect();
    while let Some(read) = soon(reads.join_next()).await {
        must_be_unavailable(async { read.unwrap() }).await;
    }
    relay.open();
    assert!(soon(store.session(&session_id("ses_1"))).await.unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_can_be_closed_although_its_database_is_silent() {
    let database = TestDatabase::create();
    let relay = Relay::before(&database.url()).await;
    let store = open(relay.url()).await;
    relay.hold();
    tokio::time::timeout(super::SOON * 4, store.close()).await.expect("it closes").unwrap();
}

/// As after a partition: for PostgreSQL the old connection is still there, and has the lock of the one server.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_gets_its_database_back_although_that_has_not_noticed_the_broken_connection() {
    let database = TestDatabase::create();
    let relay = Relay::before(&database.url()).await;
    let store = open(relay.url()).await;
    store.save_session(&Arc::new(session("ses_1")), IfFull::Fails).await.unwrap();
    relay.cut_unnoticed();
    soon(store.save_session(&Arc::new(session("ses_2")), IfFull::Waits)).await.unwrap();
    soon(store.session(&session_id("ses_2"))).await.unwrap().unwrap();
    // Another server is refused as before.
    handback_server::store::Postgres::open(&database.url(), Default::default()).await.unwrap_err();
}
