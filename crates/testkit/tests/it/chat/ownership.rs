//! Whose a chat is: its client's, or nobody's; others do not get at it.

use handback_testkit::chat::{assistant, ran, saying, user};
use handback_testkit::keys::{self, seconds_from_now, token};
use handback_testkit::{Answer, ChatStream};
use reqwest::Method;
use serde_json::{Value, json};

use super::World;

fn of(client: &str, mut body: Value) -> Value {
    body["clientID"] = client.into();
    body
}

fn token_of(client: &str) -> String {
    token(&json!({ "clientID": client, "exp": seconds_from_now(60) }))
}

fn token_for(client: &str, session: &str) -> String {
    token(&json!({ "clientID": client, "sessionID": session, "exp": seconds_from_now(60) }))
}

async fn send(world: &World, token: &str, method: Method, path: &str, body: &Value) -> Answer {
    Answer::to(world.server.request_without_key(method, path).bearer_auth(token).json(body)).await
}

async fn chat(world: &World, token: &str, body: &Value) -> ChatStream {
    ChatStream::open(world.server.request_without_key(Method::POST, "/api/chat").bearer_auth(token).json(body)).await
}

#[tokio::test]
async fn another_clients_chat_is_403_and_nothing_is_changed() {
    let world = World::start().await;
    world.model.will_say("Mine.");
    world.server.chat_lines(&of("tab", saying("chat", "u1", "hi"))).await;
    let mut running = world.server.chat(&of("tab", saying("chat", "u2", "go on"))).await;
    let asked = world.model.asked().await;
    let before = world.history("chat").await;
    let edit = json!({
        "id": "chat", "messages": [user("u1", "changed")], "trigger": "submit-message", "messageId": "u1",
    });
    let regenerate = json!({ "id": "chat", "messages": [user("u2", "go on")], "trigger": "regenerate-message" });
    let going_on = json!({
        "id": "chat", "messages": [user("u2", "go on"), assistant("a2", json!([ran("pick", "c", json!(1))]))],
    });
    let bodies = [
        saying("chat", "u3", "let me in"),
        saying("chat", "u1", "hi"),
        saying("chat", "u2", "go on"),
        edit,
        regenerate,
        going_on,
    ];
    for body in bodies {
        world.server.refused_chat(&of("other", body.clone())).await.must_fail(403, "FORBIDDEN");
        let request = world.server.request(Method::POST, "/api/chat").header("x-handback-client", "other").json(&body);
        Answer::to(request).await.must_fail(403, "FORBIDDEN");
    }
    assert_eq!(world.history("chat").await, before);
    asked.answer("Still here.");
    assert_eq!(running.lines().await.last().unwrap(), r#"finish {"finishReason":"stop"}"#);
}

#[tokio::test]
async fn the_header_names_the_client_as_well() {
    let world = World::start().await;
    world.server.register("tab", &["t"]).await;
    world.model.will_say("Yes.");
    let request = world.server.request(Method::POST, "/api/chat").header("x-handback-client", "tab");
    ChatStream::open(request.json(&saying("chat", "u1", "hi"))).await.lines().await;
    assert_eq!(world.model.last_shown().aliases(), ["list_tools", "open-url", "client_tab_t"]);
    assert_eq!(world.server.get("/session/chat").await.body["clientID"], "tab");
}

#[tokio::test]
async fn a_client_token_uses_its_own_chats_alone() {
    let world = World::with(keys::protect).await;
    world.server.register("tab", &["t"]).await;
    let (tab, other) = (token_of("tab"), token_of("other"));
    world.model.will_say("Mine.");
    chat(&world, &tab, &saying("own", "u1", "hi")).await.lines().await;
    // It is the client's whether the page says so or not.
    assert_eq!(world.server.get("/session/own").await.body["clientID"], "tab");
    assert_eq!(world.model.last_shown().aliases(), ["list_tools", "open-url", "client_tab_t"]);
    world.model.will_say("Nobody's.");
    world.server.chat_lines(&saying("free", "u1", "hi")).await;
    let edit = json!({ "id": "own", "messages": [user("u1", "x")], "messageId": "u1" });
    let tries = [
        (&other, saying("own", "u2", "hi")),
        (&other, saying("own", "u1", "hi")),
        (&other, edit),
        (&other, of("tab", saying("own", "u2", "hi"))),
        (&tab, of("other", saying("own", "u2", "hi"))),
        (&tab, of("other", saying("new", "u2", "hi"))),
        (&tab, saying("free", "u2", "hi")),
        (&token_for("tab", "own"), saying("new", "u1", "hi")),
        (&token_for("other", "own"), saying("own", "u2", "hi")),
    ];
    for (token, body) in &tries {
        send(&world, token, Method::POST, "/api/chat", body).await.must_fail(403, "FORBIDDEN");
    }
    for (method, rest) in [(Method::GET, ""), (Method::GET, "/stream"), (Method::POST, "/abort")] {
        for (token, id) in [(&other, "own"), (&tab, "free"), (&token_for("tab", "other"), "own")] {
            let path = format!("/api/chat/{id}{rest}");
            send(&world, token, method.clone(), &path, &json!({})).await.must_fail(403, "FORBIDDEN");
        }
    }
    assert_eq!(world.history("own").await.len(), 2);
    assert_eq!(world.server.get("/session").await.body.as_array().unwrap().len(), 2);
    world.model.will_say("Again.");
    chat(&world, &token_for("tab", "own"), &saying("own", "u2", "hi")).await.lines().await;
    assert_eq!(world.history("own").await.len(), 4);
    let shown = send(&world, &token_for("tab", "own"), Method::GET, "/api/chat/own", &json!({})).await;
    assert_eq!((shown.status, shown.body["messages"].as_array().map(Vec::len)), (200, Some(4)));
}

#[tokio::test]
async fn without_a_token_there_is_no_chat() {
    let world = World::with(keys::protect).await;
    for (method, path) in [
        (Method::POST, "/api/chat"),
        (Method::GET, "/api/chat/chat"),
        (Method::GET, "/api/chat/chat/stream"),
        (Method::POST, "/api/chat/chat/abort"),
    ] {
        for shown in ["wrong", &token(&json!({ "clientID": "tab", "exp": seconds_from_now(-60) }))] {
            let body = saying("chat", "u1", "hi");
            send(&world, shown, method.clone(), path, &body).await.must_fail(401, "UNAUTHORIZED");
        }
        let bare = world.server.request_without_key(method, path).json(&saying("chat", "u1", "hi"));
        Answer::to(bare).await.must_fail(401, "UNAUTHORIZED");
    }
    assert_eq!(world.server.get("/session").await.body, json!([]));
}

#[tokio::test]
async fn a_token_that_expires_ends_its_stream_and_not_the_turn() {
    let world = World::with(keys::protect).await;
    let short = token(&json!({ "clientID": "tab", "exp": seconds_from_now(2) }));
    let request = world.server.request_without_key(Method::POST, "/api/chat").bearer_auth(&short);
    let response = request.json(&saying("chat", "u1", "hi")).send().await.unwrap();
    let asked = world.model.asked().await;
    let text = response.text().await.unwrap();
    assert!(text.starts_with("data: {\"type\":\"start\""), "{text}");
    assert_eq!(world.server.status("chat").await, "busy");
    asked.answer("Late.");
    world.server.until_idle("chat").await;
    assert_eq!(world.history("chat").await, ["user | hi", "assistant | Late. | <stop>"]);
}
