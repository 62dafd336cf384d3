//! Sessions.

use std::collections::BTreeSet;
use std::sync::Arc;

use handback_core::clock::Time;
use handback_core::store::{CallFilter, IfFull, Most, Session, SessionFilter, SessionPlace, Store};

use super::samples::{
    TEXTS, assistant, begun, calls_of, client_id, finished, head, model, objects, raw, request_id, seen_call,
    seen_calls, seen_messages, seen_session, seen_sessions, session, session_id, user,
};

async fn keep(store: &Arc<dyn Store>, session: Session) -> Arc<Session> {
    let session = Arc::new(session);
    store.save_session(&session, IfFull::Fails).await.unwrap();
    session
}

async fn found(store: &Arc<dyn Store>, id: &str) -> Option<String> {
    store.session(&session_id(id)).await.unwrap().as_deref().map(seen_session)
}

async fn listed(store: &Arc<dyn Store>, client: Option<&str>, most: usize) -> Vec<String> {
    let filter = SessionFilter { client: client.map(client_id), agent: None, parent: None };
    ids(&store.list_sessions(&filter, None, Most::items(most)).await.unwrap().items)
}

fn ids(sessions: &[Arc<Session>]) -> Vec<String> {
    sessions.iter().map(|session| session.id.to_string()).collect()
}

async fn messages(store: &Arc<dyn Store>, id: &str) -> Vec<String> {
    seen_messages(&store.messages(&session_id(id)).await.unwrap())
}

/// Every field, with and without something in it.
pub async fn a_session_is_kept_as_it_was(store: Arc<dyn Store>) {
    let mut sessions = vec![session("bare"), session("it's \"quoted\" 🦀 ' --"), session("")];
    let times = Session { created: Time(0), updated: Time(u64::MAX), ..session("times") };
    sessions.push(times);
    for (number, text) in TEXTS.into_iter().enumerate() {
        let id = format!("text {number}");
        sessions.push(Session {
            client: Some(client_id("desk")),
            title: text.into(),
            parent: Some(session_id("bare")),
            agent: Some(text.into()),
            model: Some(model()),
            approved: BTreeSet::from(["client_desk_open".into(), text.into()]),
            ..session(&id)
        });
    }
    for (number, object) in objects().into_iter().enumerate() {
        sessions.push(Session { metadata: Some(object), ..session(&format!("object {number}")) });
    }
    let mut kept = Vec::new();
    for session in sessions {
        kept.push(keep(&store, session).await);
    }
    for session in &kept {
        assert_eq!(found(&store, session.id.as_str()).await, Some(seen_session(session)));
    }
    kept.sort_by(|one, other| (other.updated, &other.id).cmp(&(one.updated, &one.id)));
    let list = store.list_sessions(&SessionFilter::default(), None, Most::items(1_000)).await.unwrap().items;
    assert_eq!(seen_sessions(&list), seen_sessions(&kept));
}

/// What is saved again is one session still.
pub async fn a_session_is_replaced_and_keeps_its_messages(store: Arc<dyn Store>) {
    let before = Session { client: Some(client_id("desk")), metadata: Some(raw("{}")), ..session("ses_1") };
    keep(&store, before).await;
    let message = Arc::new(user("ses_1", "msg_1"));
    store.save_message(&message).await.unwrap();
    let after = Session { title: "after".into(), updated: Time(9), ..session("ses_1") };
    let after = keep(&store, after).await;
    assert_eq!(found(&store, "ses_1").await, Some(seen_session(&after)));
    assert_eq!(listed(&store, None, 10).await, ["ses_1"]);
    assert_eq!(listed(&store, Some("desk"), 10).await, [""; 0]);
    assert_eq!(messages(&store, "ses_1").await, seen_messages(&[message]));
}

/// Of those updated at the same time the one with the greater id comes first.
pub async fn the_sessions_that_were_updated_last_are_listed_first(store: Arc<dyn Store>) {
    for (id, updated) in [("c", 5), ("a", 7), ("b", 5), ("d", 6), ("e", 1)] {
        keep(&store, Session { updated: Time(updated), ..session(id) }).await;
    }
    assert_eq!(listed(&store, None, 10).await, ["a", "d", "c", "b", "e"]);
    keep(&store, Session { updated: Time(8), ..session("e") }).await;
    keep(&store, Session { updated: Time(2), ..session("a") }).await;
    let newest = ["e", "d", "c", "b", "a"];
    for most in 0..=5 {
        assert_eq!(listed(&store, None, most).await, newest[..most]);
    }
    assert_eq!(listed(&store, None, usize::MAX).await, newest);
}

