//! What waits for the journal, and what the journal fails to take.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::FutureExt;

use super::*;
use crate::store::{StoredClient, StoredTool};

/// A store that takes its time, and fails when told to.
#[derive(Default)]
pub(super) struct SlowStore {
    kept: MemoryStore,
    fails: AtomicBool,
    /// Whether what it fails to take it may take later.
    is_full: AtomicBool,
}

impl SlowStore {
    fn slowly<T: Send + 'static>(&self, write: impl FnOnce(&MemoryStore) -> StoreFuture<T>) -> StoreFuture<T> {
        let is_full = self.is_full.load(Ordering::Relaxed);
        let written = (!self.fails.load(Ordering::Relaxed)).then(|| write(&self.kept));
        Box::pin(async move {
            tokio::time::sleep(Duration::from_secs(1)).await;
            match written {
                Some(written) => written.await,
                None if is_full => Err(StoreError::Full("full".into())),
                None => Err(StoreError::Failed("broken".into())),
            }
        })
    }
}

impl CallStore for SlowStore {
    fn begin(&self, call: &JournaledCall, if_full: IfFull) -> StoreFuture<Begun> {
        self.slowly(|kept| kept.begin(call, if_full))
    }

    fn change(&self, call: &JournaledCall, if_full: IfFull) -> StoreFuture<()> {
        self.slowly(|kept| kept.change(call, if_full))
    }

    fn open_calls(&self) -> StoreFuture<Vec<JournaledCall>> {
        self.kept.open_calls()
    }

    fn save_client(&self, client: StoredClient, tools: Vec<(ToolName, Option<StoredTool>)>) -> StoreFuture<()> {
        self.kept.save_client(client, tools)
    }

    fn clients(&self) -> StoreFuture<Vec<(StoredClient, Vec<StoredTool>)>> {
        self.kept.clients()
    }

    fn is_lasting(&self) -> bool {
        self.kept.is_lasting()
    }

    fn finish(&self, call: &Arc<FinishedCall>, if_full: IfFull) -> StoreFuture<Ended> {
        self.slowly(|kept| kept.finish(call, if_full))
    }

    fn keep_late(&self, request: &RequestId, late: Outcome) -> StoreFuture<bool> {
        self.kept.keep_late(request, late)
    }

    fn finished(&self, request: &RequestId) -> StoreFuture<Option<Arc<FinishedCall>>> {
        self.kept.finished(request)
    }

