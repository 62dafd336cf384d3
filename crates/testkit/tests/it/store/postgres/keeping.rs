//! What outlives a store that was closed, and how much of it is kept.

use std::sync::Arc;
use std::time::Duration;

use handback_core::clock::Time;
use handback_core::store::{
    Begun, CallStore, IfFull, Message, Outcome, RunStore, Session, SessionStore, StoreError, Success, ThreadRun,
};
use handback_server::store::Postgres;
use handback_server::store::postgres::Bounds;
use handback_testkit::TestDatabase;
use handback_testkit::postgres::query;
use handback_testkit::store_contract::samples::{
    begun, client_id, ended, events, finished, head, outcomes, parts, request_id, run, seen_call, seen_messages,
    seen_run, seen_runs, seen_session, session, session_id, texts, user,
};

use super::{bounded, listed, open};

/// Closes a store, which tidies up, and opens its database again.
async fn again(store: Arc<Postgres>, database: &TestDatabase, bounds: &Bounds) -> Arc<Postgres> {
    store.close().await.unwrap();
    bounded(&database.url(), bounds.clone()).await
}

async fn begin(store: &Postgres, id: &str) -> Begun {
    store.begin(&begun(&Arc::new(head(id, "desk", ""))), IfFull::Fails).await.unwrap()
}

#[tokio::test]
async fn all_of_it_is_there_after_a_restart() {
    let database = TestDatabase::create();
    let mut store = open(&database.url()).await;
    let kept = Arc::new(Session { client: Some(client_id("desk")), agent: Some("chef".into()), ..session("ses_1") });
    store.save_session(&kept, IfFull::Fails).await.unwrap();
    let message = Arc::new(Message { parts: parts(), ..user("ses_1", "msg_1") });
    store.save_message(&message).await.unwrap();
    let made = Arc::new(ThreadRun { started: Some(Time(3)), label: Some("🦀".into()), ..run("ses_1", "run_1") });
    store.save_run(&made, IfFull::Fails).await.unwrap();
    store.append_run_events(&made.session, &made.id, 0, events(&["a", "b"])).await.unwrap();
    let calls: Vec<_> = (0..).zip(outcomes()).map(|(n, it)| ended(head(&format!("r{n}"), "desk", ""), it)).collect();
    for call in &calls {
        store.finish(call, IfFull::Fails).await.unwrap();
    }
    assert!(matches!(begin(&store, "open").await, Begun::New));
    let usage = store.usage(Some(&client_id("desk"))).await.unwrap();
    assert_eq!(usage.client_sessions, 1);

    for _ in 0..2 {
        store = again(store, &database, &Bounds::default()).await;
        assert_eq!(store.session(&kept.id).await.unwrap().as_deref().map(seen_session), Some(seen_session(&kept)));
        assert_eq!(
            seen_messages(&store.messages(&kept.id).await.unwrap()),
            seen_messages(std::slice::from_ref(&message))
        );
        assert_eq!(seen_messages(&store.open_turns().await.unwrap()), seen_messages(std::slice::from_ref(&message)));
        assert_eq!(seen_runs(&store.unfinished_runs().await.unwrap()), [seen_run(&made)]);
        assert_eq!(texts(&store.run_events(&kept.id, &made.id, 0).await.unwrap()), ["a", "b"]);
        for call in &calls {
            let found = store.finished(&call.head.request).await.unwrap();
            assert_eq!(found.as_deref().map(seen_call), Some(seen_call(call)));
        }
        let left = store.open_calls().await.unwrap();
        assert_eq!(left.iter().map(|call| call.head.request.as_str()).collect::<Vec<_>>(), ["open"]);
        // Closing adds up what was counted.
        assert_eq!(query(&database.url(), "SELECT count(*) FROM handback.usage_change").unwrap(), ["0"]);
        assert_eq!(store.usage(Some(&client_id("desk"))).await.unwrap(), usage);
    }
    // A client that keeps nothing any more is not counted for ever.
    assert!(store.delete_session(&kept.id).await.unwrap());
    let store = again(store, &database, &Bounds::default()).await;
    assert_eq!(store.usage(Some(&client_id("desk"))).await.unwrap(), Default::default());
    assert_eq!(query(&database.url(), "SELECT client, bytes FROM handback.usage WHERE client <> ''").unwrap(), [""; 0]);
}

#[tokio::test]
async fn closing_does_what_was_accepted_and_takes_nothing_new() {
    let database = TestDatabase::create();
    let store = open(&database.url()).await;
    for number in 0..2_000 {
        drop(store.finish(&finished(head(&format!("r{number}"), "desk", "")), IfFull::Fails));
    }
    store.close().await.unwrap();
    let call = begun(&Arc::new(head("late", "desk", "")));
    let StoreError::Unavailable(refused) = store.begin(&call, IfFull::Waits).await.unwrap_err() else { panic!() };
    assert!(refused.ends_with(": the store is closed"), "{refused}");
    store.session(&session_id("ses_1")).await.unwrap_err();
    store.close().await.unwrap();
    // The database is free before the store is dropped.
    assert_eq!(listed(&*open(&database.url()).await).await.len(), 2_000);
}

