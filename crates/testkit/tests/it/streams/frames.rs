//! The bytes of the stream.

use std::time::Duration;

use handback_testkit::{RawSocket, TestServer};
use reqwest::Method;
use serde_json::{Value, json};

/// Takes a frame apart into its event, its data and its id; there must be nothing else.
fn parts(frame: &str) -> (String, String, String) {
    let lines: Vec<&str> = frame.split('\n').collect();
    let [event, data, id, "", ""] = lines[..] else { panic!("not event, data, id and an empty line: {frame:?}") };
    let field = |line: &str, name: &str| line.strip_prefix(name).expect(frame).to_owned();
    (field(event, "event: "), field(data, "data: "), field(id, "id: "))
}

/// Takes an id apart into the server's run and the frame's number.
fn epoch_and_number(id: &str) -> (&str, u64) {
    let (epoch, number) = id.rsplit_once('-').expect(id);
    assert!(!epoch.is_empty(), "{id}");
    (epoch, number.parse().expect(id))
}

#[tokio::test]
async fn the_head_is_sent_at_once_and_says_exactly_this() {
    let server = TestServer::start().await;
    let mut socket = RawSocket::open(server.address).await;
    // Nothing has happened and nothing will: that the head arrives shows that it waits for no frame.
    let head = socket.get("/client-tools/pending/tab").await;
    assert_eq!(head.status, 200);
    assert_eq!(head.header("content-type"), "text/event-stream");
    assert_eq!(head.header("cache-control"), "no-cache");
    assert_eq!(head.header("x-accel-buffering"), "no");
    assert_eq!(head.header("transfer-encoding"), "chunked");
    assert_eq!(head.header("content-encoding"), "");
    assert_eq!(server.counts().connections, 1);
}

#[tokio::test]
async fn a_request_and_a_cancel_are_exactly_these_bytes() {
    let server = TestServer::start().await;
    let tool = json!({ "id": "t", "effect": "read" });
    server.post("/client-tools/register", json!({ "clientID": "tab", "tools": [tool] })).await;
    let mut socket = RawSocket::open(server.address).await;
    socket.get("/client-tools/pending/tab").await;
    let body = r#"{"input":{"z":1.0,"a":[1e2,12345678901234567890123],"s":"\u00e9"},"callID":"c","messageID":"m","sessionID":"s","requestID":"r","toolID":"client_tab_t","wait":false}"#;
    let response = server.request(Method::POST, "/client-tools/execute").body(body).send().await.unwrap();
    assert_eq!(response.status().as_u16(), 202);

    let frame = socket.frame().await;
    let call = server.call("r").await;
    let deadline = call["deadline"].as_str().unwrap();
    let (_, _, id) = parts(&frame);
    let expected = format!(
        "event: tool-request\n\
         data: {{\"type\":\"client-tool-request\",\"requestID\":\"r\",\"sessionID\":\"s\",\"messageID\":\"m\",\
         \"callID\":\"c\",\"tool\":\"client_tab_t\",\
         \"input\":{{\"z\":1.0,\"a\":[1e2,12345678901234567890123],\"s\":\"\\u00e9\"}},\
         \"deadline\":\"{deadline}\",\"effect\":\"read\",\"attempt\":1}}\n\
         id: {id}\n\n"
    );
    assert_eq!(frame, expected);

    server.cancel("r", "not \"needed\"\nany more").await;
    let cancelled = socket.frame().await;
    let (_, _, next) = parts(&cancelled);
    let expected = format!(
        "event: tool-cancel\ndata: {{\"requestID\":\"r\",\"reason\":\"not \\\"needed\\\"\\nany more\"}}\nid: {next}\n\n"
    );
    assert_eq!(cancelled, expected);
    let ((epoch, number), (same, later)) = (epoch_and_number(&id), epoch_and_number(&next));
    assert_eq!(epoch, same);
    assert!(later > number, "{id} then {next}");
}

#[tokio::test]
async fn the_ping_is_exactly_these_bytes_and_comes_again_and_again() {
    let server = TestServer::with(|config| config.client_tools.keepalive_interval = Duration::from_millis(20)).await;
    let mut socket = RawSocket::open(server.address).await;
    socket.get("/client-tools/pending/tab").await;
    for _ in 0..3 {
        assert_eq!(socket.frame().await, "event: ping\ndata: \n\n");
    }
}

#[tokio::test]
async fn a_ping_does_not_come_before_its_time() {
    let interval = Duration::from_millis(200);
    let server = TestServer::with(|config| config.client_tools.keepalive_interval = interval).await;
    let mut socket = RawSocket::open(server.address).await;
    socket.get("/client-tools/pending/tab").await;
    let opened = tokio::time::Instant::now();
    for count in 1..=3 {
        socket.frame().await;
        // The head is read a little after the clock has started.
        assert!(opened.elapsed() > interval * count - Duration::from_millis(150), "{count}: {:?}", opened.elapsed());
    }
}

#[tokio::test]
async fn an_input_with_line_breaks_arrives_on_one_line() {
    let server = TestServer::start().await;
    server.register("tab", &["t"]).await;
    let mut socket = RawSocket::open(server.address).await;
    socket.get("/client-tools/pending/tab").await;
    let input = "{\r\n\t\"text\" :\n\n \"one\\ntwo\\r\\nthree\u{2028}four\",\r \"list\": [1,\n2]\n}";
    let body = format!("{{\"toolID\":\"client_tab_t\",\n\"requestID\":\"r\",\"wait\":false,\"input\":{input}\n}}\n");
    server.request(Method::POST, "/client-tools/execute").body(body).send().await.unwrap();
    let frame = socket.frame().await;
    assert!(!frame.contains('\r'), "{frame:?}");
    let (_, data, _) = parts(&frame);
    let data: Value = serde_json::from_str(&data).unwrap();
    assert_eq!(data["input"], json!({ "text": "one\ntwo\r\nthree\u{2028}four", "list": [1, 2] }));
}

#[tokio::test]
async fn an_input_of_some_megabytes_arrives_whole() {
    let server = TestServer::start().await;
    let ids = server.register("tab", &["t"]).await;
    let mut stream = server.stream("tab").await;
    let text = "0123456789äöü".repeat(200_000);
    server.begin_call(json!({ "toolID": ids[0], "input": { "text": text } })).await;
    let request = stream.expect("tool-request").await;
    assert!(request.data["input"] == json!({ "text": text }), "the input is another");
}

#[tokio::test]
async fn numbers_of_frames_only_grow_on_every_stream() {
    let server = TestServer::start().await;
    let mut last = 0;
    for client in ["one", "two", "one", "two"] {
        let ids = server.register(client, &["t"]).await;
        let mut stream = server.stream(client).await;
        for _ in 0..3 {
            server.begin_call(json!({ "toolID": ids[0] })).await;
            let frame = stream.expect("tool-request").await;
            let (_, number) = epoch_and_number(&frame.id);
            assert!(number > last, "{} after {last}", frame.id);
            last = number;
        }
        drop(stream);
        server.until("the client is gone", |counts| counts.clients == 0).await;
    }
}
