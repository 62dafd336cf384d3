//! A chat is a session: the session API shows it, prompts it and stops it.

use handback_testkit::chat::saying;
use handback_testkit::session::{text_prompt, tool_part};
use handback_testkit::tidy::tidy;
use serde_json::{Value, json};

use super::{World, url};

#[tokio::test]
async fn the_session_api_shows_a_chat_with_its_calls() {
    let world = World::start().await;
    world.model.will_call(&[("open-url", url())]);
    world.model.will_say("Done.");
    let mut stream = world.server.chat(&saying("chat", "u1", "open it")).await;
    let call = stream.call().await;
    let part = |state: Value| {
        json!({
            "id": "prt_1", "sessionID": "chat", "messageID": "msg_1", "type": "tool", "callID": "cal_1",
            "tool": "open-url", "state": state,
        })
    };
    let messages = world.server.messages("chat").await;
    assert_eq!(messages[0]["info"]["id"], "u1");
    let running = json!({ "status": "running", "input": url(), "time": { "start": "time" } });
    assert_eq!(tidy(tool_part(&messages[1])), part(running));
    world.server.ack_success(&call, json!(1)).await;
    stream.lines().await;
    let messages = world.server.messages("chat").await;
    let state = &tool_part(&messages[1])["state"];
    assert_eq!(
        (&state["status"], &state["output"]),
        (&json!("completed"), &json!(r#"{"status":"success","output":1}"#))
    );
    let session = world.server.get("/session/chat").await.body;
    assert_eq!((&session["id"], &session["title"]), (&json!("chat"), &json!("open it")));
}

fn names(tools: &Value) -> Vec<&str> {
    tools.as_array().unwrap().iter().map(|tool| tool["id"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn discovery_lists_frontend_tools_where_there_is_a_frontend() {
    let world = World::start().await;
    world.model.will_say("Hello.");
    world.server.chat_lines(&saying("chat", "u1", "hi")).await;
    let session = world.server.session(json!({})).await;
    let tools = world.server.get("/session/chat/tools").await.body;
    assert!(names(&tools).contains(&"open-url"), "{tools}");
    let open_url = tools.as_array().unwrap().iter().find(|tool| tool["id"] == "open-url").unwrap();
    assert_eq!(open_url["runs"], "frontend", "{open_url}");
    let tools = world.server.get(&format!("/session/{session}/tools")).await.body;
    assert!(!names(&tools).contains(&"open-url"), "{tools}");
}

#[tokio::test]
async fn a_turn_of_the_session_api_has_frontend_tools_only_when_asked_for() {
    let world = World::start().await;
    let session = world.server.session(json!({})).await;
    world.model.will_say("No.");
    world.server.say(&session, "hi").await;
    assert_eq!(world.model.last_shown().aliases(), ["list_tools"]);
    // Not offered: the model cannot call it either.
    world.model.will_call(&[("open-url", url())]);
    world.model.will_say("No.");
    world.server.say(&session, "open it").await;
    assert_eq!(world.model.last_shown().results, ["There is no tool `open-url`. There is: list_tools"]);

    let mut prompt = text_prompt("open it");
    prompt["tools"] = json!({ "open-url": true });
    world.model.will_call(&[("open-url", url())]);
    world.model.will_say("Done.");
    let mut events = world.server.events().await;
    let answer = world.server.prompt_with(&session, prompt);
    let request = loop {
        let event = events.next().await.data;
        if event["type"] == "client-tool.request" {
            break event["properties"]["request"].clone();
        }
    };
    let call = request["requestID"].as_str().unwrap();
    // Whoever hears of it can claim it at once.
    world.server.claim(call, "me").await.must_be(200, &json!({ "ok": true }));
    let ack = json!({ "toolCallId": call, "status": "failed", "errorText": "blocked", "claimant": "me" });
    world.server.ack(&ack).await.must_be(200, &json!({ "ok": true }));
    assert_eq!(answer.await.unwrap().status, 200);
    let shown = world.model.last_shown();
    assert_eq!(shown.aliases(), ["list_tools", "open-url"]);
    assert_eq!(shown.results, [r#"{"status":"failed","errorText":"blocked"}"#]);
    let messages = world.server.messages(&session).await;
    let state = &tool_part(&messages[messages.len() - 2])["state"];
    assert_eq!((&state["status"], &state["error"]), (&json!("error"), &json!("blocked")));
    // For that turn alone.
    world.model.will_say("No.");
    world.server.say(&session, "hi").await;
    assert_eq!(world.model.last_shown().aliases(), ["list_tools"]);
}

#[tokio::test]
async fn a_chat_may_switch_a_frontend_tool_off_by_the_session_api() {
    let world = World::start().await;
    world.model.will_say("Hello.");
    world.server.chat_lines(&saying("chat", "u1", "hi")).await;
    let mut prompt = text_prompt("hi");
    prompt["tools"] = json!({ "open-url": false });
    world.model.will_say("No.");
    assert_eq!(world.server.prompt_with("chat", prompt).await.unwrap().status, 200);
    assert_eq!(world.model.last_shown().aliases(), ["list_tools"]);
}

#[tokio::test]
async fn a_chat_and_the_session_api_take_turns() {
    let world = World::start().await;
    let prompt = world.server.prompt("nobody", "hi");
    assert_eq!(prompt.await.unwrap().status, 404);
    let session = world.server.session(json!({})).await;
    let first = world.server.prompt(&session, "one");
    let asked = world.model.asked().await;
    let mut second = world.server.chat(&saying(&session, "u2", "two")).await;
    asked.answer("First.");
    assert_eq!(first.await.unwrap().status, 200);
    world.model.asked().await.answer("Second.");
    assert_eq!(second.lines().await.len(), 7);
    let shown = world.model.last_shown().conversation;
    assert_eq!(shown, ["user | one", "assistant | First.", "user | two"]);
}

#[tokio::test]
async fn prompts_that_wait_are_bounded() {
    let world = World::start().await;
    let mut streams = vec![world.server.chat(&saying("chat", "u0", "go")).await];
    let asked = world.model.asked().await;
    for number in 1..=8 {
        streams.push(world.server.chat(&saying("chat", &format!("u{number}"), "go")).await);
    }
    world.server.refused_chat(&saying("chat", "u9", "go")).await.must_fail(409, "CONFLICT");
    (0..8).for_each(|_| world.model.will_say("Done."));
    asked.answer("Done.");
    for stream in &mut streams {
        assert_eq!(stream.lines().await.len(), 7);
    }
    assert_eq!(world.history("chat").await.len(), 18);
}
