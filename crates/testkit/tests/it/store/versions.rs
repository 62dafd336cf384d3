//! Files of earlier versions: what servers of that time wrote is read by this one.

use std::path::Path;
use std::sync::Arc;

use handback_core::store::{
    CallFilter, CallStore, Cancellation, FinishedCall, IfFull, Message, Most, Outcome, Phases, Role, RunStore, Session,
    SessionFilter, SessionStore, Usage,
};
use handback_testkit::Scratch;
use handback_testkit::store_contract::samples::{
    assistant, calls_of, client_id, ended, events, head, model, outcomes, parts, raw, run, seen_calls, seen_messages,
    seen_run, seen_runs, seen_sessions, session, session_id, texts, user,
};
use rusqlite::Connection;

use super::sqlite;

/// What is in the file of version 1: some of everything, with one call under way.
struct Contents {
    sessions: Vec<Arc<Session>>,
    messages: Vec<Arc<Message>>,
    calls: Vec<Arc<FinishedCall>>,
}

impl Contents {
    fn of_version_1() -> Self {
        let full = Session {
            client: Some(client_id("desk")),
            title: "A title".into(),
            parent: Some(session_id("ses_0")),
            agent: Some("default".into()),
            model: Some(model()),
            metadata: Some(raw(r#"{ "kept": [1.50, "as it is"] }"#)),
            approved: ["client_desk_open_file".to_owned()].into(),
            ..session("ses_2")
        };
        // The deep ones would make the file large, and line breaks in it might be changed by whoever edits it.
        let is_handy = |text: &str| text.len() < 1_000 && !text.contains(['\r', '\n']);
        let parts = parts().into_iter().filter(|part| is_handy(&serde_json::to_string(part).unwrap())).collect();
        let mut answer = Message { parts, ..assistant("ses_2", "msg_1", "msg_2") };
        if let Role::Assistant(said) = &mut answer.role {
            // That version did not tell "none" from "not said".
            let usage = Usage { reasoning: Some(0), cache_read: Some(0), cache_write: Some(0), ..Usage::default() };
            said.usage = usage;
        }
        let outcomes = outcomes().into_iter().filter(|outcome| is_handy(&format!("{outcome:?}"))).enumerate();
        let calls = outcomes.map(|(number, outcome)| ended(head(&format!("r{number}"), "desk", "ses_2"), outcome));
        let mut asked = user("ses_2", "msg_2");
        if let Role::User(said) = &mut asked.role {
            said.turn = None;
        }
        Self {
            sessions: vec![Arc::new(full), Arc::new(session("ses_1"))],
            messages: vec![Arc::new(asked), Arc::new(answer)],
            calls: calls.map(|call| Arc::new(FinishedCall { ask: None, ..Arc::into_inner(call).unwrap() })).collect(),
        }
    }
}

fn schema(path: &Path) -> Vec<(String, Option<String>)> {
    let connection = Connection::open(path).unwrap();
    let mut statement = connection.prepare("SELECT name, sql FROM sqlite_schema ORDER BY name").unwrap();
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
    rows.collect::<Result<_, _>>().unwrap()
}

#[tokio::test]
async fn a_file_of_version_1_is_read() {
    let scratch = Scratch::new();
    let path = scratch.join("handback.db");
    Connection::open(&path).unwrap().execute_batch(include_str!("version-1.sql")).unwrap();
    let Contents { sessions, messages, mut calls } = Contents::of_version_1();
    let left = FinishedCall {
        head: Arc::new(head("under way", "desk", "ses_2")),
        attempt: 1,
        may_have_run: true,
        ask: None,
        phases: Phases::default(),
        outcome: Outcome::Cancelled(Cancellation::Requested("The server was restarted".into())),
        claimant: None,
        late: None,
    };
    calls.push(Arc::new(left));
    calls.reverse();

    let store = sqlite(&scratch);
    assert_eq!(
        seen_sessions(&store.list_sessions(&SessionFilter::default(), None, Most::items(10)).await.unwrap().items),
        seen_sessions(&sessions)
    );
    // One of them names no agent.
    for (agent, expected) in [("default", &sessions[..]), ("other", &[])] {
        let of_agent = SessionFilter { client: None, agent: Some(agent.into()), parent: None };
        assert_eq!(
            seen_sessions(&store.list_sessions(&of_agent, None, Most::items(10)).await.unwrap().items),
            seen_sessions(expected)
        );
    }
    assert_eq!(seen_messages(&store.messages(&session_id("ses_2")).await.unwrap()), seen_messages(&messages));
    assert_eq!(seen_messages(&store.open_turns().await.unwrap()), seen_messages(&messages[1..]));
    let list = calls_of(store.list_finished(&CallFilter::default(), None, Most::items(1_000)).await.unwrap());
    assert_eq!(seen_calls(&list), seen_calls(&calls));
    let usage = store.usage(Some(&client_id("desk"))).await.unwrap();
    assert_eq!(usage.client_sessions, 1);
    assert!(usage.client_bytes > 1_000 && usage.bytes > usage.client_bytes, "{usage:?}");
    // And what is new in this version can be kept there.
    let made = Arc::new(run("ses_2", "run_1"));
    store.save_run(&made, IfFull::Fails).await.unwrap();
    store.append_run_events(&made.session, &made.id, 0, events(&["a"])).await.unwrap();
    assert_eq!(seen_runs(&store.runs(&made.session).await.unwrap()), [seen_run(&made)]);
    assert_eq!(texts(&store.run_events(&made.session, &made.id, 0).await.unwrap()), ["a"]);
    drop(store);

    let new = Scratch::new();
    drop(sqlite(&new));
    assert_eq!(schema(&path), schema(&new.join("handback.db")));
}
