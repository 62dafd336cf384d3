//! A server that is started again over the same file has its threads and runs, and ends those that were under way.

use handback_core::id::{RunId, SessionId};
use handback_core::store::{RunStore, ThreadRun};
use handback_server::store::{Bounds, Sqlite};
use handback_testkit::Scratch;
use handback_testkit::agui::refused;
use serde_json::json;

use super::{Thread, World, detail};

async fn start(scratch: &Scratch) -> World {
    World::with(|config| config.data = Some(scratch.path().to_owned())).await
}

#[tokio::test]
async fn threads_runs_and_events_are_as_they_were() {
    let scratch = Scratch::new();
    let world = start(&scratch).await;
    let mut thread = Thread::make(&world.server).await;
    world.model.will_call(&[("pick", json!({ "n": 1 }))]);
    let stream = thread.run(&world.server).await;
    let (listed, shown, run) = (
        world.server.get(super::THREADS).await.body,
        world.server.get(&thread.path()).await.body,
        thread.shown(&world.server).await,
    );
    world.server.stop().await;

    let world = start(&scratch).await;
    assert_eq!(world.server.get(super::THREADS).await.body, listed);
    assert_eq!(world.server.get(&thread.path()).await.body, shown);
    assert_eq!(thread.shown(&world.server).await, run);
    for last in 0..stream.seen().len() {
        let mut reader = thread.come_back(&world.server, last).await;
        reader.last().await;
        assert_eq!(reader.seen(), &stream.seen()[(last + 1).min(stream.seen().len() - 1)..]);
    }
    // It is not executed again, and the conversation goes on.
    let input = thread.input();
    detail(&refused(thread.starting(&world.server).json(&input)).await, 400);
    thread.page.answer(&stream.calls("pick")[0], "five");
    thread.next_run(&world.server).await;
    world.model.will_say("It is five.");
    assert_eq!(thread.run(&world.server).await.last().await["type"], "RUN_FINISHED");
    assert_eq!(world.model.last_shown().results, ["five"]);
}

#[tokio::test]
async fn a_run_that_was_under_way_ends_as_interrupted() {
    let scratch = Scratch::new();
    let world = start(&scratch).await;
    let mut thread = Thread::make(&world.server).await;
    let unstarted = Thread::make(&world.server).await;
    world.model.will_say("Hello.");
    let stream = thread.run(&world.server).await;
    thread.next_run(&world.server).await;
    world.server.stop().await;

    // As a process leaves it that is killed: begun, and its first events written.
    let store = Sqlite::open(&scratch.join("handback.db"), Bounds::default()).unwrap();
    let (session, id) = (SessionId::parse(&thread.page.thread).unwrap(), RunId::parse(&thread.run).unwrap());
    let made = store.run(&session, &id).await.unwrap().unwrap();
    let under_way = ThreadRun { started: Some(made.created), ..ThreadRun::clone(&made) };
    store.save_run(&under_way.into()).await.unwrap();
    let begun = json!({ "type": "RUN_STARTED", "threadId": thread.page.thread, "runId": thread.run });
    store.append_run_events(&session, &id, 0, vec![begun.to_string().into()]).await.unwrap();
    drop(store);

    let world = start(&scratch).await;
    let shown = thread.shown(&world.server).await;
    let message = "The server was restarted before this run was over";
    let error = json!({ "type": "RUN_ERROR", "code": "interrupted", "message": message });
    assert_eq!(shown["events"], json!([begun, error]));
    assert!(shown["finished"].is_string(), "{shown}");
    let mut reader = thread.come_back(&world.server, 0).await;
    reader.last().await;
    assert_eq!((reader.seen(), reader.ids()), (&[error][..], &[format!("{}:1", thread.run)][..]));
    let input = thread.input();
    detail(&refused(thread.starting(&world.server).json(&input)).await, 400);
    // What was over, and what was not begun, is as it was.
    let runs = world.server.get(&thread.path()).await.body["runs"].clone();
    let first = stream.seen()[0]["runId"].as_str().unwrap();
    assert!(runs[first]["finished"].is_string());
    assert_eq!(unstarted.shown(&world.server).await["finished"], json!(null));
}
