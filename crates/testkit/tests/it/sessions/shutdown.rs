//! Shutting down in the middle of a turn: it may finish for a while. Then it is left to the next process, or its message
//! says what happened if nothing lasts.

use std::time::Duration;

use handback_core::calls::Counts;
use handback_core::sessions::ModelEvent;
use handback_core::tools::Permission;
use handback_server::config::Config;
use handback_testkit::server::until;
use handback_testkit::session::{permit, text_prompt};
use handback_testkit::stream::End;
use handback_testkit::{Answer, Scratch};
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
    let is_kept = world.server.app.config().data.is_some();
    let began = Instant::now();
    let app = world.server.app.clone();
    world.server.stop().await;
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    assert!(app.tasks().is_empty(), "{} tasks are left", app.tasks().len());
    let Counts { connections, calls, .. } = app.hub().counts();
    let left = if is_kept { (0, calls, app.hub().asks(None).len()) } else { (0, 0, 0) };
    assert_eq!((connections, calls, app.hub().asks(None).len()), left);
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
    // A step that wants another call has it.
    world.model.asked().await.call(&[("client_tab_b", json!({}))]);
    let call = world.stream.next_call().await;
    world.server.answer(id(&call), "too").await.must_be(200, &json!({ "success": true }));
    world.model.asked().await.answer("Goodbye.");
    let answer = prompt.await.unwrap();
    assert_eq!((answer.status, &answer.body["parts"][1]["text"]), (200, &json!("Goodbye.")));
    let world = restart(world, &scratch).await;
    let expected = [
        "user | go",
        "assistant | client_tab_b {} → in time | <tool-calls>",
        "assistant | client_tab_b {} → too | <tool-calls>",
        "assistant | Goodbye. | <stop>",
    ];
    assert_eq!(world.history().await, expected);
}

/// A prompt that is not answered any more, because the server stops.
fn must_be_told_to_return(answer: &Answer) {
    assert_eq!(must_fail(answer, 503), "the server is shutting down");
}

#[tokio::test]
async fn a_turn_that_does_not_finish_goes_on_in_the_next_process() {
    let scratch = Scratch::new();
    let mut world = draining_for(100, &scratch).await;
    world.model.will_call(&[("client_tab_b", json!({}))]);
    let prompt = world.server.prompt(&world.session, "go");
    let call = world.stream.next_call().await;
    world.server.begin_stop();
    // The client is told nothing but that the connection ends.
    let (frames, end) = world.stream.end().await;
    assert_eq!((frames.len(), end), (0, End::Cut), "{frames:?}");
    must_be_told_to_return(&prompt.await.unwrap());
    let mut world = restart(world, &scratch).await;
    assert_eq!(world.history().await, ["user | go", "assistant | client_tab_b {} running "]);
    let again = world.stream.next_call().await;
    assert_eq!((id(&again), &again["callID"], &again["attempt"]), (id(&call), &call["callID"], &json!(2)));
    world.server.answer(id(&call), "at last").await.must_be(200, &json!({ "success": true }));
    let asked = world.model.asked().await;
    assert_eq!(asked.shown.results, ["at last"]);
    asked.answer("Done.");
    world.server.until_idle(&world.session).await;
    let expected = ["user | go", "assistant | client_tab_b {} → at last | <tool-calls>", "assistant | Done. | <stop>"];
    assert_eq!(world.history().await, expected);
}

