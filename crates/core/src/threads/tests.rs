//! Runs that are started once, told to whoever follows, and kept.

mod gated;

use serde_json::json;
use serde_json::value::to_raw_value;
use tokio::sync::Semaphore;
use tokio_util::task::TaskTracker;

use self::gated::GatedStore;
use super::*;
use crate::clock::{Clock, Time};
use crate::limits::Limits;
use crate::message::Session;
use crate::store::{MemoryStore, SessionStore};

/// A moment of the clock that always says the same.
const NOW: Time = Time(1_767_225_600_000);

async fn threads() -> (Threads, SessionId) {
    let kept = Arc::new(MemoryStore::default());
    threads_in(&kept, kept.clone()).await
}

/// Threads whose runs are in one store, and their session in another.
async fn threads_in(kept: &Arc<MemoryStore>, runs: Arc<dyn RunStore>) -> (Threads, SessionId) {
    let session = SessionId::parse("thread").unwrap();
    let thread = Session {
        id: session.clone(),
        client: None,
        title: String::new(),
        parent: None,
        agent: None,
        model: None,
        metadata: None,
        has_frontend: false,
        approved: Default::default(),
        created: NOW,
        updated: NOW,
    };
    kept.save_session(&Arc::new(thread)).await.unwrap();
    let hub = Hub::new(Limits::default(), Clock::counting(), kept.clone(), TaskTracker::new());
    (Threads::new(hub, runs), session)
}

fn input() -> Box<RawValue> {
    to_raw_value(&json!({ "runId": "r" })).unwrap()
}

fn events(texts: &[&str]) -> Vec<Arc<str>> {
    texts.iter().map(|text| (*text).into()).collect()
}

/// What a follower has at once.
fn heard(follower: &mut RunFollower) -> Vec<(usize, String)> {
    let next = || follower.next().now_or_never().flatten();
    std::iter::from_fn(next).map(|(number, event)| (number, event.to_string())).collect()
}

fn numbered(from: usize, texts: &[&str]) -> Vec<(usize, String)> {
    texts.iter().enumerate().map(|(place, text)| (from + place, (*text).to_owned())).collect()
}

/// A run, as JSON.
async fn shown(threads: &Threads, session: &SessionId, run: &RunId) -> serde_json::Value {
    serde_json::to_value(threads.run(session, run).await.unwrap().as_deref()).unwrap()
}

#[tokio::test]
async fn a_run_is_started_once() {
    let (threads, session) = threads().await;
    let run = threads.create(&session, None, None).await.unwrap();
    let again = |result: Result<Teller, NotStarted>| matches!(result, Err(NotStarted::Again(id)) if id == run.id);
    let teller = threads.start(&session, &run.id, input(), "broke off").await.unwrap();
    assert!(again(threads.start(&session, &run.id, input(), "broke off").await));
    teller.finish(events(&["end"]), RunUsage::default()).await;
    assert!(again(threads.start(&session, &run.id, input(), "broke off").await));
    let unknown = RunId::parse("nobody").unwrap();
    assert!(
        matches!(threads.start(&session, &unknown, input(), "broke off").await, Err(NotStarted::Unknown(id)) if id == unknown)
    );
    // Nothing is left of those who were refused.
    assert!(threads.0.under_way.is_empty());
}

#[tokio::test]
async fn a_run_that_is_withdrawn_can_be_started() {
    let (threads, session) = threads().await;
    let run = threads.create(&session, None, None).await.unwrap();
    let before = shown(&threads, &session, &run.id).await;
    threads.start(&session, &run.id, input(), "broke off").await.unwrap().withdraw().await.unwrap();
    assert_eq!(shown(&threads, &session, &run.id).await, before);
    threads.start(&session, &run.id, input(), "broke off").await.unwrap();
}

