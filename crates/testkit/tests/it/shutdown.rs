//! Shutting down: new calls are refused, what is under way may finish, and then everything ends with an outcome.

use std::time::Duration;

use handback_testkit::agui::Page;
use handback_testkit::chat;
use handback_testkit::server::until;
use handback_testkit::stream::End;
use handback_testkit::{RawSocket, TestServer, TestSocket, TestStream};
use reqwest::Method;
use serde_json::{Value, json};
use tokio::time::Instant;

/// A server that gives calls under way so long to finish.
async fn draining_for(milliseconds: u64) -> TestServer {
    TestServer::with(|config| config.limits.drain_timeout = Duration::from_millis(milliseconds)).await
}

/// A server that has begun to stop and waits for the call `open` of client `tab`, who is connected.
async fn with_open_call(drain: u64) -> (TestServer, TestStream, tokio::task::JoinHandle<handback_testkit::Answer>) {
    let server = draining_for(drain).await;
    let ids = server.register("tab", &["t"]).await;
    let mut stream = server.stream("tab?grace=60000").await;
    let call = server.execute(json!({ "toolID": ids[0], "requestID": "open" }));
    stream.expect_call("open").await;
    server.begin_stop();
    until("the server is not ready", async || server.get("/readyz").await.status == 503).await;
    (server, stream, call)
}

#[tokio::test]
async fn new_calls_are_503_and_the_server_says_that_it_is_not_ready() {
    let (server, _stream, _call) = with_open_call(20_000).await;
    let new = json!({ "toolID": "client_tab_t" });
    server.post("/client-tools/execute", new).await.must_fail(503, "UNAVAILABLE");
    let new = json!({ "toolID": "client_tab_t", "wait": false });
    server.post("/client-tools/execute", new).await.must_fail(503, "UNAVAILABLE");
    server.get("/readyz").await.must_fail(503, "UNAVAILABLE");
    server.get("/healthz").await.must_be(200, &json!("ok\n"));
    assert_eq!(server.call("open").await["state"], "offered");
}

#[tokio::test]
async fn whichever_api_refuses_what_is_new_says_when_to_come_back() {
    let (server, _stream, _call) = with_open_call(20_000).await;
    let mut page = Page::new("thread");
    page.say("u1", "hi");
    let requests = [
        (Method::GET, "/readyz", json!({})),
        (Method::POST, "/client-tools/execute", json!({ "toolID": "client_tab_t" })),
        (Method::POST, "/session", json!({})),
        (Method::POST, "/api/chat", chat::saying("chat", "u1", "hi")),
        (Method::POST, "/agui", page.input()),
    ];
    for (method, path, body) in requests {
        let response = server.request(method, path).json(&body).send().await.unwrap();
        let retry_after = response.headers().get("retry-after").map(|seconds| seconds.to_str().unwrap());
        assert_eq!((response.status().as_u16(), retry_after), (503, Some("1")), "{path}");
    }
}

#[tokio::test]
async fn a_call_under_way_may_finish_and_then_the_server_is_gone_at_once() {
    let (server, mut stream, call) = with_open_call(20_000).await;
    server.answer("open", "in time").await.must_be(200, &json!({ "success": true }));
    call.await.unwrap().must_be(200, &json!({ "status": "success", "title": "", "output": "in time" }));
    let began = Instant::now();
    assert_eq!(stream.end().await, (vec![], End::Cut));
    let app = server.app.clone();
    server.stop().await;
    assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
    assert!(app.tasks().is_empty());
    assert_eq!((app.hub().counts().connections, app.hub().counts().calls), (0, 0));
}

#[tokio::test]
async fn a_client_may_come_back_while_calls_finish() {
    let (server, stream, call) = with_open_call(20_000).await;
    drop(stream);
    server.until("the stream is gone", |counts| counts.connections == 0).await;
    let mut stream = server.stream("tab?grace=60000").await;
    assert_eq!(stream.expect_call("open").await.data["attempt"], 2);
    let mut socket = server.socket("tab").await;
    let result = json!({ "type": "result", "requestID": "open", "result": { "status": "success", "output": "back" } });
    assert_eq!(socket.ask(result).await["accepted"], true);
    assert_eq!(call.await.unwrap().body["output"], "back");
    assert_eq!(socket.next().await, 1001);
}

