//! Runs of sessions, and what they told.

use std::sync::Arc;

use handback_core::clock::Time;
use handback_core::store::{IfFull, RunUsage, Store, ThreadRun};

use super::samples::{TEXTS, events, objects, run, run_id, seen_run, seen_runs, session, session_id, texts, user};

async fn with_session(store: &Arc<dyn Store>, id: &str) {
    store.save_session(&Arc::new(session(id)), IfFull::Fails).await.unwrap();
}

async fn keep(store: &Arc<dyn Store>, run: ThreadRun) -> String {
    let run = Arc::new(run);
    store.save_run(&run, IfFull::Fails).await.unwrap();
    seen_run(&run)
}

async fn found(store: &Arc<dyn Store>, session: &str, run: &str) -> Option<String> {
    store.run(&session_id(session), &run_id(run)).await.unwrap().as_deref().map(seen_run)
}

async fn kept(store: &Arc<dyn Store>, session: &str) -> Vec<String> {
    seen_runs(&store.runs(&session_id(session)).await.unwrap())
}

async fn tell(store: &Arc<dyn Store>, session: &str, run: &str, first: usize, told: &[&str]) {
    store.append_run_events(&session_id(session), &run_id(run), first, events(told)).await.unwrap();
}

async fn told(store: &Arc<dyn Store>, session: &str, run: &str, from: usize) -> Vec<String> {
    texts(&store.run_events(&session_id(session), &run_id(run), from).await.unwrap())
}

/// The ids of the runs that were started and are not over, by session.
async fn unfinished(store: &Arc<dyn Store>) -> Vec<String> {
    let left = store.unfinished_runs().await.unwrap();
    let mut left: Vec<String> = left.iter().map(|run| format!("{}/{}", run.session, run.id)).collect();
    left.sort();
    left
}

/// Every field, with and without something in it, alone and in a list.
pub async fn a_run_is_kept_as_it_was(store: Arc<dyn Store>) {
    with_session(&store, "ses_1").await;
    let mut runs = vec![run("ses_1", "bare"), run("ses_1", "it's \"quoted\" 🦀 ' --")];
    for (number, text) in TEXTS.into_iter().enumerate() {
        runs.push(ThreadRun {
            parent: Some(run_id("it's \"quoted\" 🦀 ' --")),
            created: Time(u64::MAX),
            started: Some(Time(0)),
            finished: Some(Time(u64::MAX)),
            label: Some(text.into()),
            usage: Some(RunUsage { input_tokens: 1, output_tokens: u64::MAX, requests: 3, tool_calls: 4 }),
            ..run("ses_1", &format!("text {number}"))
        });
    }
    for (number, object) in objects().into_iter().enumerate() {
        runs.push(ThreadRun { input: Some(object), ..run("ses_1", &format!("object {number}")) });
    }
    let mut expected = Vec::new();
    for run in &runs {
        expected.push(keep(&store, run.clone()).await);
    }
    for (run, expected) in runs.iter().zip(&expected) {
        assert_eq!(found(&store, "ses_1", run.id.as_str()).await.as_ref(), Some(expected));
    }
    // They are listed without what they were started with.
    let listed: Vec<String> = runs.iter().map(|run| seen_run(&run.without_input())).collect();
    assert_eq!(kept(&store, "ses_1").await, listed);
}

/// Neither ids nor times nor later saves matter, and what is saved again keeps its events.
pub async fn runs_stay_in_the_order_of_their_first_save(store: Arc<dyn Store>) {
    with_session(&store, "ses_1").await;
    with_session(&store, "ses_2").await;
    let ids = ["c", "a", "d", "b"];
    for (number, id) in ids.into_iter().enumerate() {
        keep(&store, ThreadRun { created: Time(100 - number as u64), ..run("ses_1", id) }).await;
        keep(&store, run("ses_2", &format!("between {id}"))).await;
        tell(&store, "ses_1", id, 0, &[id, "more"]).await;
    }
    let again = |id: &str| ThreadRun { started: Some(Time(7)), label: Some(id.into()), ..run("ses_1", id) };
    for id in ["b", "c", "d", "a"] {
        keep(&store, again(id)).await;
    }
    assert_eq!(kept(&store, "ses_1").await, ids.map(|id| seen_run(&again(id))));
    for id in ids {
        assert_eq!(told(&store, "ses_1", id, 0).await, [id, "more"]);
    }
}

