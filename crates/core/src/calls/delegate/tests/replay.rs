//! Readers that come back more than once.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_call_that_was_with_another_while_its_reader_was_back_is_offered_when_it_is_back_again() {
    let hub = hub();
    register(&hub);
    let mut first = hub.connect(with_grace()).unwrap();
    let (_seen, _seen_waiter) = start(&hub).await;
    let (.., last_seen) = offered(&mut first).await;
    let (missed, waiter) = start(&hub).await;
    assert_eq!(offered(&mut first).await.0, missed);
    // The reader is lost before it has seen the second one, which goes to another connection.
    let back = || hub.connect(Opening { last_seen: Some(last_seen.clone()), ..with_grace() }).unwrap();
    let other = hub.connect(with_grace()).unwrap();
    drop(first);
    let mut again = back();
    assert_quiet(&mut again);
    // Both are lost, the other before it has written anything.
    drop(again);
    drop(other);
    let mut once_more = back();
    assert_eq!(offered(&mut once_more).await.0, missed);
    assert_eq!(hub.complete(&missed, &Actor::Trusted, ok()).await.unwrap(), Taken::First);
    assert_eq!(waiter.await.unwrap().outcome.kind(), OutcomeKind::Success);
}
