//! What outlives a store that was closed or dropped, and how much of it is kept.

use std::sync::Arc;

use handback_core::clock::Time;
use handback_core::id::{ConnectionName, PermissionId, ToolName};
use handback_core::store::{
    Begun, CallFilter, CallHead, CallStore, Effect, Executor, IfFull, JournaledCall, Message, Most, Origin, Outcome,
    RunStore, Scope, Session, SessionFilter, SessionStore, StoredClient, StoredTool, Success, ThreadRun, Tool,
    ToolSpec,
};
use handback_server::store::{Bounds, Sqlite};
use handback_testkit::Scratch;
use handback_testkit::server::until;
use handback_testkit::store_contract::samples::{
    begun, calls_of, client_id, ended, events, finished, head, objects, outcomes, parts, request_id, run, seen_call,
    seen_calls, seen_messages, seen_run, seen_runs, seen_session, seen_sessions, session, session_id, text_part, texts,
    user,
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
    store.save_session(&kept, IfFull::Fails).await.unwrap();
    let over = ThreadRun { finished: Some(Time(2)), input: objects().pop(), ..run("ses_1", "run_2") };
    let under_way = ThreadRun { started: Some(Time(3)), label: Some("🦀".into()), ..run("ses_1", "run_1") };
    let runs = [over, under_way].map(Arc::new);
    for run in &runs {
        store.save_run(run, IfFull::Fails).await.unwrap();
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
        store.begin(&begun(&call.head), IfFull::Fails).await.unwrap();
        store.finish(call, IfFull::Fails).await.unwrap();
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
        assert_eq!(store.open_turns().await.unwrap().len(), 2);
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
        store.finish(&finished(head(&format!("r{round}"), "desk", "")), IfFull::Fails).await.unwrap();
        let newest: Vec<String> = (0..=round).rev().map(|round| format!("r{round}")).collect();
        assert_eq!(listed(&store).await, newest);
    }
}

#[tokio::test]
async fn a_message_goes_on_after_a_restart() {
    let scratch = Scratch::new();
    let mut message = user("ses_1", "msg_1");
    let store = sqlite(&scratch);
    store.save_session(&Arc::new(session("ses_1")), IfFull::Fails).await.unwrap();
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
    store.save_session(&Arc::new(session("ses_1")), IfFull::Fails).await.unwrap();
    store.save_run(&made, IfFull::Fails).await.unwrap();
    store.append_run_events(&made.session, &made.id, 0, events(&["a", "b"])).await.unwrap();
    drop(store);
    let store = sqlite(&scratch);
    store.append_run_events(&made.session, &made.id, 1, events(&["b", "c"])).await.unwrap();
    let over = Arc::new(ThreadRun { started: Some(Time(1)), finished: Some(Time(2)), ..ThreadRun::clone(&made) });
    store.save_run(&over, IfFull::Fails).await.unwrap();
    assert_eq!(texts(&store.run_events(&made.session, &made.id, 0).await.unwrap()), ["a", "b", "c"]);
    assert_eq!(seen_runs(&store.runs(&made.session).await.unwrap()), [seen_run(&over)]);
}

#[tokio::test]
async fn calls_that_were_under_way_are_under_way_after_a_restart() {
    let scratch = Scratch::new();
    let store = sqlite(&scratch);
    store.finish(&finished(head("over", "desk", "ses_1")), IfFull::Fails).await.unwrap();
    let spec = |version: &str| {
        let tool = Tool::remembered(client_id("desk"), Executor::Client, ToolName::parse("t").unwrap(), Effect::Read);
        let version = Some(version.to_owned());
        Arc::new(Tool { spec: ToolSpec { version, ..tool.spec }, ..tool })
    };
    let application = CallHead {
        origin: Origin::Application,
        connection: Some(ConnectionName::parse("window-1").unwrap()),
        tool: spec("1.2"),
        ..head("b", "desk", "ses_1")
    };
    let calls = [
        JournaledCall { offered: 3, claimant: Some("page 1".into()), ..begun(&Arc::new(application)) },
        begun(&Arc::new(head("a", "desk", "ses_1"))),
        JournaledCall {
            ask: Some((PermissionId::parse("per_1").unwrap(), Time(5))),
            ..begun(&Arc::new(head("c", "desk", "ses_1")))
        },
        JournaledCall { denied: Some("no".into()), ..begun(&Arc::new(head("d", "desk", "ses_1"))) },
    ];
    for call in &calls {
        store.begin(&begun(&call.head), IfFull::Fails).await.unwrap();
    }
    for call in &calls {
        store.begin(call, IfFull::Fails).await.unwrap();
    }
    drop(store);
    let store = sqlite(&scratch);
    assert_eq!(listed(&store).await, ["over"]);
    let seen = |call: &JournaledCall| {
        let outcome = Outcome::Disconnected;
        let version = call.head.tool.spec.version.clone();
        (
            seen_call(&ended(CallHead::clone(&call.head), outcome)),
            version,
            call.offered,
            call.ask.clone(),
            call.claimant.clone(),
            call.denied.clone(),
        )
    };
    let left = store.open_calls().await.unwrap();
    assert_eq!(left.iter().map(seen).collect::<Vec<_>>(), calls.iter().map(seen).collect::<Vec<_>>());
}