#[tokio::test]
async fn whoever_follows_gets_everything_from_where_it_was() {
    let (threads, session) = threads().await;
    let run = threads.create(&session, None, None).await.unwrap();
    let mut teller = threads.start(&session, &run.id, input(), "broke off").await.unwrap();
    let mut early = threads.follow(&session, &run.id, 0).await.unwrap();
    assert_eq!(heard(&mut early), []);
    teller.tell(events(&["a", "b"]));
    let mut late = threads.follow(&session, &run.id, 1).await.unwrap();
    // One who says that it has seen what was not told yet misses nothing of what comes.
    let mut beyond = threads.follow(&session, &run.id, 99).await.unwrap();
    teller.tell(events(&["c"]));
    teller.finish(events(&["d", "end"]), RunUsage::default()).await;
    for (follower, expected) in [
        (&mut early, numbered(0, &["a", "b", "c", "d", "end"])),
        (&mut late, numbered(1, &["b", "c", "d", "end"])),
        (&mut beyond, numbered(2, &["c", "d", "end"])),
    ] {
        assert_eq!(heard(follower), expected);
        assert_eq!(follower.next().await, None);
    }
    for (from, expected) in [
        (0, numbered(0, &["a", "b", "c", "d", "end"])),
        (4, numbered(4, &["end"])),
        // Whoever has seen all of it hears its last word again: every stream ends with it.
        (5, numbered(4, &["end"])),
        (99, numbered(4, &["end"])),
    ] {
        assert_eq!(heard(&mut threads.follow(&session, &run.id, from).await.unwrap()), expected);
    }
}

#[tokio::test]
async fn the_end_is_kept_before_it_is_told() {
    let (threads, session) = threads().await;
    let run = threads.create(&session, None, Some("first".to_owned())).await.unwrap();
    let mut teller = threads.start(&session, &run.id, input(), "broke off").await.unwrap();
    let mut follower = threads.follow(&session, &run.id, 0).await.unwrap();
    teller.tell(events(&["a"]));
    let usage = RunUsage { input_tokens: 1, output_tokens: 2, requests: 3, tool_calls: 4 };
    let mut finishing = Box::pin(teller.finish(events(&["end"]), usage));
    let is_finished = loop {
        let ended = futures_util::poll!(finishing.as_mut()).is_ready();
        let has_end = heard(&mut follower).iter().any(|(_, event)| event == "end");
        let finished = shown(&threads, &session, &run.id).await["finished"].clone();
        let stored = threads.store().run_events(&session, &run.id, 0).await.unwrap();
        if has_end {
            break (finished, stored);
        }
        assert!(!ended, "the end is told");
    };
    assert_eq!(is_finished, (json!(NOW), events(&["a", "end"])));
    drop(finishing);
    assert_eq!(
        shown(&threads, &session, &run.id).await,
        json!({ "id": run.id.as_str(), "session": "thread", "parent": null, "created": NOW, "started": NOW,
            "finished": NOW, "label": "first", "input": { "runId": "r" },
            "usage": { "input_tokens": 1, "output_tokens": 2, "requests": 3, "tool_calls": 4 } })
    );
}

#[tokio::test]
async fn what_is_told_while_the_store_is_busy_is_kept_and_then_seen() {
    let (kept, gate) = (Arc::new(MemoryStore::default()), Arc::new(Semaphore::new(0)));
    let runs = Arc::new(GatedStore { kept: kept.clone(), gate: gate.clone() });
    let (threads, session) = threads_in(&kept, runs).await;
    let run = threads.create(&session, None, None).await.unwrap();
    let mut teller = threads.start(&session, &run.id, input(), "broke off").await.unwrap();
    let mut follower = threads.follow(&session, &run.id, 0).await.unwrap();
    for event in ["a", "b", "c"] {
        teller.tell(events(&[event]));
    }
    // Nothing more is told: the first is being kept, and the others wait for it.
    let stored = async || kept.run_events(&session, &run.id, 0).await.unwrap();
    assert_eq!(teller.keep_up().now_or_never(), None);
    // What is not kept is not seen either.
    assert_eq!((stored().await, heard(&mut follower)), (events(&[]), vec![]));
    assert_eq!(threads.events(&session, &run.id).await.unwrap(), events(&[]));
    gate.add_permits(1);
    assert_eq!(teller.keep_up().now_or_never(), None);
    assert_eq!((stored().await, teller.is_saving()), (events(&["a"]), true));
    assert_eq!(heard(&mut follower), numbered(0, &["a"]));
    gate.add_permits(1);
    assert_eq!(teller.keep_up().now_or_never(), Some(()));
    assert_eq!((stored().await, teller.is_saving()), (events(&["a", "b", "c"]), false));
    assert_eq!(heard(&mut follower), numbered(1, &["b", "c"]));
    // And the end comes after them.
    gate.add_permits(1);
    teller.finish(events(&["end"]), RunUsage::default()).await;
    assert_eq!(stored().await, events(&["a", "b", "c", "end"]));
}

