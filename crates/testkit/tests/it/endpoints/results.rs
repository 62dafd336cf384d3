//! `POST /client-tools/result` and `POST /client-tools/cancel`.

use std::time::Duration;

use handback_testkit::{Answer, TestServer};
use reqwest::Method;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

/// A server with a call `r` that nobody has answered.
async fn with_call() -> (TestServer, JoinHandle<Answer>) {
    let server = TestServer::start().await;
    let ids = server.register("tab", &["t"]).await;
    let call = server.execute(json!({ "toolID": ids[0], "requestID": "r", "sessionID": "s" }));
    server.until("the call is under way", |counts| counts.calls == 1).await;
    (server, call)
}

async fn result(server: &TestServer, body: Value) -> Answer {
    server.post("/client-tools/result", body).await
}

/// Sends a body as it is written.
async fn result_text(server: &TestServer, body: &str) -> Answer {
    Answer::to(server.request(Method::POST, "/client-tools/result").body(body.to_owned())).await
}

#[tokio::test]
async fn a_result_may_be_nested_or_flat_and_nested_counts() {
    let nested = json!({ "requestID": "r", "result": { "status": "success", "title": "T", "output": "nested" } });
    let flat = json!({
        "requestID": "r", "status": "success", "title": "T", "output": "flat", "type": "client-tool-response",
        "metadata": { "a": 1 },
    });
    let both = json!({
        "requestID": "r", "result": { "status": "success", "title": "T", "output": "nested" },
        "status": "error", "error": "flat", "output": "flat",
    });
    let failed = json!({ "requestID": "r", "status": "error", "error": "flat" });
    let taken = json!({ "status": "success", "title": "T", "output": "nested" });
    let cases = [
        (nested, taken.clone()),
        (flat, json!({ "status": "success", "title": "T", "output": "flat", "metadata": { "a": 1 } })),
        (both, taken),
        (failed, json!({ "status": "error", "error": "flat" })),
    ];
    for (body, expected) in cases {
        let (server, call) = with_call().await;
        result(&server, body).await.must_be(200, &json!({ "success": true }));
        call.await.unwrap().must_be(200, &expected);
    }
}

#[tokio::test]
async fn the_same_result_again_is_ignored_however_it_is_written() {
    let (server, call) = with_call().await;
    let first = r#"{"requestID":"r","result":{"status":"success","output":"o","metadata":{"a":1,"b":[100,{"x":1.5,"y":"é"}]}}}"#;
    result_text(&server, first).await.must_be(200, &json!({ "success": true }));
    let same = [
        first,
        r#"{"result":{"metadata":{"b":[100,{"y":"é","x":1.5}],"a":1},"output":"o","status":"success"},"requestID":"r"}"#,
        r#"{"requestID":"r","result":{"status":"success","output":"o","metadata":{"a":1.0,"b":[1e2,{"x":15e-1,"y":"\u00e9"}]}}}"#,
        r#"{"requestID":"r","status":"success","title":"","output":"o","metadata":{ "a" : 1, "b": [100.0, {"x":1.50,"y":"é"}]}}"#,
    ];
    for body in same {
        result_text(&server, body).await.must_be(200, &json!({ "success": true, "ignored": true }));
    }
    assert_eq!(call.await.unwrap().body["output"], "o");
}