#[tokio::test]
async fn closing_does_what_was_accepted_and_takes_nothing_new() {
    let scratch = Scratch::new();
    let store = sqlite(&scratch);
    for number in 0..2_000 {
        drop(store.finish(&finished(head(&format!("r{number}"), "desk", "")), IfFull::Fails));
    }
    let store = Arc::new(store);
    // From a task of its own, as a server that shuts down may do it.
    let closing = JoinSet::from_iter([{
        let store = store.clone();
        async move { store.close().await }
    }]);
    closing.join_all().await.pop().unwrap().unwrap();
    let refused =
        store.begin(&begun(&Arc::new(head("late", "desk", ""))), IfFull::Fails).await.unwrap_err().to_string();
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
    let writes: Vec<_> = (0..1_000)
        .map(|number| store.begin(&begun(&Arc::new(head(&format!("r{number}"), "a", ""))), IfFull::Fails))
        .collect();
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
    store.begin(&begun(&Arc::new(head("under way", "desk", ""))), IfFull::Fails).await.unwrap();
    for number in 0..100 {
        store.finish(&finished(head(&format!("r{number}"), "desk", "")), IfFull::Fails).await.unwrap();
    }
    until("the oldest are deleted", async || listed(&store).await == newest(10)).await;
    assert!(store.finished(&request_id("r89")).await.unwrap().is_none());
    // A call under way is not finished, and does not count.
    store.finish(&finished(head("under way", "desk", "")), IfFull::Fails).await.unwrap();
    assert_eq!(listed(&store).await[0], "under way");
    drop(store);
    let store = open(3);
    // The oldest are deleted while the store is used.
    until("the oldest are deleted", async || listed(&store).await == ["under way", "r99", "r98"]).await;
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
        store.finish(&finished(head(&format!("r{number}"), "desk", "")), IfFull::Fails).await.unwrap();
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
        store.finish(&ended(head(&format!("r{number}"), "desk", ""), outcome), IfFull::Fails).await.unwrap();
    }
    until("the oldest are deleted", async || listed(&store).await == ["r49", "r48", "r47", "r46"]).await;
}

