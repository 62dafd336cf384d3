//! What `/event` tells of a frontend's call, and in which order.

use handback_core::tools::Permission;
use handback_testkit::chat::saying;
use handback_testkit::session::{events_until, permit};
use handback_testkit::tidy::Tidier;
use serde_json::{Value, json};

use super::{World, url};

/// Of a list of events, in short: the type, and the state of a tool part.
fn brief(events: &[Value]) -> Vec<String> {
    let line = |event: &Value| {
        let kind = event["type"].as_str().unwrap();
        let part = &event["properties"]["part"];
        match part["state"]["status"].as_str() {
            Some(state) => format!("{kind} {state}"),
            None if part["type"].is_string() => format!("{kind} {}", part["type"].as_str().unwrap()),
            None => kind.to_owned(),
        }
    };
    let mut lines: Vec<String> = events.iter().map(line).filter(|line| !line.contains("delta")).collect();
    lines.dedup();
    lines
}

#[tokio::test]
async fn a_call_is_told_when_it_is_allowed_and_can_be_answered() {
    let world = World::with(|config| permit(config, Permission::Ask)).await;
    let mut events = world.server.events().await;
    world.model.will_call(&[("open-url", url())]);
    world.model.will_say("Done.");
    let mut stream = world.server.chat(&saying("chat", "u1", "go")).await;
    let ask = stream.until("tool-approval-request").await;
    let path = format!("/permission/{}/reply", ask["approvalId"].as_str().unwrap());
    world.server.post(&path, json!({ "reply": "once" })).await.must_be(200, &json!(true));
    let call = stream.call().await;
    world.server.ack_success(&call, json!(1)).await;
    stream.lines().await;
    let events = events_until(&mut events, "session.idle").await;
    let order = [
        "session.created",
        "session.updated",
        "message.updated",
        "message.part.updated text",
        "session.updated",
        "session.status",
        "message.updated",
        "message.part.updated step-start",
        "message.part.updated pending",
        "permission.updated",
        "permission.asked",
        "permission.replied",
        "client-tool.request",
        "client-tool.executing",
        "message.part.updated running",
        "client-tool.completed",
        "message.part.updated completed",
        "message.part.updated step-finish",
        "message.updated",
        "message.part.updated step-start",
        "message.part.updated text",
        "message.part.updated step-finish",
        "message.updated",
        "session.updated",
        "session.status",
        "session.idle",
    ];
    assert_eq!(brief(&events), order);
    let mut tidier = Tidier::default();
    let of_call = |kind: &str| events.iter().find(|event| event["type"] == kind).unwrap();
    let request = json!({
        "type": "client-tool-request", "requestID": "cal_1", "sessionID": "chat", "messageID": "msg_1",
        "callID": "cal_1", "tool": "open-url", "input": url(), "deadline": "time", "effect": "write", "attempt": 1,
        "executionMode": "frontend",
    });
    let told = json!({ "clientID": "session/chat", "request": request });
    assert_eq!(tidier.tidy(&of_call("client-tool.request")["properties"]), told);
    let mut common = json!({
        "sessionID": "chat", "messageID": "msg_1", "callID": "cal_1", "tool": "open-url", "clientID": "session/chat",
    });
    assert_eq!(tidier.tidy(&of_call("client-tool.executing")["properties"]), common);
    common["success"] = true.into();
    assert_eq!(tidier.tidy(&of_call("client-tool.completed")["properties"]), common);
}

#[tokio::test]
async fn calls_that_fail_or_take_too_long_are_told_as_failed() {
    let world = World::start().await;
    let mut events = world.server.events().await;
    for (number, status) in ["failed", "timeout"].into_iter().enumerate() {
        world.model.will_call(&[("open-url", url())]);
        world.model.will_say("Oh.");
        let mut stream = world.server.chat(&saying("chat", &format!("u{number}"), "go")).await;
        let call = stream.call().await;
        let ack = json!({ "toolCallId": call, "status": status, "errorText": "blocked" });
        world.server.ack(&ack).await.must_be(200, &json!({ "ok": true }));
        stream.lines().await;
        let events = events_until(&mut events, "session.idle").await;
        let ends: Vec<&Value> = events
            .iter()
            .filter(|event| matches!(event["type"].as_str().unwrap(), "client-tool.completed" | "client-tool.failed"))
            .collect();
        assert_eq!(ends.len(), 1, "{ends:?}");
        assert_eq!((&ends[0]["type"], &ends[0]["properties"]["callID"]), (&json!("client-tool.failed"), &json!(call)));
    }
}

#[tokio::test]
async fn what_is_the_pages_own_is_no_call_of_a_client() {
    let world = World::start().await;
    let mut events = world.server.events().await;
    world.model.will_call(&[("pick", json!({})), ("open-url", json!({}))]);
    world.server.chat_lines(&super::picking("chat", "u1")).await;
    let events = events_until(&mut events, "session.idle").await;
    assert!(!events.iter().any(|event| event["type"].as_str().unwrap().starts_with("client-tool")), "{events:#?}");
}

#[tokio::test]
async fn a_call_that_was_denied_is_never_told_as_one_to_be_run() {
    for (permission, answers) in [(Permission::Deny, false), (Permission::Ask, true)] {
        let world = World::with(|config| permit(config, permission)).await;
        let mut events = world.server.events().await;
        world.model.will_call(&[("open-url", url())]);
        world.model.will_say("Done.");
        let mut stream = world.server.chat(&saying("chat", "u1", "go")).await;
        if answers {
            let ask = stream.until("tool-approval-request").await;
            let path = format!("/permission/{}/reply", ask["approvalId"].as_str().unwrap());
            world.server.post(&path, json!({ "reply": "reject" })).await.must_be(200, &json!(true));
        }
        stream.lines().await;
        let told = brief(&events_until(&mut events, "session.idle").await);
        let of_calls: Vec<&String> = told.iter().filter(|line| line.starts_with("client-tool.")).collect();
        assert_eq!(of_calls, ["client-tool.failed"], "{permission:?}");
    }
}