/// The same id in another session is another run, with events of its own.
pub async fn a_run_is_known_by_its_session_and_id(store: Arc<dyn Store>) {
    with_session(&store, "ses_1").await;
    with_session(&store, "ses_2").await;
    let one = keep(&store, run("ses_1", "run_1")).await;
    let other = keep(&store, ThreadRun { label: Some("other".into()), ..run("ses_2", "run_1") }).await;
    tell(&store, "ses_1", "run_1", 0, &["a", "b"]).await;
    tell(&store, "ses_2", "run_1", 0, &["c"]).await;
    assert_eq!((kept(&store, "ses_1").await, kept(&store, "ses_2").await), (vec![one], vec![other]));
    assert_eq!(told(&store, "ses_1", "run_1", 0).await, ["a", "b"]);
    assert_eq!(told(&store, "ses_2", "run_1", 0).await, ["c"]);
}

/// Neither an error nor something else; and it does not turn up later.
pub async fn without_its_session_a_run_is_not_kept_nor_events_without_their_run(store: Arc<dyn Store>) {
    let nothing = async |session: &str, run: &str| {
        assert_eq!(found(&store, session, run).await, None);
        assert_eq!(kept(&store, session).await, [""; 0]);
        assert_eq!(told(&store, session, run, 0).await, [""; 0]);
        assert_eq!(unfinished(&store).await, [""; 0]);
    };
    nothing("ses_1", "run_1").await;
    keep(&store, ThreadRun { started: Some(Time(1)), ..run("ses_1", "run_1") }).await;
    tell(&store, "ses_1", "run_1", 0, &["a"]).await;
    nothing("ses_1", "run_1").await;
    with_session(&store, "ses_1").await;
    nothing("ses_1", "run_1").await;
    // Whatever their number.
    tell(&store, "ses_1", "run_1", 7, &["a"]).await;
    nothing("ses_1", "run_1").await;
    keep(&store, run("ses_1", "run_1")).await;
    assert_eq!(told(&store, "ses_1", "run_1", 0).await, [""; 0]);
}

/// Runs and events of others stay; and what is made anew starts with nothing.
pub async fn runs_and_events_go_with_their_session(store: Arc<dyn Store>) {
    for id in ["ses_1", "ses_2"] {
        with_session(&store, id).await;
        keep(&store, ThreadRun { started: Some(Time(1)), ..run(id, "run_1") }).await;
        tell(&store, id, "run_1", 0, &["a", "b"]).await;
    }
    for round in 0..3 {
        assert!(store.delete_session(&session_id("ses_1")).await.unwrap());
        keep(&store, ThreadRun { started: Some(Time(1)), ..run("ses_1", "run_1") }).await;
        tell(&store, "ses_1", "run_1", 2, &["c"]).await;
        with_session(&store, "ses_1").await;
        assert_eq!(found(&store, "ses_1", "run_1").await, None, "round {round}");
        assert_eq!(kept(&store, "ses_1").await, [""; 0], "round {round}");
        assert_eq!(told(&store, "ses_1", "run_1", 0).await, [""; 0], "round {round}");
        assert_eq!(unfinished(&store).await, ["ses_2/run_1"], "round {round}");
        keep(&store, run("ses_1", "run_1")).await;
        assert_eq!(told(&store, "ses_1", "run_1", 0).await, [""; 0], "round {round}");
        tell(&store, "ses_1", "run_1", 0, &["d"]).await;
        assert_eq!(told(&store, "ses_1", "run_1", 0).await, ["d"], "round {round}");
    }
    assert_eq!(told(&store, "ses_2", "run_1", 0).await, ["a", "b"]);
}

/// When it is saved again, and when its messages go.
pub async fn runs_and_events_stay_when_their_session_changes(store: Arc<dyn Store>) {
    with_session(&store, "ses_1").await;
    let expected = keep(&store, run("ses_1", "run_1")).await;
    tell(&store, "ses_1", "run_1", 0, &["a"]).await;
    let message = Arc::new(user("ses_1", "msg_1"));
    store.save_message(&message).await.unwrap();
    store.replace_from(&message).await.unwrap();
    with_session(&store, "ses_1").await;
    assert_eq!(kept(&store, "ses_1").await, [expected]);
    assert_eq!(told(&store, "ses_1", "run_1", 0).await, ["a"]);
}

/// From its start until its end, however it is saved in between.
pub async fn a_run_is_unfinished_from_its_start_until_it_is_over(store: Arc<dyn Store>) {
    with_session(&store, "ses_1").await;
    with_session(&store, "ses_2").await;
    let made = |id: &str| run("ses_1", id);
    let started = |id: &str| ThreadRun { started: Some(Time(0)), ..made(id) };
    let over = |id: &str| ThreadRun { finished: Some(Time(0)), ..started(id) };
    for id in ["a", "b"] {
        keep(&store, made(id)).await;
    }
    // Over before it was started: it never was.
    keep(&store, ThreadRun { finished: Some(Time(1)), ..made("c") }).await;
    keep(&store, over("d")).await;
    assert_eq!(unfinished(&store).await, [""; 0]);
    keep(&store, started("a")).await;
    keep(&store, started("b")).await;
    let other = ThreadRun { label: Some("whole".into()), started: Some(Time(9)), ..run("ses_2", "a") };
    let other = keep(&store, other).await;
    keep(&store, ThreadRun { label: Some("still".into()), ..started("b") }).await;
    assert_eq!(unfinished(&store).await, ["ses_1/a", "ses_1/b", "ses_2/a"]);
    keep(&store, over("a")).await;
    keep(&store, over("b")).await;
    assert_eq!(seen_runs(&store.unfinished_runs().await.unwrap()), [other]);
}

