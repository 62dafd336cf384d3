//! What outlives a store that was closed or dropped, and how much of it is kept.

use std::sync::Arc;

use handback_core::clock::Time;
use handback_core::store::{
    CallFilter, CallStore, Cancellation, FinishedCall, Message, Most, Outcome, Phases, RunStore, Session,
    SessionFilter, SessionStore, Success, ThreadRun,
};
use handback_server::store::{Bounds, Sqlite};
use handback_testkit::Scratch;
use handback_testkit::store_contract::samples::{
    calls_of, ended, events, finished, head, objects, outcomes, parts, request_id, run, seen_call, seen_calls,
    seen_messages, seen_run, seen_runs, seen_session, seen_sessions, session, session_id, text_part, texts, user,
};
use rusqlite::Connection;
use tokio::task::JoinSet;

use super::sqlite;

async fn listed(store: &Sqlite) -> Vec<String> {
    let calls = calls_of(store.list_finished(&CallFilter::default(), None, Most::items(usize::MAX)).await.unwrap());
    calls.iter().map(|call| call.head.request.to_string()).collect()
}

#[tokio::test]
async fn all_of_it_is_there_after_a_restart() {
    let scratch = Scratch::new();
    let store = sqlite(&scratch);
    let kept = Arc::new(Session { agent: Some("chef".into()), ..session("ses_1") });
    store.save_session(&kept).await.unwrap();
    let over = ThreadRun { finished: Some(Time(2)), input: objects().pop(), ..run("ses_1", "run_2") };
    let under_way = ThreadRun { started: Some(Time(3)), label: Some("🦀".into()), ..run("ses_1", "run_1") };
    let runs = [over, under_way].map(Arc::new);
    for run in &runs {
        store.save_run(run).await.unwrap();
        store.append_run_events(&kept.id, &run.id, 0, events(&["a", "b", run.id.as_str()])).await.unwrap();
    }
    let messages = [Message { parts: parts(), ..user("ses_1", "msg_2") }, user("ses_1", "msg_1")].map(Arc::new);
    for message in &messages {
        store.save_message(message).await.unwrap();
    }
    let mut calls: Vec<_> = outcomes()
        .into_iter()
        .enumerate()
        .map(|(number, outcome)| ended(head(&format!("r{number}"), "desk", "ses_1"), outcome))
        .collect();
    for call in &calls {
        store.begin(&call.head).await.unwrap();
        store.finish(call).await.unwrap();
    }
    calls.reverse();
    store.close().await.unwrap();

    for _ in 0..2 {
        let store = sqlite(&scratch);
        assert_eq!(
            seen_sessions(&store.list_sessions(&SessionFilter::default(), None, Most::items(10)).await.unwrap().items),
            [seen_session(&kept)]
        );
        assert_eq!(seen_messages(&store.messages(&kept.id).await.unwrap()), seen_messages(&messages));
        assert_eq!(store.unanswered().await.unwrap().len(), 2);
        let of_agent = SessionFilter { agent: kept.agent.clone(), client: None, parent: None };
        assert_eq!(
            seen_sessions(&store.list_sessions(&of_agent, None, Most::items(10)).await.unwrap().items),
            [seen_session(&kept)]
        );
        let listed: Vec<_> = runs.iter().map(|run| Arc::new(run.without_input())).collect();
        assert_eq!(seen_runs(&store.runs(&kept.id).await.unwrap()), seen_runs(&listed));
        assert_eq!(seen_runs(&store.unfinished_runs().await.unwrap()), [seen_run(&runs[1])]);
        for run in &runs {
            let told = store.run_events(&kept.id, &run.id, 1).await.unwrap();
            assert_eq!(texts(&told), ["b", run.id.as_str()]);
        }
        let list = calls_of(store.list_finished(&CallFilter::default(), None, Most::items(1_000)).await.unwrap());
        assert_eq!(seen_calls(&list), seen_calls(&calls));
        // The second time after it was only dropped.
    }
}

