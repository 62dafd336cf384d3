//! Shutting down in the middle of a turn: it may finish for a while, and then its message says what happened.

use std::time::Duration;

use handback_core::calls::Counts;
use handback_core::sessions::ModelEvent;
use handback_core::tools::Permission;
use handback_testkit::Scratch;
use handback_testkit::server::until;
use handback_testkit::session::{permit, text_prompt};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::errors::must_fail;
use super::{World, id};

const STOPPED: &str = "The server was stopped while this turn was under way";

/// A world that gives turns under way so long to finish, and keeps them in a directory.
async fn draining_for(milliseconds: u64, scratch: &Scratch) -> World {
    World::with(|config| {
        config.limits.drain_timeout = Duration::from_millis(milliseconds);
        config.data = Some(scratch.path().to_owned());
    })
    .await
}

/// Stops the server, which must not take long and leave nothing behind but what it keeps.
async fn stop(world: World) {
    let began = Instant::now();
    let app = world.server.app.clone();
    world.server.stop().await;
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    assert!(app.tasks().is_empty(), "{} tasks are left", app.tasks().len());
    let Counts { connections, calls, .. } = app.hub().counts();
    assert_eq!((connections, calls, app.hub().asks(None).len()), (0, 0, 0));
}

/// Stops the server, and starts another that has what it kept.
async fn restart(world: World, scratch: &Scratch) -> World {
    let session = world.session.clone();
    stop(world).await;
    let data = scratch.path().to_owned();
    World { session, ..World::with(|config| config.data = Some(data)).await }
}

#[tokio::test]
async fn a_turn_under_way_may_finish_and_nothing_new_begins() {
    let scratch = Scratch::new();
    let mut world = draining_for(20_000, &scratch).await;
    world.model.will_call(&[("client_tab_b", json!({}))]);
    let prompt = world.server.prompt(&world.session, "go");
    let call = world.stream.next_call().await;
    world.server.begin_stop();
    until("the server is not ready", async || world.server.get("/readyz").await.status == 503).await;
    let path = format!("/session/{}", world.session);
    let refused = [
        world.server.post("/session", json!({})).await,
        world.server.post(&format!("{path}/message"), text_prompt("me too")).await,
        world.server.post(&format!("{path}/prompt_async"), text_prompt("me too")).await,
    ];
    for answer in refused {
        assert_eq!(must_fail(&answer, 503), "the server is shutting down");
    }
    // What is there can be read.
    assert_eq!(world.history().await, ["user | go", "assistant | client_tab_b {} running "]);
    assert_eq!(world.server.status(&world.session).await, "busy");
    world.server.answer(id(&call), "in time").await.must_be(200, &json!({ "success": true }));
    // A step that wants another call is told that there are none any more.
    world.model.asked().await.call(&[("client_tab_b", json!({}))]);
    let asked = world.model.asked().await;
    assert_eq!(asked.shown.results, ["The call was not made: the server is shutting down"]);
    asked.answer("Goodbye.");
    let answer = prompt.await.unwrap();
    assert_eq!((answer.status, &answer.body["parts"][1]["text"]), (200, &json!("Goodbye.")));
    let world = restart(world, &scratch).await;
    let expected = [
        "user | go",
        "assistant | client_tab_b {} → in time | <tool-calls>",
        "assistant | client_tab_b {} ✗ The call was not made: the server is shutting down | <tool-calls>",
        "assistant | Goodbye. | <stop>",
    ];
    assert_eq!(world.history().await, expected);
}

