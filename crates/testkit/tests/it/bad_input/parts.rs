//! Messages of many parts: each part is an event to whoever listens.

use handback_testkit::agui::{self, Page};
use handback_testkit::chat::{self, assistant};
use handback_testkit::session::events_until;
use handback_testkit::{Answer, TestStream};
use reqwest::Method;
use serde_json::{Value, json};

use crate::world::World;

/// What may be said with a message of so many parts, by whoever it is said and however it comes in.
fn messages(parts: usize, session: &str) -> Vec<(String, Value)> {
    let texts = vec![json!({ "type": "text", "text": "x" }); parts];
    let call = |number| json!({ "id": format!("c{number}"), "type": "function", "function": { "name": "f", "arguments": "{}" } });
    let calls: Vec<Value> = (0..parts).map(call).collect();
    let chat = |id: &str, messages: Value| ("/api/chat".to_owned(), json!({ "id": id, "messages": messages }));
    let agui = |thread: &str, messages: Value| {
        let mut input = Page::new(thread).input();
        input["messages"] = messages;
        ("/agui".to_owned(), input)
    };
    let user = |parts: &Value| json!({ "id": "u1", "role": "user", "parts": parts });
    let answer = json!({ "id": "a1", "role": "assistant", "content": "Hello." });
    let answer_with = |calls: Vec<Value>| json!({ "id": "a1", "role": "assistant", "toolCalls": calls });
    vec![
        (format!("/session/{session}/message"), json!({ "parts": texts })),
        (format!("/session/{session}/prompt_async"), json!({ "parts": texts })),
        chat("chat-1", json!([user(&json!(texts))])),
        chat("chat-2", json!([user(&json!(texts)), assistant("a1", json!([texts[0]])), chat::user("u2", "hi")])),
        chat("chat-3", json!([user(&json!([texts[0]])), assistant("a1", json!(texts)), chat::user("u2", "hi")])),
        agui("thread-1", json!([{ "id": "u1", "role": "user", "content": texts }])),
        agui("thread-2", json!([{ "id": "u1", "role": "user", "content": texts }, answer, agui::user("u2", "hi")])),
        agui("thread-3", json!([agui::user("u1", "hi"), answer_with(calls), agui::user("u2", "hi")])),
    ]
}

#[tokio::test]
async fn a_message_of_too_many_parts_is_400_wherever_it_comes_in_and_cuts_no_listener_off() {
    let world = World::start().await;
    let session = world.server.session(json!({})).await;
    let mut events: TestStream = world.server.events().await;
    for parts in [257, 3_000] {
        for (path, body) in messages(parts, &session) {
            let answer = Answer::to(world.server.request(Method::POST, &path).json(&body)).await;
            let words = answer.body.to_string();
            assert_eq!(answer.status, 400, "{path}: {words}");
            assert!(
                words.contains(&format!("a message has {parts} parts; at most 256 are allowed")),
                "{path}: {words}"
            );
        }
    }
    let known = world.server.get("/session").await.body;
    assert_eq!(known.as_array().unwrap().len(), 1, "nothing was made of them: {known}");
    assert_eq!(world.history(&session).await, Vec::<String>::new());
    for (path, body) in messages(256, &session) {
        world.model.will_say("Hello.");
        let answer = Answer::to(world.server.request(Method::POST, &path).json(&body)).await;
        assert!((200..=204).contains(&answer.status), "{path}: {answer:?}");
    }
    world.server.until_idle(&session).await;
    world.server.register("last", &["t"]).await;
    assert!(events_until(&mut events, "client-tool.registered").await.len() > 4 * 256);
}

#[tokio::test]
async fn a_turn_of_as_many_calls_as_a_message_may_have_cuts_no_listener_off() {
    let world = World::with(|config| config.limits.calls_per_minute = 0).await;
    world.server.register("tab", &["t"]).await;
    let session = world.server.session_of("tab").await;
    let mut events = world.server.events().await;
    let mut stream = world.server.stream("tab").await;
    let calls: Vec<(&str, Value)> = (0..255).map(|number| ("client_tab_t", json!({ "n": number }))).collect();
    world.model.will_call(&calls);
    world.model.will_say("Done.");
    world.server.prompt_async(&session, "go").await;
    for _ in &calls {
        let call = stream.next_call().await;
        world.server.answer(call["requestID"].as_str().unwrap(), "ok").await;
    }
    world.server.until_idle(&session).await;
    let told = events_until(&mut events, "session.idle").await;
    let completed = told.iter().filter(|event| event["type"] == "client-tool.completed").count();
    assert_eq!(completed, 255);
}
