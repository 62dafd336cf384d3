//! Calls that end because their time is over, whoever waits for them.

use super::journal::SlowStore;
use super::*;
use crate::limits::Clocks;
use crate::store::{Answer, Reply};

fn within(timeout: u64) -> NewCall {
    NewCall { timeout: Some(Duration::from_secs(timeout)), ..call() }
}

#[tokio::test(start_paused = true)]
async fn a_call_ends_at_its_deadline_though_nobody_waits_for_it() {
    let hub = hub();
    register(&hub);
    let mut connection = connect(&hub);
    let open = hub.open(within(2)).await.unwrap();
    offered(&mut connection).await;
    let began = Instant::now();
    let (request, reason) = cancelled(&mut connection).await;
    assert_eq!(
        (request, reason.as_str()),
        (open.head().request.clone(), "Client tool execution timed out after 2000ms")
    );
    assert_eq!(began.elapsed().as_secs(), 2);
    assert_eq!(hub.counts().calls, 0);
    assert_eq!(open.outcome().await.unwrap().outcome.kind(), OutcomeKind::Timeout);
}

/// In real time, on one thread: while that is blocked, the deadline passes and the task that ends overdue calls does not run.
#[tokio::test]
async fn an_answer_after_the_deadline_is_late_though_nobody_has_looked_at_the_deadline_yet() {
    let timeout = Duration::from_millis(200);
    for cancels in [false, true] {
        let hub = hub();
        register(&hub);
        let mut connection = connect(&hub);
        let open = hub.open(NewCall { timeout: Some(timeout), ..call() }).await.unwrap();
        let (request, ..) = offered(&mut connection).await;
        std::thread::sleep(timeout);
        let refused = match cancels {
            true => hub.cancel(&request, &Actor::Trusted, "stop".to_owned()).await.err(),
            false => hub.complete(&request, &Actor::Trusted, ok()).await.err(),
        };
        assert!(matches!(refused, Some(NotTaken::Over)), "{refused:?}");
        let ended = open.outcome().await.unwrap();
        assert_eq!(ended.outcome.kind(), OutcomeKind::Timeout);
        let kept = hub.finished(&request).await.unwrap().unwrap();
        assert_eq!(kept.late.is_some(), !cancels);
    }
}

#[tokio::test(start_paused = true)]
async fn whichever_call_is_due_first_ends_first() {
    let hub = hub();
    register(&hub);
    let began = Instant::now();
    let open = async |timeout| hub.open(within(timeout)).await.unwrap();
    // Each is due before what was due until then, or after it.
    let calls = [open(20).await, open(5).await, open(10).await, open(1).await, open(15).await];
    let ended = calls.map(async |call| (call.outcome().await.unwrap().outcome.kind(), began.elapsed().as_secs()));
    let ended = futures_util::future::join_all(ended).await;
    assert_eq!(ended, [20, 5, 10, 1, 15].map(|after| (OutcomeKind::Timeout, after)));
}

#[tokio::test(start_paused = true)]
async fn calls_that_are_due_together_do_not_wait_for_the_journal_of_each_other() {
    let hub = Hub::new(Limits::default(), Clock::counting(), Arc::new(SlowStore::default()), TaskTracker::new());
    register(&hub);
    let calls = futures_util::future::join_all((0..20).map(|_| hub.open(within(10)))).await;
    let began = Instant::now();
    let ended = futures_util::future::join_all(calls.into_iter().map(|call| call.unwrap().outcome())).await;
    assert!(ended.iter().all(|call| call.as_ref().unwrap().outcome.kind() == OutcomeKind::Timeout));
    // The journal takes a second for each.
    assert_eq!(began.elapsed().as_secs(), 10);
    assert_eq!(hub.metrics().under_way(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_yes_at_the_last_moment_counts_though_it_is_journaled_after_it() {
    let limits = Limits {
        clocks: Clocks { approval_timeout: Duration::from_secs(5), ..Clocks::default() },
        ..Limits::default()
    };
    let hub = Hub::new(limits, Clock::counting(), Arc::new(SlowStore::default()), TaskTracker::new());
    register(&hub);
    let mut connection = connect(&hub);
    let mut open = hub.open(NewCall { permission: Permission::Ask, ..within(10) }).await.unwrap();
    let ask = open.ask().unwrap().id.clone();
    // The call was a second in the journal before anybody was asked, and that counts.
    tokio::time::sleep(Duration::from_millis(3_500)).await;
    let yes = Answer { reply: Reply::Once, input: None, message: None };
    let (answered, allowed) = tokio::join!(hub.answer(&ask, &Actor::Trusted, yes), open.allowed());
    assert!(answered.is_ok() && allowed);
    let (request, ..) = offered(&mut connection).await;
    hub.complete(&request, &Actor::Trusted, ok()).await.unwrap();
    assert_eq!(open.outcome().await.unwrap().outcome.kind(), OutcomeKind::Success);
}
