//! The journal of calls.

use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use handback_core::id::{CallId, ClientId, ConnectionName, MessageId, ToolName};
use handback_core::store::{
    Begun, CallFilter, CallHead, Effect, Ended, Executor, FinishedCall, IfFull, JournaledCall, Most, Origin, Outcome,
    Phases, Store, Tool,
};

use super::samples::{
    SeenCall, acks, begun, calls_of, client_id, ended, finished, head, objects, outcomes, raw, request_id, seen_call,
    seen_calls, session_id,
};

/// Begins and ends a call.
async fn keep(store: &Arc<dyn Store>, call: &Arc<FinishedCall>) {
    let claimed = JournaledCall { claimant: call.claimant.clone(), ..begun(&call.head) };
    store.begin(&claimed, IfFull::Fails).await.unwrap();
    store.finish(call, IfFull::Fails).await.unwrap();
}

async fn found(store: &Arc<dyn Store>, call: &FinishedCall) -> Option<SeenCall> {
    store.finished(&call.head.request).await.unwrap().as_deref().map(seen_call)
}

async fn listed(store: &Arc<dyn Store>, filter: &CallFilter, most: usize) -> Vec<String> {
    let calls = calls_of(store.list_finished(filter, None, Most::items(most)).await.unwrap());
    calls.iter().map(|call| call.head.request.to_string()).collect()
}

/// Every outcome, and everything that was asked, alone and in a list.
pub async fn a_call_is_kept_as_it_was(store: Arc<dyn Store>) {
    let mut calls: Vec<Arc<FinishedCall>> = Vec::new();
    for (number, outcome) in outcomes().into_iter().chain(acks()).enumerate() {
        calls.push(ended(head(&format!("outcome {number}"), "desk", "ses_1"), outcome));
    }
    for effect in [Effect::Read, Effect::Idempotent, Effect::Write] {
        let name = ToolName::parse("a.b:c@d-e_f").unwrap();
        let tool = Arc::new(Tool::remembered(client_id("a.b:c@d-e_f"), Executor::Client, name, effect));
        calls.push(finished(CallHead { tool, ..head(&format!("{effect:?}"), "desk", "ses_1") }));
    }
    for (number, client) in [client_id("desk"), ClientId::from(&session_id("chat 7/é"))].into_iter().enumerate() {
        let name = ToolName::parse("open-url").unwrap();
        let tool = Arc::new(Tool::remembered(client, Executor::Frontend, name, Effect::Write));
        calls.push(finished(CallHead { tool, ..head(&format!("frontend {number}"), "desk", "chat 7/é") }));
    }
    let nowhere = CallHead {
        message: MessageId::parse("").unwrap(),
        call: CallId::parse("").unwrap(),
        timeout: Duration::ZERO,
        created: UNIX_EPOCH,
        deadline: UNIX_EPOCH + Duration::from_nanos(1),
        ..head("it's \"quoted\" 🦀 ' --", "desk", "")
    };
    let phases = Phases { approval: Duration::MAX, queue: Duration::ZERO, execute: Duration::from_nanos(1) };
    let (asked, outcome) = (Arc::new(nowhere), Outcome::Disconnected);
    let (attempt, may_have_run, ask) = (u32::MAX, false, None);
    let (claimant, late) = (Some("tab \"1\"".into()), None);
    calls.push(Arc::new(FinishedCall { head: asked, attempt, may_have_run, ask, phases, outcome, claimant, late }));
    let (origin, connection) = (Origin::Application, Some(ConnectionName::parse("window-1").unwrap()));
    calls.push(finished(CallHead { origin, connection, ..head("asked for", "desk", "") }));

    for call in &calls {
        keep(&store, call).await;
    }
    for call in &calls {
        assert_eq!(found(&store, call).await, Some(seen_call(call)));
    }
    let list = calls_of(store.list_finished(&CallFilter::default(), None, Most::items(calls.len())).await.unwrap());
    calls.reverse();
    assert_eq!(seen_calls(&list), seen_calls(&calls));
}

/// Inputs are passed on exactly as they came, however deep.
pub async fn the_json_of_a_call_is_kept_to_the_byte(store: Arc<dyn Store>) {
    for (number, input) in objects().into_iter().enumerate() {
        let call = finished(CallHead { input, ..head(&format!("r{number}"), "desk", "ses_1") });
        keep(&store, &call).await;
        assert_eq!(found(&store, &call).await, Some(seen_call(&call)));
    }
}

/// Whoever allows a call may change its input, and its time starts then.
pub async fn a_call_that_is_changed_under_way_is_kept_as_it_was_in_the_end(store: Arc<dyn Store>) {
    let asked = Arc::new(head("r1", "desk", "ses_1"));
    store.begin(&begun(&asked), IfFull::Fails).await.unwrap();
    let changed = objects().remove(0);
    let allowed =
        CallHead { input: changed, deadline: asked.deadline + Duration::from_secs(60), ..CallHead::clone(&asked) };
    let call = finished(allowed);
    keep(&store, &call).await;
    assert_eq!(found(&store, &call).await, Some(seen_call(&call)));
    assert_eq!(listed(&store, &CallFilter::default(), 10).await, ["r1"]);
}

