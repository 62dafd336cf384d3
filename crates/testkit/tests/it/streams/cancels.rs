//! `tool-cancel`: a client is told when a call that it was given is over in any way but by a result.

use handback_testkit::stream::End;
use handback_testkit::{TestServer, TestStream};
use serde_json::{Value, json};

async fn with_client() -> (TestServer, TestStream, String) {
    let server = TestServer::start().await;
    let ids = server.register("tab", &["t"]).await;
    let stream = server.stream("tab").await;
    (server, stream, ids[0].clone())
}

/// The reason of the next frame, which must cancel that call.
async fn reason(stream: &mut TestStream, request: &str) -> Value {
    let mut frame = stream.expect("tool-cancel").await;
    let reason = frame.data["reason"].take();
    assert_eq!(frame.data, json!({ "requestID": request, "reason": null }));
    assert!(!reason.as_str().unwrap().is_empty());
    reason
}

#[tokio::test]
async fn a_timeout_cancels_at_the_client() {
    let (server, mut stream, tool) = with_client().await;
    let call = server.execute(json!({ "toolID": tool, "requestID": "r", "timeout": 50 }));
    stream.expect_call("r").await;
    let reason = reason(&mut stream, "r").await;
    assert_eq!(call.await.unwrap().must_fail(504, "TIMEOUT"), reason);
}

#[tokio::test]
async fn a_cancel_reaches_the_client_with_its_reason() {
    let (server, mut stream, tool) = with_client().await;
    server.begin_call(json!({ "toolID": tool, "requestID": "r" })).await;
    stream.expect_call("r").await;
    server.cancel("r", "never mind").await;
    assert_eq!(reason(&mut stream, "r").await, "never mind");
}

#[tokio::test]
async fn a_caller_that_goes_cancels_at_the_client() {
    let (server, mut stream, tool) = with_client().await;
    let call = server.execute(json!({ "toolID": tool, "requestID": "r" }));
    stream.expect_call("r").await;
    call.abort();
    reason(&mut stream, "r").await;
    assert_eq!(server.outcome("r").await["status"], "cancelled");
    server.answer("r", "too late").await.must_fail(410, "GONE");
}

#[tokio::test]
async fn a_caller_that_goes_before_the_call_was_delivered_takes_it_away() {
    let server = TestServer::start().await;
    let ids = server.register("tab", &["t"]).await;
    let call = server.execute(json!({ "toolID": ids[0], "requestID": "gone" }));
    server.until("the call waits", |counts| counts.calls == 1).await;
    call.abort();
    server.until("the call is over", |counts| counts.calls == 0).await;
    let mut stream = server.stream("tab").await;
    server.begin_call(json!({ "toolID": ids[0], "requestID": "next" })).await;
    stream.expect_call("next").await;
}

#[tokio::test]
async fn a_call_that_nobody_waits_for_is_not_cancelled_by_that() {
    let (server, mut stream, tool) = with_client().await;
    let request = server.begin_call(json!({ "toolID": tool })).await;
    stream.expect_call(&request).await;
    // Whoever fetches the outcome may go as well.
    let path = format!("/client-tools/calls/{request}?wait=60000");
    let waiting = server.request(reqwest::Method::GET, &path).timeout(std::time::Duration::from_millis(50));
    waiting.send().await.unwrap_err();
    server.answer(&request, "done").await.must_be(200, &json!({ "success": true }));
    assert_eq!(server.outcome(&request).await["output"], "done");
}

#[tokio::test]
async fn shutting_down_cancels_at_the_client() {
    let server = TestServer::with(|config| config.limits.drain_timeout = std::time::Duration::from_millis(50)).await;
    let ids = server.register("tab", &["t"]).await;
    let mut stream = server.stream("tab").await;
    let call = server.execute(json!({ "toolID": ids[0], "requestID": "r" }));
    stream.expect_call("r").await;
    server.begin_stop();
    reason(&mut stream, "r").await;
    assert_eq!(stream.end().await, (vec![], End::Cut));
    call.await.unwrap().must_fail(503, "UNAVAILABLE");
}

#[tokio::test]
async fn a_result_is_no_reason_to_cancel() {
    let (server, mut stream, tool) = with_client().await;
    for (request, result) in [("a", json!({ "status": "success" })), ("b", json!({ "status": "error", "error": "e" }))]
    {
        server.begin_call(json!({ "toolID": tool, "requestID": request })).await;
        stream.expect_call(request).await;
        server.post("/client-tools/result", json!({ "requestID": request, "result": result })).await;
        assert_eq!(server.call(request).await["state"], "done");
    }
    server.begin_call(json!({ "toolID": tool, "requestID": "next" })).await;
    stream.expect_call("next").await;
}

#[tokio::test]
async fn only_the_connection_that_holds_the_call_is_told() {
    let (server, mut one, tool) = with_client().await;
    let mut other = server.stream("tab").await;
    for request in ["a", "b"] {
        server.begin_call(json!({ "toolID": tool, "requestID": request })).await;
    }
    let [ones, others] = [one.expect("tool-request").await, other.expect("tool-request").await];
    for request in ["a", "b"] {
        server.cancel(request, "no").await;
    }
    reason(&mut one, ones.request_id()).await;
    reason(&mut other, others.request_id()).await;
    for request in ["c", "d"] {
        server.begin_call(json!({ "toolID": tool, "requestID": request })).await;
    }
    one.expect("tool-request").await;
    other.expect("tool-request").await;
}