/// A session without a client is nobody's.
pub async fn sessions_are_listed_by_client(store: Arc<dyn Store>) {
    let of = |id: &str, client: &str, updated| Session {
        client: Some(client_id(client)),
        updated: Time(updated),
        ..session(id)
    };
    for session in [of("a", "desk", 1), of("b", "phone", 2), of("c", "desk", 3), session("d")] {
        keep(&store, session).await;
    }
    assert_eq!(listed(&store, Some("desk"), 10).await, ["c", "a"]);
    assert_eq!(listed(&store, Some("desk"), 1).await, ["c"]);
    assert_eq!(listed(&store, Some("desk"), 0).await, [""; 0]);
    assert_eq!(listed(&store, Some("phone"), 10).await, ["b"]);
    assert_eq!(listed(&store, Some("watch"), 10).await, [""; 0]);
    keep(&store, of("b", "desk", 2)).await;
    assert_eq!(listed(&store, Some("desk"), 10).await, ["c", "b", "a"]);
    assert_eq!(listed(&store, Some("phone"), 10).await, [""; 0]);
}

/// By exactly the agent that answers, with and without a client, and as a session was last saved.
pub async fn sessions_are_listed_by_agent(store: Arc<dyn Store>) {
    let of = |id: &str, agent: &str, client: Option<&str>, updated| Session {
        agent: Some(agent.into()),
        client: client.map(client_id),
        updated: Time(updated),
        ..session(id)
    };
    for session in [
        of("a", "chef", None, 1),
        of("b", "chef", Some("desk"), 5),
        of("c", "chef", Some("phone"), 3),
        of("d", "", Some("desk"), 4),
        of("e", "Chef", Some("desk"), 2),
        of("f", "chef ", Some("desk"), 6),
        of("g", "chef", Some("desk"), 0),
        Session { client: Some(client_id("desk")), updated: Time(7), ..session("h") },
    ] {
        keep(&store, session).await;
    }
    let cases: [(Option<&str>, Option<&str>, &[&str]); 9] = [
        (None, None, &["h", "f", "b", "d", "c", "e", "a", "g"]),
        (Some("chef"), None, &["b", "c", "a", "g"]),
        (Some(""), None, &["d"]),
        // A caller that names no agent gets that one.
        (Some("default"), None, &["h"]),
        (Some("nobody"), None, &[]),
        (None, Some("desk"), &["h", "f", "b", "d", "e", "g"]),
        (Some("chef"), Some("desk"), &["b", "g"]),
        (Some("chef"), Some("phone"), &["c"]),
        (Some("Chef"), Some("phone"), &[]),
    ];
    for (agent, client, expected) in cases {
        let filter = SessionFilter { client: client.map(client_id), agent: agent.map(Into::into), parent: None };
        for most in [0, 1, 2, 10, usize::MAX] {
            let listed = ids(&store.list_sessions(&filter, None, Most::items(most)).await.unwrap().items);
            assert_eq!(listed, expected[..expected.len().min(most)], "{filter:?}, at most {most}");
        }
    }
    keep(&store, of("b", "waiter", Some("desk"), 5)).await;
    keep(&store, session("c")).await;
    let chef = SessionFilter { client: None, agent: Some("chef".into()), parent: None };
    assert_eq!(ids(&store.list_sessions(&chef, None, Most::items(10)).await.unwrap().items), ["a", "g"]);
}