/// In their order, each as it was, and from any number on.
pub async fn events_are_kept_as_they_were(store: Arc<dyn Store>) {
    with_session(&store, "ses_1").await;
    keep(&store, run("ses_1", "run_1")).await;
    let objects = objects();
    let texts = TEXTS.map(|text| serde_json::to_string(text).unwrap());
    let texts = texts.iter().map(String::as_str);
    let all: Vec<&str> = texts.chain(objects.iter().map(|object| object.get())).collect();
    tell(&store, "ses_1", "run_1", 0, &all[..4]).await;
    tell(&store, "ses_1", "run_1", 4, &[]).await;
    for (number, event) in all.iter().enumerate().skip(4) {
        tell(&store, "ses_1", "run_1", number, &[event]).await;
    }
    for from in 0..=all.len() {
        assert_eq!(told(&store, "ses_1", "run_1", from).await, all[from..], "from {from}");
    }
    for from in [all.len() + 1, usize::MAX] {
        assert_eq!(told(&store, "ses_1", "run_1", from).await, [""; 0]);
    }
}

/// Whoever does not know whether events were kept gives them again, with others or without.
pub async fn events_are_not_kept_twice(store: Arc<dyn Store>) {
    with_session(&store, "ses_1").await;
    keep(&store, run("ses_1", "run_1")).await;
    let all = ["a", "b", "c", "d", "e", "f"];
    let pieces = [(0, 3, 3), (0, 3, 3), (1, 2, 3), (1, 1, 3), (2, 4, 4), (0, 6, 6), (5, 6, 6), (6, 6, 6), (0, 1, 6)];
    for (first, end, kept) in pieces {
        tell(&store, "ses_1", "run_1", first, &all[first..end]).await;
        assert_eq!(told(&store, "ses_1", "run_1", 0).await, all[..kept], "{first} to {end}");
    }
    // What is kept already stays what it was.
    tell(&store, "ses_1", "run_1", 4, &["other", "other", "g"]).await;
    assert_eq!(told(&store, "ses_1", "run_1", 3).await, ["d", "e", "f", "g"]);
}

/// Numbers would no longer say which event is meant.
pub async fn events_after_a_gap_are_refused(store: Arc<dyn Store>) {
    with_session(&store, "ses_1").await;
    keep(&store, run("ses_1", "run_1")).await;
    for (first, kept) in [(1, 0), (usize::MAX, 0), (3, 2)] {
        tell(&store, "ses_1", "run_1", 0, &["a", "b"][..kept]).await;
        let refused = store.append_run_events(&session_id("ses_1"), &run_id("run_1"), first, events(&["x"])).await;
        let error = refused.unwrap_err().to_string();
        let expected = format!("event {first} of the run run_1 cannot be kept: only {kept} are kept before it");
        assert!(error.ends_with(&expected), "{error}");
        assert_eq!(told(&store, "ses_1", "run_1", 0).await, ["a", "b"][..kept]);
    }
    tell(&store, "ses_1", "run_1", 2, &["c"]).await;
    assert_eq!(told(&store, "ses_1", "run_1", 0).await, ["a", "b", "c"]);
}

/// A long run tells its many events some at a time; nobody waits for one batch before giving the next.
pub async fn a_hundred_thousand_events_are_kept(store: Arc<dyn Store>) {
    with_session(&store, "ses_1").await;
    keep(&store, run("ses_1", "run_1")).await;
    let all: Vec<Arc<str>> =
        (0..100_000).map(|number| format!(r#"{{"type":"TEXT_MESSAGE_CONTENT","delta":"{number}"}}"#).into()).collect();
    let (session, run) = (session_id("ses_1"), run_id("run_1"));
    let mut writes = Vec::new();
    for (number, batch) in all.chunks(777).enumerate() {
        writes.push(store.append_run_events(&session, &run, number * 777, batch.to_vec()));
    }
    let read = store.run_events(&session, &run, 0).await.unwrap();
    for write in writes {
        write.await.unwrap();
    }
    // Not by `assert_eq!`: nobody would read what differs.
    assert!(read == all, "{} were read", read.len());
    assert!(store.run_events(&session, &run, 99_990).await.unwrap() == all[99_990..]);
}