/// A store in memory has none: nobody could come back to them.
#[tokio::test]
async fn clients_and_their_tools_are_there_after_a_restart() {
    let scratch = Scratch::new();
    let store = sqlite(&scratch);
    let tool = |name: &str, text: &str| StoredTool {
        name: ToolName::parse(name).unwrap(),
        description: text.to_owned(),
        schema: objects().remove(1),
        timeout: Some(std::time::Duration::from_millis(1_500)),
        effect: Effect::Idempotent,
        version: Some(text.to_owned()),
        scope: Scope {
            everywhere: text.is_empty(),
            sessions: [session_id("ses_1")].into(),
            limited: [session_id("ses_2"), session_id("a")].into(),
        },
    };
    let client = |id: &str, since| StoredClient {
        id: client_id(id),
        since: Time(since),
        graces: vec![
            (None, std::time::Duration::from_secs(300)),
            (Some(session_id("ses_1")), std::time::Duration::from_secs(60)),
        ],
    };
    let changes = |tools: &[(&str, Option<&str>)]| -> Vec<_> {
        let change =
            |(name, text): &(&str, Option<&str>)| (ToolName::parse(name).unwrap(), text.map(|text| tool(name, text)));
        tools.iter().map(change).collect()
    };
    store.save_client(client("desk", 1), changes(&[("z", Some("1")), ("a", Some(""))])).await.unwrap();
    store.save_client(client("phone", 2), changes(&[("a", Some("it's \"mine\""))])).await.unwrap();
    store.save_client(client("watch", 3), changes(&[("a", Some("1"))])).await.unwrap();
    // What is replaced keeps its place, and a client goes with its last tool.
    store.save_client(client("desk", 1), changes(&[("m", Some("2")), ("z", Some("2")), ("q", None)])).await.unwrap();
    store.save_client(client("watch", 3), changes(&[("a", None)])).await.unwrap();
    store.save_client(client("phone", 9), Vec::new()).await.unwrap();
    store.save_client(client("nobody", 4), Vec::new()).await.unwrap();
    drop(store);
    let store = sqlite(&scratch);
    let seen = |clients: Vec<(StoredClient, Vec<StoredTool>)>| serde_json::to_string(&clients).unwrap();
    let expected = vec![
        (client("desk", 1), vec![tool("z", "2"), tool("a", ""), tool("m", "2")]),
        (client("phone", 9), vec![tool("a", "it's \"mine\"")]),
    ];
    assert_eq!(seen(store.clients().await.unwrap()), seen(expected));
}

#[tokio::test]
async fn the_id_of_a_call_that_is_no_longer_kept_is_not_free_for_a_day() {
    let scratch = Scratch::new();
    let open = |calls| Sqlite::open(&scratch.join("handback.db"), Bounds { calls, ..Bounds::default() }).unwrap();
    let store = open(2);
    for id in ["one", "two", "three", "four"] {
        store.finish(&finished(head(id, "desk", "")), IfFull::Fails).await.unwrap();
    }
    drop(store);
    let store = open(2);
    assert_eq!(listed(&store).await, ["four", "three"]);
    let begin = async |store: &Sqlite, id: &str| {
        store.begin(&begun(&Arc::new(head(id, "desk", ""))), IfFull::Fails).await.unwrap()
    };
    assert!(matches!(begin(&store, "one").await, Begun::Gone));
    assert!(matches!(begin(&store, "four").await, Begun::Before(_)));
    assert!(matches!(begin(&store, "five").await, Begun::New));
    assert_eq!(store.open_calls().await.unwrap().len(), 1);
    // The day may end while the server runs.
    let other = Connection::open(scratch.join("handback.db")).unwrap();
    other.execute("UPDATE forgotten_call SET since = since - 86500000 WHERE request = 'one'", []).unwrap();
    assert!(matches!(begin(&store, "one").await, Begun::New));
    assert!(matches!(begin(&store, "two").await, Begun::Gone));
}

#[tokio::test]
async fn the_id_of_a_call_that_was_deleted_with_its_session_is_not_free_for_a_day() {
    let scratch = Scratch::new();
    let store = sqlite(&scratch);
    store.finish(&finished(head("one", "desk", "ses_1")), IfFull::Fails).await.unwrap();
    store.delete_session(&session_id("ses_1")).await.unwrap();
    assert_eq!(listed(&store).await, [""; 0]);
    let begun = store.begin(&begun(&Arc::new(head("one", "desk", ""))), IfFull::Fails).await.unwrap();
    assert!(matches!(begun, Begun::Gone));
}

#[tokio::test]
async fn calls_are_kept_for_so_long() {
    let scratch = Scratch::new();
    let week = std::time::Duration::from_hours(7 * 24);
    let open = |call_age| Sqlite::open(&scratch.join("handback.db"), Bounds { call_age, ..Bounds::default() }).unwrap();
    let store = open(week);
    for id in ["old", "young"] {
        store.finish(&finished(head(id, "desk", "")), IfFull::Fails).await.unwrap();
    }
    drop(store);
    let other = Connection::open(scratch.join("handback.db")).unwrap();
    other.execute("UPDATE call SET ended_at = ended_at - 604810000 WHERE request = 'old'", []).unwrap();
    drop(other);
    assert_eq!(listed(&open(week * 2)).await, ["young", "old"]);
    let store = open(week);
    until("the old one is deleted", async || listed(&store).await == ["young"]).await;
}