/// With or without a client and an agent.
pub async fn sessions_are_listed_by_the_one_they_came_from(store: Arc<dyn Store>) {
    keep(&store, session("root")).await;
    for (number, (id, parent, client, agent)) in [
        ("a", Some("root"), Some("desk"), None),
        ("b", Some("root"), None, Some("chef")),
        ("c", None, Some("desk"), Some("chef")),
        ("d", Some("gone"), None, None),
        ("e", Some("root"), Some("desk"), Some("chef")),
    ]
    .into_iter()
    .enumerate()
    {
        let (client, agent, updated) = (client.map(client_id), agent.map(Into::into), Time(number as u64));
        let parent = parent.map(session_id);
        keep(&store, Session { parent, client, agent, updated, ..session(id) }).await;
    }
    let filter = |parent: &str, client: Option<&str>, agent: Option<&str>| SessionFilter {
        client: client.map(client_id),
        agent: agent.map(Into::into),
        parent: Some(session_id(parent)),
    };
    for (filter, expected) in [
        (filter("root", None, None), vec!["e", "b", "a"]),
        (filter("root", Some("desk"), None), vec!["e", "a"]),
        (filter("root", None, Some("chef")), vec!["e", "b"]),
        (filter("root", Some("desk"), Some("chef")), vec!["e"]),
        (filter("gone", None, None), vec!["d"]),
        (filter("a", None, None), vec![]),
    ] {
        let found = store.list_sessions(&filter, None, Most::items(10)).await.unwrap();
        assert_eq!(ids(&found.items), expected, "{filter:?}");
        let first = store.list_sessions(&filter, None, Most::items(1)).await.unwrap();
        let after = first.items.last().map(|last| SessionPlace::from(&**last));
        let rest = store.list_sessions(&filter, after.as_ref(), Most::items(10)).await.unwrap();
        assert_eq!(ids(&rest.items), expected[expected.len().min(1)..], "{filter:?}");
    }
}

/// Nothing is skipped or repeated, whatever the size of a page, and although sessions come and go.
pub async fn sessions_are_paged_through_while_others_are_made(store: Arc<dyn Store>) {
    let of = |number: u64, updated| {
        let client = number.is_multiple_of(2).then(|| client_id("desk"));
        Session { client, updated: Time(updated), agent: Some("chef".into()), ..session(&format!("ses_{number:02}")) }
    };
    for number in 0..20 {
        // Several at a time.
        keep(&store, of(number, 100 + number / 3)).await;
    }
    let desk = SessionFilter { client: Some(client_id("desk")), agent: None, parent: None };
    let chef = SessionFilter { client: None, agent: Some("chef".into()), parent: None };
    let both = SessionFilter { client: Some(client_id("desk")), agent: Some("chef".into()), parent: None };
    for filter in [SessionFilter::default(), desk, chef, both] {
        let whole = store.list_sessions(&filter, None, Most::items(100)).await.unwrap();
        assert!(!whole.has_more);
        let whole = ids(&whole.items);
        for most in [1, 2, 3, 7, 10, 20] {
            let (mut seen, mut after, mut pages) = (Vec::new(), None, 0);
            loop {
                let page = store.list_sessions(&filter, after.as_ref(), Most::items(most)).await.unwrap();
                assert!(page.items.len() == most || !page.has_more, "{filter:?}, {most} at a time");
                seen.extend(ids(&page.items));
                let Some(last) = page.items.last().filter(|_| page.has_more) else { break };
                after = Some(SessionPlace::from(&**last));
                // What is newer is on no later page.
                pages += 1;
                keep(&store, of(100 + pages, 1_000)).await;
            }
            assert_eq!(seen, whole, "{filter:?}, {most} at a time");
            for page in 0..=pages {
                store.delete_session(&of(100 + page, 0).id).await.unwrap();
            }
        }
    }
    // The place counts, whether or not something is there.
    let gone = SessionPlace::from(&of(10, 103));
    store.delete_session(&gone.id).await.unwrap();
    let rest = store.list_sessions(&SessionFilter::default(), Some(&gone), Most::items(3)).await.unwrap();
    assert_eq!((ids(&rest.items), rest.has_more), (["ses_09", "ses_08", "ses_07"].map(str::to_owned).to_vec(), true));
    // A page has so many bytes at most, but one session at least.
    let metadata = Some(raw(&format!("{{\"a\":\"{}\"}}", "x".repeat(10_000))));
    for number in 30..33 {
        keep(&store, Session { metadata: metadata.clone(), ..of(number, 2_000 + number) }).await;
    }
    for (bytes, expected) in [(1, 1), (15_000, 1), (25_000, 2), (34_000, 3)] {
        let most = Most { items: 100, bytes };
        let page = store.list_sessions(&SessionFilter::default(), None, most).await.unwrap();
        assert_eq!((page.items.len(), page.has_more), (expected, true), "{bytes} bytes");
    }
}

