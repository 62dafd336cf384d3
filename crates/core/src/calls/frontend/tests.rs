//! Calls of frontends, with time that only moves when the test says so.

use futures_util::FutureExt;
use serde_json::json;
use serde_json::value::to_raw_value;
use tokio_util::task::TaskTracker;

use super::*;
use crate::calls::OpenCall;
use crate::calls::delegate::{Callee, NewCall};
use crate::clock::Clock;
use crate::id::{CallId, ClientId, MessageId, SessionId, ToolName};
use crate::limits::Limits;
use crate::schema::Schema;
use crate::store::{AckStatus, Answer, CallFilter, CallState, Effect, MemoryStore, Most, OutcomeKind, Reply, Tool};
use crate::tools::Permission;

fn hub() -> Hub {
    Hub::new(Limits::default(), Clock::counting(), Arc::new(MemoryStore::default()), TaskTracker::new())
}

fn spec(timeout: Option<Duration>) -> ToolSpec {
    ToolSpec {
        name: ToolName::parse("open-url").unwrap(),
        description: String::new(),
        schema: Arc::new(Schema::any_object()),
        timeout,
        effect: Effect::Write,
        version: None,
    }
}

async fn open(hub: &Hub, id: &str, permission: Permission) -> (OpenCall, RequestId) {
    open_for(hub, id, permission, DEFAULT_TIMEOUT).await
}

async fn open_for(hub: &Hub, id: &str, permission: Permission, timeout: Duration) -> (OpenCall, RequestId) {
    let (session, call) = (SessionId::parse("chat").unwrap(), CallId::parse(id).unwrap());
    let tool = Tool::of_frontend(ClientId::from(&session), spec(None));
    let request = RequestId::from(&call);
    let new = NewCall {
        callee: Callee::Frontend(Arc::new(tool)),
        request: Some(request.clone()),
        session,
        message: MessageId::parse("m").unwrap(),
        call,
        input: to_raw_value(&json!({ "url": "https://example.test" })).unwrap(),
        timeout: Some(timeout),
        origin: crate::store::Origin::Model,
        permission,
        connection: None,
    };
    (hub.open(new).await.unwrap(), request)
}

fn ack(output: &str) -> Ack {
    let output = Some(to_raw_value(output).unwrap());
    Ack { status: AckStatus::Success, output, error_text: None, requested_at: None }
}

fn stranger() -> Actor {
    Actor::Client { client: ClientId::parse("other").unwrap(), session: None }
}

async fn said(hub: &Hub, request: &RequestId, claimant: Option<&str>, what: &str) -> String {
    match hub.acknowledge(request, &Actor::Trusted, claimant, ack(what)).await {
        Ok(taken) => format!("{taken:?}"),
        Err(reason) => format!("{reason:?}"),
    }
}

fn claimed(hub: &Hub, request: &RequestId, claimant: &str, claim: Claim) -> String {
    match hub.claim(request, &Actor::Trusted, claimant, claim).now_or_never().unwrap() {
        Ok(()) => "ok".to_owned(),
        Err(reason) => format!("{reason:?}"),
    }
}

#[test]
fn a_timeout_is_brought_within_its_bounds() {
    for (seconds, expected) in
        [(0.0, 60), (0.99, 60), (-5.0, 60), (f64::NAN, 60), (1.0, 1), (90.0, 90), (86_400.0, 86_400), (1e300, 86_400)]
    {
        assert_eq!(timeout_of(seconds), Duration::from_secs(expected), "{seconds}");
    }
    assert_eq!(timeout_of(f64::INFINITY), LARGEST_TIMEOUT);
}

#[test]
fn what_the_input_says_counts_before_what_the_tool_says() {
    let tool = spec(Some(Duration::from_secs(7)));
    for (input, expected) in [
        (json!({}), 7),
        (json!({ "timeoutSec": 3 }), 3),
        (json!({ "timeoutSec": 0 }), 60),
        (json!({ "timeoutSec": 1e9 }), 86_400),
        (json!({ "timeoutSec": null }), 7),
        (json!({ "timeoutSec": "9" }), 7),
        (json!({ "other": { "timeoutSec": 9 } }), 7),
    ] {
        let found = timeout_for(&tool, &to_raw_value(&input).unwrap());
        assert_eq!(found, Duration::from_secs(expected), "{input}");
    }
    assert_eq!(timeout_for(&spec(None), &to_raw_value(&json!({})).unwrap()), DEFAULT_TIMEOUT);
}

