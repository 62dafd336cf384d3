//! The line, with time that only moves when the test says so.

mod deadlines;
mod journal;
mod limited;
mod preferred;
mod repeated;
mod replay;
mod shared;

use std::task::{Context, Waker};

use serde_json::value::to_raw_value;
use tokio::task::JoinHandle;
use tokio_util::task::TaskTracker;

use super::*;
use crate::calls::connection::{Connection, Delivery, Opening};
use crate::calls::hub::{CallInfo, Counts};
use crate::clock::Clock;
use crate::events::{Event, Topic};
use crate::id::{ConnectionName, EventId, ToolName};
use crate::limits::Limits;
use crate::schema::Schema;
use crate::store::{
    CallFilter, CallState, CallStore, Effect, MemoryStore, Most, OutcomeKind, Page, StoreFuture, Success, ToolSpec,
};
use crate::tools::Placement;

fn hub_with(limits: Limits) -> Hub {
    Hub::new(limits, Clock::counting(), Arc::new(MemoryStore::default()), TaskTracker::new())
}

fn hub() -> Hub {
    hub_with(Limits::default())
}

fn tab() -> ClientId {
    ClientId::parse("tab").unwrap()
}

/// A tool `t` that takes any object.
pub(crate) fn spec() -> ToolSpec {
    ToolSpec {
        name: ToolName::parse("t").unwrap(),
        description: String::new(),
        schema: Arc::new(Schema::any_object()),
        timeout: None,
        effect: Effect::Write,
        version: None,
    }
}

fn register(hub: &Hub) {
    hub.register(&tab(), &Placement::Everywhere, vec![spec()]).unwrap();
}

fn session(name: &str) -> SessionId {
    SessionId::parse(name).unwrap()
}

/// A call of the tool `t` of the client `tab`.
pub(crate) fn call() -> NewCall {
    NewCall {
        callee: Callee::Registered { tool: "client_tab_t".into(), client: None },
        request: None,
        session: SessionId::parse("").unwrap(),
        message: MessageId::parse("").unwrap(),
        call: CallId::parse("").unwrap(),
        input: to_raw_value(&serde_json::json!({})).unwrap(),
        timeout: None,
        origin: Origin::Application,
        permission: Permission::Allow,
        connection: None,
    }
}

fn opening() -> Opening {
    Opening { client: tab(), name: None, grace: Duration::ZERO, session: None, last_seen: None }
}

fn connect(hub: &Hub) -> Connection {
    hub.connect(opening()).unwrap()
}

fn with_grace() -> Opening {
    Opening { grace: Duration::from_secs(30), ..opening() }
}

#[expect(clippy::disallowed_methods, reason = "the test awaits it")]
async fn start(hub: &Hub) -> (RequestId, JoinHandle<Arc<FinishedCall>>) {
    let open = hub.open(call()).await.unwrap();
    (open.head().request.clone(), tokio::spawn(async { open.outcome().await.unwrap() }))
}

async fn offered(connection: &mut Connection) -> (RequestId, u32, EventId) {
    match connection.next().await {
        Delivery::Request { head, attempt, id } => (head.request.clone(), attempt, id),
        other => panic!("{other:?}"),
    }
}

async fn cancelled(connection: &mut Connection) -> (RequestId, String) {
    match connection.next().await {
        Delivery::Cancel { request, reason, .. } => (request, reason.to_string()),
        other => panic!("{other:?}"),
    }
}

/// Nothing is to be written to the connection.
fn assert_quiet(connection: &mut Connection) {
    let next = connection.poll_next(&mut Context::from_waker(Waker::noop()));
    assert!(next.is_pending(), "{next:?}");
}

fn ok() -> Outcome {
    Outcome::Success(Success { output: "ok".into(), ..Success::default() })
}