#[tokio::test]
async fn calls_that_do_not_finish_end_with_an_outcome() {
    let server = draining_for(300).await;
    let ids = server.register("tab", &["t"]).await;
    let mut stream = server.stream("tab").await;
    let waiting = server.execute(json!({ "toolID": ids[0], "requestID": "offered" }));
    stream.expect_call("offered").await;
    let queued_ids = server.register("away", &["t"]).await;
    let queued = server.execute(json!({ "toolID": queued_ids[0], "requestID": "queued" }));
    server.begin_call(json!({ "toolID": ids[0], "requestID": "fetched" })).await;
    stream.expect_call("fetched").await;
    server.until("all are under way", |counts| counts.calls == 3).await;
    let fetching = server.request(reqwest::Method::GET, "/client-tools/calls/fetched?wait=30000");
    let began = Instant::now();
    let (fetched, ()) = tokio::join!(handback_testkit::Answer::to(fetching), async { server.begin_stop() });
    waiting.await.unwrap().must_fail(503, "UNAVAILABLE");
    queued.await.unwrap().must_fail(503, "UNAVAILABLE");
    assert_eq!((fetched.status, &fetched.body["state"]), (200, &json!("done")));
    assert_eq!(fetched.body["outcome"]["status"], "cancelled");
    assert!(began.elapsed() >= Duration::from_millis(300), "{:?}", began.elapsed());
}

#[tokio::test]
async fn clients_are_told_of_cancelled_calls_before_they_are_cut_off() {
    let server = draining_for(50).await;
    let ids = server.register("tab", &["t"]).await;
    let mut stream = server.stream("tab").await;
    for request in ["a", "b"] {
        server.begin_call(json!({ "toolID": ids[0], "requestID": request })).await;
        stream.expect_call(request).await;
    }
    server.begin_stop();
    let (frames, end) = stream.end().await;
    let mut told: Vec<(&str, &str)> = frames.iter().map(|frame| (frame.event.as_str(), frame.request_id())).collect();
    told.sort_unstable();
    assert_eq!(told, [("tool-cancel", "a"), ("tool-cancel", "b")]);
    assert_eq!(end, End::Cut);
}

#[tokio::test]
async fn streams_are_cut_and_not_ended() {
    let server = draining_for(0).await;
    let (mut calls, mut events) = (server.stream("tab").await, server.events().await);
    let mut raw = RawSocket::open(server.address).await;
    raw.get("/client-tools/pending/raw").await;
    server.begin_stop();
    assert_eq!(calls.end().await.1, End::Cut);
    assert_eq!(events.end().await.1, End::Cut);
    // A clean end would be a last, empty chunk.
    assert_eq!(raw.drain().await, 0);
}

#[tokio::test]
async fn sockets_are_closed_with_1001() {
    let server = draining_for(0).await;
    let mut sockets: Vec<TestSocket> = Vec::new();
    for n in 0..5 {
        sockets.push(server.socket(&format!("tab{n}?grace=1000")).await);
    }
    server.begin_stop();
    for socket in &mut sockets {
        assert_eq!(socket.next().await, 1001);
    }
}

#[tokio::test]
async fn a_socket_with_calls_is_told_of_each_and_then_closed_with_1001() {
    let server = draining_for(50).await;
    let ids = server.register("tab", &["t"]).await;
    let mut socket = server.socket("tab").await;
    for request in ["a", "b"] {
        server.begin_call(json!({ "toolID": ids[0], "requestID": request })).await;
        socket.request().await;
    }
    server.begin_stop();
    let mut told = [socket.next().await, socket.next().await].map(|message| {
        assert_eq!(message["type"], "cancel");
        message["requestID"].as_str().unwrap().to_owned()
    });
    told.sort();
    assert_eq!(told, ["a", "b"]);
    assert_eq!(socket.next().await, 1001);
}

