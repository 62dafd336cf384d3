//! How calls reach clients: 4, 5, 6, 10, 11, 19, 20, 21, 22, 24.

use std::time::Duration;

use handback_testkit::{Answer, RawSocket, TestServer};
use reqwest::Method;
use serde_json::json;
use tokio::time::Instant;

#[tokio::test]
async fn w04_a_call_waits_for_a_client_that_is_away_and_reaches_it_when_it_connects() {
    let server = TestServer::start().await;
    let ids = server.register("tab", &["t"]).await;
    let call = server.execute(json!({ "toolID": ids[0], "requestID": "r" }));
    server.until("the call waits", |counts| counts.calls == 1).await;
    let mut stream = server.stream("tab").await;
    stream.expect_call("r").await;
    server.answer("r", "there").await;
    assert_eq!(call.await.unwrap().body["output"], "there");
}

#[tokio::test]
async fn w05_closing_an_older_stream_leaves_the_tools_and_calls_of_the_newer() {
    let server = TestServer::start().await;
    let ids = server.register("tab", &["t"]).await;
    let older = server.stream("tab").await;
    let mut newer = server.stream("tab").await;
    let call = server.execute(json!({ "toolID": ids[0], "requestID": "r" }));
    newer.expect_call("r").await;
    drop(older);
    server.until("the older is gone", |counts| counts.connections == 1).await;
    assert_eq!(server.get("/client-tools/tools/tab").await.body[0]["id"], ids[0].as_str());
    server.answer("r", "still").await;
    assert_eq!(call.await.unwrap().body["output"], "still");
}

#[tokio::test]
async fn w06_two_streams_of_one_client_do_not_run_a_call_twice() {
    let server = TestServer::start().await;
    let ids = server.register("tab", &["t"]).await;
    let (mut one, mut other) = (server.stream("tab").await, server.stream("tab").await);
    let mut seen = [0, 0];
    for n in 0..10 {
        let request = server.begin_call(json!({ "toolID": ids[0], "requestID": format!("r{n}") })).await;
        let (which, frame) = tokio::select! { frame = one.next() => (0, frame), frame = other.next() => (1, frame) };
        assert_eq!((frame.event.as_str(), frame.request_id()), ("tool-request", request.as_str()));
        seen[which] += 1;
        server.answer(&request, "").await.must_be(200, &json!({ "success": true }));
    }
    assert_eq!(seen[0] + seen[1], 10);
}

#[tokio::test]
async fn w10_a_stream_opened_with_another_directory_gets_the_calls() {
    let server = TestServer::start().await;
    let ids = server.register("tab", &["t"]).await;
    let mut stream = server.stream("tab?directory=%2Fsomewhere%2Felse").await;
    let body = json!({ "toolID": ids[0], "requestID": "r", "wait": false });
    let request = server.request(Method::POST, "/client-tools/execute?directory=%2Fhere");
    assert_eq!(Answer::to(request.header("x-opencode-directory", "%2Fthere").json(&body)).await.status, 202);
    stream.expect_call("r").await;
}

#[tokio::test]
async fn w11_the_head_of_a_stream_waits_for_no_frame_and_bad_json_shows_no_stack() {
    let server = TestServer::start().await;
    let began = Instant::now();
    let mut socket = RawSocket::open(server.address).await;
    assert_eq!(socket.get("/client-tools/pending/tab").await.status, 200);
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    let request = server.request(Method::POST, "/client-tools/register").body("{\"clientID\":");
    let answer = Answer::to(request).await;
    let message = answer.must_fail(400, "INVALID_REQUEST");
    assert!(!message.contains(".rs") && !message.contains("at /") && message.len() < 300, "{message}");
}

#[tokio::test]
async fn w19_a_call_made_as_soon_as_the_client_sees_its_200_is_not_lost() {
    let server = TestServer::start().await;
    for n in 0..30 {
        let client = format!("tab{n}");
        let ids = server.register(&client, &["t"]).await;
        let mut socket = RawSocket::open(server.address).await;
        socket.get(&format!("/client-tools/pending/{client}")).await;
        let request = server.begin_call(json!({ "toolID": ids[0] })).await;
        assert!(socket.frame().await.contains(&request));
    }
}