async fn shown(hub: &Hub, request: &RequestId) -> CallInfo {
    hub.call(request, Duration::ZERO).await.unwrap().unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_call_goes_to_its_client_and_its_result_to_the_caller() {
    let hub = hub();
    register(&hub);
    let mut connection = connect(&hub);
    let (request, waiter) = start(&hub).await;
    assert_eq!(shown(&hub, &request).await.state, CallState::Queued);
    let (given, attempt, _) = offered(&mut connection).await;
    assert_eq!((&given, attempt), (&request, 1));
    assert_eq!(shown(&hub, &request).await.state, CallState::Offered);
    assert_eq!(hub.complete(&request, &Actor::Trusted, ok()).await.unwrap(), Taken::First);
    assert_eq!(waiter.await.unwrap().outcome.kind(), OutcomeKind::Success);
    assert_quiet(&mut connection);
    drop(connection);
    assert_eq!(hub.counts(), Counts::default());
}

#[tokio::test(start_paused = true)]
async fn a_call_that_nobody_answers_ends_at_its_deadline_and_not_before() {
    let hub = hub();
    register(&hub);
    let mut connection = connect(&hub);
    let (request, waiter) = start(&hub).await;
    offered(&mut connection).await;
    tokio::time::sleep(Duration::from_millis(29_999)).await;
    assert!(!waiter.is_finished());
    let before = Instant::now();
    let finished = waiter.await.unwrap();
    assert!(before.elapsed() <= Duration::from_millis(2), "{:?}", before.elapsed());
    assert_eq!(finished.outcome.failure().unwrap(), "Client tool execution timed out after 30000ms");
    assert_eq!(cancelled(&mut connection).await.0, request);
    let late = hub.complete(&request, &Actor::Trusted, ok()).await;
    assert!(matches!(late, Err(NotTaken::Over)));
}

#[tokio::test(start_paused = true)]
async fn timeouts_are_the_calls_then_the_tools_then_the_default_and_never_beyond_the_limit() {
    let hub = hub_with(Limits { largest_timeout: Duration::from_secs(60), ..Limits::default() });
    register(&hub);
    for (asked, expected) in [(None, 30), (Some(5), 5), (Some(1_000_000), 60)] {
        let new = NewCall { timeout: asked.map(Duration::from_secs), ..call() };
        let before = Instant::now();
        let finished = hub.open(new).await.unwrap().outcome().await.unwrap();
        assert_eq!(finished.outcome.kind(), OutcomeKind::Timeout);
        assert_eq!(before.elapsed().as_secs(), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn dropping_the_caller_cancels_the_call_and_tells_the_client() {
    let hub = hub();
    register(&hub);
    let mut connection = connect(&hub);
    let open = hub.open(call()).await.unwrap();
    let request = open.head().request.clone();
    offered(&mut connection).await;
    drop(open);
    assert_eq!(cancelled(&mut connection).await, (request.clone(), "The caller went away".into()));
    assert!(matches!(hub.complete(&request, &Actor::Trusted, ok()).await, Err(NotTaken::Over)));
    assert_eq!(hub.counts().calls, 0);
}

#[tokio::test(start_paused = true)]
async fn a_call_is_cancelled_when_the_last_of_its_callers_leaves() {
    let hub = hub();
    register(&hub);
    let mut connection = connect(&hub);
    let first = hub.open(call()).await.unwrap();
    let request = first.head().request.clone();
    offered(&mut connection).await;
    let again = || hub.open(NewCall { request: Some(request.clone()), ..call() });
    let (second, third) = (again().await.unwrap(), again().await.unwrap());
    drop(first);
    drop(third);
    assert_quiet(&mut connection);
    assert_eq!(shown(&hub, &request).await.state, CallState::Offered);
    drop(second);
    assert_eq!(cancelled(&mut connection).await.0, request);
    let over = again().await.unwrap().outcome().await.unwrap();
    assert_eq!(over.outcome.kind(), OutcomeKind::Cancelled);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_was_never_written_is_cancelled_without_a_word() {
    let hub = hub();
    register(&hub);
    let mut connection = connect(&hub);
    let (request, _waiter) = start(&hub).await;
    hub.cancel(&request, &Actor::Trusted, "no".into()).await.unwrap();
    assert_quiet(&mut connection);
}

#[tokio::test(start_paused = true)]
async fn results_are_idempotent_and_the_first_one_counts() {
    let hub = hub();
    register(&hub);
    let (request, waiter) = start(&hub).await;
    assert_eq!(hub.complete(&request, &Actor::Trusted, ok()).await.unwrap(), Taken::First);
    assert_eq!(hub.complete(&request, &Actor::Trusted, ok()).await.unwrap(), Taken::Again);
    let other = hub.complete(&request, &Actor::Trusted, Outcome::Error("x".into())).await;
    assert!(matches!(other, Err(NotTaken::Conflict)));
    assert!(matches!(hub.cancel(&request, &Actor::Trusted, String::new()).await, Err(NotTaken::Over)));
    assert_eq!(waiter.await.unwrap().outcome.kind(), OutcomeKind::Success);
    let unknown = RequestId::parse("other").unwrap();
    assert!(matches!(hub.complete(&unknown, &Actor::Trusted, ok()).await, Err(NotTaken::Unknown)));
}

#[tokio::test(start_paused = true)]
async fn a_finished_call_is_remembered_for_ten_minutes_and_as_long_as_it_is_stored() {
    let stored = MemoryStore::new(&Limits { stored_calls: 1, ..Limits::default() });
    let hub = Hub::new(Limits::default(), Clock::counting(), Arc::new(stored), TaskTracker::new());
    register(&hub);
    let (request, _waiter) = start(&hub).await;
    hub.complete(&request, &Actor::Trusted, ok()).await.unwrap();
    tokio::time::sleep(Duration::from_secs(599)).await;
    assert_eq!(hub.complete(&request, &Actor::Trusted, ok()).await.unwrap(), Taken::Again);
    // The tool went with its client that never connected. The call is known all the same.
    let again = || hub.open(NewCall { request: Some(request.clone()), ..call() });
    assert_eq!(again().await.unwrap().outcome().await.unwrap().outcome.kind(), OutcomeKind::Success);
    assert!(matches!(hub.open(call()).await, Err(Refusal::UnknownTool(_))));
    tokio::time::sleep(Duration::from_secs(2)).await;
    register(&hub);
    assert_eq!(again().await.unwrap().outcome().await.unwrap().outcome.kind(), OutcomeKind::Success);
    assert_eq!(hub.complete(&request, &Actor::Trusted, ok()).await.unwrap(), Taken::Again);
    assert_eq!((hub.counts().calls, hub.metrics().under_way()), (0, 0));
    let (other, _waiter) = start(&hub).await;
    hub.complete(&other, &Actor::Trusted, ok()).await.unwrap();
    assert!(matches!(hub.complete(&request, &Actor::Trusted, ok()).await, Err(NotTaken::Unknown)));
}

#[tokio::test(start_paused = true)]
async fn a_client_without_grace_is_gone_with_its_last_connection() {
    let hub = hub();
    register(&hub);
    let (older, newer) = (connect(&hub), connect(&hub));
    let (_, waiter) = start(&hub).await;
    drop(older);
    assert_eq!(hub.counts(), Counts { clients: 1, connections: 1, tools: 1, calls: 1 });
    drop(newer);
    assert_eq!(waiter.await.unwrap().outcome.failure().unwrap(), "Client disconnected");
    assert_eq!(hub.counts(), Counts::default());
}

#[tokio::test(start_paused = true)]
async fn another_connection_takes_over_what_was_written_and_what_was_not() {
    let hub = hub();
    register(&hub);
    let (mut one, mut other) = (connect(&hub), connect(&hub));
    let mut requests = Vec::new();
    let mut waiters = Vec::new();
    for _ in 0..4 {
        let (request, waiter) = start(&hub).await;
        requests.push(request);
        waiters.push(waiter);
    }
    let (written, attempt, _) = offered(&mut one).await;
    assert_eq!(attempt, 1);
    drop(one);
    let mut got = Vec::new();
    for _ in 0..4 {
        let (request, attempt, _) = offered(&mut other).await;
        assert_eq!(attempt, if request == written { 2 } else { 1 });
        got.push(request);
    }
    got.sort();
    requests.sort();
    assert_eq!(got, requests);
    assert_quiet(&mut other);
}

#[tokio::test(start_paused = true)]
async fn within_the_grace_a_reader_goes_on_where_it_was() {
    let hub = hub();
    register(&hub);
    let mut connection = hub.connect(with_grace()).unwrap();
    let (seen, _seen_waiter) = start(&hub).await;
    let (missed, _missed_waiter) = start(&hub).await;
    let (_, _, last) = offered(&mut connection).await;
    let (_, _, missed_id) = offered(&mut connection).await;
    drop(connection);
    tokio::time::sleep(Duration::from_secs(20)).await;
    let (late, _late_waiter) = start(&hub).await;
    let mut back = hub.connect(Opening { last_seen: Some(last), ..with_grace() }).unwrap();
    assert_eq!(offered(&mut back).await, (missed, 1, missed_id));
    assert_eq!(offered(&mut back).await.0, late);
    assert_quiet(&mut back);
    let info = shown(&hub, &seen).await;
    assert_eq!((info.state, info.attempt), (CallState::Offered, 1));
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_is_lost_again_before_it_was_told_what_it_missed_is_told_the_next_time() {
    let hub = hub();
    register(&hub);
    let mut connection = hub.connect(with_grace()).unwrap();
    let mut waiters = Vec::new();
    for _ in 0..3 {
        waiters.push(start(&hub).await);
    }
    let (_, _, last) = offered(&mut connection).await;
    let missed = [offered(&mut connection).await, offered(&mut connection).await];
    drop(connection);
    let back = || hub.connect(Opening { last_seen: Some(last.clone()), ..with_grace() }).unwrap();
    drop(back());
    // One of the two is written, and lost with the connection.
    assert_eq!(offered(&mut back()).await, missed[0]);
    let mut back = back();
    let (late, _late_waiter) = start(&hub).await;
    for missed in missed {
        assert_eq!(offered(&mut back).await, missed);
    }
    assert_eq!(offered(&mut back).await.0, late);
    assert_quiet(&mut back);
}

#[tokio::test(start_paused = true)]
async fn without_a_last_seen_id_calls_are_offered_again() {
    let hub = hub();
    register(&hub);
    let mut connection = hub.connect(with_grace()).unwrap();
    let (request, _waiter) = start(&hub).await;
    let (_, _, id) = offered(&mut connection).await;
    drop(connection);
    assert_eq!((shown(&hub, &request).await.state, shown(&hub, &request).await.attempt), (CallState::Queued, 2));
    let mut back = hub.connect(with_grace()).unwrap();
    let (again, attempt, _) = offered(&mut back).await;
    assert_eq!((again, attempt), (request.clone(), 2));
    drop(back);
    // An id of another run of the server means nothing.
    let other = EventId { epoch: "other".into(), ..id };
    let mut back = hub.connect(Opening { last_seen: Some(other), ..with_grace() }).unwrap();
    assert_eq!(offered(&mut back).await.1, 3);
}

#[tokio::test(start_paused = true)]
async fn a_cancel_that_a_reader_missed_is_told_on_its_return() {
    let hub = hub();
    register(&hub);
    let mut connection = hub.connect(with_grace()).unwrap();
    let (request, _waiter) = start(&hub).await;
    let (_, _, last) = offered(&mut connection).await;
    drop(connection);
    hub.cancel(&request, &Actor::Trusted, "enough".into()).await.unwrap();
    let mut back = hub.connect(Opening { last_seen: Some(last), ..with_grace() }).unwrap();
    assert_eq!(cancelled(&mut back).await, (request, "enough".into()));
    assert_quiet(&mut back);
}

#[tokio::test(start_paused = true)]
async fn when_the_grace_is_over_the_client_is_gone() {
    let hub = hub();
    register(&hub);
    drop(hub.connect(with_grace()).unwrap());
    let new = NewCall { timeout: Some(Duration::from_secs(100)), ..call() };
    let before = Instant::now();
    assert_eq!(hub.open(new).await.unwrap().outcome().await.unwrap().outcome.kind(), OutcomeKind::Disconnected);
    assert_eq!(before.elapsed().as_secs(), 30);
    assert_eq!(hub.counts(), Counts::default());
}

#[tokio::test(start_paused = true)]
async fn tools_of_a_client_that_never_connects_go_after_five_minutes() {
    let hub = hub();
    register(&hub);
    tokio::time::sleep(Duration::from_secs(299)).await;
    assert_eq!(hub.counts().tools, 1);
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(hub.counts(), Counts::default());
}

#[tokio::test(start_paused = true)]
async fn a_newer_connection_of_the_same_name_supersedes_the_older() {
    let hub = hub();
    register(&hub);
    let named = || Opening { name: Some(ConnectionName::parse("tab-1").unwrap()), ..opening() };
    let mut older = hub.connect(named()).unwrap();
    let (request, _waiter) = start(&hub).await;
    let (_, _, id) = offered(&mut older).await;
    let mut newer = hub.connect(named()).unwrap();
    assert!(matches!(older.next().await, Delivery::Superseded));
    drop(older);
    assert_eq!(offered(&mut newer).await.1, 2);
    assert_eq!(hub.counts(), Counts { clients: 1, connections: 1, tools: 1, calls: 1 });
    // What the first one saw says nothing of what the second was given.
    let mut newest = hub.connect(Opening { last_seen: Some(id), ..named() }).unwrap();
    assert_eq!((offered(&mut newest).await.0, shown(&hub, &request).await.attempt), (request, 3));
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_is_back_before_its_old_connection_is_missed_takes_over_from_it() {
    let hub = hub();
    register(&hub);
    let mut half_open = connect(&hub);
    let (_, _waiter) = start(&hub).await;
    let (_, _, last) = offered(&mut half_open).await;
    let mut back = hub.connect(Opening { last_seen: Some(last), ..opening() }).unwrap();
    assert!(matches!(half_open.next().await, Delivery::Superseded));
    assert_quiet(&mut back);
    drop(half_open);
    assert_eq!(hub.counts().calls, 1, "the old connection takes nothing with it");
}

#[tokio::test(start_paused = true)]
async fn a_connection_for_one_session_is_given_only_its_calls() {
    let hub = hub();
    register(&hub);
    let mut scoped = hub.connect(Opening { session: Some(session("s1")), ..opening() }).unwrap();
    let _other = hub.open(NewCall { session: session("s2"), ..call() }).await.unwrap();
    let own = hub.open(NewCall { session: session("s1"), ..call() }).await.unwrap();
    assert_eq!(offered(&mut scoped).await.0, own.head().request);
    assert_quiet(&mut scoped);
    assert_eq!(offered(&mut connect(&hub)).await.0, _other.head().request);
}

#[tokio::test(start_paused = true)]
async fn calls_are_refused_with_a_reason_and_leave_nothing() {
    let hub = hub_with(Limits { calls_per_client: 1, calls_per_minute: 2, ..Limits::default() });
    let unknown = hub.open(call()).await;
    assert!(matches!(unknown, Err(Refusal::UnknownTool(_))));
    register(&hub);
    let bad = NewCall { input: to_raw_value(&1).unwrap(), ..call() };
    assert!(matches!(hub.open(bad).await, Err(Refusal::InvalidInput(_))));
    let model = || NewCall { origin: Origin::Model, ..call() };
    let first = hub.open(model()).await.unwrap();
    let other = NewCall { request: Some(first.head().request.clone()), ..call() };
    assert!(matches!(hub.open(other).await, Err(Refusal::DuplicateRequest(_))));
    assert!(matches!(hub.open(model()).await, Err(Refusal::Overloaded)));
    drop(first);
    drop(hub.open(model()).await.unwrap());
    assert!(matches!(hub.open(model()).await, Err(Refusal::RateLimited { .. })));
    drop(hub.open(call()).await.unwrap());
    hub.start_draining();
    assert!(matches!(hub.open(call()).await, Err(Refusal::ShuttingDown)));
    assert_eq!(hub.counts().calls, 0);
}

#[tokio::test(start_paused = true)]
async fn time_is_counted_by_phase() {
    let hub = hub();
    register(&hub);
    let (request, waiter) = start(&hub).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let mut connection = hub.connect(with_grace()).unwrap();
    offered(&mut connection).await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    drop(connection);
    tokio::time::sleep(Duration::from_secs(4)).await;
    hub.complete(&request, &Actor::Trusted, ok()).await.unwrap();
    let phases = waiter.await.unwrap().phases;
    assert_eq!((phases.approval.as_secs(), phases.queue.as_secs(), phases.execute.as_secs()), (0, 6, 3));
}

#[tokio::test(start_paused = true)]
async fn events_of_a_call_come_in_order_and_once() {
    let hub = hub();
    let mut events = hub.subscribe(Topic::Everything);
    register(&hub);
    let (request, waiter) = start(&hub).await;
    hub.complete(&request, &Actor::Trusted, ok()).await.unwrap();
    hub.complete(&request, &Actor::Trusted, ok()).await.unwrap();
    waiter.await.unwrap();
    hub.unregister(&tab(), None, None);
    let mut names = Vec::new();
    for _ in 0..5 {
        names.push(match events.next().await.unwrap().event.clone() {
            Event::Registered(..) => "registered",
            Event::Requested(_) => "requested",
            Event::Executing(_) => "executing",
            Event::Finished(_) => "finished",
            Event::Unregistered(..) => "unregistered",
            other => panic!("{other:?}"),
        });
    }
    assert_eq!(names, ["registered", "requested", "executing", "finished", "unregistered"]);
}

#[tokio::test(start_paused = true)]
async fn closing_lets_calls_finish_then_ends_them_and_tells_the_connections() {
    let hub = hub();
    register(&hub);
    let mut connection = connect(&hub);
    let (quick, quick_waiter) = start(&hub).await;
    let (slow, slow_waiter) = start(&hub).await;
    offered(&mut connection).await;
    offered(&mut connection).await;
    let before = Instant::now();
    let closing = hub.close(Duration::from_secs(10));
    let answering = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        hub.complete(&quick, &Actor::Trusted, ok()).await.unwrap();
    };
    tokio::join!(closing, answering);
    assert_eq!(before.elapsed().as_secs(), 10);
    assert_eq!(quick_waiter.await.unwrap().outcome.kind(), OutcomeKind::Success);
    assert_eq!(slow_waiter.await.unwrap().outcome.failure().unwrap(), "The server is shutting down");
    assert_eq!(cancelled(&mut connection).await.0, slow);
    assert!(matches!(connection.next().await, Delivery::GoingAway));
}

#[tokio::test(start_paused = true)]
async fn closing_does_not_wait_when_there_is_nothing_to_wait_for() {
    let hub = hub();
    register(&hub);
    let (request, _waiter) = start(&hub).await;
    let closing = hub.close(Duration::from_secs(10));
    let before = Instant::now();
    let answering = async {
        tokio::time::sleep(Duration::from_secs(3)).await;
        hub.complete(&request, &Actor::Trusted, ok()).await.unwrap();
    };
    tokio::join!(closing, answering);
    assert_eq!(before.elapsed().as_secs(), 3);
}