/// What has only begun is in no list.
pub async fn a_call_under_way_is_not_finished(store: Arc<dyn Store>) {
    let call = finished(head("r1", "desk", "ses_1"));
    store.begin(&begun(&call.head), IfFull::Fails).await.unwrap();
    assert_eq!(found(&store, &call).await, None);
    assert_eq!(listed(&store, &CallFilter::default(), 10).await, [""; 0]);
    store.finish(&call, IfFull::Fails).await.unwrap();
    assert_eq!(found(&store, &call).await, Some(seen_call(&call)));
}

/// Its beginning may have failed to be written.
pub async fn a_call_can_be_finished_that_was_never_begun(store: Arc<dyn Store>) {
    let call = finished(head("r1", "desk", "ses_1"));
    store.finish(&call, IfFull::Fails).await.unwrap();
    assert_eq!(found(&store, &call).await, Some(seen_call(&call)));
}

/// A call may be cancelled while its beginning is on its way.
pub async fn a_beginning_that_comes_after_the_end_changes_nothing(store: Arc<dyn Store>) {
    let call = finished(head("r1", "desk", "ses_1"));
    store.finish(&call, IfFull::Fails).await.unwrap();
    for _ in 0..2 {
        store.begin(&begun(&call.head), IfFull::Fails).await.unwrap();
        assert_eq!(found(&store, &call).await, Some(seen_call(&call)));
        assert_eq!(listed(&store, &CallFilter::default(), 10).await, ["r1"]);
    }
}

/// Whoever made the first call may be asking again.
pub async fn an_id_that_was_used_names_the_first_call_for_as_long_as_it_is_kept(store: Arc<dyn Store>) {
    let first = finished(head("r1", "desk", "ses_1"));
    assert!(matches!(store.begin(&begun(&first.head), IfFull::Fails).await.unwrap(), Begun::New));
    assert!(matches!(store.begin(&begun(&first.head), IfFull::Fails).await.unwrap(), Begun::New), "it is only changed");
    store.finish(&first, IfFull::Fails).await.unwrap();
    for other in [head("r1", "phone", "ses_2"), head("r1", "desk", "ses_1")] {
        match store.begin(&begun(&Arc::new(other)), IfFull::Fails).await.unwrap() {
            Begun::Before(known) => assert_eq!(seen_call(&known), seen_call(&first)),
            begun => panic!("{begun:?}"),
        }
        store.finish(&ended(head("r1", "phone", "ses_2"), Outcome::Disconnected), IfFull::Fails).await.unwrap();
        assert_eq!(listed(&store, &CallFilter::default(), 10).await, ["r1"]);
        assert_eq!(found(&store, &first).await, Some(seen_call(&first)));
    }
}

/// Whoever ends a call learns whether that counts, and what counts if not.
pub async fn the_first_end_of_a_call_counts(store: Arc<dyn Store>) {
    let begun_call = Arc::new(head("r1", "desk", "ses_1"));
    store.begin(&begun(&begun_call), IfFull::Fails).await.unwrap();
    let (first, other) =
        (finished(head("r1", "desk", "ses_1")), ended(head("r1", "desk", "ses_1"), Outcome::Disconnected));
    // Even when both are on their way.
    let (one, two) = (store.finish(&first, IfFull::Fails), store.finish(&other, IfFull::Waits));
    assert!(matches!(two.await.unwrap(), Ended::Before(before) if seen_call(&before) == seen_call(&first)));
    assert!(matches!(one.await.unwrap(), Ended::First));
    // Whoever does not know whether an end was written writes it again.
    assert!(matches!(store.finish(&first, IfFull::Fails).await.unwrap(), Ended::First));
    store.keep_late(&first.head.request, Outcome::Error("late".into())).await.unwrap();
    assert!(matches!(store.finish(&first, IfFull::Fails).await.unwrap(), Ended::First));
    assert_eq!(listed(&store, &CallFilter::default(), 10).await, ["r1"]);
}

/// The order is that of the ends, not of the beginnings.
pub async fn the_calls_that_ended_last_are_listed_first(store: Arc<dyn Store>) {
    let calls: Vec<_> = ["b", "c", "a", "d"].map(|id| finished(head(id, "desk", "ses_1"))).into();
    for call in &calls {
        store.begin(&begun(&call.head), IfFull::Fails).await.unwrap();
    }
    for place in [2, 0, 3, 1] {
        store.finish(&calls[place], IfFull::Fails).await.unwrap();
    }
    let newest = ["c", "d", "b", "a"];
    let all = CallFilter::default();
    for most in 0..=4 {
        assert_eq!(listed(&store, &all, most).await, newest[..most]);
    }
    for most in [5, 1_000, usize::MAX] {
        assert_eq!(listed(&store, &all, most).await, newest);
    }
}