#[tokio::test]
async fn a_model_that_speaks_and_a_call_that_waits_to_be_allowed_do_not_hold_up_the_end_and_go_on() {
    let scratch = Scratch::new();
    let asking = |config: &mut Config| {
        permit(config, Permission::Ask);
        config.data = Some(scratch.path().to_owned());
        config.limits.drain_timeout = Duration::from_millis(100);
    };
    let world = World::with(asking).await;
    let other = world.server.session_of("tab").await;
    let speaking = world.server.prompt(&other, "speak");
    let asked = world.model.asked().await;
    asked.say(ModelEvent::Text("Once upon".to_owned()));
    world.model.will_call(&[("client_tab_a", json!({}))]);
    let waiting = world.server.prompt(&world.session, "go");
    let asks = world.server.until_asked(1).await;
    world.server.begin_stop();
    for prompt in [speaking, waiting] {
        must_be_told_to_return(&prompt.await.unwrap());
    }
    asked.dropped().await;
    let session = world.session.clone();
    stop(world).await;
    let mut world = World { session, ..World::with(asking).await };
    // What was half said is dropped, and said again.
    let asked = world.model.asked().await;
    asked.answer("Once upon a time.");
    world.server.until_idle(&other).await;
    assert_eq!(world.server.history(&other).await, ["user | speak", "assistant | Once upon a time. | <stop>"]);
    assert_eq!(world.server.asks().await, asks);
    world.server.respond(&asks[0], json!({ "response": "once" })).await.must_be(200, &json!(true));
    let call = world.stream.next_call().await;
    assert_eq!(call["attempt"], 1, "nobody had seen it");
    world.server.answer(id(&call), "allowed").await.must_be(200, &json!({ "success": true }));
    world.model.asked().await.answer("Done.");
    world.server.until_idle(&world.session).await;
    let expected = ["user | go", "assistant | client_tab_a {} → allowed | <tool-calls>", "assistant | Done. | <stop>"];
    assert_eq!(world.history().await, expected);
}

#[tokio::test]
async fn prompts_that_wait_are_all_answered_in_the_next_process_in_their_order() {
    let scratch = Scratch::new();
    let world = draining_for(100, &scratch).await;
    let mut prompts = vec![world.server.prompt(&world.session, "prompt 0")];
    let running = world.model.asked().await;
    for number in 1..4 {
        prompts.push(world.server.prompt(&world.session, &format!("prompt {number}")));
        until("it waits", async || world.history().await.len() == number + 2).await;
    }
    world.server.begin_stop();
    for prompt in prompts {
        must_be_told_to_return(&prompt.await.unwrap());
    }
    running.dropped().await;
    let world = restart(world, &scratch).await;
    for number in 0..4 {
        let asked = world.model.asked().await;
        let last = asked.shown.conversation.last().unwrap();
        assert!(last.contains(&format!("prompt {number}")), "{last}");
        asked.answer(&format!("answer {number}"));
    }
    world.server.until_idle(&world.session).await;
    let answers: Vec<_> = world.history().await.into_iter().filter(|line| line.starts_with("assistant")).collect();
    assert_eq!(answers, [0, 1, 2, 3].map(|number| format!("assistant | answer {number} | <stop>")));
}

#[tokio::test]
async fn without_a_store_that_lasts_a_turn_says_how_it_ended_to_everybody() {
    let mut world = World::with(|config| config.limits.drain_timeout = Duration::from_millis(50)).await;
    let mut events = world.server.events().await;
    world.model.will_call(&[("client_tab_b", json!({}))]);
    let prompt = world.server.prompt(&world.session, "go");
    let call = world.stream.next_call().await;
    let waiting = world.server.prompt(&world.session, "next");
    until("it waits", async || world.history().await.len() == 3).await;
    world.server.begin_stop();
    let cancel = world.stream.expect("tool-cancel").await;
    assert_eq!(cancel.data, json!({ "requestID": id(&call), "reason": "The turn was stopped" }));
    let error = json!({ "name": "MessageAbortedError", "data": { "message": STOPPED } });
    for prompt in [prompt, waiting] {
        let answer = prompt.await.unwrap();
        assert_eq!((answer.status, &answer.body["info"]["error"]), (200, &error));
    }
    // Listeners are told before they are cut off.
    let (frames, end) = events.end().await;
    let last: Vec<&Value> = frames.iter().rev().take(2).map(|frame| &frame.data["type"]).collect();
    assert_eq!(last, ["session.idle", "session.status"]);
    assert_eq!(end, End::Cut);
    stop(world).await;
}
