//! What the trait promises of every operation: their order, dropped futures, many writers at a time.

use std::sync::Arc;

use handback_core::clock::Time;
use handback_core::store::{Begun, CallFilter, Ended, IfFull, Message, Most, Session, SessionFilter, Store, ThreadRun};
use tokio::task::JoinSet;

use super::samples::{
    begun, calls_of, client_id, events, finished, head, run, run_id, seen_call, seen_calls, seen_messages, seen_run,
    seen_runs, seen_session, session, session_id, text_part, texts, user,
};

/// Of every kind, before any of their futures was polled.
pub async fn a_read_sees_writes_that_nobody_has_waited_for(store: Arc<dyn Store>) {
    let call = finished(head("r1", "desk", "ses_1"));
    let message = Arc::new(user("ses_1", "msg_1"));
    let kept = Arc::new(session("ses_1"));
    let beginning = store.begin(&begun(&call.head), IfFull::Fails);
    let saved = store.save_session(&kept, IfFull::Fails);
    let written = store.save_message(&message);
    let ended = store.finish(&call, IfFull::Fails);
    let run = Arc::new(ThreadRun { started: Some(Time(1)), ..run("ses_1", "run_1") });
    let made = store.save_run(&run, IfFull::Fails);
    let told = store.append_run_events(&kept.id, &run.id, 0, events(&["a", "b"]));
    let (runs, one, unfinished) = (store.runs(&kept.id), store.run(&kept.id, &run.id), store.unfinished_runs());
    let tellings = store.run_events(&kept.id, &run.id, 1);
    let (found, list) =
        (store.session(&kept.id), store.list_sessions(&SessionFilter::default(), None, Most::items(10)));
    let (messages, left) = (store.messages(&kept.id), store.open_turns());
    let (finished, calls) =
        (store.finished(&call.head.request), store.list_finished(&CallFilter::default(), None, Most::items(10)));
    let deleted = store.delete_session(&kept.id);
    let (none, no_messages) = (store.session(&kept.id), store.messages(&kept.id));
    let (no_runs, no_events) = (store.runs(&kept.id), store.run_events(&kept.id, &run.id, 0));

    assert!(no_runs.await.unwrap().is_empty());
    assert!(no_events.await.unwrap().is_empty());
    assert_eq!(texts(&tellings.await.unwrap()), ["b"]);
    assert_eq!(seen_runs(&unfinished.await.unwrap()), [seen_run(&run)]);
    assert_eq!(one.await.unwrap().as_deref().map(seen_run), Some(seen_run(&run)));
    assert_eq!(seen_runs(&runs.await.unwrap()), [seen_run(&run)]);
    assert!(none.await.unwrap().is_none());
    assert!(no_messages.await.unwrap().is_empty());
    assert!(deleted.await.unwrap());
    assert_eq!(seen_calls(&calls_of(calls.await.unwrap())), [seen_call(&call)]);
    assert_eq!(finished.await.unwrap().as_deref().map(seen_call), Some(seen_call(&call)));
    let expected = seen_messages(&[message]);
    assert_eq!(
        (seen_messages(&left.await.unwrap()), seen_messages(&messages.await.unwrap())),
        (expected.clone(), expected)
    );
    assert_eq!(list.await.unwrap().items.len(), 1);
    assert_eq!(found.await.unwrap().as_deref().map(seen_session), Some(seen_session(&kept)));
    for write in [told, made, written, saved] {
        write.await.unwrap();
    }
    assert!(matches!(ended.await.unwrap(), Ended::First));
    assert!(matches!(beginning.await.unwrap(), Begun::New));
}

/// The write that was asked for last is the one that stays.
pub async fn the_order_is_that_of_the_calls_not_of_the_waiting(store: Arc<dyn Store>) {
    let versions: Vec<_> =
        (0..20).map(|number| Arc::new(Session { title: format!("version {number}"), ..session("ses_1") })).collect();
    let mut writes: Vec<_> = versions.iter().map(|version| store.save_session(version, IfFull::Fails)).collect();
    let reads: Vec<_> = versions
        .iter()
        .map(|version| (store.save_session(version, IfFull::Fails), store.session(&version.id)))
        .collect();
    while let Some(write) = writes.pop() {
        write.await.unwrap();
    }
    for ((write, read), version) in reads.into_iter().zip(&versions).rev() {
        assert_eq!(read.await.unwrap().as_deref().map(seen_session), Some(seen_session(version)));
        write.await.unwrap();
    }
}