#[tokio::test]
async fn only_the_newest_calls_are_kept_and_the_ids_of_others_are_not_free_for_a_day() {
    let database = TestDatabase::create();
    let bounds = Bounds { calls: 10, ..Bounds::default() };
    let store = bounded(&database.url(), bounds.clone()).await;
    assert!(matches!(begin(&store, "open").await, Begun::New));
    for number in 0..100 {
        store.finish(&finished(head(&format!("r{number}"), "desk", "")), IfFull::Fails).await.unwrap();
    }
    let store = again(store, &database, &bounds).await;
    let newest: Vec<String> = (90..100).rev().map(|number| format!("r{number}")).collect();
    assert_eq!(listed(&store).await, newest);
    assert!(store.finished(&request_id("r89")).await.unwrap().is_none());
    // A call under way is not finished, and does not count.
    assert_eq!(store.open_calls().await.unwrap().len(), 1);

    assert!(matches!(begin(&store, "r89").await, Begun::Gone));
    assert!(matches!(begin(&store, "r99").await, Begun::Before(_)));
    let a_day = "UPDATE handback.forgotten_call SET since = since - INTERVAL '25 hours' WHERE request IN ('r1', 'r89')";
    query(&database.url(), a_day).unwrap();
    assert!(matches!(begin(&store, "r89").await, Begun::New));
    // The others are still not free, and what is free is forgotten.
    let store = again(store, &database, &bounds).await;
    assert!(matches!(begin(&store, "r0").await, Begun::Gone));
    let forgotten = "SELECT count(*) FROM handback.forgotten_call";
    assert_eq!(query(&database.url(), forgotten).unwrap(), ["88"]);
}

#[tokio::test]
async fn the_ids_of_a_deleted_session_s_calls_are_not_free_for_a_day() {
    let database = TestDatabase::create();
    let store = open(&database.url()).await;
    store.finish(&finished(head("one", "desk", "ses_1")), IfFull::Fails).await.unwrap();
    store.delete_session(&session_id("ses_1")).await.unwrap();
    assert_eq!(listed(&store).await, [""; 0]);
    assert!(matches!(begin(&store, "one").await, Begun::Gone));
}

/// A call of about 20,000 bytes.
async fn finish_large(store: &Postgres, id: &str, session: &str) {
    let outcome = Outcome::Success(Success { output: "x".repeat(20_000), ..Success::default() });
    store.finish(&ended(head(id, "desk", session), outcome), IfFull::Fails).await.unwrap();
}

#[tokio::test]
async fn large_calls_are_forgotten_earlier() {
    let database = TestDatabase::create();
    let bounds = Bounds { call_bytes: 100_000, ..Bounds::default() };
    let mut store = bounded(&database.url(), bounds.clone()).await;
    for round in 0..3 {
        for number in 0..6 {
            finish_large(&store, &format!("r{round}.{number}"), "").await;
        }
        // A late answer counts, too.
        let late = Outcome::Error("x".repeat(20_000));
        assert!(store.keep_late(&request_id(&format!("r{round}.5")), late).await.unwrap());
        store = again(store, &database, &bounds).await;
        assert_eq!(listed(&store).await, [5, 4, 3].map(|number| format!("r{round}.{number}")));
    }
}

#[tokio::test]
async fn calls_are_kept_for_so_long() {
    let database = TestDatabase::create();
    let week = Duration::from_hours(7 * 24);
    let of_age = |call_age| Bounds { call_age, ..Bounds::default() };
    let store = bounded(&database.url(), of_age(week * 2)).await;
    for id in ["old", "young"] {
        store.finish(&finished(head(id, "desk", "")), IfFull::Fails).await.unwrap();
    }
    let older = "UPDATE handback.call SET ended_at = ended_at - INTERVAL '169 hours' WHERE request = 'old'";
    query(&database.url(), older).unwrap();
    let store = again(store, &database, &of_age(week)).await;
    assert_eq!(listed(&store).await, ["young", "old"]);
    let store = again(store, &database, &of_age(week)).await;
    assert_eq!(listed(&store).await, ["young"]);
}

#[tokio::test]
async fn many_calls_are_deleted_some_at_a_time() {
    let database = TestDatabase::create();
    let store = open(&database.url()).await;
    let finish = |number| store.finish(&finished(head(&format!("r{number}"), "desk", "")), IfFull::Fails);
    for written in (0..250).map(finish).collect::<Vec<_>>() {
        written.await.unwrap();
    }
    let mut left = Vec::new();
    loop {
        let prune = "SELECT handback.prune_calls(10, 1000000000, INTERVAL '1 week', 100)";
        let has_more = query(&database.url(), prune).unwrap() == ["t"];
        left.push(listed(&store).await.len());
        if !has_more {
            break;
        }
    }
    assert_eq!(left, [150, 50, 10]);
}

#[tokio::test]
async fn calls_that_were_deleted_with_their_session_take_no_room() {
    let database = TestDatabase::create();
    let bounds = Bounds { call_bytes: 100_000, ..Bounds::default() };
    let mut store = bounded(&database.url(), bounds.clone()).await;
    for round in 0..4 {
        let calls = [1, 2, 3].map(|number| format!("r{round}.{number}"));
        for id in &calls {
            finish_large(&store, id, "ses_1").await;
        }
        store = again(store, &database, &bounds).await;
        assert_eq!(listed(&store).await.len(), 3, "{round}");
        store.delete_session(&session_id("ses_1")).await.unwrap();
    }
}
