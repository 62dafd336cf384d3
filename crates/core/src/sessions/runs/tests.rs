//! Runs that are started once, told to whoever follows, and kept.

mod gated;

use serde_json::json;
use serde_json::value::to_raw_value;
use tokio::sync::Semaphore;
use tokio_util::task::TaskTracker;

use self::gated::GatedStore;
use super::*;
use crate::clock::{Clock, Time};
use crate::events::Follower;
use crate::limits::Limits;
use crate::sessions::{Agents, Models, Setup};
use crate::store::{MemoryStore, ModelRef, Session, SessionStore};

/// A moment of the clock that always says the same.
const NOW: Time = Time(1_767_225_600_000);

async fn runs() -> (Runs, SessionId) {
    let kept = Arc::new(MemoryStore::default());
    runs_in(&kept, kept.clone()).await
}

/// Threads whose runs are in one store, and their session in another.
async fn runs_in(kept: &Arc<MemoryStore>, store: Arc<dyn RunStore>) -> (Runs, SessionId) {
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
    kept.save_session(&Arc::new(thread), IfFull::Fails).await.unwrap();
    let hub = Hub::new(Limits::default(), Clock::counting(), kept.clone(), TaskTracker::new());
    (Runs::new(hub, store), session)
}

fn input() -> Box<RawValue> {
    to_raw_value(&json!({ "runId": "r" })).unwrap()
}

/// An event by its name: "end" is how a run ends by itself.
fn event(name: &str) -> TurnEvent {
    let error = |name: &str| Arc::new(TurnError::Other(name.to_owned()));
    match name {
        "end" => TurnEvent::Ended(None),
        "broke off" => TurnEvent::Ended(Some(error("The run broke off on the server; see its log"))),
        name => TurnEvent::Grew {
            message: crate::id::MessageId::parse("m").unwrap(),
            part: crate::id::PartId::parse("p").unwrap(),
            field: crate::events::Field::Text,
            delta: name.into(),
        },
    }
}

/// Events as they are kept.
fn rows(names: &[&str]) -> Vec<Arc<str>> {
    names.iter().map(|name| row(&event(name))).collect()
}

/// What a follower has at once, as it would be kept.
fn heard(follower: &mut Follower) -> Vec<Arc<str>> {
    let next = || follower.next().now_or_never().flatten();
    std::iter::from_fn(next).map(|event| row(&event)).collect()
}

/// All that a run has told.
async fn told(runs: &Runs, session: &SessionId, run: &RunId) -> Vec<Arc<str>> {
    heard(&mut runs.feed(session, run).await.unwrap().follow(0))
}

/// A run, as JSON.
async fn shown(runs: &Runs, session: &SessionId, run: &RunId) -> serde_json::Value {
    serde_json::to_value(runs.run(session, run).await.unwrap().as_deref()).unwrap()
}

#[tokio::test]
async fn a_run_is_started_once() {
    let (runs, session) = runs().await;
    let run = runs.create(&session, None, None).await.unwrap();
    let again = |result: Result<Recorder, NotStarted>| matches!(result, Err(NotStarted::Again(id)) if id == run.id);
    let teller = runs.start(&session, &run.id, input()).await.unwrap();
    assert!(again(runs.start(&session, &run.id, input()).await));
    teller.finish(event("end")).await;
    assert!(again(runs.start(&session, &run.id, input()).await));
    let unknown = RunId::parse("nobody").unwrap();
    assert!(matches!(runs.start(&session, &unknown, input()).await, Err(NotStarted::Unknown(id)) if id == unknown));
    // Nothing is left of those who were refused.
    assert!(runs.0.under_way.is_empty());
}

#[tokio::test]
async fn a_run_that_is_withdrawn_can_be_started() {
    let (runs, session) = runs().await;
    let run = runs.create(&session, None, None).await.unwrap();
    let before = shown(&runs, &session, &run.id).await;
    runs.start(&session, &run.id, input()).await.unwrap().withdraw().await.unwrap();
    assert_eq!(shown(&runs, &session, &run.id).await, before);
    runs.start(&session, &run.id, input()).await.unwrap();
}

