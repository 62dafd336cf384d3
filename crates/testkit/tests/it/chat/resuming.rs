//! A page that comes back gets the whole message from its beginning, and calls that are over are not handed out again.

use std::time::Duration;

use handback_core::sessions::ModelEvent;
use handback_testkit::Scratch;
use handback_testkit::chat::{assistant, ran, saying, user};
use serde_json::json;

use super::{World, page_tools, picking, url};

/// A server over a directory, which leaves what is open at once when it stops.
async fn start_over(scratch: &Scratch) -> World {
    World::with(|config| {
        config.data = Some(scratch.path().to_owned());
        config.limits.drain_timeout = Duration::ZERO;
    })
    .await
}

#[tokio::test]
async fn there_is_nothing_to_come_back_to_when_nothing_is_under_way() {
    let world = World::start().await;
    world.server.get("/api/chat/chat/stream").await.must_be(204, &json!(""));
    world.model.will_say("Hello.");
    world.server.chat_lines(&saying("chat", "u1", "hi")).await;
    world.server.get("/api/chat/chat/stream").await.must_be(204, &json!(""));
    // A turn of the session API that no page follows.
    let prompt = world.server.prompt("chat", "and you?");
    let asked = world.model.asked().await;
    world.server.get("/api/chat/chat/stream").await.must_be(204, &json!(""));
    asked.answer("Fine.");
    assert_eq!(prompt.await.unwrap().status, 200);
}