#[tokio::test]
async fn what_ends_after_a_restart_is_newer_than_what_ended_before() {
    let scratch = Scratch::new();
    for round in 0..3 {
        let store = sqlite(&scratch);
        store.finish(&finished(head(&format!("r{round}"), "desk", ""))).await.unwrap();
        let newest: Vec<String> = (0..=round).rev().map(|round| format!("r{round}")).collect();
        assert_eq!(listed(&store).await, newest);
    }
}

#[tokio::test]
async fn a_message_goes_on_after_a_restart() {
    let scratch = Scratch::new();
    let mut message = user("ses_1", "msg_1");
    let store = sqlite(&scratch);
    store.save_session(&Arc::new(session("ses_1"))).await.unwrap();
    message.parts = (0..5).map(|number| text_part(&format!("prt_{number}"), "before")).collect();
    store.save_message(&Arc::new(message.clone())).await.unwrap();
    drop(store);
    let store = sqlite(&scratch);
    message.parts.truncate(3);
    message.parts[1] = text_part("prt_9", "after");
    store.save_message(&Arc::new(message.clone())).await.unwrap();
    let found = store.messages(&session_id("ses_1")).await.unwrap();
    assert_eq!(seen_messages(&found), seen_messages(&[Arc::new(message)]));
}

#[tokio::test]
async fn a_run_goes_on_after_a_restart() {
    let scratch = Scratch::new();
    let store = sqlite(&scratch);
    let made = Arc::new(run("ses_1", "run_1"));
    store.save_session(&Arc::new(session("ses_1"))).await.unwrap();
    store.save_run(&made).await.unwrap();
    store.append_run_events(&made.session, &made.id, 0, events(&["a", "b"])).await.unwrap();
    drop(store);
    let store = sqlite(&scratch);
    store.append_run_events(&made.session, &made.id, 1, events(&["b", "c"])).await.unwrap();
    let over = Arc::new(ThreadRun { started: Some(Time(1)), finished: Some(Time(2)), ..ThreadRun::clone(&made) });
    store.save_run(&over).await.unwrap();
    assert_eq!(texts(&store.run_events(&made.session, &made.id, 0).await.unwrap()), ["a", "b", "c"]);
    assert_eq!(seen_runs(&store.runs(&made.session).await.unwrap()), [seen_run(&over)]);
}

#[tokio::test]
async fn calls_that_were_under_way_are_over_after_a_restart() {
    let scratch = Scratch::new();
    let store = sqlite(&scratch);
    store.finish(&finished(head("over", "desk", "ses_1"))).await.unwrap();
    for id in ["b", "a"] {
        store.begin(&Arc::new(head(id, "desk", "ses_1"))).await.unwrap();
    }
    drop(store);
    let store = sqlite(&scratch);
    assert_eq!(listed(&store).await, ["a", "b", "over"]);
    let found = store.finished(&request_id("a")).await.unwrap();
    let outcome = Outcome::Cancelled(Cancellation::Requested("The server was restarted".into()));
    let expected =
        FinishedCall { head: Arc::new(head("a", "desk", "ses_1")), attempt: 1, phases: Phases::default(), outcome };
    assert_eq!(found.as_deref().map(seen_call), Some(seen_call(&expected)));
}

#[tokio::test]
async fn closing_does_what_was_accepted_and_takes_nothing_new() {
    let scratch = Scratch::new();
    let store = sqlite(&scratch);
    for number in 0..2_000 {
        drop(store.finish(&finished(head(&format!("r{number}"), "desk", ""))));
    }
    let store = Arc::new(store);
    // From a task of its own, as a server that shuts down may do it.
    let closing = JoinSet::from_iter([{
        let store = store.clone();
        async move { store.close().await }
    }]);
    closing.join_all().await.pop().unwrap().unwrap();
    let refused = store.begin(&Arc::new(head("late", "desk", ""))).await.unwrap_err().to_string();
    let file = scratch.join("handback.db").canonicalize().unwrap();
    assert_eq!(refused, format!("the store failed: {}: the store is closed", file.display()));
    store.close().await.unwrap();

    // All of it is in the one file, and the file is free, before the store is dropped.
    assert!(!scratch.join("handback.db-wal").exists());
    let again = sqlite(&scratch);
    assert_eq!(listed(&again).await.len(), 2_000);
    drop(store);
    assert_eq!(listed(&again).await.len(), 2_000);
}