/// But what belongs to others stays, and so does a call that is under way.
pub async fn a_deleted_session_takes_its_messages_and_finished_calls_along(store: Arc<dyn Store>) {
    for id in ["ses_1", "ses_2"] {
        keep(&store, session(id)).await;
        store.save_message(&Arc::new(user(id, "msg_1"))).await.unwrap();
        store.save_message(&Arc::new(assistant(id, "msg_2", "msg_1"))).await.unwrap();
    }
    let calls = [("r1", "ses_1"), ("r2", "ses_2"), ("r3", "ses_1"), ("r4", ""), ("r5", "elsewhere")];
    let calls = calls.map(|(id, session)| finished(head(id, "desk", session)));
    for call in &calls {
        store.begin(&begun(&call.head), IfFull::Fails).await.unwrap();
        store.finish(call, IfFull::Fails).await.unwrap();
    }
    let under_way = finished(head("r6", "desk", "ses_1"));
    store.begin(&begun(&under_way.head), IfFull::Fails).await.unwrap();

    assert!(store.delete_session(&session_id("ses_1")).await.unwrap());
    assert_eq!(found(&store, "ses_1").await, None);
    assert_eq!(listed(&store, None, 10).await, ["ses_2"]);
    assert_eq!(messages(&store, "ses_1").await, [""; 0]);
    assert_eq!(messages(&store, "ses_2").await.len(), 2);
    let left = store.open_turns().await.unwrap();
    assert_eq!(seen_messages(&left), seen_messages(&[Arc::new(user("ses_2", "msg_1"))]));
    assert!(store.finished(&request_id("r1")).await.unwrap().is_none());
    let list = calls_of(store.list_finished(&CallFilter::default(), None, Most::items(10)).await.unwrap());
    assert_eq!(seen_calls(&list), [seen_call(&calls[4]), seen_call(&calls[3]), seen_call(&calls[1])]);
    store.finish(&under_way, IfFull::Fails).await.unwrap();
    let found = store.finished(&under_way.head.request).await.unwrap();
    assert_eq!(found.as_deref().map(seen_call), Some(seen_call(&under_way)));

    // What came after it was deleted goes with a second time, and so do the calls of a session that is not kept here.
    assert!(!store.delete_session(&session_id("ses_1")).await.unwrap());
    assert!(store.finished(&under_way.head.request).await.unwrap().is_none());
    assert!(store.finished(&request_id("r5")).await.unwrap().is_some());
    assert!(!store.delete_session(&session_id("elsewhere")).await.unwrap());
    assert!(store.finished(&request_id("r5")).await.unwrap().is_none());
}

/// Nothing of the old one comes back, and nothing is missing in the new one that was in the old one, too.
pub async fn a_session_can_be_made_anew_after_it_was_deleted(store: Arc<dyn Store>) {
    let message = Arc::new(user("ses_1", "msg_1"));
    for round in 0..3 {
        keep(&store, session("ses_1")).await;
        assert_eq!(messages(&store, "ses_1").await, [""; 0], "round {round}");
        store.save_message(&message).await.unwrap();
        assert_eq!(messages(&store, "ses_1").await, seen_messages(std::slice::from_ref(&message)), "round {round}");
        assert!(store.delete_session(&session_id("ses_1")).await.unwrap());
    }
}

/// Neither an error nor something else.
pub async fn what_is_unknown_is_not_there(store: Arc<dyn Store>) {
    assert_eq!(found(&store, "ses_1").await, None);
    assert_eq!(messages(&store, "ses_1").await, [""; 0]);
    assert_eq!(listed(&store, None, 10).await, [""; 0]);
    assert!(!store.delete_session(&session_id("ses_1")).await.unwrap());
    assert!(store.open_turns().await.unwrap().is_empty());
    assert!(store.finished(&request_id("r1")).await.unwrap().is_none());
    assert!(store.list_finished(&CallFilter::default(), None, Most::items(10)).await.unwrap().items.is_empty());
}
