//! A token for one session reaches nothing of its client elsewhere.

use std::time::Duration;

use handback_testkit::keys::{seconds_from_now, token};
use handback_testkit::session::text_prompt;
use handback_testkit::{Answer, FakeModel, TestServer, TestStream};
use reqwest::Method;
use serde_json::{Value, json};

/// Far less than calls wait for a connection that was lost.
const SOON: Duration = Duration::from_secs(5);

fn token_for(session: Option<&str>) -> String {
    token(&json!({ "clientID": "tab", "sessionID": session, "exp": seconds_from_now(60) }))
}

/// A stream of the client's, as the token allows.
async fn stream(server: &TestServer, session: Option<&str>, query: &str, last: Option<&str>) -> TestStream {
    let path = format!("/client-tools/pending/tab?{query}");
    let mut request = server.request_without_key(Method::GET, &path).bearer_auth(token_for(session));
    if let Some(last) = last {
        request = request.header("last-event-id", last);
    }
    TestStream::open(request).await
}

async fn register(server: &TestServer, session: Option<&str>, tool: Value) -> Answer {
    let request = server.request_without_key(Method::POST, "/client-tools/register").bearer_auth(token_for(session));
    Answer::to(request.json(&json!({ "clientID": "tab", "tools": [tool] }))).await
}

