//! A server that is started again over the same file has its threads and runs, and goes on with those that were under way.

use std::time::Duration;

use handback_core::id::{RunId, SessionId};
use handback_core::sessions::ModelEvent;
use handback_core::store::{IfFull, RunStore, ThreadRun};
use handback_server::store::{Bounds, Sqlite};
use handback_testkit::agui::refused;
use handback_testkit::{AguiStream, Scratch, TestStream};
use serde_json::{Value, json};

use super::{Thread, World, detail};

async fn start(scratch: &Scratch) -> World {
    World::with(|config| {
        config.data = Some(scratch.path().to_owned());
        // What is open is left at once when it stops.
        config.limits.drain_timeout = Duration::ZERO;
    })
    .await
}

/// The number of a frame, from its id.
fn number(id: &str) -> usize {
    id.rsplit_once(':').unwrap().1.parse().unwrap()
}

/// A run that waits for a call of a client: its thread, its stream, the call, and the client's stream.
async fn waiting(world: &World) -> (Thread, AguiStream, Value, TestStream) {
    world.server.register("tab", &["t"]).await;
    let mut client = world.server.stream("tab").await;
    let mut thread = Thread::make(&world.server).await;
    world.model.will_call(&[("client_tab_t", json!({}))]);
    let mut input = thread.input();
    input["forwardedProps"] = json!({ "clientID": "tab" });
    let stream = AguiStream::open(thread.starting(&world.server), &input).await;
    let call = client.next_call().await;
    (thread, stream, call, client)
}

#[tokio::test]
async fn a_run_goes_on_and_whoever_comes_back_is_told_what_holds() {
    let scratch = Scratch::new();
    let world = start(&scratch).await;
    let (thread, mut stream, call, _client) = waiting(&world).await;
    world.server.answer(call["requestID"].as_str().unwrap(), "done").await;
    stream.until("TOOL_CALL_RESULT").await;
    let asked = world.model.asked().await;
    asked.say(ModelEvent::Text("Half a".to_owned()));
    stream.until("TEXT_MESSAGE_CONTENT").await;
    let last = number(stream.ids().last().unwrap());
    let step = stream.seen().iter().find(|event| event["type"] == "TOOL_CALL_START").unwrap().clone();
    drop(stream);
    world.server.stop().await;

    let world = start(&scratch).await;
    let mut back = thread.come_back(&world.server, last).await;
    // The text that was begun ends, and does not hold: it is not in what holds.
    back.until("TEXT_MESSAGE_END").await;
    let snapshot = back.until("MESSAGES_SNAPSHOT").await;
    let shown: Vec<Value> = snapshot["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|message| {
            json!([message["role"], message["content"], message["toolCalls"][0]["id"], message["toolCallId"]])
        })
        .collect();
    let id = &step["toolCallId"];
    let expected =
        [json!(["user", "hi", null, null]), json!(["assistant", null, id, null]), json!(["tool", "done", null, id])];
    assert_eq!(shown, expected);
    assert_eq!(snapshot["messages"][1]["id"], step["parentMessageId"]);
    world.model.asked().await.answer("A whole answer.");
    assert_eq!(back.last().await["type"], "RUN_FINISHED");
    let said: String = back.seen().iter().filter_map(|event| event["delta"].as_str()).collect();
    assert_eq!(said, "A whole answer.");
    // No number is used twice, and whoever reads all of it sees the same.
    let numbers: Vec<usize> = back.ids().iter().map(|id| number(id)).collect();
    assert_eq!(numbers, (last + 1..=last + numbers.len()).collect::<Vec<_>>());
    let mut whole = thread.come_back(&world.server, 0).await;
    whole.last().await;
    assert_eq!(whole.seen()[last..], *back.seen());
    let shown = thread.shown(&world.server).await;
    assert_eq!((&shown["usage"]["requests"], &shown["usage"]["tool_calls"]), (&json!(2), &json!(1)));
    let expected =
        ["user | hi", "assistant | client_tab_t {} → done | <tool-calls>", "assistant | A whole answer. | <stop>"];
    assert_eq!(world.history(&thread.page.thread).await, expected);
    assert_eq!(world.server.get("/client-tools/calls").await.body.as_array().unwrap().len(), 1);
}

/// A call that was told of is told of again, and its result once.
#[tokio::test]
async fn a_run_that_waits_for_a_call_goes_on_with_it() {
    let scratch = Scratch::new();
    let world = start(&scratch).await;
    let (thread, mut stream, call, _client) = waiting(&world).await;
    stream.until("TOOL_CALL_END").await;
    let last = number(stream.ids().last().unwrap());
    drop(stream);
    world.server.stop().await;

    let world = start(&scratch).await;
    let mut back = thread.come_back(&world.server, last).await;
    let snapshot = back.until("MESSAGES_SNAPSHOT").await;
    assert_eq!(snapshot["messages"].as_array().unwrap().len(), 1, "{snapshot}");
    back.until("TOOL_CALL_END").await;
    world.server.answer(call["requestID"].as_str().unwrap(), "done").await.must_be(200, &json!({ "success": true }));
    assert_eq!(back.until("TOOL_CALL_RESULT").await["content"], "done");
    world.model.asked().await.answer("Done.");
    assert_eq!(back.last().await["type"], "RUN_FINISHED");
    let kinds = back.seen().iter().filter(|event| event["type"] == "TOOL_CALL_RESULT").count();
    assert_eq!(kinds, 1);
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
async fn a_run_that_an_earlier_version_left_under_way_ends_as_interrupted() {
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
    store.save_run(&under_way.into(), IfFull::Fails).await.unwrap();
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
