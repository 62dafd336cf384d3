//! How a socket is refused, and how it is closed.

use std::time::Duration;

use handback_testkit::keys::{seconds_from_now, token};
use handback_testkit::{RawSocket, TestServer, TestSocket};
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;

#[tokio::test]
async fn without_an_upgrade_it_is_426_and_says_which() {
    let server = TestServer::start().await;
    let (head, answer) = RawSocket::exchange(
        server.address,
        "GET /client-tools/ws/tab HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
    )
    .await;
    answer.must_fail(426, "UPGRADE_REQUIRED");
    assert_eq!(head.header("upgrade"), "websocket");
    assert_eq!(server.counts().clients, 0);
}

#[tokio::test]
async fn an_upgrade_that_is_not_whole_is_426() {
    let server = TestServer::start().await;
    let upgrades = [
        "Connection: upgrade\r\nUpgrade: h2c\r\n",
        "Connection: upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 8\r\nSec-WebSocket-Key: eA==\r\n",
        "Connection: upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n",
    ];
    for upgrade in upgrades {
        let request = format!("GET /client-tools/ws/tab HTTP/1.1\r\nHost: localhost\r\n{upgrade}\r\n");
        let (head, answer) = RawSocket::exchange(server.address, request).await;
        answer.must_fail(426, "UPGRADE_REQUIRED");
        assert_eq!(head.header("upgrade"), "websocket");
    }
    assert_eq!(server.counts().connections, 0);
}

#[tokio::test]
async fn a_bad_name_or_query_is_400() {
    let server = TestServer::start().await;
    for client in ["a%20b", "tab?grace=soon", "tab?connection=a%20b"] {
        let Err((status, body)) = TestSocket::try_open(&server.socket_url(client), None).await else {
            panic!("{client} was let in")
        };
        let body: Value = serde_json::from_str(&body).unwrap();
        assert_eq!((status, &body["code"]), (400, &json!("INVALID_REQUEST")), "{client}");
    }
    assert_eq!(server.counts().connections, 0);
}

#[tokio::test]
async fn a_superseded_socket_is_closed_with_4009() {
    let server = TestServer::start().await;
    server.register("tab", &["t"]).await;
    let mut older = server.socket("tab?connection=main").await;
    server.begin_call(json!({ "toolID": "client_tab_t", "requestID": "r" })).await;
    older.request().await;
    let mut newer = server.socket("tab?connection=main").await;
    assert_eq!(older.next().await, 4009);
    assert_eq!(newer.request().await["attempt"], 2);
    // A stream of that name supersedes a socket as well.
    let mut stream = server.stream("tab?connection=main").await;
    assert_eq!(newer.next().await, 4009);
    assert_eq!(stream.expect_call("r").await.data["attempt"], 3);
    assert_eq!(server.counts().connections, 1);
}

#[tokio::test]
async fn shutting_down_closes_with_1001_after_the_calls_are_cancelled() {
    let server = TestServer::with(|config| config.limits.drain_timeout = Duration::from_millis(50)).await;
    let ids = server.register("tab", &["t"]).await;
    let mut socket = server.socket("tab").await;
    let call = server.execute(json!({ "toolID": ids[0], "requestID": "r" }));
    socket.request().await;
    server.begin_stop();
    let told = socket.next().await;
    assert_eq!((&told["type"], &told["requestID"]), (&json!("cancel"), &json!("r")));
    assert_eq!(socket.next().await, 1001);
    call.await.unwrap().must_fail(503, "UNAVAILABLE");
}

#[tokio::test]
async fn a_token_that_ends_closes_with_1008() {
    let server = TestServer::protected(|_| {}).await;
    // It has ended, but for the leeway.
    let token = token(&json!({ "clientID": "tab", "exp": seconds_from_now(-4) }));
    let mut socket = TestSocket::open(&server.socket_url("tab"), Some(&token)).await;
    assert_eq!(socket.next().await, 1008);
    server.until("the connection is gone", |counts| counts.connections == 0).await;
}

#[tokio::test]
async fn a_message_that_is_too_big_closes_with_1009() {
    let server = TestServer::with(|config| config.limits.body_bytes = 1000).await;
    let mut socket = server.socket("tab").await;
    let message = |bytes: usize| Message::text(format!("{{\"type\":\"ping\",\"x\":\"{}\"}}", "x".repeat(bytes)));
    socket.send_frame(message(900)).await;
    assert_eq!(socket.next().await, json!({ "type": "pong" }));
    socket.send_frame(message(1000)).await;
    assert_eq!(socket.next().await, 1009);
    server.until("the connection is gone", |counts| counts.connections == 0).await;
}

#[tokio::test]
async fn a_message_far_beyond_the_limit_closes_with_1009_as_well() {
    let server = TestServer::start().await;
    let mut socket = server.socket("tab").await;
    // The server need not read all of it before it says so.
    _ = futures_util::SinkExt::send(&mut socket.0, Message::text("x".repeat(5 << 20))).await;
    assert_eq!(socket.next().await, 1009);
}

#[tokio::test]
async fn a_close_is_answered_and_ends_the_connection() {
    let server = TestServer::start().await;
    let mut socket = server.socket("tab").await;
    socket.send_frame(Message::Close(None)).await;
    assert_eq!(socket.next().await, Value::Null);
    server.until("the connection is gone", |counts| counts.clients == 0).await;
}

#[tokio::test]
async fn bytes_that_are_no_websocket_frames_end_the_connection_and_nothing_else() {
    let server = TestServer::start().await;
    let mut other = server.socket("other").await;
    let mut raw = RawSocket::open(server.address).await;
    let upgrade = "GET /client-tools/ws/tab HTTP/1.1\r\nHost: localhost\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\
                   Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
    raw.send(upgrade).await.unwrap();
    assert_eq!(raw.head().await.status, 101);
    raw.send([0xff; 64]).await.unwrap();
    raw.drain().await;
    server.until("the connection is gone", |counts| counts.connections == 1).await;
    assert_eq!(other.ask(json!({ "type": "ping" })).await, json!({ "type": "pong" }));
}
