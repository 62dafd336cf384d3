//! What a client says, and what it is answered.

use handback_testkit::{TestServer, TestSocket};
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;

/// Checks that an answer is an error with that code, and nothing else but `ref`.
#[track_caller]
fn must_fail(mut answer: Value, code: &str, reference: &Value) {
    let error = answer["error"].take();
    assert!(error.as_str().is_some_and(|error| !error.is_empty()), "{error}");
    let mut expected = json!({ "type": "error", "error": null, "code": code });
    if !reference.is_null() {
        expected["ref"] = reference.clone();
    }
    assert_eq!(answer, expected);
}

#[tokio::test]
async fn registering_and_unregistering_is_answered_with_the_full_ids() {
    let server = TestServer::start().await;
    let mut socket = server.socket("tab").await;
    let answer = socket.ask(json!({ "type": "register", "tools": [{ "id": "a" }, { "id": "b" }] })).await;
    assert_eq!(answer, json!({ "type": "registered", "toolIDs": ["client_tab_a", "client_tab_b"] }));
    let listed = server.get("/client-tools/tools/tab").await;
    assert_eq!(listed.body.as_array().unwrap().len(), 2);
    let answer = socket.ask(json!({ "type": "unregister", "toolIDs": [] })).await;
    assert_eq!(answer, json!({ "type": "unregistered", "toolIDs": [] }));
    let answer = socket.ask(json!({ "type": "unregister", "toolIDs": ["b", "client_tab_b"] })).await;
    assert_eq!(answer, json!({ "type": "unregistered", "toolIDs": ["client_tab_b"] }));
    let answer = socket.ask(json!({ "type": "unregister" })).await;
    assert_eq!(answer, json!({ "type": "unregistered", "toolIDs": ["client_tab_a"] }));
    assert_eq!(server.counts().tools, 0);
}

#[tokio::test]
async fn a_tool_registered_for_a_session_is_taken_out_of_it_by_unregistering() {
    let server = TestServer::start().await;
    let mut socket = server.socket("tab").await;
    let register = json!({ "type": "register", "tools": [{ "id": "a" }], "sessionID": "s" });
    let registered = json!({ "type": "registered", "toolIDs": ["client_tab_a"] });
    assert_eq!(socket.ask(register).await, registered);
    let answer = socket.ask(json!({ "type": "unregister", "toolIDs": ["a"] })).await;
    assert_eq!(answer, json!({ "type": "unregistered", "toolIDs": ["client_tab_a"] }));
}

#[tokio::test]
async fn a_ping_is_answered_with_a_pong() {
    let server = TestServer::start().await;
    let mut socket = server.socket("tab").await;
    assert_eq!(socket.ask(json!({ "type": "ping" })).await, json!({ "type": "pong" }));
    socket.send_frame(Message::Ping("frame".into())).await;
    let answer = futures_util::StreamExt::next(&mut socket.0).await.unwrap().unwrap();
    assert_eq!(answer, Message::Pong("frame".into()));
}

#[tokio::test]
async fn every_answer_echoes_the_ref_whatever_it_is() {
    let server = TestServer::start().await;
    let mut socket = server.socket("tab").await;
    let references = [json!(1), json!(-2.5), json!("x"), json!(true), json!([1, [2]]), json!({ "a": { "b": null } })];
    for reference in references {
        let cases = [
            json!({ "type": "register", "tools": [{ "id": "a" }] }),
            json!({ "type": "unregister" }),
            json!({ "type": "ping" }),
            json!({ "type": "result", "requestID": "nobody", "result": { "status": "success" } }),
            json!({ "type": "register" }),
            json!({ "type": "result", "requestID": "nobody" }),
            json!({ "type": "nothing" }),
        ];
        for mut message in cases {
            message["ref"] = reference.clone();
            assert_eq!(socket.ask(message.clone()).await["ref"], reference, "{message}");
        }
    }
    assert_eq!(socket.ask(json!({ "type": "ping" })).await, json!({ "type": "pong" }));
}

#[tokio::test]
async fn answers_come_in_the_order_of_the_messages() {
    let server = TestServer::start().await;
    let mut socket = server.socket("tab").await;
    // More than the server keeps before it reads on.
    for n in 0..200 {
        socket.send(json!({ "type": "ping", "ref": n })).await;
    }
    for n in 0..200 {
        assert_eq!(socket.next().await, json!({ "type": "pong", "ref": n }));
    }
}

#[tokio::test]
async fn a_bad_message_gets_an_error_and_the_connection_stays() {
    let server = TestServer::start().await;
    let mut socket = server.socket("tab").await;
    let texts = [
        "",
        "nonsense",
        "{",
        "[]",
        "null",
        "5",
        "\"ping\"",
        "{}",
        r#"{"type":5}"#,
        r#"{"type":null}"#,
        r#"{"type":"ping","type":"ping"}"#,
        r#"{"type":"ping"} {"type":"ping"}"#,
        r#"{"type":"PING"}"#,
        r#"{"type":"request"}"#,
        r#"{"type":"registered","toolIDs":[]}"#,
    ];
    for text in texts {
        socket.send_frame(Message::text(text)).await;
        must_fail(socket.next().await, "INVALID_REQUEST", &Value::Null);
    }
    for bytes in [&b""[..], b"\x00\xff", br#"{"type":"ping"}"#] {
        socket.send_frame(Message::binary(bytes.to_vec())).await;
        must_fail(socket.next().await, "INVALID_REQUEST", &Value::Null);
    }
    assert_eq!(socket.ask(json!({ "type": "ping" })).await, json!({ "type": "pong" }));
    assert_eq!(server.counts().connections, 1);
}

