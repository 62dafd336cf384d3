//! A text that was cut within an emoji: JavaScript and Python write its half as `"\ud83c"`. Wherever JSON comes in, that
//! is read as the replacement character, and costs nobody a turn or a call.

use handback_testkit::agui::{self, AguiStream};
use handback_testkit::model::called;
use handback_testkit::{Answer, ChatStream, TestSocket, chat};
use reqwest::Method;
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;

use super::{World, id};

/// JSON in which every `½` is half an emoji, as an escape.
fn halved(json: &Value) -> String {
    json.to_string().replace('½', r"\ud83c")
}

#[tokio::test]
async fn in_prompts_arguments_and_results() {
    let mut world = World::start().await;
    world.model.will(called(&[("client_tab_b", halved(&json!({ "text": "a½b" })))]));
    let path = format!("/session/{}/message", world.session);
    let prompt = halved(&json!({ "parts": [{ "type": "text", "text": "go ½" }] }));
    let prompt = world.server.request(Method::POST, &path).body(prompt);
    #[expect(clippy::disallowed_methods, reason = "the test's own task; the test awaits it")]
    let prompt = tokio::spawn(Answer::to(prompt));
    let call = world.stream.next_call().await;
    assert_eq!(call["input"], json!({ "text": "a\u{FFFD}b" }));
    let result = json!({ "requestID": id(&call), "result": { "status": "success", "title": "½", "output": "cut ½", "metadata": { "½": "½" } } });
    let result = world.server.request(Method::POST, "/client-tools/result").body(halved(&result));
    Answer::to(result).await.must_be(200, &json!({ "success": true }));
    let asked = world.model.asked().await;
    assert_eq!(asked.shown.results, ["cut \u{FFFD}"]);
    asked.answer("Done.");
    assert_eq!(prompt.await.unwrap().status, 200);
    let expected = [
        "user | go \u{FFFD}",
        "assistant | client_tab_b {\"text\":\"a\u{FFFD}b\"} → cut \u{FFFD} | <tool-calls>",
        "assistant | Done. | <stop>",
    ];
    assert_eq!(world.history().await, expected);
}

#[tokio::test]
async fn in_messages_of_a_socket() {
    let world = World::start().await;
    let mut socket =
        TestSocket::open(&format!("{}/client-tools/ws/desk", world.server.url.replace("http", "ws")), None).await;
    let register = json!({ "type": "register", "tools": [{ "id": "t", "description": "cut ½" }], "ref": "½" });
    socket.send_frame(Message::text(halved(&register))).await;
    let answer = socket.next().await;
    assert_eq!((&answer["type"], &answer["ref"]), (&json!("registered"), &json!("\u{FFFD}")));
    let tools = world.server.get("/client-tools/tools/desk").await.body;
    assert_eq!(tools[0]["description"], "cut \u{FFFD}");
}

#[tokio::test]
async fn in_chats_and_agui_runs() {
    let world = World::start().await;
    world.model.will_say("chat");
    world.model.will_say("agui");
    let request = world.server.request(Method::POST, "/api/chat").body(halved(&chat::saying("c1", "u1", "half ½")));
    ChatStream::open(request).await.lines().await;
    assert_eq!(world.model.last_shown().conversation, ["user | half \u{FFFD}"]);
    let mut page = agui::Page::new("t1");
    page.say("u1", "and ½");
    let request = world.server.request(Method::POST, "/agui").body(halved(&page.input()));
    AguiStream::read(request).await.last().await;
    assert_eq!(world.model.last_shown().conversation, ["user | and \u{FFFD}"]);
}