    fn list_finished(
        &self,
        filter: &CallFilter,
        before: Option<u64>,
        most: Most,
    ) -> StoreFuture<Page<(u64, Arc<FinishedCall>)>> {
        self.kept.list_finished(filter, before, most)
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_is_not_offered_before_it_is_journaled_nor_a_result_confirmed() {
    let hub = Hub::new(Limits::default(), Clock::counting(), Arc::new(SlowStore::default()), TaskTracker::new());
    register(&hub);
    let mut connection = connect(&hub);
    let before = Instant::now();
    let (request, waiter) = start(&hub).await;
    assert_eq!(before.elapsed().as_secs(), 1);
    offered(&mut connection).await;
    assert_eq!(hub.complete(&request, &Actor::Trusted, ok()).await.unwrap(), Taken::First);
    assert_eq!(before.elapsed().as_secs(), 2);
    let finished = waiter.await.unwrap();
    assert_eq!(finished.outcome.kind(), OutcomeKind::Success);
    // Nobody had to allow it.
    assert_eq!((finished.phases.approval, finished.phases.queue.as_secs()), (Duration::ZERO, 1));
}

#[tokio::test(start_paused = true)]
async fn a_call_that_has_just_ended_is_known_before_it_is_journaled() {
    let hub = hub();
    register(&hub);
    let mut connection = connect(&hub);
    let (request, waiter) = start(&hub).await;
    offered(&mut connection).await;
    let Decided::Ended(ending) = hub.decide(&request, &Actor::Trusted, Answerer::Client, &mut Some(ok())).unwrap()
    else {
        panic!("it was open");
    };
    assert!(hub.finished(&request).await.unwrap().is_none(), "it is not journaled yet");
    let known = hub.call(&request, Duration::ZERO).await.unwrap();
    assert_eq!(known.map(|call| call.state), Some(CallState::Done));
    hub.journal(ending).await.unwrap();
    waiter.await.unwrap();
}

/// The lines of a hub's metrics that count calls: those that were made, those that succeeded, those that were cancelled.
fn counted(hub: &Hub) -> [u64; 3] {
    let mut registry = prometheus_client::registry::Registry::default();
    hub.metrics().register(&mut registry);
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
    let names = ["calls_started_total ", "calls_total{outcome=\"success\"} ", "calls_total{outcome=\"cancelled\"} "];
    names.map(|name| text.lines().find_map(|line| line.strip_prefix(name)).unwrap().parse().unwrap())
}

#[tokio::test(start_paused = true)]
async fn a_call_is_under_way_while_its_beginning_or_its_end_waits_for_the_journal() {
    let store = Arc::new(SlowStore::default());
    let hub = Hub::new(Limits::default(), Clock::counting(), store.clone(), TaskTracker::new());
    register(&hub);
    let half_a_second = Duration::from_millis(500);
    assert_eq!((hub.metrics().under_way(), counted(&hub)), (0, [0, 0, 0]));
    let open = {
        let opening = hub.open(call());
        tokio::pin!(opening);
        assert!(tokio::time::timeout(half_a_second, &mut opening).await.is_err());
        assert_eq!((hub.metrics().under_way(), counted(&hub)), (1, [1, 0, 0]));
        opening.await.unwrap()
    };
    {
        let completing = hub.complete(&open.head().request, &Actor::Trusted, ok());
        tokio::pin!(completing);
        assert!(tokio::time::timeout(half_a_second, &mut completing).await.is_err());
        assert_eq!((hub.metrics().under_way(), counted(&hub)), (1, [1, 0, 0]));
        completing.await.unwrap();
    }
    assert_eq!((hub.metrics().under_way(), counted(&hub)), (0, [1, 1, 0]));
    // One that cannot be journaled was never made.
    store.fails.store(true, Ordering::Relaxed);
    assert!(matches!(hub.open(call()).await, Err(Refusal::Store(_))));
    assert_eq!((hub.metrics().under_way(), counted(&hub)), (0, [1, 1, 0]));
}

#[tokio::test(start_paused = true)]
async fn a_poster_that_goes_while_its_result_is_journaled_does_not_leave_the_caller_waiting() {
    let hub = Hub::new(Limits::default(), Clock::counting(), Arc::new(SlowStore::default()), TaskTracker::new());
    register(&hub);
    let (request, waiter) = start(&hub).await;
    let answering = hub.complete(&request, &Actor::Trusted, ok());
    assert!(tokio::time::timeout(Duration::from_millis(500), answering).await.is_err());
    assert_eq!(waiter.await.unwrap().outcome.kind(), OutcomeKind::Success);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_cannot_be_journaled_is_refused_and_leaves_nothing() {
    let store = Arc::new(SlowStore::default());
    store.fails.store(true, Ordering::Relaxed);
    let hub = Hub::new(Limits::default(), Clock::counting(), store.clone(), TaskTracker::new());
    register(&hub);
    let mut connection = connect(&hub);
    let again = || NewCall { request: Some(RequestId::parse("mine").unwrap()), ..call() };
    let (refused, joined) = tokio::join!(hub.open(again()), async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        hub.open(again()).await.unwrap().outcome().await
    });
    assert!(matches!(refused, Err(Refusal::Store(_))));
    assert!(matches!(joined, Err(Refusal::Store(_))), "{joined:?}");
    assert_eq!(hub.counts().calls, 0);
    assert_quiet(&mut connection);
    // It can be made when there is room.
    store.fails.store(false, Ordering::Relaxed);
    let open = hub.open(again()).await.unwrap();
    let (request, attempt, _) = offered(&mut connection).await;
    assert_eq!((request.as_str(), attempt, hub.counts().calls), ("mine", 1, 1));
    drop(open);
}

/// Its caller hangs up before the journal says that the call was made and had a result long ago.
#[tokio::test(start_paused = true)]
async fn a_call_of_before_that_is_made_again_and_given_up_has_its_outcome() {
    let store = Arc::new(SlowStore::default());
    let request = RequestId::parse("mine").unwrap();
    let again = || NewCall { request: Some(request.clone()), ..call() };
    let new_hub = || Hub::new(Limits::default(), Clock::counting(), store.clone(), TaskTracker::new());
    {
        let before = new_hub();
        register(&before);
        let _open = before.open(again()).await.unwrap();
        before.complete(&request, &Actor::Trusted, ok()).await.unwrap();
    }
    let hub = new_hub();
    register(&hub);
    assert!(tokio::time::timeout(Duration::from_millis(500), hub.open(again())).await.is_err());
    let known = hub.open(again()).await.unwrap().outcome().await.unwrap();
    assert_eq!(known.outcome.kind(), OutcomeKind::Success);
}

#[tokio::test(start_paused = true)]
async fn a_late_result_is_refused_for_good_only_once_it_is_kept() {
    let (hub, store, request) = with_call().await;
    let mut connection = connect(&hub);
    offered(&mut connection).await;
    store.fails.store(true, Ordering::Relaxed);
    let cancelled = hub.cancel(&request, &Actor::Trusted, "no more".to_owned()).await;
    assert!(matches!(cancelled, Err(NotTaken::Store(_))), "{cancelled:?}");
    let early = hub.complete(&request, &Actor::Trusted, ok()).await;
    assert!(matches!(early, Err(NotTaken::Store(_))), "{early:?}");
    store.fails.store(false, Ordering::Relaxed);
    let late = hub.complete(&request, &Actor::Trusted, ok()).await;
    assert!(matches!(late, Err(NotTaken::Over)), "{late:?}");
    let call = hub.finished(&request).await.unwrap().unwrap();
    assert_eq!(call.late.as_ref().map(Outcome::kind), Some(OutcomeKind::Success));
}

/// A hub with a call that is offered, and its store.
async fn with_call() -> (Hub, Arc<SlowStore>, RequestId) {
    let store = Arc::new(SlowStore::default());
    let hub = Hub::new(Limits::default(), Clock::counting(), store.clone(), TaskTracker::new());
    register(&hub);
    let (request, _waiter) = start(&hub).await;
    (hub, store, request)
}

#[tokio::test(start_paused = true)]
async fn a_result_that_comes_twice_is_confirmed_to_nobody_before_it_is_journaled() {
    let (hub, store, request) = with_call().await;
    store.fails.store(true, Ordering::Relaxed);
    let first = hub.complete(&request, &Actor::Trusted, ok());
    let second = async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        // The first will fail; this one need not.
        store.fails.store(false, Ordering::Relaxed);
        hub.complete(&request, &Actor::Trusted, ok()).await
    };
    let (first, second) = tokio::join!(first, second);
    assert!(matches!(first, Err(NotTaken::Store(_))), "{first:?}");
    assert_eq!(second.unwrap(), Taken::Again);
    assert!(hub.finished(&request).await.unwrap().is_some());
}

/// Only who waits for the outcome is refused; who looks at the call sees it as it was.
#[tokio::test(start_paused = true)]
async fn a_call_whose_end_cannot_be_stored_yet_is_shown_as_it_was() {
    let (hub, store, request) = with_call().await;
    let mut connection = connect(&hub);
    offered(&mut connection).await;
    store.is_full.store(true, Ordering::Relaxed);
    store.fails.store(true, Ordering::Relaxed);
    let refused = hub.complete(&request, &Actor::Trusted, ok()).await;
    assert!(matches!(refused, Err(NotTaken::Store(_))), "{refused:?}");
    let call = shown(&hub, &request).await;
    assert!(call.state == CallState::Offered && call.finished.is_none());
    let waited = hub.call(&request, Duration::from_secs(1)).await;
    assert!(matches!(waited, Err(StoreError::Full(_))));
    store.fails.store(false, Ordering::Relaxed);
    assert_eq!(shown(&hub, &request).await.state, CallState::Done);
}

#[tokio::test(start_paused = true)]
async fn a_result_whose_poster_went_is_confirmed_again_only_once_it_is_journaled() {
    let (hub, store, request) = with_call().await;
    store.fails.store(true, Ordering::Relaxed);
    let answering = hub.complete(&request, &Actor::Trusted, ok());
    assert!(tokio::time::timeout(Duration::from_millis(500), answering).await.is_err());
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(matches!(hub.complete(&request, &Actor::Trusted, ok()).await, Err(NotTaken::Store(_))));
    store.fails.store(false, Ordering::Relaxed);
    assert_eq!(hub.complete(&request, &Actor::Trusted, ok()).await.unwrap(), Taken::Again);
    assert!(hub.finished(&request).await.unwrap().is_some());
}

/// What nobody waits for is journaled all the same, and then it is in memory no more.
#[tokio::test(start_paused = true)]
async fn a_result_whose_poster_went_is_let_go_of_when_it_is_journaled() {
    let (hub, _store, request) = with_call().await;
    let answering = hub.complete(&request, &Actor::Trusted, ok());
    assert!(tokio::time::timeout(Duration::from_millis(500), answering).await.is_err());
    tokio::time::sleep(Duration::from_secs(2)).await;
    let held = hub.of_call(&request, |table| table.finished.get(&request, Instant::now()).unwrap().unjournaled.clone());
    assert!(held.is_none() && hub.finished(&request).await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn calls_that_end_with_the_server_are_journaled_together() {
    let (hub, _store, _request) = with_call().await;
    for _ in 0..20 {
        start(&hub).await;
    }
    let before = Instant::now();
    hub.close(Duration::ZERO).await;
    assert_eq!((before.elapsed().as_secs(), hub.counts().calls), (1, 0));
}

/// A store in which a call ends before it says what is over, and another one afterwards.
#[derive(Default)]
struct BusyStore {
    kept: MemoryStore,
    hub: Mutex<Option<Hub>>,
    under_way: Mutex<Vec<RequestId>>,
}

impl CallStore for BusyStore {
    fn begin(&self, call: &JournaledCall, if_full: IfFull) -> StoreFuture<Begun> {
        self.kept.begin(call, if_full)
    }

    fn change(&self, call: &JournaledCall, if_full: IfFull) -> StoreFuture<()> {
        self.kept.change(call, if_full)
    }

    fn open_calls(&self) -> StoreFuture<Vec<JournaledCall>> {
        self.kept.open_calls()
    }

    fn save_client(&self, client: StoredClient, tools: Vec<(ToolName, Option<StoredTool>)>) -> StoreFuture<()> {
        self.kept.save_client(client, tools)
    }

    fn clients(&self) -> StoreFuture<Vec<(StoredClient, Vec<StoredTool>)>> {
        self.kept.clients()
    }

    fn is_lasting(&self) -> bool {
        self.kept.is_lasting()
    }

    fn finish(&self, call: &Arc<FinishedCall>, if_full: IfFull) -> StoreFuture<Ended> {
        self.kept.finish(call, if_full)
    }

    fn keep_late(&self, request: &RequestId, late: Outcome) -> StoreFuture<bool> {
        self.kept.keep_late(request, late)
    }

    fn finished(&self, request: &RequestId) -> StoreFuture<Option<Arc<FinishedCall>>> {
        self.kept.finished(request)
    }

    fn list_finished(
        &self,
        filter: &CallFilter,
        before: Option<u64>,
        most: Most,
    ) -> StoreFuture<Page<(u64, Arc<FinishedCall>)>> {
        let (hub, mut under_way) = (self.hub.lock().unwrap().clone(), self.under_way.lock().unwrap());
        let mut end_one = || {
            let next = hub.as_ref().and_then(|_| under_way.pop());
            if let (Some(hub), Some(next)) = (&hub, next) {
                hub.complete(&next, &Actor::Trusted, ok()).now_or_never().unwrap().unwrap();
            }
        };
        end_one();
        let listed = self.kept.list_finished(filter, before, most);
        end_one();
        listed
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_ends_while_pages_are_read_is_listed_once() {
    for size in 1..8 {
        let store = Arc::new(BusyStore::default());
        let hub = Hub::new(Limits::default(), Clock::counting(), store.clone(), TaskTracker::new());
        register(&hub);
        let (mut made, mut waiters) = (Vec::new(), Vec::new());
        for _ in 0..60 {
            let (request, waiter) = start(&hub).await;
            made.push(request);
            waiters.push(waiter);
        }
        *store.under_way.lock().unwrap() = made.clone();
        *store.hub.lock().unwrap() = Some(hub.clone());
        let (mut listed, mut cursor) = (Vec::new(), None);
        loop {
            let page = hub.calls(&CallFilter::default(), None, cursor.as_ref(), Most::items(size)).await.unwrap();
            listed.extend(page.0.into_iter().map(|call| call.head.request.clone()));
            cursor = page.1;
            if cursor.is_none() {
                break;
            }
        }
        *store.hub.lock().unwrap() = None;
        listed.sort();
        made.sort();
        assert_eq!(listed, made, "pages of {size}");
    }
}

/// Each of many clients makes one call with a large result: none of their shards is ever filled again.
#[tokio::test(start_paused = true)]
async fn so_many_bytes_of_results_are_kept_wherever_they_are() {
    let limits = Limits { stored_bytes: 1 << 20, ..Limits::default() };
    let store = Arc::new(MemoryStore::new(&limits));
    let hub = Hub::new(Limits::default(), Clock::counting(), store, TaskTracker::new());
    let mut results = Vec::new();
    for number in 0..200 {
        let client = ClientId::parse(&format!("c{number}")).unwrap();
        hub.register(&client, &Placement::Everywhere, vec![spec()]).unwrap();
        let callee = Callee::Registered { tool: format!("client_c{number}_t"), client: None };
        let open = hub.open(NewCall { callee, ..call() }).await.unwrap();
        let success = Success { output: "x".repeat(64 << 10), ..Success::default() };
        hub.complete(&open.head().request, &Actor::Trusted, Outcome::Success(success)).await.unwrap();
        results.push(Arc::downgrade(&open.outcome().await.unwrap()));
    }
    let kept = results.iter().filter(|call| call.strong_count() > 0).count();
    assert!((15..=21).contains(&kept), "{kept} of 64 KiB each");
}