#[tokio::test]
async fn another_result_is_409_and_changes_nothing() {
    let (server, call) = with_call().await;
    let first = json!({ "requestID": "r", "result": { "status": "success", "output": "o", "metadata": { "a": 1 } } });
    result(&server, first).await.must_be(200, &json!({ "success": true }));
    let others = [
        json!({ "status": "success", "output": "other", "metadata": { "a": 1 } }),
        json!({ "status": "success", "output": "o" }),
        json!({ "status": "success", "output": "o", "metadata": { "a": 2 } }),
        json!({ "status": "success", "output": "o", "metadata": { "a": "1" } }),
        json!({ "status": "success", "output": "o", "metadata": { "a": 1 }, "title": "T" }),
        json!({ "status": "success", "output": "o", "metadata": { "a": 1 }, "attachments": [{ "mime": "a/b", "url": "x:" }] }),
        json!({ "status": "error", "error": "o" }),
    ];
    for other in others {
        result(&server, json!({ "requestID": "r", "result": other })).await.must_fail(409, "CONFLICT");
    }
    let taken = json!({ "status": "success", "title": "", "output": "o", "metadata": { "a": 1 } });
    call.await.unwrap().must_be(200, &taken);
    assert_eq!(server.outcome("r").await, taken);
}

#[tokio::test]
async fn numbers_that_differ_only_beyond_what_a_float_can_tell_are_different_results() {
    let (server, _call) = with_call().await;
    let body = |n: &str| format!(r#"{{"requestID":"r","status":"success","output":"o","metadata":{{"n":{n}}}}}"#);
    result_text(&server, &body("9007199254740993")).await.must_be(200, &json!({ "success": true }));
    let again = json!({ "success": true, "ignored": true });
    result_text(&server, &body("9007199254740993")).await.must_be(200, &again);
    result_text(&server, &body("9007199254740992")).await.must_fail(409, "CONFLICT");
}

#[tokio::test]
async fn an_error_result_is_remembered_as_well() {
    let (server, call) = with_call().await;
    let body = json!({ "requestID": "r", "result": { "status": "error", "error": "e" } });
    result(&server, body.clone()).await.must_be(200, &json!({ "success": true }));
    result(&server, body).await.must_be(200, &json!({ "success": true, "ignored": true }));
    let other = json!({ "requestID": "r", "result": { "status": "error", "error": "f" } });
    result(&server, other).await.must_fail(409, "CONFLICT");
    call.await.unwrap().must_be(200, &json!({ "status": "error", "error": "e" }));
}

#[tokio::test]
async fn a_result_that_is_none_is_400_and_the_call_goes_on() {
    let (server, call) = with_call().await;
    let bad = [
        json!({ "result": { "status": "success" } }),
        json!({ "status": "success" }),
        json!({ "requestID": 5, "status": "success" }),
        json!({ "requestID": "", "status": "success" }),
        json!({ "requestID": "r" }),
        json!({ "requestID": "r", "result": {} }),
        json!({ "requestID": "r", "result": { "output": "no status" } }),
        json!({ "requestID": "r", "result": { "status": "Success" } }),
        json!({ "requestID": "r", "result": { "status": "timeout" } }),
        json!({ "requestID": "r", "result": { "status": 1 } }),
        json!({ "requestID": "r", "result": "success" }),
        json!({ "requestID": "r", "result": { "status": "success", "output": { "not": "a string" } } }),
        json!({ "requestID": "r", "result": { "status": "success", "output": 5 } }),
        json!({ "requestID": "r", "result": { "status": "success", "title": 5 } }),
        json!({ "requestID": "r", "result": { "status": "success", "metadata": [] } }),
        json!({ "requestID": "r", "result": { "status": "success", "attachments": [{ "mime": "a/b" }] } }),
        json!({ "requestID": "r", "result": { "status": "success", "attachments": [{ "url": "x:" }] } }),
        json!({ "requestID": "r", "status": "success", "output": ["flat"] }),
    ];
    for body in bad {
        result(&server, body).await.must_fail(400, "INVALID_REQUEST");
    }
    assert_eq!(server.call("r").await["state"], "queued");
    server.answer("r", "at last").await.must_be(200, &json!({ "success": true }));
    assert_eq!(call.await.unwrap().body["output"], "at last");
}

#[tokio::test]
async fn an_unknown_request_is_404_by_name() {
    let server = TestServer::start().await;
    let answer = server.answer("nobody", "x").await;
    assert_eq!(answer.must_fail(404, "NOT_FOUND"), "Unknown request ID");
    let answer = server.cancel("nobody", "x").await;
    answer.must_fail(404, "NOT_FOUND");
    server.get("/client-tools/calls/nobody").await.must_fail(404, "NOT_FOUND");
    server.get("/client-tools/calls/nobody?wait=1000").await.must_fail(404, "NOT_FOUND");
}

#[tokio::test]
async fn a_result_after_a_timeout_a_cancel_or_a_disconnect_is_410() {
    let server = TestServer::start().await;
    let ids = server.register("tab", &["t"]).await;
    let mut stream = server.stream("tab").await;
    let gone = server.execute(json!({ "toolID": ids[0], "requestID": "disconnected" }));
    stream.expect_call("disconnected").await;
    server.begin_call(json!({ "toolID": ids[0], "requestID": "cancelled" })).await;
    server.cancel("cancelled", "no").await.must_be(200, &json!({ "success": true }));
    let late = server.post("/client-tools/execute", json!({ "toolID": ids[0], "requestID": "late", "timeout": 20 }));
    late.await.must_fail(504, "TIMEOUT");
    drop(stream);
    gone.await.unwrap().must_fail(502, "CLIENT_DISCONNECTED");
    for request in ["disconnected", "cancelled", "late"] {
        server.answer(request, "too late").await.must_fail(410, "GONE");
        server.cancel(request, "too late").await.must_fail(410, "GONE");
    }
}

#[tokio::test]
async fn a_cancel_after_a_result_is_410() {
    let (server, call) = with_call().await;
    server.answer("r", "done").await;
    server.cancel("r", "too late").await.must_fail(410, "GONE");
    assert_eq!(call.await.unwrap().status, 200);
}

#[tokio::test]
async fn a_cancel_needs_no_reason_and_a_second_one_is_410() {
    let (server, call) = with_call().await;
    let cancel = json!({ "requestID": "r" });
    server.post("/client-tools/cancel", cancel.clone()).await.must_be(200, &json!({ "success": true }));
    server.post("/client-tools/cancel", cancel).await.must_fail(410, "GONE");
    let answer = call.await.unwrap();
    let reason = answer.must_fail(409, "CANCELLED");
    assert_eq!(server.outcome("r").await, json!({ "status": "cancelled", "error": reason }));
    for body in [json!({}), json!({ "requestID": 1 }), json!({ "requestID": "r", "reason": 5 })] {
        server.post("/client-tools/cancel", body).await.must_fail(400, "INVALID_REQUEST");
    }
}

#[tokio::test]
async fn a_call_is_known_for_as_long_as_it_is_stored() {
    let server = TestServer::with(|config| {
        config.limits.remembered_for = Duration::from_millis(100);
        config.limits.stored_calls = 1;
    })
    .await;
    let ids = server.register("tab", &["t"]).await;
    server.begin_call(json!({ "toolID": ids[0], "requestID": "r" })).await;
    server.answer("r", "done").await.must_be(200, &json!({ "success": true }));
    server.answer("r", "done").await.must_be(200, &json!({ "success": true, "ignored": true }));
    tokio::time::sleep(Duration::from_millis(200)).await;
    server.answer("r", "done").await.must_be(200, &json!({ "success": true, "ignored": true }));
    server.answer("r", "otherwise").await.must_fail(409, "CONFLICT");
    server.cancel("r", "too late").await.must_fail(410, "GONE");
    server.begin_call(json!({ "toolID": ids[0], "requestID": "other" })).await;
    server.answer("other", "done").await.must_be(200, &json!({ "success": true }));
    server.answer("r", "done").await.must_fail(404, "NOT_FOUND");
    server.cancel("r", "too late").await.must_fail(404, "NOT_FOUND");
    server.begin_call(json!({ "toolID": ids[0], "requestID": "r" })).await;
}
