//! Posts that make no sense are refused, and change nothing: no chat is made, nothing is forgotten, nobody is stopped.

use handback_testkit::Answer;
use handback_testkit::chat::{assistant, ran, saying};
use reqwest::Method;
use serde_json::{Value, json};

use super::{World, page_tools};

/// Posts what must be refused, and checks that no chat has come of it.
async fn must_refuse(world: &World, body: &Value) {
    let shown: String = body.to_string().chars().take(200).collect();
    let answer = world.server.refused_chat(body).await;
    assert_eq!(answer.status, 400, "{shown}: {answer:?}");
    answer.must_fail(400, "INVALID_REQUEST");
    assert_eq!(world.server.get("/session").await.body, json!([]), "{shown}");
}

fn with(key: &str, value: Value) -> Value {
    let mut body = saying("chat", "u1", "hi");
    body[key] = value;
    body
}

#[tokio::test]
async fn bodies_that_make_no_sense_make_no_chat() {
    let world = World::start().await;
    let mut bodies: Vec<Value> = vec![json!({}), json!([]), json!(null), json!("hi"), json!({ "id": "chat" })];
    let ids = [
        json!(""),
        json!(null),
        json!(1),
        json!(["chat"]),
        json!("a\nb"),
        json!("x".repeat(257)),
        json!("é".repeat(129)),
    ];
    bodies.extend(ids.map(|id| with("id", id)));
    bodies.extend(
        [json!([]), json!(null), json!({}), json!("hi"), json!([1]), json!([null])].map(|all| with("messages", all)),
    );
    bodies.extend([json!("x"), json!("submit"), json!(1)].map(|trigger| with("trigger", trigger)));
    bodies.extend([json!("maybe"), json!(true)].map(|approvals| with("approvals", approvals)));
    bodies.extend([json!("no slash"), json!("nobody/one"), json!(1), json!({})].map(|model| with("model", model)));
    bodies.extend([json!("nobody"), json!(1)].map(|agent| with("agent", agent)));
    bodies.extend([json!("a b"), json!(""), json!(1)].map(|client| with("clientID", client)));
    let messages = [
        json!({ "id": "u1", "role": "user", "parts": [] }),
        json!({ "id": "u1", "role": "user" }),
        json!({ "id": "u1", "role": "user", "parts": [{ "type": "text", "text": " \n" }] }),
        json!({ "id": "u1", "role": "user", "parts": [{ "type": "data-x", "data": 1 }] }),
        json!({ "id": "u1", "role": "user", "parts": [{ "type": "text" }] }),
        json!({ "id": "u1", "role": "user", "parts": "hi" }),
        json!({ "id": "u1", "role": "system", "parts": [{ "type": "text", "text": "hi" }] }),
        json!({ "id": "u1", "role": "", "parts": [{ "type": "text", "text": "hi" }] }),
        json!({ "id": "u\n1", "role": "user", "parts": [{ "type": "text", "text": "hi" }] }),
        json!({ "id": "x".repeat(257), "role": "user", "parts": [{ "type": "text", "text": "hi" }] }),
        json!({ "id": "u1", "role": "user", "parts": vec![json!({ "type": "text", "text": "x" }); 4_097] }),
    ];
    bodies.extend(messages.map(|message| with("messages", json!([message]))));
    // Only the assistant has spoken: there is nothing to answer.
    bodies.push(with("messages", json!([assistant("a1", json!([{ "type": "text", "text": "hi" }]))])));
    bodies.push(with("messages", json!([assistant("a1", json!([ran("pick", "c1", json!(1))]))])));
    let two = [assistant("a1", json!([])), assistant("a2", json!([ran("pick", "c1", json!(1))]))];
    bodies.push(with("messages", json!(two)));
    for body in &bodies {
        must_refuse(&world, body).await;
    }
    assert_eq!(world.model.shown(), []);
}

#[tokio::test]
async fn lists_are_no_messages_parts_or_tools() {
    let world = World::start().await;
    must_refuse(&world, &with("messages", json!([["u1", "user", [{ "type": "text", "text": "hi" }]]]))).await;
    must_refuse(&world, &with("messages", json!([{ "id": "u1", "role": "user", "parts": [["text", "hi"]] }]))).await;
    must_refuse(&world, &with("tools", json!([["pick", "Picks", null]]))).await;
}

#[tokio::test]
async fn bodies_that_are_no_json_make_no_chat() {
    let world = World::start().await;
    for body in ["", " ", "{", "{\"id\":\"chat\",", "\u{feff}{}", &"[".repeat(100_000)] {
        let request = world.server.request(Method::POST, "/api/chat").body(body.to_owned());
        Answer::to(request).await.must_fail(400, "INVALID_REQUEST");
    }
    assert_eq!(world.server.get("/session").await.body, json!([]));
}

