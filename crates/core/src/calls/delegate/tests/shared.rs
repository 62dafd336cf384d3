//! Two hubs that share a store: a call ends once, whichever of them is first. The end of a call has its times: two ends at the
//! same moment would look like one that is written twice.

use super::*;

/// Two hubs, and the same call under way in both.
async fn two() -> ([Hub; 2], [OpenCall; 2], RequestId) {
    let store = Arc::new(MemoryStore::default());
    let hubs = [(); 2].map(|()| Hub::new(Limits::default(), Clock::running(), store.clone(), TaskTracker::new()));
    let request = RequestId::parse("r1").unwrap();
    let open = async |hub: &Hub| {
        register(hub);
        hub.open(NewCall { request: Some(request.clone()), ..call() }).await.unwrap()
    };
    let opened = [open(&hubs[0]).await, open(&hubs[1]).await];
    (hubs, opened, request)
}

fn failed() -> Outcome {
    Outcome::Error("it failed".into())
}

#[tokio::test(start_paused = true)]
async fn the_first_answer_counts_for_the_waiters_of_both() {
    let ([one, other], [first, second], request) = two().await;
    let trusted = &Actor::Trusted;
    assert_eq!(one.complete(&request, trusted, ok()).await.unwrap(), Taken::First);
    // The other hub still takes the call to be open.
    assert_eq!(other.call(&request, Duration::ZERO).await.unwrap().unwrap().state, CallState::Queued);
    assert!(matches!(other.complete(&request, trusted, failed()).await, Err(NotTaken::Conflict)));
    for open in [first, second] {
        assert_eq!(open.outcome().await.unwrap().outcome.kind(), OutcomeKind::Success);
    }
    for hub in [&one, &other] {
        assert!(matches!(hub.complete(&request, trusted, failed()).await, Err(NotTaken::Conflict)));
        assert_eq!(hub.complete(&request, trusted, ok()).await.unwrap(), Taken::Again);
        assert!(matches!(hub.cancel(&request, trusted, String::new()).await, Err(NotTaken::Over)));
        let known = hub.call(&request, Duration::ZERO).await.unwrap().unwrap();
        assert_eq!(known.finished.unwrap().outcome.kind(), OutcomeKind::Success);
    }
}

#[tokio::test(start_paused = true)]
async fn the_same_answer_at_both_is_taken_once() {
    let ([one, other], [first, second], request) = two().await;
    assert_eq!(one.complete(&request, &Actor::Trusted, ok()).await.unwrap(), Taken::First);
    tokio::time::advance(Duration::from_millis(1)).await;
    assert_eq!(other.complete(&request, &Actor::Trusted, ok()).await.unwrap(), Taken::Again);
    let [first, second] = [first.outcome().await.unwrap(), second.outcome().await.unwrap()];
    // The end that counts is the first one, with all that it says.
    assert_eq!((first.phases, first.attempt), (second.phases, second.attempt));
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_comes_after_a_cancel_elsewhere_is_late() {
    let ([one, other], [first, second], request) = two().await;
    let mut connection = connect(&other);
    offered(&mut connection).await;
    one.cancel(&request, &Actor::Trusted, "enough".into()).await.unwrap();
    tokio::time::advance(Duration::from_millis(1)).await;
    assert!(matches!(other.cancel(&request, &Actor::Trusted, "enough".into()).await, Err(NotTaken::Over)));
    for open in [first, second] {
        assert_eq!(open.outcome().await.unwrap().outcome.kind(), OutcomeKind::Cancelled);
    }
    assert!(matches!(other.complete(&request, &Actor::Trusted, ok()).await, Err(NotTaken::Over)));
}

#[tokio::test(start_paused = true)]
async fn a_deadline_that_passes_after_an_answer_elsewhere_changes_nothing() {
    let ([one, other], [first, second], request) = two().await;
    assert_eq!(one.complete(&request, &Actor::Trusted, ok()).await.unwrap(), Taken::First);
    // The other hub learns of it when it wants to end the call itself.
    let both = [first.outcome().await.unwrap(), second.outcome().await.unwrap()];
    assert_eq!(both.map(|call| call.outcome.kind()), [OutcomeKind::Success; 2]);
    let known = other.call(&request, Duration::ZERO).await.unwrap().unwrap();
    assert_eq!(known.finished.unwrap().outcome.kind(), OutcomeKind::Success);
}