#[tokio::test]
async fn whoever_follows_gets_everything_from_where_it_was() {
    let (runs, session) = runs().await;
    let run = runs.create(&session, None, None).await.unwrap();
    let mut recorder = runs.start(&session, &run.id, input()).await.unwrap();
    let mut early = runs.feed(&session, &run.id).await.unwrap().follow(0);
    assert_eq!(heard(&mut early), rows(&[]));
    recorder.tell(event("a"));
    recorder.tell(event("b"));
    let mut late = runs.feed(&session, &run.id).await.unwrap().follow(1);
    recorder.tell(event("c"));
    recorder.finish(event("end")).await;
    for (follower, expected) in [(&mut early, rows(&["a", "b", "c", "end"])), (&mut late, rows(&["b", "c", "end"]))] {
        assert_eq!(heard(follower), expected);
        assert!(follower.next().await.is_none());
    }
    for from in 0..5 {
        let mut follower = runs.feed(&session, &run.id).await.unwrap().follow(from);
        assert_eq!(heard(&mut follower), rows(&["a", "b", "c", "end"])[from.min(4)..]);
    }
}

#[tokio::test]
async fn the_end_is_kept_before_it_is_told() {
    let (runs, session) = runs().await;
    let run = runs.create(&session, None, Some("first".to_owned())).await.unwrap();
    let mut recorder = runs.start(&session, &run.id, input()).await.unwrap();
    let mut follower = runs.feed(&session, &run.id).await.unwrap().follow(0);
    recorder.tell(event("a"));
    recorder.usage.usage = RunUsage { input_tokens: 1, output_tokens: 2, requests: 3, tool_calls: 4 };
    let mut finishing = Box::pin(recorder.finish(event("end")));
    let is_finished = loop {
        let ended = futures_util::poll!(finishing.as_mut()).is_ready();
        let has_end = heard(&mut follower).contains(&rows(&["end"])[0]);
        let finished = shown(&runs, &session, &run.id).await["finished"].clone();
        let stored = runs.store().run_events(&session, &run.id, 0).await.unwrap();
        if has_end {
            break (finished, stored);
        }
        assert!(!ended, "the end is told");
    };
    assert_eq!(is_finished, (json!(NOW), rows(&["a", "end"])));
    drop(finishing);
    assert_eq!(
        shown(&runs, &session, &run.id).await,
        json!({ "id": run.id.as_str(), "session": "thread", "parent": null, "created": NOW, "started": NOW,
            "finished": NOW, "label": "first", "input": { "runId": "r" },
            "usage": { "input_tokens": 1, "output_tokens": 2, "requests": 3, "tool_calls": 4 } })
    );
}

#[tokio::test]
async fn what_is_told_while_the_store_is_busy_is_kept_and_then_seen() {
    let (kept, gate) = (Arc::new(MemoryStore::default()), Arc::new(Semaphore::new(0)));
    let store = Arc::new(GatedStore { kept: kept.clone(), gate: gate.clone() });
    let (runs, session) = runs_in(&kept, store).await;
    let run = runs.create(&session, None, None).await.unwrap();
    let mut recorder = runs.start(&session, &run.id, input()).await.unwrap();
    let mut follower = runs.feed(&session, &run.id).await.unwrap().follow(0);
    for name in ["a", "b", "c"] {
        recorder.tell(event(name));
    }
    // Nothing more is told: the first is being kept, and the others wait for it.
    let stored = async || kept.run_events(&session, &run.id, 0).await.unwrap();
    assert_eq!(recorder.keep_up().now_or_never(), None);
    // What is not kept is not seen either.
    assert_eq!((stored().await, heard(&mut follower)), (rows(&[]), rows(&[])));
    gate.add_permits(1);
    assert_eq!(recorder.keep_up().now_or_never(), None);
    assert_eq!((stored().await, recorder.saving.is_some()), (rows(&["a"]), true));
    assert_eq!(heard(&mut follower), rows(&["a"]));
    gate.add_permits(1);
    assert_eq!(recorder.keep_up().now_or_never(), Some(()));
    assert_eq!((stored().await, recorder.saving.is_some()), (rows(&["a", "b", "c"]), false));
    assert_eq!(heard(&mut follower), rows(&["b", "c"]));
    // And the end comes after them.
    gate.add_permits(1);
    recorder.finish(event("end")).await;
    assert_eq!(stored().await, rows(&["a", "b", "c", "end"]));
}

