//! Calls over a restart: who waits is told to come back, who comes back joins, and a late result is kept.

use std::time::Duration;

use handback_server::config::Config;
use handback_testkit::server::until;
use handback_testkit::session::events_until;
use handback_testkit::{Scratch, TestServer, TestStream};
use serde_json::{Value, json};

/// A server over a directory, which leaves what is open at once when it stops.
async fn start(scratch: &Scratch) -> TestServer {
    TestServer::with(|config: &mut Config| {
        config.data = Some(scratch.path().to_owned());
        config.limits.drain_timeout = Duration::ZERO;
    })
    .await
}

/// The properties of the next event of a type.
async fn next_of(events: &mut TestStream, kind: &str) -> Value {
    events_until(events, kind).await.pop().unwrap()["properties"].take()
}

#[tokio::test]
async fn a_call_goes_on_and_whoever_made_it_joins_it() {
    let scratch = Scratch::new();
    let server = start(&scratch).await;
    let ids = server.register("tab", &["t"]).await;
    let mut stream = server.stream("tab").await;
    let body = |id: &str| json!({ "toolID": ids[0], "requestID": id, "input": { "a": 1 }, "callID": "c" });
    let seen = server.execute(body("seen"));
    stream.expect_call("seen").await;
    server.stop().await;
    seen.await.unwrap().must_fail(503, "UNAVAILABLE");

    // The client is away, and its tools are offered. It gets the call again.
    let server = start(&scratch).await;
    assert_eq!(server.get("/client-tools/tools/tab").await.body[0]["id"], "client_tab_t");
    let again = server.execute(body("seen"));
    let unseen = server.execute(body("unseen"));
    let mut stream = server.stream("tab").await;
    let mut calls: Vec<Value> = [stream.next_call().await, stream.next_call().await].into();
    calls.sort_by_key(|call| call["requestID"].to_string());
    let brief = |call: &Value| json!([call["requestID"], call["callID"], call["attempt"], call["input"]]);
    assert_eq!(brief(&calls[0]), json!(["seen", "c", 2, { "a": 1 }]));
    assert_eq!(brief(&calls[1]), json!(["unseen", "c", 1, { "a": 1 }]));
    server.answer("seen", "one").await.must_be(200, &json!({ "success": true }));
    server.answer("unseen", "two").await.must_be(200, &json!({ "success": true }));
    assert_eq!(again.await.unwrap().body["output"], "one");
    assert_eq!(unseen.await.unwrap().body["output"], "two");
    server.stop().await;

    // What was taken is taken: the same result again, and the same call again.
    let server = start(&scratch).await;
    server.answer("seen", "one").await.must_be(200, &json!({ "success": true, "ignored": true }));
    server.answer("seen", "other").await.must_fail(409, "CONFLICT");
    assert_eq!(server.post("/client-tools/execute", body("seen")).await.body["output"], "one");
    let other = json!({ "toolID": ids[0], "requestID": "seen", "input": { "a": 2 } });
    server.post("/client-tools/execute", other).await.must_fail(409, "CONFLICT");
}

#[tokio::test]
async fn a_call_whose_time_is_over_meanwhile_ends_at_the_start() {
    let scratch = Scratch::new();
    let server = start(&scratch).await;
    let ids = server.register("tab", &["t"]).await;
    let body = json!({ "toolID": ids[0], "requestID": "r", "timeout": 50, "wait": false });
    let mut stream = server.stream("tab").await;
    server.post("/client-tools/execute", body).await.must_be(202, &json!({ "requestID": "r" }));
    stream.expect_call("r").await;
    server.stop().await;
    tokio::time::sleep(Duration::from_millis(60)).await;
    let server = start(&scratch).await;
    until("it is over", async || server.call("r").await["state"] == "done").await;
    let call = server.call("r").await;
    assert_eq!((&call["outcome"]["status"], &call["mayHaveRun"]), (&json!("timeout"), &json!(true)));
}

/// Its handler may still run in the client, which knows nothing of the server's restart.
#[tokio::test]
async fn a_client_that_comes_back_is_told_of_a_call_that_was_cancelled_meanwhile() {
    let scratch = Scratch::new();
    let server = start(&scratch).await;
    let mut stream = server.stream("tab").await;
    for (client, id) in [("tab", "seen"), ("away", "unseen")] {
        let body = json!({ "toolID": server.register(client, &["t"]).await[0], "requestID": id, "wait": false });
        server.post("/client-tools/execute", body).await.must_be(202, &json!({ "requestID": id }));
    }
    stream.expect_call("seen").await;
    server.stop().await;

    let server = start(&scratch).await;
    for id in ["seen", "unseen"] {
        let cancel = json!({ "requestID": id, "reason": "enough" });
        server.post("/client-tools/cancel", cancel).await.must_be(200, &json!({ "success": true }));
    }
    let mut stream = server.stream("tab").await;
    let told = stream.expect("tool-cancel").await.data;
    assert_eq!((&told["requestID"], &told["reason"]), (&json!("seen"), &json!("enough")));
    // Once, and nobody is told of what they never saw.
    for client in ["tab", "away"] {
        let mut stream = server.stream(client).await;
        let body = json!({ "toolID": format!("client_{client}_t"), "requestID": client, "wait": false });
        server.post("/client-tools/execute", body).await;
        stream.expect_call(client).await;
    }
}