#[tokio::test]
async fn w20_hundreds_of_calls_to_a_reader_that_is_behind_are_not_dropped() {
    let server = TestServer::start().await;
    let ids = server.register("tab", &["t"]).await;
    let mut stream = server.stream("tab").await;
    let mut events = server.events().await;
    for n in 0..400 {
        server.begin_call(json!({ "toolID": ids[0], "requestID": format!("r{n}"), "input": { "n": n } })).await;
    }
    for n in 0..400 {
        stream.expect_call(&format!("r{n}")).await;
    }
    // A subscriber of events is behind as well, within its buffer.
    for n in 0..400 {
        let event = events.next().await.data;
        assert_eq!(
            (&event["type"], &event["properties"]["request"]["input"]["n"]),
            (&json!("client-tool.request"), &json!(n))
        );
        assert_eq!(events.next().await.data["type"], "client-tool.executing");
    }
}

#[tokio::test]
async fn w21_a_call_is_written_to_its_own_client_and_to_none_of_the_others() {
    let server = TestServer::start().await;
    let mut others = Vec::new();
    for n in 0..100 {
        let mut socket = RawSocket::open(server.address).await;
        socket.get(&format!("/client-tools/pending/other{n}")).await;
        others.push(socket);
    }
    let ids = server.register("tab", &["t"]).await;
    let mut stream = server.stream("tab").await;
    for n in 0..20 {
        server.begin_call(json!({ "toolID": ids[0], "requestID": format!("r{n}") })).await;
        stream.expect_call(&format!("r{n}")).await;
    }
    for other in &mut others {
        let mut byte = [0];
        let read = other.socket.try_read(&mut byte);
        assert_eq!(read.unwrap_err().kind(), std::io::ErrorKind::WouldBlock, "another client was written to");
    }
}

#[tokio::test]
async fn w22_a_delivery_that_fails_is_noticed_long_before_the_deadline() {
    let server = TestServer::with(|config| config.limits.stall_timeout = Duration::from_millis(300)).await;
    let ids = server.register("tab", &["t"]).await;
    let mut stuck = RawSocket::open_narrow(server.address).await;
    stuck.get("/client-tools/pending/tab").await;
    let began = Instant::now();
    let input = json!({ "text": "x".repeat(3_000_000) });
    let calls = [0, 1].map(|_| server.execute(json!({ "toolID": ids[0], "input": input, "timeout": 60_000 })));
    for call in calls {
        call.await.unwrap().must_fail(502, "CLIENT_DISCONNECTED");
    }
    assert!(began.elapsed() < Duration::from_secs(15), "{:?}", began.elapsed());
}

#[tokio::test]
async fn w24_inputs_are_checked_results_idempotent_files_passed_on_and_streams_resumed() {
    let server = TestServer::start().await;
    let schema = json!({ "type": "object", "required": ["a"] });
    let tools = json!([{ "id": "t", "parameters": schema }]);
    server.post("/client-tools/register", json!({ "clientID": "tab", "tools": tools })).await;
    let bad = server.post("/client-tools/execute", json!({ "toolID": "client_tab_t", "input": {} })).await;
    bad.must_fail(400, "INVALID_REQUEST");

    let mut stream = server.stream("tab?grace=60000").await;
    for request in ["seen", "missed"] {
        server.begin_call(json!({ "toolID": "client_tab_t", "requestID": request, "input": { "a": 1 } })).await;
    }
    let seen = stream.expect_call("seen").await;
    stream.expect_call("missed").await;
    drop(stream);
    server.until("the stream is gone", |counts| counts.connections == 0).await;
    let mut stream = server.resume("tab?grace=60000", &seen.id).await;
    stream.expect_call("missed").await;

    let files = json!([{ "mime": "text/plain", "filename": "a.txt", "url": "data:,hello" }]);
    let result = json!({ "status": "success", "title": "", "output": "", "attachments": files });
    let body = json!({ "requestID": "seen", "result": result });
    server.post("/client-tools/result", body.clone()).await.must_be(200, &json!({ "success": true }));
    server.post("/client-tools/result", body).await.must_be(200, &json!({ "success": true, "ignored": true }));
    assert_eq!(server.outcome("seen").await, result);
}
