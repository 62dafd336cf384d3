//! Peers that are too slow: readers that stop reading, requests that never end. None of them holds up anybody else.
//!
//! Where one reader must not be taken for a slow one, the test has several threads: making large calls takes long, and
//! would keep it from reading.

mod floods;

use std::time::Duration;

use handback_testkit::{RawSocket, TestServer, TestSocket};
use serde_json::{Value, json};
use tokio::io::AsyncReadExt;
use tokio::time::Instant;

/// Far below the deadline of a call, far above what anything here takes.
const SOON: Duration = Duration::from_secs(10);

/// A server that does not wait long for a reader, and a tool of the client `slow`.
async fn impatient(stall_timeout: u64) -> TestServer {
    let server = TestServer::with(|config| config.limits.stall_timeout = Duration::from_millis(stall_timeout)).await;
    server.register("slow", &["t"]).await;
    server
}

/// A call whose input is more than all buffers between server and reader hold.
fn large(request: &str) -> Value {
    json!({ "toolID": "client_slow_t", "requestID": request, "input": { "text": "x".repeat(3_000_000) } })
}

/// Opens a stream that the test does not read.
async fn unread_stream(server: &TestServer, path: &str) -> RawSocket {
    let mut reader = RawSocket::open_narrow(server.address).await;
    assert_eq!(reader.get(path).await.status, 200);
    reader
}

/// Opens a WebSocket that the test does not read.
async fn unread_socket(server: &TestServer) -> TestSocket {
    let connection = RawSocket::open_narrow(server.address).await.socket;
    TestSocket::open_on(connection, &server.socket_url("slow")).await
}

#[tokio::test]
async fn a_stream_whose_reader_stops_is_cut_and_its_calls_end() {
    let server = impatient(300).await;
    let mut reader = unread_stream(&server, "/client-tools/pending/slow").await;
    let began = Instant::now();
    let calls = [server.execute(large("a")), server.execute(large("b"))];
    for call in calls {
        call.await.unwrap().must_fail(502, "CLIENT_DISCONNECTED");
    }
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
    server.until("nothing is left", |counts| counts.clients == 0 && counts.tools == 0).await;
    // What the reader still finds is less than a call: it was cut.
    assert!(reader.drain().await < 6_000_000);
}