#[tokio::test]
async fn a_run_that_breaks_off_has_last_words_and_is_over() {
    let (threads, session) = threads().await;
    let run = threads.create(&session, None, None).await.unwrap();
    let mut teller = threads.start(&session, &run.id, input(), "broke off").await.unwrap();
    let mut follower = threads.follow(&session, &run.id, 0).await.unwrap();
    teller.tell(events(&["a"]));
    drop(teller);
    assert_eq!(heard(&mut follower), numbered(0, &["a", "broke off"]));
    assert_eq!(follower.next().await, None);
    assert_eq!(threads.events(&session, &run.id).await.unwrap(), events(&["a", "broke off"]));
    assert_eq!(shown(&threads, &session, &run.id).await["finished"], json!(NOW));
}

#[tokio::test]
async fn what_an_earlier_process_left_is_ended() {
    let (threads, session) = threads().await;
    let mut runs = Vec::new();
    for _ in 0..5 {
        runs.push(threads.create(&session, None, None).await.unwrap());
    }
    let [left, silent, untouched, over, told] = &runs[..] else { panic!("five runs") };
    for run in [left, silent, told] {
        let started = ThreadRun { started: Some(NOW), ..ThreadRun::clone(run) };
        threads.store().save_run(&Arc::new(started)).await.unwrap();
    }
    threads.store().append_run_events(&session, &left.id, 0, events(&["a", "b"])).await.unwrap();
    threads.store().append_run_events(&session, &told.id, 0, events(&["a", "end"])).await.unwrap();
    let teller = threads.start(&session, &over.id, input(), "broke off").await.unwrap();
    teller.finish(events(&["end"]), RunUsage::default()).await;
    assert_eq!(threads.recover("gone", |event| event == "end").await.unwrap(), 3);
    assert_eq!(threads.recover("gone", |event| event == "end").await.unwrap(), 0);
    for (run, expected, finished) in [
        (left, events(&["a", "b", "gone"]), json!(NOW)),
        (silent, events(&["gone"]), json!(NOW)),
        (untouched, events(&[]), json!(null)),
        (over, events(&["end"]), json!(NOW)),
        (told, events(&["a", "end"]), json!(NOW)),
    ] {
        assert_eq!(threads.events(&session, &run.id).await.unwrap(), expected);
        assert_eq!(shown(&threads, &session, &run.id).await["finished"], finished);
    }
}

#[tokio::test]
async fn a_run_that_is_over_is_told_whole_while_somebody_tries_to_start_it_again() {
    let (kept, gate) = (Arc::new(MemoryStore::default()), Arc::new(Semaphore::new(10)));
    let (threads, session) = threads_in(&kept, Arc::new(GatedStore { kept: kept.clone(), gate })).await;
    let run = threads.create(&session, None, None).await.unwrap();
    let mut teller = threads.start(&session, &run.id, input(), "broke off").await.unwrap();
    teller.tell(events(&["a"]));
    teller.finish(events(&["end"]), RunUsage::default()).await;
    let mut starting = Box::pin(threads.start(&session, &run.id, input(), "broke off"));
    assert!((&mut starting).now_or_never().is_none());
    let mut follower = threads.follow(&session, &run.id, 0).await.unwrap();
    assert_eq!(heard(&mut follower), numbered(0, &["a", "end"]));
    assert_eq!(threads.events(&session, &run.id).await.unwrap(), events(&["a", "end"]));
    assert!(matches!(starting.await, Err(NotStarted::Again(_))));
}