#[tokio::test]
async fn a_run_that_breaks_off_has_last_words_and_is_over() {
    let (runs, session) = runs().await;
    let run = runs.create(&session, None, None).await.unwrap();
    let mut recorder = runs.start(&session, &run.id, input()).await.unwrap();
    let mut follower = runs.feed(&session, &run.id).await.unwrap().follow(0);
    recorder.tell(event("a"));
    drop(recorder);
    assert_eq!(heard(&mut follower), rows(&["a", "broke off"]));
    assert!(follower.next().await.is_none());
    assert_eq!(told(&runs, &session, &run.id).await, rows(&["a", "broke off"]));
    assert_eq!(shown(&runs, &session, &run.id).await["finished"], json!(NOW));
}

#[tokio::test]
async fn what_an_earlier_version_left_is_ended_or_can_be_started_again() {
    let kept = Arc::new(MemoryStore::default());
    let (runs, session) = runs_in(&kept, kept.clone()).await;
    let setup = Setup {
        models: Models::default(),
        default_model: ModelRef::parse("a/b").unwrap(),
        agents: Agents::default(),
        tools: Vec::new(),
        frontend_tools: Vec::new(),
        hooks: Vec::new(),
    };
    let sessions = Sessions::new(runs.0.hub.clone(), kept, setup);
    let mut made = Vec::new();
    for _ in 0..5 {
        made.push(runs.create(&session, None, None).await.unwrap());
    }
    let [left, silent, untouched, over, ended] = &made[..] else { panic!("five runs") };
    for run in [left, silent, ended] {
        let started = ThreadRun { started: Some(NOW), ..ThreadRun::clone(run) };
        runs.store().save_run(&Arc::new(started), IfFull::Fails).await.unwrap();
    }
    runs.store().append_run_events(&session, &left.id, 0, rows(&["a", "b"])).await.unwrap();
    runs.store().append_run_events(&session, &ended.id, 0, rows(&["a", "end"])).await.unwrap();
    let recorder = runs.start(&session, &over.id, input()).await.unwrap();
    recorder.finish(event("end")).await;
    assert_eq!(runs.recover(&sessions).await.unwrap(), 3);
    until_over(&runs, &session, &left.id).await;
    assert_eq!(runs.recover(&sessions).await.unwrap(), 0);
    let interrupted = || {
        let message = "The server was restarted before this run was over".to_owned();
        row(&TurnEvent::Ended(Some(Arc::new(TurnError::Refused { code: "interrupted".into(), message }))))
    };
    let and_interrupted = |names: &[&str]| rows(names).into_iter().chain([interrupted()]).collect::<Vec<_>>();
    for (run, expected, finished) in [
        (left, and_interrupted(&["a", "b"]), json!(NOW)),
        (silent, rows(&[]), json!(null)),
        (untouched, rows(&[]), json!(null)),
        (over, rows(&["end"]), json!(NOW)),
        (ended, rows(&["a", "end"]), json!(NOW)),
    ] {
        assert_eq!(told(&runs, &session, &run.id).await, expected);
        assert_eq!(shown(&runs, &session, &run.id).await["finished"], finished);
    }
    assert!(runs.start(&session, &silent.id, input()).await.is_ok());
}

