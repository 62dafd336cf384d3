//! Calls that have to be allowed, while the stream is held and where it yields.

use std::time::Duration;

use handback_core::tools::Permission;
use handback_testkit::ChatStream;
use handback_testkit::chat::{assistant, saying, user};
use handback_testkit::session::permit;
use serde_json::{Value, json};

use super::{World, url};

async fn asking() -> World {
    World::with(|config| permit(config, Permission::Ask)).await
}

/// A chat whose first call has to be allowed: its stream, and the ask.
async fn with_ask(world: &World, tool: &str, input: Value) -> (ChatStream, Value) {
    world.model.will_call(&[(tool, input)]);
    world.model.will_say("Done.");
    let mut stream = world.server.chat(&saying("chat", "u1", "go")).await;
    let ask = stream.until("tool-approval-request").await;
    (stream, ask)
}

async fn reply(world: &World, ask: &Value, body: Value) {
    let path = format!("/permission/{}/reply", ask["approvalId"].as_str().unwrap());
    world.server.post(&path, body).await.must_be(200, &json!(true));
}

/// The lines of a whole stream around what became of one call.
fn around(input: &str, middle: &[&str]) -> Vec<String> {
    let delta = json!({ "inputTextDelta": input, "toolCallId": "cal_1" });
    let delta = format!("tool-input-delta {delta}");
    let before = [
        r#"start {"messageId":"msg_1"}"#,
        "start-step",
        r#"tool-input-start {"toolCallId":"cal_1","toolName":"open-url"}"#,
        delta.as_str(),
        r#"tool-approval-request {"approvalId":"per_1","toolCallId":"cal_1"}"#,
    ];
    let after = [
        "finish-step",
        "start-step",
        r#"text-start {"id":"prt_1"}"#,
        r#"text-delta {"delta":"Done.","id":"prt_1"}"#,
        r#"text-end {"id":"prt_1"}"#,
        "finish-step",
        r#"finish {"finishReason":"stop"}"#,
    ];
    before.iter().chain(middle).chain(&after).map(|line| (*line).to_owned()).collect()
}

#[tokio::test]
async fn a_call_is_handed_out_when_it_is_allowed() {
    let world = asking().await;
    let (mut stream, ask) = with_ask(&world, "open-url", url()).await;
    let path = format!("/session/chat/permissions/{}", ask["approvalId"].as_str().unwrap());
    world.server.post(&path, json!({ "response": "once" })).await.must_be(200, &json!(true));
    let call = stream.call().await;
    world.server.ack_success(&call, json!(1)).await;
    let expected = around(
        r#"{"url":"https://example.org/"}"#,
        &[
            r#"tool-approval-response {"approvalId":"per_1","approved":true}"#,
            r#"tool-input-available {"input":{"url":"https://example.org/"},"toolCallId":"cal_1","toolName":"open-url"}"#,
            r#"tool-output-available {"output":{"output":1,"status":"success"},"toolCallId":"cal_1"}"#,
        ],
    );
    assert_eq!(stream.lines().await, expected);
}