#[tokio::test]
async fn a_turn_that_does_not_finish_says_so_on_its_message_and_to_its_prompter() {
    let scratch = Scratch::new();
    let mut world = draining_for(100, &scratch).await;
    world.model.will_call(&[("client_tab_b", json!({}))]);
    let prompt = world.server.prompt(&world.session, "go");
    let call = world.stream.next_call().await;
    world.server.begin_stop();
    let cancel = world.stream.expect("tool-cancel").await;
    assert_eq!(cancel.data, json!({ "requestID": id(&call), "reason": "The turn was stopped" }));
    let answer = prompt.await.unwrap();
    let error = json!({ "name": "MessageAbortedError", "data": { "message": STOPPED } });
    assert_eq!((answer.status, &answer.body["info"]["error"]), (200, &error));
    let world = restart(world, &scratch).await;
    let step = format!("assistant | client_tab_b {{}} ✗ Not finished: {STOPPED} | !MessageAbortedError: {STOPPED}");
    assert_eq!(world.history().await, ["user | go", &step]);
    assert_eq!(world.server.messages(&world.session).await[1], answer.body);
}

#[tokio::test]
async fn a_model_that_speaks_and_a_call_that_waits_to_be_allowed_do_not_hold_up_the_end() {
    let scratch = Scratch::new();
    let world = World::with(|config| {
        permit(config, Permission::Ask);
        config.data = Some(scratch.path().to_owned());
        config.limits.drain_timeout = Duration::from_millis(100);
    })
    .await;
    let other = world.server.session_of("tab").await;
    let speaking = world.server.prompt(&other, "speak");
    let asked = world.model.asked().await;
    asked.say(ModelEvent::Text("Once upon".to_owned()));
    world.model.will_call(&[("client_tab_a", json!({}))]);
    let waiting = world.server.prompt(&world.session, "go");
    world.server.until_asked(1).await;
    world.server.begin_stop();
    for prompt in [speaking, waiting] {
        let answer = prompt.await.unwrap();
        assert_eq!((answer.status, &answer.body["info"]["error"]["data"]["message"]), (200, &json!(STOPPED)));
    }
    asked.dropped().await;
    let world = restart(world, &scratch).await;
    let step = format!("assistant | client_tab_a {{}} ✗ Not finished: {STOPPED} | !MessageAbortedError: {STOPPED}");
    assert_eq!(world.history().await, ["user | go", &step]);
    let step = format!("assistant | Once upon | !MessageAbortedError: {STOPPED}");
    assert_eq!(world.server.history(&other).await, ["user | speak", &step]);
    assert_eq!(world.server.asks().await, Vec::<Value>::new());
}

#[tokio::test]
async fn prompts_that_wait_are_all_answered() {
    let scratch = Scratch::new();
    let world = draining_for(100, &scratch).await;
    let mut prompts = vec![world.server.prompt(&world.session, "prompt 0")];
    let running = world.model.asked().await;
    for number in 1..4 {
        prompts.push(world.server.prompt(&world.session, &format!("prompt {number}")));
    }
    until("all wait", async || world.history().await.len() == 5).await;
    world.server.begin_stop();
    for prompt in prompts {
        let answer = prompt.await.unwrap();
        assert_eq!((answer.status, &answer.body["info"]["error"]["data"]["message"]), (200, &json!(STOPPED)));
    }
    running.dropped().await;
    let world = restart(world, &scratch).await;
    let answers = world.history().await.into_iter().filter(|line| line.starts_with("assistant"));
    assert_eq!(answers.collect::<Vec<_>>(), vec![format!("assistant | !MessageAbortedError: {STOPPED}"); 4]);
}

#[tokio::test]
async fn listeners_are_told_the_end_of_a_turn_before_they_are_cut_off() {
    let scratch = Scratch::new();
    let mut world = draining_for(50, &scratch).await;
    let mut events = world.server.events().await;
    world.model.will_call(&[("client_tab_b", json!({}))]);
    world.server.prompt_async(&world.session, "go").await;
    world.stream.next_call().await;
    world.server.begin_stop();
    let (frames, end) = events.end().await;
    let last: Vec<&Value> = frames.iter().rev().take(2).map(|frame| &frame.data["type"]).collect();
    assert_eq!(last, ["session.idle", "session.status"]);
    assert_eq!(end, handback_testkit::stream::End::Cut);
    stop(world).await;
}
