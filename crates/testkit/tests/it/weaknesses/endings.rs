//! How calls end: 1, 2, 3, 8, 13, 14, 23, 26.

use std::time::Duration;

use handback_testkit::TestServer;
use handback_testkit::keys::between;
use serde_json::json;

#[tokio::test]
async fn w01_a_disconnect_in_the_middle_of_a_call_is_no_success() {
    let server = TestServer::start().await;
    let ids = server.register("tab", &["t"]).await;
    let mut events = server.events().await;
    let mut stream = server.stream("tab").await;
    let call = server.execute(json!({ "toolID": ids[0], "requestID": "r" }));
    stream.expect_call("r").await;
    drop(stream);
    call.await.unwrap().must_fail(502, "CLIENT_DISCONNECTED");
    assert_eq!(server.outcome("r").await["status"], "disconnected");
    let mut kinds = Vec::new();
    while kinds.last().is_none_or(|kind| kind != "client-tool.failed") {
        let event = events.next().await.data;
        kinds.push(event["type"].as_str().unwrap().to_owned());
        assert_ne!(kinds.last().unwrap(), "client-tool.completed");
    }
}

#[tokio::test]
async fn w02_a_result_that_races_with_a_disconnect_has_one_outcome_and_no_fault() {
    let server = TestServer::start().await;
    let mut outcomes = [0, 0];
    for n in 0..150 {
        let ids = server.register("tab", &["t"]).await;
        let mut stream = server.stream("tab").await;
        let request = format!("r{n}");
        let call = server.execute(json!({ "toolID": ids[0], "requestID": request }));
        stream.expect_call(&request).await;
        // One of the two is a little later than the other, each time a little more.
        let turns = |late: bool| async move {
            for _ in 0..if late { n / 4 } else { 0 } {
                tokio::task::yield_now().await;
            }
        };
        let answering = async {
            turns(n % 2 == 0).await;
            server.answer(&request, "done").await
        };
        let closing = async {
            turns(n % 2 == 1).await;
            drop(stream);
        };
        let (answer, ()) = tokio::join!(answering, closing);
        let call = call.await.unwrap();
        match answer.status {
            200 => {
                assert_eq!((call.status, &call.body["output"]), (200, &json!("done")));
                outcomes[0] += 1;
            }
            410 => {
                call.must_fail(502, "CLIENT_DISCONNECTED");
                outcomes[1] += 1;
            }
            _ => panic!("{answer:?} while the caller got {call:?}"),
        }
        server.until("the client is gone", |counts| counts.clients == 0).await;
    }
    assert!(outcomes.iter().all(|count| *count > 0), "one always came first: {outcomes:?}");
}

#[tokio::test]
async fn w03_a_result_without_a_good_status_is_no_success_and_a_nested_one_is_not_lost() {
    let server = TestServer::start().await;
    let ids = server.register("tab", &["t"]).await;
    server.begin_call(json!({ "toolID": ids[0], "requestID": "r" })).await;
    for body in [json!({ "requestID": "r" }), json!({ "requestID": "r", "status": "ok", "output": "x" })] {
        server.post("/client-tools/result", body).await.must_fail(400, "INVALID_REQUEST");
    }
    let nested = json!({ "requestID": "r", "result": { "status": "success", "title": "T", "output": "kept" } });
    server.post("/client-tools/result", nested).await.must_be(200, &json!({ "success": true }));
    let kept = json!({ "status": "success", "title": "T", "output": "kept" });
    assert_eq!(server.outcome("r").await, kept);
}

#[tokio::test]
async fn w08_a_second_call_of_the_same_id_does_not_take_the_place_of_the_first() {
    let server = TestServer::start().await;
    let ids = server.register("tab", &["t"]).await;
    let mut stream = server.stream("tab").await;
    let first = server.execute(json!({ "toolID": ids[0], "requestID": "r", "timeout": 20_000 }));
    stream.expect_call("r").await;
    let other = json!({ "toolID": ids[0], "requestID": "r", "timeout": 10, "input": { "other": true } });
    server.post("/client-tools/execute", other).await.must_fail(409, "CONFLICT");
    // An id that nobody could answer to is no id.
    server
        .post("/client-tools/execute", json!({ "toolID": ids[0], "requestID": "" }))
        .await
        .must_fail(400, "INVALID_REQUEST");
    server.answer("r", "first").await;
    assert_eq!(first.await.unwrap().body["output"], "first");
}

#[tokio::test]
async fn w13_a_client_is_told_that_its_call_is_over_and_its_late_result_that_it_is_late() {
    let server = TestServer::start().await;
    let ids = server.register("tab", &["t"]).await;
    let mut stream = server.stream("tab").await;
    server.begin_call(json!({ "toolID": ids[0], "requestID": "r", "timeout": 50 })).await;
    stream.expect_call("r").await;
    assert_eq!(stream.expect("tool-cancel").await.request_id(), "r");
    server.answer("r", "late").await.must_fail(410, "GONE");
    server.answer("never", "unknown").await.must_fail(404, "NOT_FOUND");
}

#[tokio::test]
async fn w14_a_call_of_an_unregistered_tool_goes_on_and_can_be_seen() {
    let server = TestServer::start().await;
    let ids = server.register("tab", &["t"]).await;
    let mut stream = server.stream("tab").await;
    server.begin_call(json!({ "toolID": ids[0], "requestID": "r" })).await;
    stream.expect_call("r").await;
    server.delete("/client-tools/unregister", json!({ "clientID": "tab" })).await;
    let call = server.call("r").await;
    assert_eq!((&call["state"], &call["tool"]), (&json!("offered"), &json!(ids[0])));
    let listed = server.get("/client-tools/clients").await;
    assert_eq!((&listed.body[0]["tools"], &listed.body[0]["calls"]), (&json!(0), &json!(1)));
    server.answer("r", "done").await.must_be(200, &json!({ "success": true }));
}

#[tokio::test]
async fn w23_a_caller_that_gives_up_stops_the_call_and_everybody_hears_of_it() {
    let server = TestServer::start().await;
    let ids = server.register("tab", &["t"]).await;
    let mut stream = server.stream("tab").await;
    let mut events = server.events().await;
    let call = server.execute(json!({ "toolID": ids[0], "requestID": "r" }));
    stream.expect_call("r").await;
    call.abort();
    assert_eq!(stream.expect("tool-cancel").await.request_id(), "r");
    let mut kinds = Vec::new();
    for _ in 0..3 {
        kinds.push(events.next().await.data["type"].as_str().unwrap().to_owned());
    }
    assert_eq!(kinds, ["client-tool.request", "client-tool.executing", "client-tool.failed"]);
    assert_eq!(server.counts().calls, 0);
}

#[tokio::test]
async fn w26_timeouts_are_bounded_on_both_sides_and_ids_are_checked() {
    let server = TestServer::start().await;
    let ids = server.register("tab", &["t"]).await;
    for timeout in [json!(0), json!(-5)] {
        let body = json!({ "toolID": ids[0], "timeout": timeout });
        server.post("/client-tools/execute", body).await.must_fail(400, "INVALID_REQUEST");
    }
    let long = server.begin_call(json!({ "toolID": ids[0], "timeout": 1e15 })).await;
    let call = server.call(&long).await;
    let time = between(call["created"].as_str().unwrap(), call["deadline"].as_str().unwrap());
    assert_eq!(time, Duration::from_secs(24 * 60 * 60));
    for key in ["sessionID", "messageID", "callID"] {
        let body = json!({ "toolID": ids[0], key: "a\nb" });
        server.post("/client-tools/execute", body).await.must_fail(400, "INVALID_REQUEST");
    }
}