#[tokio::test]
async fn in_the_middle_of_a_text_all_of_it_is_told_again() {
    let world = World::start().await;
    let mut first = world.server.chat(&saying("chat", "u1", "hi")).await;
    let asked = world.model.asked().await;
    for piece in ["One ", "two ", "three "] {
        asked.say(ModelEvent::Text(piece.to_owned()));
        assert_eq!(first.until("text-delta").await["delta"], piece);
    }
    let mut second = world.server.resume_chat("chat").await;
    assert_eq!(second.headers["x-vercel-ai-ui-message-stream"], "v1");
    assert_eq!(second.headers["content-type"], "text/event-stream");
    asked.answer("four.");
    let lines = first.lines().await;
    assert_eq!(lines[3], r#"text-delta {"delta":"One two three four.","id":"prt_1"}"#);
    assert_eq!(second.lines().await, lines);
    assert_eq!(first.seen()[0], second.seen()[0]);
}

#[tokio::test]
async fn a_held_call_is_handed_out_again_while_it_is_open() {
    let world = World::start().await;
    world.model.will_call(&[("open-url", url()), ("open-url", json!({ "url": "http://b/" }))]);
    let mut first = world.server.chat(&saying("chat", "u1", "go")).await;
    let (done, open) = (first.call().await, first.call().await);
    world.server.ack_success(&done, json!(1)).await;
    first.until("tool-output-available").await;
    let mut second = world.server.resume_chat("chat").await;
    assert_eq!(second.call().await, open);
    world.server.ack_success(&open, json!(2)).await;
    let asked = world.model.asked().await;
    let mut third = world.server.resume_chat("chat").await;
    asked.answer("Done.");
    let before = [
        r#"start {"messageId":"msg_1"}"#,
        "start-step",
        r#"tool-input-start {"toolCallId":"cal_1","toolName":"open-url"}"#,
        r#"tool-input-delta {"inputTextDelta":"{\"url\":\"https://example.org/\"}","toolCallId":"cal_1"}"#,
        r#"tool-input-start {"toolCallId":"cal_2","toolName":"open-url"}"#,
        r#"tool-input-delta {"inputTextDelta":"{\"url\":\"http://b/\"}","toolCallId":"cal_2"}"#,
    ];
    let handed_out = r#"tool-input-available {"input":{"url":"http://b/"},"toolCallId":"cal_2","toolName":"open-url"}"#;
    let (one, two) = (
        r#"tool-output-available {"output":{"output":1,"status":"success"},"toolCallId":"cal_1"}"#,
        r#"tool-output-available {"output":{"output":2,"status":"success"},"toolCallId":"cal_2"}"#,
    );
    let after = [
        "finish-step",
        "start-step",
        r#"text-start {"id":"prt_1"}"#,
        r#"text-delta {"delta":"Done.","id":"prt_1"}"#,
        r#"text-end {"id":"prt_1"}"#,
        "finish-step",
        r#"finish {"finishReason":"stop"}"#,
    ];
    let whole = |middle: &[&'static str]| [&before[..], middle, &after[..]].concat();
    assert_eq!(second.lines().await, whole(&[handed_out, one, two]));
    assert_eq!(third.lines().await, whole(&[one, two]));
    let lines = first.lines().await;
    assert_eq!(lines.iter().filter(|line| line.starts_with("tool-input-available")).count(), 2);
}

#[tokio::test]
async fn during_a_continuation_the_message_is_told_from_its_first_step() {
    let world = World::start().await;
    world.model.will_call(&[("pick", json!({ "n": 1 }))]);
    let mut first = world.server.chat(&picking("chat", "u1")).await;
    let call = first.call().await;
    first.lines().await;
    let message = first.seen()[0]["messageId"].as_str().unwrap().to_owned();
    let body = json!({
        "id": "chat", "messages": [user("u1", "go"), assistant(&message, json!([ran("pick", &call, json!(5))]))],
        "tools": page_tools(), "messageId": message,
    });
    let mut going_on = world.server.chat(&body).await;
    let asked = world.model.asked().await;
    asked.say(ModelEvent::Text("Fi".to_owned()));
    going_on.until("text-delta").await;
    let mut resumed = world.server.resume_chat("chat").await;
    asked.answer("ve.");
    let lines = [
        r#"start {"messageId":"msg_1"}"#,
        "start-step",
        r#"tool-input-start {"toolCallId":"cal_1","toolName":"pick"}"#,
        r#"tool-input-delta {"inputTextDelta":"{\"n\":1}","toolCallId":"cal_1"}"#,
        r#"tool-output-available {"output":5,"toolCallId":"cal_1"}"#,
        "finish-step",
        "start-step",
        r#"text-start {"id":"prt_1"}"#,
        r#"text-delta {"delta":"Five.","id":"prt_1"}"#,
        r#"text-end {"id":"prt_1"}"#,
        "finish-step",
        r#"finish {"finishReason":"stop"}"#,
    ];
    assert_eq!(resumed.lines().await, lines);
    assert_eq!(resumed.seen()[0]["messageId"], message);
    assert_eq!(going_on.lines().await.len(), 7);
}

#[tokio::test]
async fn many_may_come_back_at_once_and_leave_again() {
    let world = World::start().await;
    let mut first = world.server.chat(&saying("chat", "u1", "hi")).await;
    let asked = world.model.asked().await;
    asked.say(ModelEvent::Text("A".to_owned()));
    first.until("text-delta").await;
    let mut others = Vec::new();
    for number in 0..20 {
        let mut other = world.server.resume_chat("chat").await;
        other.until("text-delta").await;
        // Every other one leaves at once, and its place is taken.
        if number % 2 == 0 {
            others.push(other);
        }
    }
    asked.say(ModelEvent::Text("B".to_owned()));
    asked.answer("C");
    let lines = first.lines().await;
    assert_eq!(lines[3], r#"text-delta {"delta":"ABC","id":"prt_1"}"#);
    for mut other in others {
        assert_eq!(other.lines().await, lines);
    }
}

#[tokio::test]
async fn a_turn_that_a_restart_cut_is_told_from_its_start() {
    let scratch = Scratch::new();
    let start = || start_over(&scratch);
    let world = start().await;
    world.model.will_call(&[("open-url", url())]);
    let mut first = world.server.chat(&saying("chat", "u1", "go")).await;
    let done = first.call().await;
    world.server.ack_success(&done, json!(1)).await;
    world.model.asked().await.call(&[("open-url", url())]);
    let open = first.call().await;
    world.server.stop().await;

    let world = start().await;
    let mut back = world.server.resume_chat("chat").await;
    assert_eq!(back.call().await, open);
    world.server.ack_success(&open, json!(2)).await;
    let asked = world.model.asked().await;
    assert_eq!(asked.shown.results, [r#"{"status":"success","output":2}"#]);
    asked.say(ModelEvent::Text("Half".to_owned()));
    back.until("text-delta").await;
    world.server.stop().await;

    // What was half said is said anew.
    let world = start().await;
    let mut back = world.server.resume_chat("chat").await;
    world.model.asked().await.answer("Whole.");
    let lines = back.lines().await;
    let said: Vec<&String> = lines.iter().filter(|line| line.starts_with("text-delta")).collect();
    assert_eq!(said, [r#"text-delta {"delta":"Whole.","id":"prt_1"}"#]);
    assert_eq!(lines.iter().filter(|line| line.starts_with("tool-output-available")).count(), 2, "{lines:#?}");
    assert_eq!(lines.last().unwrap(), r#"finish {"finishReason":"stop"}"#);
}

/// The page has run its call before the others of the same step are over. Its results were taken when their stream began.
#[tokio::test]
async fn results_that_come_while_their_turn_runs_outlive_the_process() {
    let scratch = Scratch::new();
    let start = || start_over(&scratch);
    let world = start().await;
    world.model.will_call(&[("pick", json!({ "n": 1 })), ("open-url", url())]);
    let mut first = world.server.chat(&picking("chat", "u1")).await;
    let (mut picked, mut held) = (String::new(), String::new());
    for _ in 0..2 {
        let chunk = first.until("tool-input-available").await;
        let id = if chunk["toolName"] == "pick" { &mut picked } else { &mut held };
        *id = chunk["toolCallId"].as_str().unwrap().to_owned();
    }
    let message = first.seen()[0]["messageId"].as_str().unwrap();
    let body = json!({
        "id": "chat", "messages": [user("u1", "go"), assistant(message, json!([ran("pick", &picked, json!(5))]))],
        "tools": page_tools(), "messageId": message,
    });
    let _going_on = world.server.chat(&body).await;
    world.server.stop().await;

    let world = start().await;
    let mut back = world.server.resume_chat("chat").await;
    world.server.ack_success(&held, json!(1)).await;
    let asked = world.model.asked().await;
    assert_eq!(asked.shown.results, ["5", r#"{"status":"success","output":1}"#]);
    asked.answer("Both.");
    let lines = back.lines().await;
    assert_eq!(lines.last().unwrap(), r#"finish {"finishReason":"stop"}"#, "{lines:?}");
    let history = world.history("chat").await;
    assert!(history.len() == 3 && history[1].starts_with(r#"assistant | pick {"n":1} → 5 | open-url"#), "{history:?}");
    assert_eq!(history[2], "assistant | Both. | <stop>");
}
