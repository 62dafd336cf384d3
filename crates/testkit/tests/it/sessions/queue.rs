//! One turn at a time: those that wait, those that are refused, and those whose prompter has gone.

use handback_core::sessions::ModelEvent;
use handback_core::store::StopReason;
use handback_testkit::server::until;
use handback_testkit::session::{brief, text_prompt};
use handback_testkit::{Answer, RawSocket};
use serde_json::{Value, json};

use super::World;
use super::errors::{must_fail, must_fail_for};

#[tokio::test]
async fn one_turn_runs_eight_wait_and_the_next_is_409() {
    let world = World::start().await;
    let path = format!("/session/{}/prompt_async", world.session);
    for number in 0..9 {
        world.server.prompt_async(&world.session, &format!("prompt {number}")).await;
    }
    let full = "8 prompts are waiting in this session; try again when one is answered";
    for path in [&path, &format!("/session/{}/message", world.session)] {
        let refused = world.server.post(path, text_prompt("one too many")).await;
        assert_eq!(must_fail_for(&refused, 409), (full, Some("queue")));
    }
    // What wants no reply waits for nothing.
    let mut silent = text_prompt("by the way");
    silent["noReply"] = true.into();
    world.server.post(&path, silent).await.must_be(204, &json!(""));
    // Another session is not held up.
    let other = world.server.session_of("tab").await;
    let elsewhere = world.server.prompt(&other, "elsewhere");
    let first = world.model.asked().await;
    assert_eq!(first.shown.conversation, ["user | prompt 0"]);
    let second = world.model.asked().await;
    assert_eq!(second.shown.conversation, ["user | elsewhere"]);
    second.answer("meanwhile");
    assert_eq!(elsewhere.await.unwrap().status, 200);
    first.answer("answer 0");
    for number in 1..9 {
        let asked = world.model.asked().await;
        // Each turn sees the whole of those before it and nothing of those after it.
        assert_eq!(asked.shown.conversation.len(), number * 2 + 1);
        assert_eq!(asked.shown.conversation.last().unwrap(), &format!("user | prompt {number}"));
        asked.answer(&format!("answer {number}"));
    }
    world.server.until_idle(&world.session).await;
    let messages = world.server.messages(&world.session).await;
    for number in 0..9 {
        let user = messages.iter().find(|message| brief(message) == format!("user | prompt {number}")).unwrap();
        let answer = messages.iter().find(|message| message["info"]["parentID"] == user["info"]["id"]).unwrap();
        assert_eq!(brief(answer), format!("assistant | answer {number} | <stop>"));
    }
    assert_eq!(messages.len(), 19);
    // There is room again.
    world.model.will_say("Welcome back.");
    world.server.say(&world.session, "once more").await;
}

#[tokio::test]
async fn how_many_wait_is_configured() {
    let world = World::with(|config| config.limits.queued_prompts = 0).await;
    let prompt = world.server.prompt(&world.session, "go");
    let asked = world.model.asked().await;
    let refused = Answer::to(world.server.saying(&world.session, &text_prompt("me too"))).await;
    assert_eq!(must_fail_for(&refused, 409).1, Some("queue"));
    asked.answer("Done.");
    prompt.await.unwrap();
    assert_eq!(world.history().await, ["user | go", "assistant | Done. | <stop>"]);
}

#[tokio::test]
async fn every_prompter_gets_the_answer_to_its_own_prompt() {
    let world = World::start().await;
    let mut prompts = Vec::new();
    for number in 0..5 {
        prompts.push(world.server.prompt(&world.session, &format!("prompt {number}")));
        let kept = async || world.history().await.iter().filter(|line| line.starts_with("user")).count() == number + 1;
        until("it is kept", kept).await;
    }
    for _ in 0..5 {
        let asked = world.model.asked().await;
        let said = asked.shown.conversation.last().unwrap().replace("user | prompt", "answer");
        asked.answer(&said);
    }
    for (number, prompt) in prompts.into_iter().enumerate() {
        assert_eq!(prompt.await.unwrap().body["parts"][1]["text"], format!("answer {number}"));
    }
}