#[tokio::test]
async fn tools_of_the_page_that_cannot_be_are_refused() {
    let world = World::start().await;
    world.server.register("tab", &["t"]).await;
    let tools = [
        json!([{}]),
        json!([{ "name": "" }]),
        json!([{ "name": "a b" }]),
        json!([{ "name": "x".repeat(65) }]),
        json!([{ "name": 1 }]),
        json!([{ "name": "x", "parameters": { "type": "nothing" } }]),
        json!([{ "name": "x", "parameters": 1 }]),
        json!({ "x": 1 }),
        json!({ "a b": {} }),
        json!({ "open-url": {} }),
        json!({ "x": { "parameters": 1 } }),
        json!("x"),
        // These are others'.
        json!([{ "name": "open-url" }]),
        json!([{ "name": "list_tools" }]),
        json!([{ "name": "client_tab_t" }]),
        json!([{ "name": "pick" }, { "name": "pick", "description": "another" }]),
    ];
    for tools in tools {
        let mut body = with("tools", tools);
        body["clientID"] = "tab".into();
        must_refuse(&world, &body).await;
    }
    // One more than a client may have.
    let many: Vec<Value> = (0..2_000).map(|number| json!({ "name": format!("t{number}") })).collect();
    assert_eq!(world.server.refused_chat(&with("tools", json!(many))).await.status, 413);
    assert_eq!(world.server.get("/session").await.body, json!([]));
    assert_eq!(world.model.shown(), []);
}

#[tokio::test]
async fn a_page_tool_shadows_nothing_in_a_chat_that_was_begun_elsewhere() {
    let world = World::start().await;
    let session = world.server.session(json!({})).await;
    let mut body = saying(&session, "u1", "hi");
    body["tools"] = json!([{ "name": "open-url" }]);
    world.server.refused_chat(&body).await.must_fail(400, "INVALID_REQUEST");
    assert_eq!(world.history(&session).await, Vec::<String>::new());
    assert_eq!(world.model.shown(), []);
}

#[tokio::test]
async fn what_is_refused_stops_and_forgets_nothing() {
    let world = World::start().await;
    world.model.will_say("One.");
    world.server.chat(&saying("chat", "u1", "first")).await.lines().await;
    let mut running = world.server.chat(&saying("chat", "u2", "second")).await;
    let asked = world.model.asked().await;
    let before = world.page("chat").await;
    // An edit, a regeneration, an import and a continuation that cannot be.
    let changes = [
        json!({ "model": "nobody/one" }),
        json!({ "agent": "nobody" }),
        json!({ "tools": [{ "name": "open-url" }] }),
        json!({ "trigger": "nonsense" }),
    ];
    for change in &changes {
        for trigger in ["submit-message", "regenerate-message"] {
            let mut body = saying("chat", "u1", "changed");
            body["trigger"] = trigger.into();
            body["messageId"] = "u1".into();
            body.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
            world.server.refused_chat(&body).await.must_fail(400, "INVALID_REQUEST");
        }
    }
    assert_eq!(world.page("chat").await, before);
    asked.answer("Two.");
    assert_eq!(running.lines().await.last().unwrap(), r#"finish {"finishReason":"stop"}"#);
}

#[tokio::test]
async fn odd_ids_name_chats_like_any_other() {
    let world = World::start().await;
    let (longest, wide) = ("x".repeat(256), "é".repeat(128));
    for id in ["a/b", "a b", "日本\u{1f600}", "%2F", "...", "?x=1#y", "\"'\\<>&", "status", &longest, &wide] {
        world.model.will_say("Hello.");
        let mut body = saying(id, "u1", "hi");
        body["tools"] = page_tools();
        assert_eq!(world.server.chat_lines(&body).await.len(), 7, "{id}");
        let path: String = id.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let shown = world.server.get(&format!("/api/chat/{path}")).await;
        assert_eq!((shown.status, &shown.body["id"]), (200, &json!(id)), "{shown:?}");
        assert_eq!(shown.body["messages"].as_array().unwrap().len(), 2);
        world.server.get(&format!("/api/chat/{path}/stream")).await.must_be(204, &json!(""));
        world.server.post(&format!("/api/chat/{path}/abort"), json!({})).await.must_be(200, &json!({ "ok": true }));
        let listed = world.server.get(&format!("/session/{path}/message")).await;
        assert_eq!((listed.status, listed.body.as_array().map(Vec::len)), (200, Some(2)), "{id}: {listed:?}");
    }
    // And what is none is nobody's.
    world.server.get("/api/chat/nobody").await.must_fail(404, "NOT_FOUND");
    world.server.post("/api/chat/nobody/abort", json!({})).await.must_fail(404, "NOT_FOUND");
    world.server.get("/api/chat/nobody/stream").await.must_be(204, &json!(""));
    world.server.get(&format!("/api/chat/{}", "x".repeat(257))).await.must_fail(400, "INVALID_REQUEST");
}