#[tokio::test]
async fn a_socket_whose_reader_stops_is_closed_and_its_calls_end() {
    let server = impatient(300).await;
    let _reader = unread_socket(&server).await;
    let began = Instant::now();
    let calls = [server.execute(large("a")), server.execute(large("b"))];
    for call in calls {
        call.await.unwrap().must_fail(502, "CLIENT_DISCONNECTED");
    }
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
    server.until("nothing is left", |counts| counts.clients == 0 && counts.tools == 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn the_calls_of_a_stuck_stream_go_to_another_connection_of_the_client() {
    let server = impatient(1500).await;
    let mut healthy = server.stream("slow").await;
    let _stuck = unread_stream(&server, "/client-tools/pending/slow").await;
    // Some go to the one, some to the other; nothing is answered before the healthy one has them all.
    let calls = ["a", "b", "c", "d"].map(|request| server.execute(large(request)));
    let mut requests = Vec::new();
    for _ in &calls {
        requests.push(healthy.expect("tool-request").await.request_id().to_owned());
    }
    assert_eq!((server.counts().connections, server.counts().tools), (1, 1));
    for request in requests {
        server.answer(&request, "by the healthy one").await;
    }
    for call in calls {
        assert_eq!(call.await.unwrap().body["output"], "by the healthy one");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn the_calls_of_a_stuck_socket_go_to_another_connection_of_the_client() {
    let server = impatient(1500).await;
    let mut healthy = server.socket("slow").await;
    let _stuck = unread_socket(&server).await;
    let calls = ["a", "b", "c", "d"].map(|request| server.execute(large(request)));
    let mut requests = Vec::new();
    for _ in &calls {
        requests.push(healthy.request().await["requestID"].clone());
    }
    assert_eq!((server.counts().connections, server.counts().tools), (1, 1));
    for request in requests {
        let result = json!({ "status": "success", "output": "by the healthy one" });
        healthy.ask(json!({ "type": "result", "requestID": request, "result": result })).await;
    }
    for call in calls {
        assert_eq!(call.await.unwrap().body["output"], "by the healthy one");
    }
}

#[tokio::test]
async fn while_a_reader_is_stuck_others_are_served_at_once_and_deadlines_hold() {
    let server = impatient(60_000).await;
    let _stuck = [
        unread_stream(&server, "/client-tools/pending/slow?connection=one").await,
        unread_stream(&server, "/client-tools/pending/slow?connection=two").await,
    ];
    let _stuck_socket = unread_socket(&server).await;
    for n in 0..6 {
        server.begin_call(large(&format!("r{n}"))).await;
    }
    let began = Instant::now();
    let mut late = large("late");
    late["timeout"] = json!(500);
    let late = server.execute(late);

    let ids = server.register("quick", &["t"]).await;
    let mut stream = server.stream("quick").await;
    for n in 0..20 {
        let call = server.execute(json!({ "toolID": ids[0], "requestID": format!("quick{n}") }));
        stream.expect_call(&format!("quick{n}")).await;
        server.answer(&format!("quick{n}"), "at once").await;
        assert_eq!(call.await.unwrap().body["output"], "at once");
    }
    late.await.unwrap().must_fail(504, "TIMEOUT");
    let took = began.elapsed();
    assert!(took >= Duration::from_millis(500) && took < SOON, "{took:?}");
    assert_eq!(server.counts().connections, 4);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_reader_that_is_slow_but_reads_is_not_disconnected() {
    let server = impatient(1000).await;
    let mut reader = RawSocket::open(server.address).await;
    reader.get("/client-tools/pending/slow").await;
    let _calls = ["a", "b", "c"].map(|request| server.execute(large(request)));
    let (mut bytes, mut buffer) = (0, vec![0; 200_000]);
    let began = Instant::now();
    while bytes < 9_000_000 {
        let read = reader.socket.read(&mut buffer).await.expect("the stream goes on");
        assert_ne!(read, 0, "the stream ended after {bytes} bytes and {:?}", began.elapsed());
        bytes += read;
        // As fast as this reader is.
        tokio::time::sleep(Duration::from_millis(30)).await;
    }
    assert!(began.elapsed() > Duration::from_millis(1000), "slower than the patience of the server");
    assert_eq!((server.counts().connections, server.counts().calls), (1, 3));
}

#[tokio::test]
async fn a_socket_that_was_too_slow_finds_4008_when_it_reads_again() {
    let server = impatient(1000).await;
    let mut reader = unread_socket(&server).await;
    // The second one may come too late, when the client is gone: the first one is enough.
    let _calls = ["a", "b"].map(|request| server.execute(large(request)));
    server.until("the connection has lost its calls", |counts| counts.connections == 0).await;
    // What was begun is still written while the server says goodbye.
    let mut last = reader.next().await;
    while last.is_object() {
        last = reader.next().await;
    }
    assert_eq!(last, 4008);
}

#[tokio::test]
async fn a_subscriber_of_events_that_stops_reading_is_cut() {
    let server = impatient(300).await;
    let mut events = unread_stream(&server, "/event").await;
    let mut stream = server.stream("slow").await;
    for request in ["a", "b", "c"] {
        server.begin_call(large(request)).await;
        stream.expect_call(request).await;
    }
    let began = Instant::now();
    events.drain().await;
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
}

#[tokio::test]
async fn a_request_whose_head_never_ends_is_closed() {
    let server = TestServer::with(|config| config.limits.header_timeout = Duration::from_millis(200)).await;
    for head in ["G", "GET /client-tools/tools HTTP/1.1\r\nHost: localhost\r\n", "POST / HTTP/1.1\r\nX: "] {
        let mut socket = RawSocket::open(server.address).await;
        let began = Instant::now();
        socket.send(head).await.unwrap();
        socket.drain().await;
        assert!(began.elapsed() < SOON, "{head:?}: {:?}", began.elapsed());
    }
}

#[tokio::test]
async fn a_connection_whose_stream_is_over_is_watched_again() {
    let server = TestServer::with(|config| config.limits.header_timeout = Duration::from_millis(200)).await;
    let said = json!({ "id": "m", "role": "user", "content": "hello", "parts": [{ "type": "text", "text": "hello" }] });
    for path in ["/api/chat", "/agui"] {
        let body = json!({ "id": "c", "threadId": "t", "runId": "r", "messages": [said] }).to_string();
        let mut socket = RawSocket::open(server.address).await;
        let length = body.len();
        socket
            .send(format!("POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n\r\n{body}"))
            .await
            .unwrap();
        let told = tokio::time::timeout(SOON, socket.drain()).await;
        assert!(told.is_ok(), "{path}: the connection stays open for ever");
    }
}

#[tokio::test]
async fn a_head_that_drips_is_closed_as_well() {
    let server = TestServer::with(|config| config.limits.header_timeout = Duration::from_millis(200)).await;
    let mut socket = RawSocket::open(server.address).await;
    let began = Instant::now();
    socket.send("GET / HTTP/1.1\r\n").await.unwrap();
    let mut byte = [0];
    loop {
        // As slow as this client is.
        match tokio::time::timeout(Duration::from_millis(20), socket.socket.read(&mut byte)).await {
            Ok(Ok(0) | Err(_)) => break,
            Ok(Ok(_)) => {}
            Err(_) => _ = socket.send("X-Drip: 1\r\n").await,
        }
        assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
    }
}

#[tokio::test]
async fn a_body_that_never_ends_is_400_after_its_time() {
    let server = TestServer::with(|config| config.limits.body_timeout = Duration::from_millis(200)).await;
    let bodies = ["Content-Length: 100\r\n\r\n{\"clientID\":", "Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n"];
    for path in ["register", "unregister", "execute", "result", "cancel"] {
        for body in bodies {
            let began = Instant::now();
            let request = format!("POST /client-tools/{path} HTTP/1.1\r\nHost: localhost\r\n{body}");
            let (_, answer) = RawSocket::exchange(server.address, request).await;
            answer.must_fail(400, "INVALID_REQUEST");
            let took = began.elapsed();
            assert!(took >= Duration::from_millis(200) && took < SOON, "{took:?}");
        }
    }
}

#[tokio::test]
async fn a_peer_that_is_gone_in_the_middle_of_a_body_changes_nothing() {
    let server = TestServer::start().await;
    let mut socket = RawSocket::open(server.address).await;
    let body = r#"{"clientID":"tab","tools":[{"id":"t"}]}"#;
    let head = format!(
        "POST /client-tools/register HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n",
        body.len() + 1
    );
    socket.send(format!("{head}{body}")).await.unwrap();
    drop(socket);
    // The same connection slots and the same tables serve the next.
    assert_eq!(server.register("other", &["t"]).await, ["client_other_t"]);
    assert_eq!(server.counts().tools, 1);
}

#[tokio::test]
async fn an_answer_that_is_read_slowly_but_steadily_arrives_whole() {
    let server = TestServer::with(|config| config.limits.header_timeout = Duration::from_millis(100)).await;
    server.register("slow", &["t"]).await;
    server.begin_call(large("r")).await;
    let mut reader = RawSocket::open_narrow(server.address).await;
    let head = reader.get("/client-tools/calls/r").await;
    let length: usize = head.header("content-length").parse().unwrap();
    let began = Instant::now();
    let mut buffer = vec![0; 1 << 16];
    let mut bytes = 0;
    // Some of it may have come with the head.
    while bytes < length - (1 << 16) {
        let read = reader.socket.read(&mut buffer).await.expect("the answer goes on");
        assert_ne!(read, 0, "it ended after {bytes} of {length} bytes and {:?}", began.elapsed());
        bytes += read;
        if began.elapsed() < Duration::from_millis(500) {
            // As fast as this reader is.
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}