#[tokio::test(start_paused = true)]
async fn the_first_ack_counts_the_same_again_is_known_and_another_is_refused() {
    let hub = hub();
    let (open, request) = open(&hub, "one", Permission::Allow).await;
    let listed = hub.calls(&CallFilter::default(), None, None, Most::items(10)).await.unwrap().0;
    assert_eq!((listed.len(), listed[0].state), (1, CallState::Offered));
    assert_eq!(said(&hub, &request, None, "done").await, "First");
    assert_eq!(said(&hub, &request, None, "done").await, "Again");
    assert_eq!(said(&hub, &request, None, "other").await, "Conflict");
    assert_eq!(open.outcome().await.unwrap().outcome.kind(), OutcomeKind::Success);
    assert_eq!(said(&hub, &RequestId::parse("two").unwrap(), None, "done").await, "Unknown");
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_over_otherwise_takes_no_ack_and_no_claim() {
    let hub = hub();
    let (late, timed_out) = open(&hub, "late", Permission::Allow).await;
    tokio::time::advance(DEFAULT_TIMEOUT).await;
    assert_eq!(late.outcome().await.unwrap().outcome.kind(), OutcomeKind::Timeout);
    let (dropped, cancelled) = open(&hub, "dropped", Permission::Allow).await;
    drop(dropped);
    for request in [timed_out, cancelled] {
        assert_eq!(said(&hub, &request, None, "done").await, "Over");
        assert_eq!(claimed(&hub, &request, "tab", Claim::Take), "Over");
    }
}

/// In real time, on one thread: while that is blocked, the deadline passes and the task that ends overdue calls does not run.
#[tokio::test]
async fn a_claim_after_the_deadline_is_late_though_nobody_has_looked_at_the_deadline_yet() {
    let (hub, timeout) = (hub(), Duration::from_millis(100));
    let (open, request) = open_for(&hub, "c", Permission::Allow, timeout).await;
    std::thread::sleep(timeout);
    let claimed = hub.claim(&request, &Actor::Trusted, "tab", Claim::Take).await;
    assert!(matches!(claimed, Err(NotTaken::Over)), "{claimed:?}");
    assert_eq!(open.outcome().await.unwrap().outcome.kind(), OutcomeKind::Timeout);
}

#[tokio::test(start_paused = true)]
async fn a_late_result_is_kept_of_whoever_had_claimed_the_call() {
    let hub = hub();
    let (late, request) = open(&hub, "late", Permission::Allow).await;
    assert_eq!(claimed(&hub, &request, "a", Claim::Take), "ok");
    tokio::time::advance(DEFAULT_TIMEOUT).await;
    late.outcome().await.unwrap();
    for (claimant, is_kept) in [(Some("b"), false), (None, false), (Some("a"), true)] {
        assert_eq!(said(&hub, &request, claimant, "done").await, "Over");
        let kept = hub.finished(&request).await.unwrap().unwrap();
        assert_eq!(kept.late.is_some(), is_kept, "{claimant:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_claim_is_one_claimants_until_it_lets_go() {
    let hub = hub();
    let (open, request) = open(&hub, "one", Permission::Allow).await;
    assert_eq!(claimed(&hub, &request, "a", Claim::Release), "ok");
    assert_eq!(claimed(&hub, &request, "a", Claim::Take), "ok");
    assert_eq!(claimed(&hub, &request, "a", Claim::Take), "ok");
    for claim in [Claim::Take, Claim::Release] {
        assert_eq!(claimed(&hub, &request, "b", claim), "Claimed");
    }
    for claimant in [None, Some("b"), Some("")] {
        assert_eq!(said(&hub, &request, claimant, "done").await, "Claimed");
    }
    assert_eq!(claimed(&hub, &request, "a", Claim::Release), "ok");
    assert_eq!(claimed(&hub, &request, "b", Claim::Take), "ok");
    assert_eq!(said(&hub, &request, Some("b"), "done").await, "First");
    // Whoever repeats what was said need not have been the one who said it.
    assert_eq!(said(&hub, &request, None, "done").await, "Again");
    assert_eq!(claimed(&hub, &request, "b", Claim::Take), "Over");
    open.outcome().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn what_is_not_allowed_yet_is_nobodys_to_claim_or_answer() {
    let hub = hub();
    let (mut open, request) = open(&hub, "one", Permission::Ask).await;
    assert_eq!(claimed(&hub, &request, "a", Claim::Take), "NotAllowedYet");
    assert_eq!(said(&hub, &request, Some("a"), "done").await, "NotAllowedYet");
    let ask = open.ask().unwrap().id.clone();
    let input = Some(to_raw_value(&json!({ "url": "https://other.test" })).unwrap());
    hub.answer(&ask, &Actor::Trusted, Answer { reply: Reply::Once, input, message: None }).await.unwrap();
    assert!(open.allowed().await);
    assert_eq!(open.head().input.get(), r#"{"url":"https://other.test"}"#);
    assert_eq!(said(&hub, &request, None, "done").await, "First");
    assert_eq!(open.outcome().await.unwrap().outcome.kind(), OutcomeKind::Success);
}

#[tokio::test(start_paused = true)]
async fn strangers_and_other_doors_are_shut() {
    let hub = hub();
    let (open, request) = open(&hub, "one", Permission::Allow).await;
    let foreign = hub.acknowledge(&request, &stranger(), None, ack("done")).await;
    assert!(matches!(foreign, Err(NotTaken::Forbidden)), "{foreign:?}");
    assert!(matches!(hub.claim(&request, &stranger(), "a", Claim::Take).await, Err(NotTaken::Forbidden)));
    let result = hub.complete(&request, &Actor::Trusted, Outcome::Error("no".to_owned())).await;
    assert!(matches!(result, Err(NotTaken::Unknown)), "{result:?}");
    assert_eq!(said(&hub, &request, None, "done").await, "First");
    open.outcome().await.unwrap();
    let foreign = hub.acknowledge(&request, &stranger(), None, ack("done")).await;
    assert!(matches!(foreign, Err(NotTaken::Forbidden)), "{foreign:?}");
    let result = hub.complete(&request, &Actor::Trusted, Outcome::Error("no".to_owned())).await;
    assert!(matches!(result, Err(NotTaken::Unknown)), "{result:?}");
}