#[tokio::test]
async fn a_call_goes_out_as_whoever_allows_it_has_changed_it() {
    let world = asking().await;
    let (mut stream, ask) = with_ask(&world, "open-url", url()).await;
    let path = format!("/permission/{}/reply", ask["approvalId"].as_str().unwrap());
    let bad = json!({ "reply": "once", "input": { "url": 1 } });
    assert_eq!(world.server.post(&path, bad).await.status, 400);
    reply(&world, &ask, json!({ "reply": "once", "input": { "url": "http://b/" } })).await;
    let call = stream.call().await;
    world.server.ack_success(&call, json!(1)).await;
    let expected = around(
        r#"{"url":"https://example.org/"}"#,
        &[
            r#"tool-approval-response {"approvalId":"per_1","approved":true}"#,
            r#"tool-input-available {"input":{"url":"http://b/"},"toolCallId":"cal_1","toolName":"open-url"}"#,
            r#"tool-output-available {"output":{"output":1,"status":"success"},"toolCallId":"cal_1"}"#,
        ],
    );
    assert_eq!(stream.lines().await, expected);
    assert!(world.history("chat").await[1].starts_with(r#"assistant | open-url {"url":"http://b/"} →"#));
}

#[tokio::test]
async fn a_call_that_is_not_allowed_is_told_as_denied() {
    let world = asking().await;
    let (mut stream, ask) = with_ask(&world, "open-url", url()).await;
    reply(&world, &ask, json!({ "reply": "reject", "message": "not there" })).await;
    let denied = [
        r#"tool-approval-response {"approvalId":"per_1","approved":false,"reason":"not there"}"#,
        r#"tool-output-denied {"toolCallId":"cal_1"}"#,
    ];
    assert_eq!(stream.lines().await, around(r#"{"url":"https://example.org/"}"#, &denied));
    assert_eq!(world.model.last_shown().results, ["not there"]);
}

#[tokio::test]
async fn an_ask_that_nobody_answers_is_a_denial() {
    let world = World::with(|config| {
        permit(config, Permission::Ask);
        config.client_tools.approval_timeout = Duration::from_millis(50);
    })
    .await;
    let (mut stream, _) = with_ask(&world, "open-url", url()).await;
    let denied = [
        r#"tool-approval-response {"approvalId":"per_1","approved":false,"reason":"Denied: the approval expired"}"#,
        r#"tool-output-denied {"toolCallId":"cal_1"}"#,
    ];
    assert_eq!(stream.lines().await, around(r#"{"url":"https://example.org/"}"#, &denied));
    assert_eq!(world.model.last_shown().results, ["Denied: the approval expired"]);
}

#[tokio::test]
async fn always_allows_the_tool_for_the_rest_of_the_chat() {
    let world = asking().await;
    let (mut stream, ask) = with_ask(&world, "open-url", url()).await;
    reply(&world, &ask, json!({ "reply": "always" })).await;
    let call = stream.call().await;
    world.server.ack_success(&call, json!(1)).await;
    stream.lines().await;
    world.model.will_call(&[("open-url", url())]);
    world.model.will_say("Done.");
    let mut stream = world.server.chat(&saying("chat", "u2", "again")).await;
    let call = stream.call().await;
    world.server.ack_success(&call, json!(1)).await;
    assert!(!stream.lines().await.iter().any(|line| line.starts_with("tool-approval")));
}

/// What a page posts when the user has said something to asks.
fn responded(message: &str, parts: &[(&Value, bool)]) -> Value {
    let parts: Vec<Value> = parts
        .iter()
        .map(|(ask, approved)| {
            json!({
                "type": "tool-open-url", "toolCallId": ask["toolCallId"], "state": "approval-responded", "input": url(),
                "approval": { "id": ask["approvalId"], "approved": approved, "reason": "because" },
            })
        })
        .collect();
    json!({
        "id": "chat", "messages": [user("u1", "go"), assistant(message, json!(parts))], "approvals": "yield",
        "trigger": "submit-message", "messageId": message,
    })
}

#[tokio::test]
async fn where_approvals_yield_the_stream_ends_at_the_ask_and_the_next_request_goes_on() {
    let world = asking().await;
    world.model.will_call(&[("open-url", url())]);
    world.model.will_say("Done.");
    let mut body = saying("chat", "u1", "go");
    body["approvals"] = "yield".into();
    let mut stream = world.server.chat(&body).await;
    let lines = stream.lines().await;
    let first = [
        r#"start {"messageId":"msg_1"}"#,
        "start-step",
        r#"tool-input-start {"toolCallId":"cal_1","toolName":"open-url"}"#,
        r#"tool-input-delta {"inputTextDelta":"{\"url\":\"https://example.org/\"}","toolCallId":"cal_1"}"#,
        r#"tool-approval-request {"approvalId":"per_1","toolCallId":"cal_1"}"#,
        r#"finish {"finishReason":"tool-calls"}"#,
    ];
    assert_eq!(lines, first);
    // The turn itself waits on.
    assert_eq!(world.server.status("chat").await, "busy");
    let message = stream.seen()[0]["messageId"].as_str().unwrap();
    let ask = &stream.seen()[lines.len() - 2];
    let mut stream = world.server.chat(&responded(message, &[(ask, true)])).await;
    let call = stream.call().await;
    assert_eq!(ask["toolCallId"], call);
    assert_eq!(stream.seen()[0], json!({ "type": "start", "messageId": message }));
    world.server.ack_success(&call, json!(1)).await;
    let second = [
        r#"start {"messageId":"msg_1"}"#,
        r#"tool-approval-response {"approvalId":"per_1","approved":true}"#,
        r#"tool-input-available {"input":{"url":"https://example.org/"},"toolCallId":"cal_1","toolName":"open-url"}"#,
        r#"tool-output-available {"output":{"output":1,"status":"success"},"toolCallId":"cal_1"}"#,
        "finish-step",
        "start-step",
        r#"text-start {"id":"prt_1"}"#,
        r#"text-delta {"delta":"Done.","id":"prt_1"}"#,
        r#"text-end {"id":"prt_1"}"#,
        "finish-step",
        r#"finish {"finishReason":"stop"}"#,
    ];
    assert_eq!(stream.lines().await, second);
    assert_eq!(world.model.shown().len(), 2);
}

#[tokio::test]
async fn a_denial_by_the_next_request_tells_the_model_why() {
    let world = asking().await;
    world.model.will_call(&[("open-url", url()), ("open-url", url())]);
    world.model.will_say("Done.");
    let mut body = saying("chat", "u1", "go");
    body["approvals"] = "yield".into();
    let mut stream = world.server.chat(&body).await;
    stream.lines().await;
    let message = stream.seen()[0]["messageId"].as_str().unwrap();
    let asks: Vec<&Value> = stream.seen().iter().filter(|chunk| chunk["type"] == "tool-approval-request").collect();
    assert_eq!(asks.len(), 2);
    // One is answered: the other is still open, and so the stream ends again.
    let mut stream = world.server.chat(&responded(message, &[(asks[0], false)])).await;
    let lines = stream.lines().await;
    assert_eq!(lines.last().unwrap(), r#"finish {"finishReason":"tool-calls"}"#);
    assert!(lines.iter().any(|line| line.starts_with("tool-output-denied")), "{lines:#?}");
    // Both, the first as before: what was answered is not answered again.
    let mut stream = world.server.chat(&responded(message, &[(asks[0], true), (asks[1], false)])).await;
    let lines = stream.lines().await;
    assert_eq!(lines.last().unwrap(), r#"finish {"finishReason":"stop"}"#, "{lines:#?}");
    assert_eq!(world.model.last_shown().results, ["because", "because"]);
}

#[tokio::test]
async fn an_ask_of_another_chat_is_not_answered_through_this_one() {
    let world = asking().await;
    (0..2).for_each(|_| world.model.will_call(&[("open-url", url())]));
    let ask = world.server.chat(&saying("chat", "u1", "go")).await.until("tool-approval-request").await;
    let mut other = saying("other", "u1", "go");
    other["approvals"] = "yield".into();
    let mut stream = world.server.chat(&other).await;
    stream.lines().await;
    let message = stream.seen()[0]["messageId"].as_str().unwrap();
    let mut body = responded(message, &[(&ask, true)]);
    body["id"] = "other".into();
    assert_eq!(world.server.refused_chat(&body).await.status, 400);
    let asks = world.server.asks().await;
    assert_eq!(asks.len(), 2);
    assert_eq!(asks[0]["id"], ask["approvalId"]);
}

#[tokio::test]
async fn a_page_that_comes_back_sees_what_was_allowed_and_not_what_the_model_wanted() {
    let world = asking().await;
    let (mut stream, ask) = with_ask(&world, "open-url", url()).await;
    let allowed = json!({ "url": "https://other.example.org/" });
    reply(&world, &ask, json!({ "reply": "once", "input": allowed })).await;
    let call = stream.call().await;
    // What is kept may be a moment behind what is told.
    let is_kept = async || world.page("chat").await[1]["parts"][1]["input"] == allowed;
    handback_testkit::server::until("it is kept", is_kept).await;
    assert_eq!(world.page("chat").await[1]["parts"][1]["state"], "input-available");
    world.server.ack_success(&call, json!(1)).await;
    stream.lines().await;
}