#[tokio::test]
async fn many_writes_are_committed_together() {
    let scratch = Scratch::new();
    let store = sqlite(&scratch);
    // While another program holds on to the file nothing is written, and so everything waits.
    let other = Connection::open(scratch.join("handback.db")).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let writes: Vec<_> =
        (0..1_000).map(|number| store.begin(&Arc::new(head(&format!("r{number}"), "a", "")))).collect();
    assert_eq!(store.figures().commits, 0);
    other.execute_batch("COMMIT").unwrap();
    for write in writes {
        write.await.unwrap();
    }
    // What was there when it began to wait, and then 512 at a time.
    let commits = store.figures().commits;
    assert!((2..=3).contains(&commits), "{commits}");
    assert_eq!(store.figures().queued, 0);
}

#[tokio::test]
async fn only_the_newest_calls_are_kept() {
    let scratch = Scratch::new();
    let open = |calls| Sqlite::open(&scratch.join("handback.db"), Bounds { calls, ..Bounds::default() }).unwrap();
    let store = open(10);
    let newest = |count: usize| (100 - count..100).rev().map(|number| format!("r{number}")).collect::<Vec<_>>();
    store.begin(&Arc::new(head("under way", "desk", ""))).await.unwrap();
    for number in 0..100 {
        store.finish(&finished(head(&format!("r{number}"), "desk", ""))).await.unwrap();
    }
    assert_eq!(listed(&store).await, newest(10));
    assert!(store.finished(&request_id("r89")).await.unwrap().is_none());
    // A call under way is not finished, and does not count.
    store.finish(&finished(head("under way", "desk", ""))).await.unwrap();
    assert_eq!(listed(&store).await[0], "under way");
    drop(store);
    let store = open(3);
    assert_eq!(listed(&store).await, ["under way", "r99", "r98"]);
}

#[tokio::test]
async fn many_calls_are_forgotten_some_at_a_time() {
    let scratch = Scratch::new();
    let bounds = Bounds { calls: 500, ..Bounds::default() };
    let store = Sqlite::open(&scratch.join("handback.db"), bounds).unwrap();
    let other = Connection::open(scratch.join("handback.db")).unwrap();
    let mut count = other.prepare("SELECT count(*) FROM call").unwrap();
    let mut most = 0;
    for number in 0..2_000 {
        store.finish(&finished(head(&format!("r{number}"), "desk", ""))).await.unwrap();
        most = most.max(count.query_row([], |row| row.get::<_, i64>(0)).unwrap());
    }
    assert!((500..540).contains(&most), "{most}");
    let newest: Vec<String> = (1_500..2_000).rev().map(|number| format!("r{number}")).collect();
    assert_eq!(listed(&store).await[..500], newest);
}

#[tokio::test]
async fn large_calls_are_forgotten_earlier() {
    let scratch = Scratch::new();
    let bounds = Bounds { call_bytes: 100_000, ..Bounds::default() };
    let store = Sqlite::open(&scratch.join("handback.db"), bounds).unwrap();
    for number in 0..50 {
        let outcome = Outcome::Success(Success { output: "x".repeat(20_000), ..Success::default() });
        store.finish(&ended(head(&format!("r{number}"), "desk", ""), outcome)).await.unwrap();
    }
    assert_eq!(listed(&store).await, ["r49", "r48", "r47", "r46"]);
}
