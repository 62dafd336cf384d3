//! A client token shows its client, in its session, and nobody else.

use handback_testkit::keys::{seconds_from_now, token};
use handback_testkit::{Answer, TestServer, TestSocket, TestStream};
use reqwest::Method;
use serde_json::{Value, json};

/// Two clients with tools and calls, in two sessions.
async fn with_two() -> TestServer {
    let server = TestServer::protected(|_| {}).await;
    let registrations = [
        json!({ "clientID": "tab", "sessionID": "s1", "tools": [{ "id": "one" }] }),
        json!({ "clientID": "tab", "sessionID": "s2", "tools": [{ "id": "two" }] }),
        json!({ "clientID": "other", "tools": [{ "id": "three" }] }),
    ];
    for body in registrations {
        assert_eq!(server.post("/client-tools/register", body).await.status, 200);
    }
    let calls = [("a", "client_tab_one", "s1"), ("b", "client_tab_two", "s2"), ("c", "client_other_three", "s1")];
    for (request, tool, session) in calls {
        server.begin_call(json!({ "toolID": tool, "requestID": request, "sessionID": session })).await;
    }
    server
}

fn token_of(client: &str, session: Option<&str>) -> String {
    let mut claims = json!({ "clientID": client, "exp": seconds_from_now(60) });
    if let Some(session) = session {
        claims["sessionID"] = session.into();
    }
    token(&claims)
}

async fn get(server: &TestServer, token: &str, path: &str) -> Value {
    let answer = Answer::to(server.request_without_key(Method::GET, path).bearer_auth(token)).await;
    assert_eq!(answer.status, 200, "{path}: {answer:?}");
    answer.body
}

/// All that is said under a key of a list, sorted.
fn each(list: &Value, key: &str) -> Vec<String> {
    let mut all: Vec<String> =
        list.as_array().unwrap().iter().map(|row| row[key].as_str().unwrap().to_owned()).collect();
    all.sort();
    all
}

#[tokio::test]
async fn listings_show_what_is_the_callers_own() {
    let server = with_two().await;
    let cases = [
        (token_of("tab", None), vec!["client_tab_one", "client_tab_two"], vec!["tab"], vec!["a", "b"]),
        (token_of("tab", Some("s1")), vec!["client_tab_one"], vec!["tab"], vec!["a"]),
        (token_of("tab", Some("s2")), vec!["client_tab_two"], vec!["tab"], vec!["b"]),
        (token_of("tab", Some("s3")), vec![], vec!["tab"], vec![]),
        (token_of("other", None), vec!["client_other_three"], vec!["other"], vec!["c"]),
        (token_of("nobody", None), vec![], vec![], vec![]),
    ];
    for (token, tools, clients, calls) in cases {
        let all = get(&server, &token, "/client-tools/tools").await;
        assert_eq!(all.as_object().unwrap().keys().collect::<Vec<_>>(), tools);
        assert_eq!(each(&get(&server, &token, "/client-tools/clients").await, "id"), clients);
        assert_eq!(each(&get(&server, &token, "/client-tools/calls").await, "requestID"), calls);
    }
    let one_session = get(&server, &token_of("tab", Some("s1")), "/client-tools/tools/tab").await;
    assert_eq!(each(&one_session, "id"), ["client_tab_one"]);
}

#[tokio::test]
async fn a_registration_with_a_token_of_one_session_is_for_that_session() {
    let server = with_two().await;
    let token = token_of("tab", Some("s1"));
    let request = server.request_without_key(Method::POST, "/client-tools/register").bearer_auth(&token);
    let answer = Answer::to(request.json(&json!({ "clientID": "tab", "tools": [{ "id": "new" }] }))).await;
    answer.must_be(200, &json!({ "registered": ["client_tab_new"] }));
    let other_session = get(&server, &token_of("tab", Some("s2")), "/client-tools/tools").await;
    assert_eq!(other_session.as_object().unwrap().keys().collect::<Vec<_>>(), ["client_tab_two"]);
    // Unregistering all leaves those of other sessions alone.
    let request = server.request_without_key(Method::DELETE, "/client-tools/unregister").bearer_auth(&token);
    let answer = Answer::to(request.json(&json!({ "clientID": "tab" }))).await;
    answer.must_be(200, &json!({ "success": true, "unregistered": ["client_tab_one", "client_tab_new"] }));
    assert_eq!(each(&server.get("/client-tools/tools/tab").await.body, "id"), ["client_tab_two"]);
}

#[tokio::test]
async fn a_connection_with_a_token_of_one_session_is_given_the_calls_of_that_session() {
    let server = with_two().await;
    let open = async |token: String| {
        let path = "/client-tools/pending/tab?grace=60000";
        TestStream::open(server.request_without_key(Method::GET, path).bearer_auth(token)).await
    };
    let mut first = open(token_of("tab", Some("s1"))).await;
    first.expect_call("a").await;
    assert_eq!(server.call("b").await["state"], "queued");
    let url = server.socket_url("tab");
    let mut second = TestSocket::open(&url, Some(&token_of("tab", Some("s2")))).await;
    assert_eq!(second.request().await["requestID"], "b");
    // A call of the other session is not moved to it when its own connection goes.
    drop(first);
    server.until("the first is gone", |counts| counts.connections == 1).await;
    assert_eq!(server.call("a").await["state"], "queued");
    assert_eq!(second.ask(json!({ "type": "ping" })).await, json!({ "type": "pong" }));
    let mut first = open(token_of("tab", None)).await;
    first.expect_call("a").await;
}

#[tokio::test]
async fn a_socket_answers_for_its_client_and_session_alone() {
    let server = with_two().await;
    let url = server.socket_url("tab");
    let mut socket = TestSocket::open(&url, Some(&token_of("tab", Some("s1")))).await;
    assert_eq!(socket.request().await["requestID"], "a");
    for (request, accepted) in [("b", false), ("c", false), ("a", true)] {
        let result = json!({ "type": "result", "requestID": request, "result": { "status": "success" } });
        let mut expected = json!({ "type": "result", "requestID": request, "accepted": accepted });
        if !accepted {
            expected["code"] = "FORBIDDEN".into();
        }
        assert_eq!(socket.ask(result).await, expected);
    }
    let foreign = socket.ask(json!({ "type": "register", "tools": [{ "id": "x" }], "sessionID": "s2" })).await;
    assert_eq!((&foreign["type"], &foreign["code"]), (&json!("error"), &json!("FORBIDDEN")));
}

#[tokio::test]
async fn a_finished_call_stays_its_owners() {
    let server = with_two().await;
    server.answer("a", "done").await;
    let thief = token_of("other", None);
    let refused =
        Answer::to(server.request_without_key(Method::GET, "/client-tools/calls/a").bearer_auth(&thief)).await;
    refused.must_fail(403, "FORBIDDEN");
    let request = server.request_without_key(Method::POST, "/client-tools/result").bearer_auth(&thief);
    let same = json!({ "requestID": "a", "result": { "status": "success", "output": "done" } });
    Answer::to(request.json(&same)).await.must_fail(403, "FORBIDDEN");
    let request = server.request_without_key(Method::POST, "/client-tools/cancel").bearer_auth(&thief);
    Answer::to(request.json(&json!({ "requestID": "a" }))).await.must_fail(403, "FORBIDDEN");
}