#[tokio::test]
async fn a_message_with_bad_or_missing_fields_gets_an_error_with_its_ref() {
    let server = TestServer::start().await;
    let mut socket = server.socket("tab").await;
    let messages = [
        json!({ "type": "register" }),
        json!({ "type": "register", "tools": {} }),
        json!({ "type": "register", "tools": [{}] }),
        json!({ "type": "register", "tools": [{ "id": "a b" }] }),
        json!({ "type": "register", "tools": [{ "id": "a", "parameters": { "type": "nonsense" } }] }),
        json!({ "type": "register", "tools": [{ "id": "a" }], "sessionID": 5 }),
        json!({ "type": "unregister", "toolIDs": "a" }),
        json!({ "type": "unregister", "toolIDs": [5] }),
        json!({ "type": "result" }),
        json!({ "type": "result", "result": { "status": "success" } }),
        json!({ "type": "result", "requestID": 5, "result": { "status": "success" } }),
        json!({ "type": "result", "requestID": "r" }),
        json!({ "type": "result", "requestID": "r", "result": { "status": "timeout" } }),
        json!({ "type": "result", "requestID": "r", "result": { "status": "success", "output": 5 } }),
    ];
    for mut message in messages {
        message["ref"] = json!("mine");
        must_fail(socket.ask(message).await, "INVALID_REQUEST", &json!("mine"));
    }
    assert_eq!(server.counts().tools, 0);
    assert_eq!(socket.ask(json!({ "type": "ping" })).await, json!({ "type": "pong" }));
}

#[tokio::test]
async fn a_collision_and_too_many_tools_have_their_own_codes() {
    let server = TestServer::with(|config| config.limits.tools_per_client = 1).await;
    server.register("a", &["b_c"]).await;
    let mut socket = server.socket("a_b").await;
    must_fail(socket.ask(json!({ "type": "register", "tools": [{ "id": "c" }] })).await, "CONFLICT", &Value::Null);
    let two = json!({ "type": "register", "tools": [{ "id": "x" }, { "id": "y" }] });
    must_fail(socket.ask(two).await, "TOO_LARGE", &Value::Null);
}

/// A client with a tool and a call that it was given.
async fn with_call(server: &TestServer, request: &str) -> TestSocket {
    let mut socket = server.socket("tab").await;
    socket.ask(json!({ "type": "register", "tools": [{ "id": "t" }] })).await;
    server.begin_call(json!({ "toolID": "client_tab_t", "requestID": request })).await;
    assert_eq!(socket.request().await["requestID"], request);
    socket
}

#[tokio::test]
async fn a_result_is_accepted_once_and_ignored_when_it_comes_again() {
    let server = TestServer::start().await;
    let mut socket = with_call(&server, "r").await;
    let result = json!({ "status": "success", "title": "T", "output": "o", "metadata": { "a": 1 } });
    let message = json!({ "type": "result", "requestID": "r", "result": result });
    let accepted = json!({ "type": "result", "requestID": "r", "accepted": true });
    assert_eq!(socket.ask(message.clone()).await, accepted);
    assert_eq!(server.outcome("r").await, result);
    let again = json!({ "type": "result", "requestID": "r", "accepted": true, "ignored": true });
    assert_eq!(socket.ask(message).await, again);
    let other = json!({ "type": "result", "requestID": "r", "result": { "status": "success", "output": "p" } });
    let refused = json!({ "type": "result", "requestID": "r", "accepted": false, "code": "CONFLICT" });
    assert_eq!(socket.ask(other).await, refused);
}

#[tokio::test]
async fn a_result_that_does_not_count_says_why() {
    let server = TestServer::start().await;
    let mut socket = with_call(&server, "cancelled").await;
    server.cancel("cancelled", "no").await;
    assert_eq!(socket.next().await, json!({ "type": "cancel", "requestID": "cancelled", "reason": "no" }));
    for (request, code) in [("cancelled", "GONE"), ("nobody", "NOT_FOUND")] {
        let message = json!({ "type": "result", "requestID": request, "result": { "status": "success" }, "ref": 7 });
        let refused = json!({ "type": "result", "requestID": request, "accepted": false, "code": code, "ref": 7 });
        assert_eq!(socket.ask(message).await, refused);
    }
}

#[tokio::test]
async fn another_clients_call_cannot_be_answered_over_a_socket_even_without_keys() {
    let server = TestServer::start().await;
    let mut owner = with_call(&server, "r").await;
    let mut thief = server.socket("thief").await;
    let message = json!({ "type": "result", "requestID": "r", "result": { "status": "success", "output": "stolen" } });
    let refused = json!({ "type": "result", "requestID": "r", "accepted": false, "code": "FORBIDDEN" });
    assert_eq!(thief.ask(message.clone()).await, refused);
    assert_eq!(server.call("r").await["state"], "offered");
    let own = json!({ "type": "result", "requestID": "r", "result": { "status": "error", "error": "mine" } });
    assert_eq!(owner.ask(own).await["accepted"], true);
    // Not after it is over, either.
    assert_eq!(thief.ask(message).await, refused);
    assert_eq!(server.outcome("r").await, json!({ "status": "error", "error": "mine" }));
}

#[tokio::test]
async fn a_result_may_be_sent_by_rest_for_a_call_given_over_a_socket_and_the_other_way_round() {
    let server = TestServer::start().await;
    let mut socket = with_call(&server, "one").await;
    server.answer("one", "by rest").await.must_be(200, &json!({ "success": true }));
    drop(socket.ask(json!({ "type": "ping" })).await);
    let mut stream = server.stream("tab").await;
    server.begin_call(json!({ "toolID": "client_tab_t", "requestID": "two" })).await;
    stream.expect_call("two").await;
    let message = json!({ "type": "result", "requestID": "two", "result": { "status": "success" } });
    assert_eq!(socket.ask(message).await["accepted"], true);
}