async fn tools(server: &TestServer) -> Vec<String> {
    let tools = server.get("/client-tools/tools/tab").await.body;
    tools.as_array().unwrap().iter().map(|tool| tool["id"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn it_adopts_no_other_stream_and_is_given_no_other_calls() {
    let server = TestServer::protected(|_| {}).await;
    register(&server, None, json!({ "id": "t" })).await.must_be(200, &json!({ "registered": ["client_tab_t"] }));
    let mut whole = stream(&server, None, "grace=60000", None).await;
    let first = server.begin_call(json!({ "toolID": "client_tab_t", "sessionID": "secret" })).await;
    let seen = whole.expect_call(&first).await;
    drop(whole);
    server.until("the stream is gone", |counts| counts.connections == 0).await;
    let second = server.begin_call(json!({ "toolID": "client_tab_t", "sessionID": "secret" })).await;
    let mut thief = stream(&server, Some("s1"), "", Some(&seen.id)).await;
    let own = server.begin_call(json!({ "toolID": "client_tab_t", "sessionID": "s1" })).await;
    // The first that it hears of is its own.
    thief.expect_call(&own).await;
    let mut back = stream(&server, None, "grace=60000", Some(&seen.id)).await;
    back.expect_call(&second).await;
    assert_eq!(server.call(&first).await["attempt"], 1, "the reader that had seen it has it still");
}

#[tokio::test]
async fn it_supersedes_nobody_else_and_says_goodbye_for_nobody_else() {
    let server = TestServer::protected(|_| {}).await;
    register(&server, None, json!({ "id": "t" })).await;
    let mut whole = stream(&server, None, "connection=tab-1", None).await;
    let limited = stream(&server, Some("s1"), "connection=tab-1", None).await;
    server.until("both are there", |counts| counts.connections == 2).await;
    let goodbye = server.request_without_key(Method::POST, "/client-tools/disconnect");
    let goodbye = goodbye.bearer_auth(token_for(Some("s2"))).json(&json!({ "clientID": "tab", "connection": "tab-1" }));
    assert_eq!(Answer::to(goodbye).await.status, 200);
    assert_eq!(server.counts().connections, 2);
    drop(limited);
    server.until("it is gone", |counts| counts.connections == 1).await;
    assert_eq!(tools(&server).await, ["client_tab_t"]);
    let call = server.begin_call(json!({ "toolID": "client_tab_t", "sessionID": "s1" })).await;
    whole.expect_call(&call).await;
}

#[tokio::test]
async fn it_takes_only_its_own_tools_along() {
    let server = TestServer::protected(|_| {}).await;
    // Registered by the application; the page comes later, with a token for its chat.
    server.register("tab", &["t"]).await;
    let limited = stream(&server, Some("s1"), "", None).await;
    register(&server, Some("s1"), json!({ "id": "own" }))
        .await
        .must_be(200, &json!({ "registered": ["client_tab_own"] }));
    let own = server.begin_call(json!({ "toolID": "client_tab_t", "sessionID": "s1" })).await;
    let other = server.begin_call(json!({ "toolID": "client_tab_t", "sessionID": "s2" })).await;
    drop(limited);
    assert_eq!(server.outcome(&own).await["status"], "disconnected");
    assert_eq!(server.call(&other).await["state"], "queued");
    assert_eq!(tools(&server).await, ["client_tab_t"]);
}

#[tokio::test]
async fn it_replaces_no_tool_elsewhere() {
    let server = TestServer::protected(|_| {}).await;
    let tool = json!({ "id": "t", "description": "as it is", "parameters": { "type": "object" } });
    register(&server, None, tool.clone()).await;
    let other = json!({ "id": "t", "description": "forged", "parameters": { "type": "object" } });
    register(&server, Some("s1"), other.clone()).await.must_fail(409, "CONFLICT");
    register(&server, Some("s1"), tool).await.must_be(200, &json!({ "registered": ["client_tab_t"] }));
    let listed = server.get("/client-tools/tools/tab").await.body;
    assert_eq!((listed.as_array().unwrap().len(), &listed[0]["description"]), (1, &json!("as it is")));
    // Nor does it take one away.
    let request = server.request_without_key(Method::DELETE, "/client-tools/unregister");
    let request = request.bearer_auth(token_for(Some("s1"))).json(&json!({ "clientID": "tab" }));
    assert_eq!(Answer::to(request).await.status, 200);
    assert_eq!(tools(&server).await, ["client_tab_t"]);
}

#[tokio::test]
async fn it_hears_of_no_tools_and_sees_no_numbers_of_other_sessions() {
    let server = TestServer::protected(|_| {}).await;
    let request = server.request_without_key(Method::GET, "/event").bearer_auth(token_for(Some("s1")));
    let mut events = TestStream::open(request).await;
    assert_eq!(events.next().await.data["type"], "server.connected");
    let _whole = stream(&server, None, "", None).await;
    register(&server, Some("s2"), json!({ "id": "secret" })).await;
    register(&server, Some("s1"), json!({ "id": "own" })).await;
    let told = events.next().await.data;
    assert_eq!(
        (&told["type"], &told["properties"]["toolIDs"]),
        (&json!("client-tool.registered"), &json!(["client_tab_own"]))
    );
    let request = server.request_without_key(Method::GET, "/client-tools/clients").bearer_auth(token_for(Some("s1")));
    let row = Answer::to(request).await.body[0].clone();
    assert_eq!((&row["id"], &row["connections"], &row["tools"]), (&json!("tab"), &json!(0), &json!(1)));
}

#[tokio::test]
async fn a_connection_that_it_loses_holds_up_no_calls_of_others() {
    let model = FakeModel::default();
    let server = TestServer::with_model(&model, handback_testkit::keys::protect).await;
    register(&server, None, json!({ "id": "t" })).await;
    let mut whole = stream(&server, None, "connection=tab-1", None).await;
    drop(stream(&server, Some("s1"), "connection=tab-1&grace=300000", None).await);
    server.until("it is gone", |counts| counts.connections == 1).await;
    let session = server.session_of("tab").await;
    model.will_call(&[("client_tab_t", json!({}))]);
    let mut prompt = text_prompt("go");
    prompt["connection"] = "tab-1".into();
    assert_eq!(server.post(&format!("/session/{session}/prompt_async"), prompt).await.status, 204);
    tokio::time::timeout(SOON, whole.next_call()).await.expect("it is offered at once");
}
