//! How long a frontend has: what the call says, what the tool says, 60 s; and what becomes of a call that took longer.

use handback_core::tools::Permission;
use handback_server::config::FrontendTool;
use handback_testkit::chat::saying;
use handback_testkit::keys::seconds_until;
use handback_testkit::session::{permit, tool_part};
use serde_json::{Value, json};

use super::{World, refused, success};

/// Seconds until the deadline of a call that is made with this input.
async fn allotted(world: &World, tool: &str, input: &Value) -> f64 {
    world.model.will_call(&[(tool, input.clone())]);
    let mut stream = world.server.chat(&saying("chat", &format!("{tool} {input}"), "go")).await;
    let call = stream.call().await;
    let seconds = seconds_until(world.server.call(&call).await["deadline"].as_str().unwrap());
    world.server.ack_success(&call, json!(1)).await;
    world.model.asked().await.answer("Done.");
    stream.lines().await;
    seconds
}

#[tokio::test]
async fn the_calls_own_time_counts_then_the_tools_then_a_minute() {
    let world = World::with(|config| {
        for (name, timeout_sec) in [("slow", 600.0), ("none", 0.0), ("ever", 1e9)] {
            config.tools.insert(name.to_owned(), FrontendTool { timeout_sec, ..FrontendTool::default() });
        }
    })
    .await;
    let day = 86_400.0;
    let own = |seconds: Value| json!({ "url": "http://a/", "timeoutSec": seconds });
    let cases = [
        ("open-url", json!({ "url": "http://a/" }), 60.0),
        ("open-url", own(json!(1.5)), 1.5),
        ("open-url", own(json!(300)), 300.0),
        ("open-url", own(json!(0.99)), 60.0),
        ("open-url", own(json!(0)), 60.0),
        ("open-url", own(json!(-5)), 60.0),
        ("open-url", own(json!(86_400)), day),
        ("open-url", own(json!(86_401)), day),
        ("open-url", own(json!(1e300)), day),
        ("slow", json!({}), 600.0),
        ("slow", json!({ "timeoutSec": 5 }), 5.0),
        // Below 1 it is 60, whatever the tool says.
        ("slow", json!({ "timeoutSec": 0 }), 60.0),
        // Where the schema lets it pass, what is no number says nothing.
        ("slow", json!({ "timeoutSec": "5" }), 600.0),
        ("slow", json!({ "timeoutSec": null }), 600.0),
        ("none", json!({}), 60.0),
        ("ever", json!({}), day),
    ];
    for (tool, input, seconds) in cases {
        let left = allotted(&world, tool, &input).await;
        assert!((seconds - 1.4..=seconds).contains(&left), "{tool} {input}: {left}");
    }
}

#[tokio::test]
async fn a_call_that_nobody_answers_in_time_is_a_timeout_and_the_turn_goes_on() {
    let world = World::start().await;
    let (mut stream, call) = world.held_with("chat", json!({ "url": "http://a/", "timeoutSec": 1 })).await;
    assert_eq!(world.results(&mut stream).await, [r#"{"status":"timeout"}"#]);
    for path in ["/api/tools/ack", "/ai/tools/ack"] {
        for ack in [success(&call, json!(1)), json!({ "toolCallId": call, "status": "timeout" })] {
            world.server.post(path, ack).await.must_be(410, &refused("expired"));
        }
    }
    let outputs: Vec<&Value> =
        stream.seen().iter().filter(|chunk| chunk["type"].as_str().unwrap().starts_with("tool-output")).collect();
    let output = json!({ "status": "timeout" });
    assert_eq!(outputs, [&json!({ "type": "tool-output-available", "toolCallId": call, "output": output })]);
    let messages = world.server.messages("chat").await;
    let state = &tool_part(&messages[1])["state"];
    assert_eq!((&state["status"], &state["output"]), (&json!("completed"), &json!(r#"{"status":"timeout"}"#)));
    assert_eq!(world.server.outcome(&call).await["status"], "timeout");
}

#[tokio::test]
async fn the_clock_starts_when_the_call_is_allowed() {
    let world = World::with(|config| permit(config, Permission::Ask)).await;
    world.model.will_call(&[("open-url", json!({ "url": "http://a/", "timeoutSec": 1 }))]);
    let mut stream = world.server.chat(&saying("chat", "u1", "go")).await;
    let ask = stream.until("tool-approval-request").await;
    // Longer than the call may take, in which nobody allows it.
    tokio::time::sleep(std::time::Duration::from_millis(1_200)).await;
    let reply = format!("/permission/{}/reply", ask["approvalId"].as_str().unwrap());
    world.server.post(&reply, json!({ "reply": "once" })).await.must_be(200, &json!(true));
    let call = stream.call().await;
    world.server.ack_success(&call, json!(1)).await;
    assert_eq!(world.results(&mut stream).await, [r#"{"status":"success","output":1}"#]);
}

#[tokio::test]
async fn whoever_allows_a_call_may_give_it_another_time() {
    let world = World::with(|config| permit(config, Permission::Ask)).await;
    world.model.will_call(&[("open-url", json!({ "url": "http://a/", "timeoutSec": 5 }))]);
    let mut stream = world.server.chat(&saying("chat", "u1", "go")).await;
    let ask = stream.until("tool-approval-request").await;
    let reply = format!("/permission/{}/reply", ask["approvalId"].as_str().unwrap());
    let input = json!({ "url": "http://a/", "timeoutSec": 500 });
    world.server.post(&reply, json!({ "reply": "once", "input": input })).await.must_be(200, &json!(true));
    let call = stream.call().await;
    let left = seconds_until(world.server.call(&call).await["deadline"].as_str().unwrap());
    assert!((490.0..=500.0).contains(&left), "{left}");
}
