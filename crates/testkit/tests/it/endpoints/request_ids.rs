//! The id of each request: the sender's or a new one, in every response.

use std::collections::HashSet;

use handback_testkit::{RawSocket, TestServer};

/// Sends a request with these lines after the first; gives the status and the id of the answer.
async fn sent(server: &TestServer, line: &str, headers: &str) -> (u16, String) {
    let request = format!("{line} HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n");
    let mut socket = RawSocket::open(server.address).await;
    socket.send(request).await.unwrap();
    let head = socket.head().await;
    let ids: Vec<_> = head.headers.iter().filter(|(name, _)| name == "x-request-id").collect();
    assert_eq!(ids.len(), 1, "{head:?}");
    (head.status, ids[0].1.clone())
}

#[tokio::test]
async fn an_id_that_a_request_brings_is_in_each_kind_of_response() {
    let server = TestServer::start().await;
    let upgrade = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
        Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
    let preflight = "Origin: http://localhost:1\r\nAccess-Control-Request-Method: POST\r\n";
    for (line, headers, status) in [
        ("GET /client-tools/tools", "", 200),
        ("GET /client-tools/pending/one", "", 200),
        ("GET /client-tools/ws/two", upgrade, 101),
        ("OPTIONS /client-tools/register", preflight, 204),
        ("GET /event", "", 200),
        ("GET /", "", 200),
        ("GET /healthz", "", 200),
        ("GET /nowhere", "", 404),
        ("PUT /client-tools/tools", "Content-Length: 0\r\n", 405),
        ("GET /client-tools/tools", "Origin: http://elsewhere.example\r\n", 403),
        ("POST /client-tools/register", "Content-Length: 9999999999\r\n", 413),
    ] {
        let headers = format!("{headers}X-Request-Id: mine/1+2=~\r\n");
        assert_eq!(sent(&server, line, &headers).await, (status, "mine/1+2=~".to_owned()), "{line} {headers}");
    }
}

#[tokio::test]
async fn an_id_that_could_be_mistaken_for_something_else_is_replaced() {
    let server = TestServer::start().await;
    let (long, longest) = ("x".repeat(129), "x".repeat(128));
    let mut made = HashSet::new();
    for bad in ["", "a b", "a\"b", "a\tb", "é", "a,b", long.as_str()] {
        let (status, id) = sent(&server, "GET /client-tools/tools", &format!("X-Request-Id: {bad}\r\n")).await;
        assert_eq!(status, 200, "{bad}");
        assert!(id.starts_with("req_"), "{id} for {bad}");
        assert!(made.insert(id), "{made:?}");
    }
    let (_, id) = sent(&server, "GET /client-tools/tools", &format!("X-Request-Id: {longest}\r\n")).await;
    assert_eq!(id, longest);
    let (_, id) = sent(&server, "GET /client-tools/tools", "X-Request-Id: first\r\nX-Request-Id: second\r\n").await;
    assert_eq!(id, "first");
}
