//! Which agents a client may name: those that are open, and those of its token.

use handback_core::tools::Permission;
use handback_server::config::{Agent, AgentPermission, Config};
use handback_testkit::agui::Page;
use handback_testkit::chat::saying;
use handback_testkit::keys::{self, seconds_from_now, token};
use handback_testkit::session::text_prompt;
use handback_testkit::{Answer, FakeModel, TestServer};
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};

/// `default` asks before every call; `clerk` does not, and is not open; `guide` is.
fn configure(config: &mut Config) {
    keys::protect(config);
    let asks = AgentPermission { client_tools: Permission::Ask, ..AgentPermission::default() };
    config.agents.insert("default".to_owned(), Agent { permission: asks, ..Agent::default() });
    config.agents.insert("clerk".to_owned(), Agent::default());
    config.agents.insert("guide".to_owned(), Agent { open: Some(true), ..Agent::default() });
}

async fn start() -> (TestServer, FakeModel) {
    let model = FakeModel::default();
    let server = TestServer::with_model(&model, configure).await;
    (server, model)
}

fn token_with(agents: Value) -> String {
    token(&json!({ "clientID": "tab", "agents": agents, "exp": seconds_from_now(60) }))
}

/// Everything that names an agent, with a session of the client's and ids of its own.
fn naming(server: &TestServer, session: &str, agent: &str, id: &str) -> Vec<(&'static str, RequestBuilder)> {
    let post = |path: &str, body: Value| server.request_without_key(Method::POST, path).json(&body);
    let get = |path: &str| server.request_without_key(Method::GET, path);
    let prompt = || json!({ "agent": agent, "noReply": true, "parts": text_prompt("hi")["parts"] });
    let mut chat = saying(&format!("chat{id}"), "u1", "hi");
    chat["agent"] = agent.into();
    let mut page = Page::new(&format!("thread{id}"));
    page.say("u1", "hi");
    vec![
        ("a new session", post("/session", json!({ "agent": agent }))),
        ("a prompt", post(&format!("/session/{session}/message"), prompt())),
        ("an asynchronous prompt", post(&format!("/session/{session}/prompt_async"), prompt())),
        ("a chat", post("/api/chat", chat)),
        ("a run", post(&format!("/agui/{agent}"), page.input())),
        ("capabilities", get(&format!("/agui/{agent}"))),
        ("a room", get(&format!("/api/v1/rooms/{agent}/agui"))),
        ("a thread", post(&format!("/api/v1/rooms/{agent}/agui"), json!({}))),
    ]
}

#[tokio::test]
async fn a_client_names_agents_that_are_open_or_in_its_token_and_no_others() {
    let (server, model) = start().await;
    let session = server.session_of("tab").await;
    let cases = [
        (token_with(json!([])), "default", true),
        (token_with(json!([])), "guide", true),
        (token_with(json!([])), "clerk", false),
        (token_with(json!([])), "nobody", false),
        (token_with(json!([])), "", false),
        (token_with(json!(["clerk"])), "clerk", true),
        (token_with(json!(["clerk"])), "guide", true),
        (token_with(json!(["judge"])), "clerk", false),
    ];
    for (place, (token, agent, is_allowed)) in cases.into_iter().enumerate() {
        if agent.is_empty() {
            // Only a body can name it.
            let body = json!({ "agent": agent });
            let request = server.request_without_key(Method::POST, "/session").bearer_auth(&token).json(&body);
            assert_eq!(Answer::to(request).await.status, 403);
            continue;
        }
        for (what, request) in naming(&server, &session, agent, &place.to_string()) {
            model.will_say("Hello.");
            let status = request.bearer_auth(&token).send().await.unwrap().status().as_u16();
            let expected = if is_allowed { 200..300 } else { 403..404 };
            assert!(expected.contains(&status), "{what} with {agent}, case {place}: {status}");
        }
    }
    let rooms = |token: String| {
        let request = server.request_without_key(Method::GET, "/api/v1/rooms").bearer_auth(token);
        async { Answer::to(request).await.body.as_object().unwrap().keys().cloned().collect::<Vec<_>>() }
    };
    assert_eq!(rooms(token_with(json!([]))).await, ["default", "guide"]);
    assert_eq!(rooms(token_with(json!(["clerk"]))).await, ["clerk", "default", "guide"]);
    assert_eq!(rooms(keys::APPLICATION_KEY.to_owned()).await, ["clerk", "default", "guide"]);
}

#[tokio::test]
async fn the_agent_that_a_session_was_made_with_needs_no_permission() {
    let (server, model) = start().await;
    let session = server.session(json!({ "clientID": "tab", "agent": "clerk" })).await;
    let token = token_with(json!([]));
    for agent in [Value::Null, json!("clerk"), json!("guide")] {
        model.will_say("Hello.");
        let body = json!({ "agent": agent, "parts": text_prompt("hi")["parts"] });
        let path = format!("/session/{session}/message");
        let request = server.request_without_key(Method::POST, &path).bearer_auth(&token).json(&body);
        assert_eq!(Answer::to(request).await.status, 200, "{agent}");
    }
    // Also as a thread of that room, though the room itself is not the client's to name.
    let path = format!("/api/v1/rooms/clerk/agui/{session}");
    let thread = Answer::to(server.request_without_key(Method::GET, &path).bearer_auth(&token)).await;
    assert_eq!(thread.status, 200);
    let foreign = server.session(json!({ "clientID": "other", "agent": "clerk" })).await;
    let path = format!("/api/v1/rooms/clerk/agui/{foreign}");
    let thread = Answer::to(server.request_without_key(Method::GET, &path).bearer_auth(&token)).await;
    assert_eq!(thread.status, 403);
}

#[tokio::test]
async fn tokens_are_made_with_agents() {
    let (server, _) = start().await;
    let token = server.token(json!({ "clientID": "tab", "agents": ["clerk"] })).await;
    let request = server.request_without_key(Method::POST, "/session").bearer_auth(token);
    assert_eq!(Answer::to(request.json(&json!({ "agent": "clerk" }))).await.status, 200);
}

#[tokio::test]
async fn a_default_that_is_closed_is_not_had_by_naming_nothing() {
    let server = TestServer::protected(|config| {
        config.agents.insert("default".to_owned(), Agent { open: Some(false), ..Agent::default() });
    })
    .await;
    let new = |token: String| Answer::to(server.request_without_key(Method::POST, "/session").bearer_auth(token));
    assert_eq!(new(token_with(json!([]))).await.status, 403);
    assert_eq!(new(token_with(json!(["default"]))).await.status, 200);
}