async fn until_over(runs: &Runs, session: &SessionId, run: &RunId) {
    while shown(runs, session, run).await["finished"].is_null() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_run_that_is_over_is_told_whole_while_somebody_tries_to_start_it_again() {
    let (kept, gate) = (Arc::new(MemoryStore::default()), Arc::new(Semaphore::new(10)));
    let (runs, session) = runs_in(&kept, Arc::new(GatedStore { kept: kept.clone(), gate })).await;
    let run = runs.create(&session, None, None).await.unwrap();
    let mut recorder = runs.start(&session, &run.id, input()).await.unwrap();
    recorder.tell(event("a"));
    recorder.finish(event("end")).await;
    let mut starting = Box::pin(runs.start(&session, &run.id, input()));
    assert!((&mut starting).now_or_never().is_none());
    assert_eq!(told(&runs, &session, &run.id).await, rows(&["a", "end"]));
    assert!(matches!(starting.await, Err(NotStarted::Again(_))));
}

#[tokio::test]
async fn who_comes_to_a_run_that_is_just_started_follows_it() {
    let (kept, gate) = (Arc::new(MemoryStore::default()), Arc::new(Semaphore::new(10)));
    let (runs, session) = runs_in(&kept, Arc::new(GatedStore { kept: kept.clone(), gate })).await;
    let run = runs.create(&session, None, None).await.unwrap();
    let mut starting = Box::pin(runs.start(&session, &run.id, input()));
    while kept.run(&session, &run.id).await.unwrap().unwrap().started.is_none() {
        assert!((&mut starting).now_or_never().is_none());
    }
    let (_, feed) = runs.run_with_feed(&session, &run.id).await.unwrap().unwrap();
    let mut follower = feed.follow(0);
    assert!(follower.next().now_or_never().is_none(), "its events are yet to come");
    starting.await.unwrap().finish(event("end")).await;
    assert_eq!(heard(&mut follower), rows(&["end"]));
}

#[tokio::test]
async fn who_comes_to_a_run_while_its_thread_is_deleted_is_told_its_end_or_finds_no_run() {
    let mut found = Vec::new();
    // The thread is deleted, and the run breaks off, after this many steps of whoever comes to it.
    for (deleted, broken) in (0..6).flat_map(|deleted| (0..6).map(move |broken| (deleted, broken))) {
        let (kept, gate) = (Arc::new(MemoryStore::default()), Arc::new(Semaphore::new(10)));
        let (runs, session) = runs_in(&kept, Arc::new(GatedStore { kept: kept.clone(), gate })).await;
        let run = runs.create(&session, None, None).await.unwrap();
        let mut recorder = Some(runs.start(&session, &run.id, input()).await.unwrap());
        recorder.as_mut().unwrap().tell(event("a"));
        let mut coming = Box::pin(runs.run_with_feed(&session, &run.id));
        let mut come = None;
        for step in 0..6 {
            if step == deleted {
                kept.delete_session(&session).await.unwrap();
            }
            if step == broken {
                recorder = None;
            }
            come = come.or_else(|| (&mut coming).now_or_never());
            // What the recorder leaves to be stored has its turn.
            tokio::task::yield_now().await;
        }
        assert!(recorder.is_none());
        let come = come.expect("it takes fewer steps").unwrap();
        found.push(come.is_some());
        if let Some((_, feed)) = come {
            assert_eq!(heard(&mut feed.follow(0)), rows(&["a", "broke off"]), "{deleted} {broken}");
        }
    }
    assert!(found.contains(&true) && found.contains(&false));
}

#[tokio::test]
async fn what_an_earlier_version_recorded_is_told_as_it_was() {
    let (runs, session) = runs().await;
    let run = runs.create(&session, None, None).await.unwrap();
    let recorded: Vec<Arc<str>> = vec![r#"{"type":"RUN_STARTED"}"#.into(), r#"{"type":"RUN_FINISHED"}"#.into()];
    runs.store().append_run_events(&session, &run.id, 0, recorded.clone()).await.unwrap();
    let mut follower = runs.feed(&session, &run.id).await.unwrap().follow(0);
    for row in recorded {
        assert!(matches!(follower.next().await, Some(TurnEvent::Recorded(text)) if text == row));
    }
    assert!(follower.next().await.is_none());
}