#[tokio::test]
async fn an_end_without_a_result_says_whether_the_tool_may_have_run() {
    let server = TestServer::start().await;
    let ids = server.register("tab", &["t"]).await;
    let mut events = server.events().await;
    let body = |id: &str| json!({ "toolID": ids[0], "requestID": id, "timeout": 100 });
    // Nobody is connected.
    let answer = server.execute(body("never")).await.unwrap();
    assert_eq!(answer.body["details"], json!({ "requestID": "never", "mayHaveRun": false }));
    let mut stream = server.stream("tab").await;
    let answer = server.execute(body("shown"));
    stream.expect_call("shown").await;
    let answer = answer.await.unwrap();
    stream.expect("tool-cancel").await;
    assert_eq!((answer.status, &answer.body["details"]), (504, &json!({ "requestID": "shown", "mayHaveRun": true })));
    let gone = server.execute(json!({ "toolID": ids[0], "requestID": "gone" }));
    stream.expect_call("gone").await;
    drop(stream);
    let gone = gone.await.unwrap();
    assert_eq!((gone.status, &gone.body["details"]["mayHaveRun"]), (502, &json!(true)));
    for (id, expected) in [("never", false), ("shown", true), ("gone", true)] {
        assert_eq!(server.call(id).await["mayHaveRun"], expected, "{id}");
        let told = next_of(&mut events, "client-tool.failed").await;
        assert_eq!(told["mayHaveRun"], expected, "{id}: {told}");
    }
    // A result says it itself.
    let ids = server.register("tab", &["t"]).await;
    let _stream = server.stream("tab").await;
    let call = server.execute(json!({ "toolID": ids[0], "requestID": "ran" }));
    until("it is there", async || server.counts().calls == 1).await;
    server.post("/client-tools/result", json!({ "requestID": "ran", "status": "error", "error": "no" })).await;
    assert_eq!(call.await.unwrap().body, json!({ "status": "error", "error": "no" }));
    assert_eq!(server.call("ran").await.get("mayHaveRun"), None);
    assert_eq!(next_of(&mut events, "client-tool.failed").await.get("mayHaveRun"), None);
}

#[tokio::test]
async fn the_first_late_result_is_kept_and_can_be_adopted() {
    let scratch = Scratch::new();
    let server = start(&scratch).await;
    let ids = server.register("tab", &["t"]).await;
    let session = server.session_of("tab").await;
    let mut stream = server.stream("tab").await;
    let call = |id: &str, session: &str| json!({ "toolID": ids[0], "requestID": id, "timeout": 50, "sessionID": session, "input": { "a": 1 } });
    let mut events = server.events().await;
    for (id, of) in [("r", session.as_str()), ("nowhere", ""), ("unanswered", session.as_str())] {
        let over = server.execute(call(id, of));
        stream.expect_call(id).await;
        over.await.unwrap().must_fail(504, "TIMEOUT");
        stream.expect("tool-cancel").await;
    }
    let stranger = json!({ "toolID": ids[0], "requestID": "unseen", "timeout": 50 });
    drop(stream);
    server.register("tab", &["t"]).await;
    server.execute(stranger).await.unwrap().must_fail(504, "TIMEOUT");
    for (id, output) in [("r", "line 1\nline 2"), ("r", "later still"), ("nowhere", "x"), ("unseen", "x")] {
        server.answer(id, output).await.must_fail(410, "GONE");
    }
    assert_eq!(server.call("r").await["lateResult"]["output"], "line 1\nline 2");
    assert_eq!(server.call("r").await["outcome"]["status"], "timeout");
    assert_eq!(server.call("unseen").await.get("lateResult"), None, "nobody had seen the call");
    for id in ["r", "nowhere"] {
        let told = next_of(&mut events, "client-tool.late").await;
        assert_eq!(
            (&told["requestID"], &told["tool"], &told["mayHaveRun"]),
            (&json!(id), &json!(ids[0]), &json!(true))
        );
        assert_eq!(told["error"], "Client tool execution timed out after 50ms");
    }
    server.stop().await;

    let server = start(&scratch).await;
    assert_eq!(server.call("r").await["lateResult"]["output"], "line 1\nline 2");
    let adopt = async |id: &str| server.post(&format!("/client-tools/calls/{id}/adopt"), json!({})).await;
    adopt("r").await.must_be(200, &json!({ "success": true }));
    adopt("r").await.must_be(200, &json!({ "success": true, "ignored": true }));
    adopt("nowhere").await.must_fail(409, "CONFLICT");
    for id in ["unanswered", "unseen", "unknown"] {
        adopt(id).await.must_fail(404, "NOT_FOUND");
    }
    let history = server.history(&session).await;
    assert_eq!(history.len(), 1, "no turn was started: {history:?}");
    assert!(history[0].starts_with("user | The tool client_tab_t was called with {\"a\":1}"), "{history:?}");
    assert!(history[0].contains("> line 1") && history[0].contains("> line 2"), "{history:?}");
    assert_eq!(server.status(&session).await, "idle");
}
