//! However a turn ends, its stream says so and is over.

use handback_core::sessions::ModelEvent;
use handback_core::store::TurnError;
use handback_testkit::RawSocket;
use handback_testkit::chat::saying;
use serde_json::json;

use super::{World, url};

#[tokio::test]
async fn a_failing_provider_is_an_error_and_a_finish() {
    let world = World::start().await;
    let mut stream = world.server.chat(&saying("chat", "u1", "hi")).await;
    let asked = world.model.asked().await;
    asked.say(ModelEvent::Text("Well".to_owned()));
    stream.until("text-delta").await;
    asked.fail(TurnError::Provider { message: "overloaded".to_owned(), status: Some(529), retryable: true });
    let lines = [
        r#"start {"messageId":"msg_1"}"#,
        "start-step",
        r#"text-start {"id":"prt_1"}"#,
        r#"text-delta {"delta":"Well","id":"prt_1"}"#,
        r#"text-end {"id":"prt_1"}"#,
        "finish-step",
        r#"error {"errorText":"overloaded"}"#,
        r#"finish {"finishReason":"error"}"#,
    ];
    assert_eq!(stream.lines().await, lines);
    // The chat goes on.
    world.model.will_say("Here I am.");
    assert_eq!(world.server.chat_lines(&saying("chat", "u2", "and now?")).await.len(), 7);
}

#[tokio::test]
async fn an_answer_that_is_cut_off_is_an_error_too() {
    let world = World::start().await;
    let mut stream = world.server.chat(&saying("chat", "u1", "hi")).await;
    drop(world.model.asked().await);
    let lines = [
        r#"start {"messageId":"msg_1"}"#,
        "start-step",
        "finish-step",
        r#"error {"errorText":"The model's answer was cut off"}"#,
        r#"finish {"finishReason":"error"}"#,
    ];
    assert_eq!(stream.lines().await, lines);
}

#[tokio::test]
async fn an_abort_is_told_in_the_stream_and_the_call_is_over() {
    let world = World::start().await;
    world.model.will_call(&[("open-url", url())]);
    let mut stream = world.server.chat(&saying("chat", "u1", "go")).await;
    let call = stream.call().await;
    world.server.post("/api/chat/chat/abort", json!({})).await.must_be(200, &json!({ "ok": true }));
    assert_eq!(world.server.status("chat").await, "idle");
    let lines = stream.lines().await;
    let end = [
        r#"tool-output-error {"errorText":"Not finished: The turn was aborted; it may have run","toolCallId":"cal_1"}"#,
        "finish-step",
        r#"finish {"finishReason":"interrupted"}"#,
        r#"abort {"reason":"The turn was aborted"}"#,
    ];
    assert_eq!(lines[5..], end);
    assert_eq!(world.server.outcome(&call).await["status"], "cancelled");
    assert_eq!(world.server.counts().calls, 0);
    // Stopping what is over changes nothing.
    world.server.post("/api/chat/chat/abort", json!({})).await.must_be(200, &json!({ "ok": true }));
    // Nothing was completed: the same message again is answered anew.
    world.model.will_say("Here I am.");
    let again = world.server.chat_lines(&saying("chat", "u1", "go")).await;
    assert_eq!(again.last().unwrap(), r#"finish {"finishReason":"stop"}"#);
}

#[tokio::test]
async fn an_abort_in_the_middle_of_arguments_leaves_nothing_half_open() {
    let world = World::start().await;
    let mut stream = world.server.chat(&saying("chat", "u1", "go")).await;
    let asked = world.model.asked().await;
    let (id, name) = ("p".to_owned(), "open-url".to_owned());
    asked.say(ModelEvent::CallStarted { index: 0, id, name });
    asked.say(ModelEvent::Arguments { index: 0, delta: "{\"url\":\"ht".to_owned() });
    stream.until("tool-input-delta").await;
    world.server.post("/api/chat/chat/abort", json!({})).await.must_be(200, &json!({ "ok": true }));
    asked.dropped().await;
    let error = json!({
        "errorText": "Not finished: The turn was aborted", "input": {}, "toolCallId": "cal_1", "toolName": "open-url",
    });
    let end = [
        format!("tool-input-error {error}"),
        "finish-step".into(),
        r#"finish {"finishReason":"interrupted"}"#.into(),
        r#"abort {"reason":"The turn was aborted"}"#.into(),
    ];
    assert_eq!(stream.lines().await[4..], end);
    assert_eq!(world.server.get("/client-tools/calls").await.body, json!([]));
}

#[tokio::test]
async fn a_chat_that_is_deleted_ends_its_stream() {
    let world = World::start().await;
    let mut stream = world.server.chat(&saying("chat", "u1", "go")).await;
    let asked = world.model.asked().await;
    world.server.delete("/session/chat", json!({})).await.must_be(200, &json!(true));
    asked.dropped().await;
    assert_eq!(stream.lines().await.last().unwrap(), r#"abort {"reason":"The turn was aborted"}"#);
    world.server.get("/api/chat/chat").await.must_fail(404, "NOT_FOUND");
}

#[tokio::test]
async fn a_server_that_stops_ends_its_streams() {
    let world = World::start().await;
    world.model.will_call(&[("open-url", url())]);
    let mut stream = world.server.chat(&saying("chat", "u1", "go")).await;
    stream.call().await;
    world.server.stop().await;
    let end = r#"abort {"reason":"The server was stopped while this turn was under way"}"#;
    assert_eq!(stream.lines().await.last().unwrap(), end);
}

#[tokio::test]
async fn a_reader_that_leaves_does_not_stop_the_turn() {
    let world = World::start().await;
    let stream = world.server.chat(&saying("chat", "u1", "go")).await;
    let asked = world.model.asked().await;
    drop(stream);
    asked.answer("All the same.");
    world.server.until_idle("chat").await;
    assert_eq!(world.history("chat").await, ["user | go", "assistant | All the same. | <stop>"]);
}

#[tokio::test]
async fn a_slow_reader_does_not_disturb_others() {
    let world = World::start().await;
    let body = saying("slow", "u1", "go").to_string();
    let mut slow = RawSocket::open_narrow(world.server.address).await;
    let request = format!("POST /api/chat HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    slow.send(request).await.unwrap();
    let asked = world.model.asked().await;
    let mut beside = world.server.resume_chat("slow").await;
    // Far more than sockets take up, in many pieces.
    let piece = "x".repeat(16_384);
    for _ in 0..1_000 {
        asked.say(ModelEvent::Text(piece.clone()));
    }
    // Another chat, and another reader of the same, go on.
    world.model.will_say("Quick.");
    assert_eq!(world.server.chat_lines(&saying("quick", "u1", "hi")).await.len(), 7);
    asked.answer("the end");
    let lines = beside.lines().await;
    assert_eq!(lines.last().unwrap(), r#"finish {"finishReason":"stop"}"#);
    assert_eq!(lines[3].len(), piece.len() * 1_000 + r#"text-delta {"delta":"the end","id":"prt_1"}"#.len());
    world.server.until_idle("slow").await;
    // It gets all of it, in its own time.
    slow.head().await;
    let mut bytes = 0;
    loop {
        let frame = slow.frame().await;
        bytes += frame.len();
        if frame == "data: [DONE]\n\n" {
            break;
        }
    }
    assert!(bytes > piece.len() * 1_000, "{bytes}");
}
