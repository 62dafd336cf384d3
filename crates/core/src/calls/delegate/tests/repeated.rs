//! Calls that are made again under their id.

use futures_util::FutureExt;

use super::journal::SlowStore;
use super::*;

fn request() -> RequestId {
    RequestId::parse("chosen").unwrap()
}

fn again() -> NewCall {
    NewCall { request: Some(request()), ..call() }
}

/// Makes the call, and ends it with a result.
async fn make_and_end(hub: &Hub) {
    let open = hub.open(again()).await.unwrap();
    hub.complete(&request(), &Actor::Trusted, ok()).await.unwrap();
    open.outcome().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_to_go_on_does_whoever_leaves() {
    let hub = hub();
    register(&hub);
    let mut connection = connect(&hub);
    drop(hub.open_to_end(again(), true).await.unwrap());
    offered(&mut connection).await;
    drop(hub.open(again()).await.unwrap());
    let waiting = hub.open(again()).await.unwrap();
    assert_quiet(&mut connection);
    hub.complete(&request(), &Actor::Trusted, ok()).await.unwrap();
    assert_eq!(waiting.outcome().await.unwrap().outcome.kind(), OutcomeKind::Success);
    assert_eq!(hub.counts().calls, 0);
}

/// Makes a call of a caller who leaves while it is journaled.
async fn make_and_leave(hub: &Hub, goes_on: bool) {
    let mut making = Box::pin(hub.open_to_end(again(), goes_on));
    assert!(making.as_mut().now_or_never().is_none());
    // The task that makes the call has begun.
    tokio::task::yield_now().await;
    assert_eq!(hub.counts().calls, 1);
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_leaves_before_a_call_is_journaled_takes_it_from_nobody() {
    for (goes_on, is_joined) in [(true, false), (false, true), (false, false)] {
        let hub = Hub::new(Limits::default(), Clock::counting(), Arc::new(SlowStore::default()), TaskTracker::new());
        register(&hub);
        let mut connection = connect(&hub);
        make_and_leave(&hub, goes_on).await;
        let joined = if is_joined { Some(hub.open(again()).await.unwrap()) } else { None };
        let offer = tokio::time::timeout(Duration::from_secs(10), offered(&mut connection)).await;
        assert_eq!(offer.is_ok(), goes_on || is_joined);
        let ended = hub.complete(&request(), &Actor::Trusted, ok()).await;
        assert_eq!(ended.is_ok(), goes_on || is_joined, "{ended:?}");
        if let Some(joined) = joined {
            assert_eq!(joined.outcome().await.unwrap().outcome.kind(), OutcomeKind::Success);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_over_is_joined_even_where_a_new_one_is_refused() {
    let limits = || Limits { calls_per_client: 1, execute_per_minute: 2, ..Limits::default() };
    for hindrance in ["another schema", "no tool", "too many calls", "too many calls in a minute"] {
        let hub = hub_with(limits());
        register(&hub);
        let _connection = connect(&hub);
        make_and_end(&hub).await;
        // The table forgets the call, and the journal does not.
        tokio::time::sleep(hub.limits().remembered_for + Duration::from_secs(1)).await;
        let patient = || NewCall { timeout: Some(Duration::from_secs(1)), ..call() };
        let mut open = None;
        match hindrance {
            "another schema" => {
                let source = to_raw_value(&serde_json::json!({"required": ["more"]})).unwrap();
                let schema = Arc::new(Schema::compile(&source, hub.limits()).unwrap());
                hub.register(&tab(), &Placement::Everywhere, vec![ToolSpec { schema, ..spec() }]).unwrap();
            }
            "no tool" => drop(hub.unregister(&tab(), None, None)),
            "too many calls" => open = Some(hub.open(patient()).await.unwrap()),
            _ => {
                for _ in 0..2 {
                    drop(hub.open(patient()).await.unwrap());
                }
            }
        }
        let new = NewCall { request: Some(RequestId::parse("new").unwrap()), ..call() };
        assert!(hub.open(new).await.is_err(), "{hindrance}");
        let joined = hub.open(again()).await.unwrap();
        assert_eq!(joined.outcome().await.unwrap().outcome.kind(), OutcomeKind::Success, "{hindrance}");
        drop(open);
    }
}

#[tokio::test(start_paused = true)]
async fn no_application_joins_the_call_of_a_model() {
    let hub = hub();
    register(&hub);
    let open = hub.open(NewCall { origin: Origin::Model, ..again() }).await.unwrap();
    for is_open in [true, false] {
        let refused = hub.open(again()).await.err();
        assert!(matches!(refused, Some(Refusal::DuplicateRequest(_))), "{is_open}: {refused:?}");
        if is_open {
            hub.complete(&request(), &Actor::Trusted, ok()).await.unwrap();
        }
    }
    assert_eq!(open.outcome().await.unwrap().outcome.kind(), OutcomeKind::Success);
}

#[tokio::test(start_paused = true)]
async fn a_call_whose_outcome_is_no_longer_kept_is_gone() {
    let store = Arc::new(MemoryStore::new(&Limits { stored_calls: 1, ..Limits::default() }));
    let hub = Hub::new(Limits::default(), Clock::counting(), store, TaskTracker::new());
    register(&hub);
    make_and_end(&hub).await;
    for _ in 0..100 {
        let (other, waiter) = start(&hub).await;
        hub.complete(&other, &Actor::Trusted, ok()).await.unwrap();
        waiter.await.unwrap();
    }
    let refused = hub.open(again()).await.err();
    assert!(matches!(&refused, Some(Refusal::Forgotten(gone)) if *gone == request()), "{refused:?}");
}