#[tokio::test]
async fn the_server_ends_and_leaves_nothing_whatever_was_open() {
    let server = draining_for(100).await;
    let ids = server.register("tab", &["t"]).await;
    let mut stream = server.stream("tab?grace=60000&connection=main").await;
    let _sockets = [server.socket("tab").await, server.socket("other?grace=60000").await];
    let _events = server.events().await;
    // A connection that is idle, and one whose reader does not read.
    let _idle = RawSocket::open(server.address).await;
    let mut unread = RawSocket::open_narrow(server.address).await;
    unread.get("/event").await;
    let call = server.execute(json!({ "toolID": ids[0], "requestID": "r" }));
    server.until("the call is under way", |counts| counts.calls == 1).await;
    let began = Instant::now();
    let (address, app) = (server.address, server.app.clone());
    let (ended, ()) = tokio::join!(stream.end(), server.stop());
    assert_eq!(ended.1, End::Cut);
    call.await.unwrap().must_fail(503, "UNAVAILABLE");
    assert!(began.elapsed() < Duration::from_secs(8), "{:?}", began.elapsed());
    assert!(app.tasks().is_empty(), "{} tasks are left", app.tasks().len());
    assert_eq!((app.hub().counts().connections, app.hub().counts().calls), (0, 0));
    tokio::net::TcpStream::connect(address).await.expect_err("nobody listens any more");
}

#[tokio::test]
async fn half_a_request_does_not_hold_up_the_end() {
    let head = "GET /client-tools";
    let body = "POST /client-tools/register HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{";
    for half in [head, body] {
        let server = draining_for(0).await;
        let mut socket = RawSocket::open(server.address).await;
        socket.send(half).await.unwrap();
        // The server has long read it when it has answered another.
        server.get("/healthz").await;
        let began = Instant::now();
        let app = server.app.clone();
        server.stop().await;
        let took = began.elapsed();
        assert!(
            took < Duration::from_secs(3) && app.tasks().is_empty(),
            "{half:?}: {took:?}, {} left",
            app.tasks().len()
        );
    }
}

#[tokio::test]
async fn a_server_with_nothing_to_do_stops_at_once() {
    let server = TestServer::start().await;
    server.register("tab", &["t"]).await;
    let _stream = server.stream("tab").await;
    let began = Instant::now();
    server.stop().await;
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
}

#[tokio::test]
async fn an_answer_that_is_on_its_way_is_written_to_its_end() {
    let server = draining_for(5000).await;
    let ids = server.register("tab", &["t"]).await;
    let mut stream = server.stream("tab").await;
    let output = "x".repeat(3_000_000);
    let mut calls = Vec::new();
    for n in 0..3 {
        let request = format!("r{n}");
        calls.push(server.execute(json!({ "toolID": ids[0], "requestID": request })));
        stream.expect_call(&request).await;
    }
    server.begin_stop();
    for n in 0..3 {
        server.answer(&format!("r{n}"), &output).await.must_be(200, &json!({ "success": true }));
    }
    for call in calls {
        let answer = call.await.unwrap();
        assert_eq!((answer.status, answer.body["output"].as_str().map(str::len)), (200, Some(output.len())));
    }
    assert_eq!(server.counts(), handback_core::calls::Counts { calls: 0, ..server.counts() });
}

#[tokio::test]
async fn registrations_and_listings_are_taken_while_calls_finish() {
    let (server, _stream, _call) = with_open_call(20_000).await;
    let registered =
        server.post("/client-tools/register", json!({ "clientID": "new", "tools": [{ "id": "t" }] })).await;
    registered.must_be(200, &json!({ "registered": ["client_new_t"] }));
    let listed = server.get("/client-tools/clients").await;
    let ids: Vec<&Value> = listed.body.as_array().unwrap().iter().map(|client| &client["id"]).collect();
    assert_eq!(ids, ["new", "tab"]);
    server.cancel("open", "enough").await.must_be(200, &json!({ "success": true }));
}