#[tokio::test]
async fn a_prompter_whose_socket_closes_does_not_stop_the_turn() {
    let mut world = World::start().await;
    world.model.will_call(&[("client_tab_b", json!({}))]);
    world.model.will_say("Done all the same.");
    world.model.will_say("That too.");
    let body = text_prompt("go").to_string();
    let mut socket = RawSocket::open(world.server.address).await;
    let head = format!(
        "POST /session/{}/message HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n",
        world.session,
        body.len()
    );
    socket.send(format!("{head}{body}")).await.unwrap();
    let call = world.stream.next_call().await;
    drop(socket);
    // The same of a prompter whose prompt waits.
    let mut waiting = RawSocket::open(world.server.address).await;
    waiting.send(format!("{head}{body}")).await.unwrap();
    until("it is kept", async || world.history().await.len() == 3).await;
    drop(waiting);
    world.server.answer(super::id(&call), "ok").await.must_be(200, &json!({ "success": true }));
    world.server.until_idle(&world.session).await;
    let history = world.history().await;
    assert_eq!(history.len(), 5);
    assert!(history.contains(&"assistant | Done all the same. | <stop>".to_owned()), "{history:?}");
    assert!(history.contains(&"assistant | That too. | <stop>".to_owned()), "{history:?}");
}

#[tokio::test]
async fn an_abort_stops_the_turn_that_runs_and_the_next_begins() {
    let world = World::start().await;
    let running = world.server.prompt(&world.session, "one");
    let asked = world.model.asked().await;
    let waiting = world.server.prompt(&world.session, "two");
    until("it is kept", async || world.history().await.iter().any(|line| line == "user | two")).await;
    world.server.abort(&world.session).await;
    asked.dropped().await;
    assert_eq!(running.await.unwrap().body["info"]["error"]["name"], "MessageAbortedError");
    world.model.asked().await.answer("two it is");
    assert_eq!(waiting.await.unwrap().body["parts"][1]["text"], "two it is");
}

#[tokio::test]
async fn a_session_that_is_deleted_while_it_runs_answers_everybody_who_waits() {
    let World { server, model, mut stream, session } = World::start().await;
    model.will_call(&[("client_tab_b", json!({}))]);
    let running = server.prompt(&session, "one");
    let call = stream.next_call().await;
    let waiting = server.prompt(&session, "two");
    until("it is kept", async || server.history(&session).await.len() == 3).await;
    let path = format!("/session/{session}");
    server.delete(&path, json!({})).await.must_be(200, &json!(true));
    let cancel = stream.expect("tool-cancel").await;
    assert_eq!(cancel.data, json!({ "requestID": super::id(&call), "reason": "The turn was stopped" }));
    let running = running.await.unwrap();
    assert_eq!((running.status, &running.body["info"]["error"]["name"]), (200, &json!("MessageAbortedError")));
    let waiting = waiting.await.unwrap();
    assert_eq!(must_fail(&waiting, 404), "the session was deleted before it answered");
    must_fail(&server.get(&path).await, 404);
    assert_eq!(server.get("/session").await.body, json!([]));
    assert_eq!((model.shown().len(), server.counts().calls), (1, 0));
}

#[tokio::test]
async fn a_message_that_is_being_written_can_be_read() {
    let mut world = World::start().await;
    let prompt = world.server.prompt(&world.session, "go");
    let asked = world.model.asked().await;
    for event in [
        ModelEvent::Text("Let me see.".to_owned()),
        ModelEvent::CallStarted { index: 0, id: String::new(), name: "client_tab_b".to_owned() },
        ModelEvent::Arguments { index: 0, delta: "{\"x\":1}".to_owned() },
        ModelEvent::CallEnded { index: 0, kept: None },
        ModelEvent::Stop(StopReason::ToolCalls),
    ] {
        asked.say(event);
    }
    let call = world.stream.next_call().await;
    let message = world.server.messages(&world.session).await.pop().unwrap();
    assert_eq!(brief(&message), "assistant | Let me see. | client_tab_b {\"x\":1} running ");
    assert_eq!(message["info"]["time"]["completed"], Value::Null);
    world.server.answer(super::id(&call), "ok").await;
    world.model.asked().await.answer("Done.");
    prompt.await.unwrap();
}