/// By one of them, by both, and by what is not there.
pub async fn calls_are_listed_by_client_and_session(store: Arc<dyn Store>) {
    for (number, (client, session)) in
        [("desk", "ses_1"), ("phone", "ses_1"), ("desk", "ses_2"), ("phone", ""), ("desk", "ses_1"), ("desk", "")]
            .into_iter()
            .enumerate()
    {
        keep(&store, &finished(head(&format!("r{number}"), client, session))).await;
    }
    let cases: [(Option<&str>, Option<&str>, &[&str]); 10] = [
        (None, None, &["r5", "r4", "r3", "r2", "r1", "r0"]),
        (Some("desk"), None, &["r5", "r4", "r2", "r0"]),
        (Some("phone"), None, &["r3", "r1"]),
        (None, Some("ses_1"), &["r4", "r1", "r0"]),
        (None, Some(""), &["r5", "r3"]),
        (Some("desk"), Some("ses_1"), &["r4", "r0"]),
        (Some("phone"), Some(""), &["r3"]),
        (Some("phone"), Some("ses_2"), &[]),
        (Some("watch"), None, &[]),
        (None, Some("ses_3"), &[]),
    ];
    for (client, session, expected) in cases {
        let filter = CallFilter { client: client.map(client_id), session: session.map(session_id) };
        assert_eq!(listed(&store, &filter, 10).await, expected, "{filter:?}");
        assert_eq!(listed(&store, &filter, 1).await, expected[..expected.len().min(1)], "{filter:?}");
    }
    assert!(store.finished(&request_id("r6")).await.unwrap().is_none());
}

/// Nothing is skipped or repeated, whatever the size of a page.
pub async fn calls_are_paged_through_while_others_end(store: Arc<dyn Store>) {
    for number in 0..20 {
        let (client, session) = (["desk", "phone"][number % 2], ["ses_1", "ses_2", "ses_3"][number % 3]);
        keep(&store, &finished(head(&format!("r{number:02}"), client, session))).await;
    }
    let (client, session) = (Some(client_id("desk")), Some(session_id("ses_1")));
    let filters = [
        CallFilter::default(),
        CallFilter { client: client.clone(), session: None },
        CallFilter { client: None, session: session.clone() },
        CallFilter { client, session },
    ];
    let mut others = 0;
    for filter in filters {
        for most in [1, 2, 3, 7, 10, 20] {
            let whole = listed(&store, &filter, 1_000).await;
            let (mut seen, mut before) = (Vec::new(), None);
            loop {
                let page = store.list_finished(&filter, before, Most::items(most)).await.unwrap();
                assert!(page.items.len() == most || !page.has_more, "{filter:?}, {most} at a time");
                before = page.items.last().map(|(number, _)| *number).filter(|_| page.has_more);
                seen.extend(calls_of(page).iter().map(|call| call.head.request.to_string()));
                if before.is_none() {
                    break;
                }
                if seen.len() == most {
                    // What ends later is on no later page.
                    others += 1;
                    keep(&store, &finished(head(&format!("other {others}"), "desk", "ses_1"))).await;
                }
            }
            assert_eq!(seen, whole, "{filter:?}, {most} at a time");
        }
    }
    // A page has so many bytes at most, but one call at least.
    let input = format!("{{\"a\":\"{}\"}}", "x".repeat(10_000));
    for number in 0..4 {
        let input = raw(&input);
        keep(&store, &finished(CallHead { input, ..head(&format!("large {number}"), "desk", "") })).await;
    }
    for (bytes, expected) in [(1, 1), (15_000, 1), (25_000, 2), (35_000, 3)] {
        let page = store.list_finished(&CallFilter::default(), None, Most { items: 100, bytes }).await.unwrap();
        assert_eq!((page.items.len(), page.has_more), (expected, true), "{bytes} bytes");
    }
}

/// Whether it was read before or not; and how the call ended does not change.
pub async fn the_first_late_answer_to_a_call_is_kept(store: Arc<dyn Store>) {
    let (without, other) = (ended(head("r1", "desk", "ses_1"), Outcome::Disconnected), finished(head("r2", "a", "b")));
    for call in [&without, &other] {
        keep(&store, call).await;
    }
    store.begin(&begun(&Arc::new(head("open", "desk", "ses_1"))), IfFull::Fails).await.unwrap();
    for (number, late) in outcomes().into_iter().chain(acks()).enumerate() {
        assert_eq!(store.keep_late(&request_id("r1"), late).await.unwrap(), number == 0, "{number}");
    }
    let first = FinishedCall { late: Some(outcomes().remove(0)), ..FinishedCall::clone(&without) };
    assert_eq!(found(&store, &without).await, Some(seen_call(&first)));
    assert_eq!(listed(&store, &CallFilter::default(), 10).await, ["r2", "r1"]);
    for id in ["open", "unknown"] {
        assert!(!store.keep_late(&request_id(id), Outcome::Error("no".into())).await.unwrap(), "{id}");
    }
    assert_eq!(found(&store, &other).await, Some(seen_call(&other)));
}