/// Whether it was polled before or not.
pub async fn a_dropped_future_does_not_undo_its_write(store: Arc<dyn Store>) {
    drop(store.save_session(&Arc::new(session("ses_1")), IfFull::Fails));
    drop(store.save_run(&Arc::new(run("ses_1", "run_1")), IfFull::Fails));
    for number in 0..100 {
        let call = finished(head(&format!("r{number}"), "desk", "ses_1"));
        drop(store.begin(&begun(&call.head), IfFull::Fails));
        let mut finishing = store.finish(&call, IfFull::Fails);
        if number % 2 == 0 {
            _ = futures_util::poll!(&mut finishing);
        }
        drop(finishing);
        drop(store.save_message(&Arc::new(user("ses_1", &format!("msg_{number}")))));
        let mut telling = store.append_run_events(&session_id("ses_1"), &run_id("run_1"), number, events(&["told"]));
        if number % 2 == 1 {
            _ = futures_util::poll!(&mut telling);
        }
        drop(telling);
    }
    let told = store.run_events(&session_id("ses_1"), &run_id("run_1"), 0).await.unwrap();
    assert_eq!(texts(&told), ["told"; 100]);
    assert_eq!(store.list_finished(&CallFilter::default(), None, Most::items(1_000)).await.unwrap().items.len(), 100);
    assert_eq!(store.messages(&session_id("ses_1")).await.unwrap().len(), 100);
    drop(store.delete_session(&session_id("ses_1")));
    assert!(store.session(&session_id("ses_1")).await.unwrap().is_none());
}

/// Each sees what it wrote, and in the end all of it is there.
pub async fn a_thousand_writers_lose_nothing(store: Arc<dyn Store>) {
    let mut writers = JoinSet::new();
    for number in 0..1_000u64 {
        let store = store.clone();
        writers.spawn(async move {
            let (id, client) = (format!("ses_{number:03}"), format!("client-{}", number % 10));
            let kept = Arc::new(Session { client: Some(client_id(&client)), updated: Time(number), ..session(&id) });
            store.save_session(&kept, IfFull::Fails).await.unwrap();
            let call = finished(head(&format!("r{number}"), &client, &id));
            store.begin(&begun(&call.head), IfFull::Fails).await.unwrap();
            let mut message = user(&id, "msg_1");
            for length in 1..4 {
                message.parts.push(text_part(&format!("prt_{length}"), "text"));
                store.save_message(&Arc::new(Message::clone(&message))).await.unwrap();
            }
            store.finish(&call, IfFull::Fails).await.unwrap();
            let found = store.finished(&call.head.request).await.unwrap();
            assert_eq!(found.as_deref().map(seen_call), Some(seen_call(&call)));
            let messages = store.messages(&kept.id).await.unwrap();
            assert_eq!(seen_messages(&messages), seen_messages(&[Arc::new(message)]));
        });
    }
    while let Some(written) = writers.join_next().await {
        written.unwrap();
    }
    let sessions = store.list_sessions(&SessionFilter::default(), None, Most::items(2_000)).await.unwrap().items;
    let ids: Vec<String> = sessions.iter().map(|session| session.id.to_string()).collect();
    assert_eq!(ids, (0..1_000).rev().map(|number| format!("ses_{number:03}")).collect::<Vec<_>>());
    let filter = CallFilter { client: Some(client_id("client-7")), session: None };
    assert_eq!(store.list_finished(&filter, None, Most::items(2_000)).await.unwrap().items.len(), 100);
    assert_eq!(store.list_finished(&CallFilter::default(), None, Most::items(2_000)).await.unwrap().items.len(), 1_000);
    assert_eq!(store.open_turns().await.unwrap().len(), 1_000);
}
