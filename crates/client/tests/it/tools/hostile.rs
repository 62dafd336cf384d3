//! Servers that do what no server should.

use std::borrow::Cow;

use futures_util::{SinkExt, StreamExt};
use handback_client::Transport;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::{Bytes, Message};
use tokio_tungstenite::{WebSocketStream, accept_async};

use super::*;
use crate::stub::PATIENCE;

async fn listen() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    (listener, url)
}

/// The next connection, on which a request was read.
async fn accept(listener: &TcpListener) -> TcpStream {
    let (mut stream, _) = tokio::time::timeout(PATIENCE, listener.accept()).await.expect("it comes").unwrap();
    stream.read_buf(&mut Vec::with_capacity(4096)).await.unwrap();
    stream
}

/// The next WebSocket.
async fn accept_socket(listener: &TcpListener) -> WebSocketStream<TcpStream> {
    let (stream, _) = tokio::time::timeout(PATIENCE, listener.accept()).await.expect("it comes").unwrap();
    accept_async(stream).await.unwrap()
}

async fn read(socket: &mut WebSocketStream<TcpStream>) -> Value {
    loop {
        let message = tokio::time::timeout(PATIENCE, socket.next()).await.expect("something is said").unwrap().unwrap();
        if let Message::Text(text) = message {
            return serde_json::from_str(&text).unwrap();
        }
    }
}

async fn say(socket: &mut WebSocketStream<TcpStream>, message: &Value) {
    socket.send(Message::text(message.to_string())).await.unwrap();
}

/// The next WebSocket, once the tools are registered on it.
async fn registered(listener: &TcpListener) -> WebSocketStream<TcpStream> {
    let mut socket = accept_socket(listener).await;
    let message = read(&mut socket).await;
    assert_eq!(message["type"], "register");
    say(&mut socket, &json!({"type": "registered", "toolIDs": [], "ref": message["ref"]})).await;
    socket
}

fn on_a_socket() -> Options {
    Options::with(|options| options.transport = Transport::WebSocket)
}

#[tokio::test]
async fn a_refusal_whose_body_does_not_end_is_a_refusal() {
    let (listener, url) = listen().await;
    let _running = run_at(&url, Some(echo()), Options::default());
    let mut stalled = accept(&listener).await;
    stalled.write_all(b"HTTP/1.1 503 Later\r\nContent-Length: 100\r\n\r\nhalf").await.unwrap();
    let mut endless = accept(&listener).await;
    endless.write_all(b"HTTP/1.1 503 Later\r\nContent-Length: 999999999999\r\n\r\n").await.unwrap();
    // Until the client has enough of it.
    while endless.write_all(&[b'x'; 64 * 1024]).await.is_ok() {}
    accept(&listener).await;
}

#[tokio::test]
async fn a_socket_that_says_nonsense_is_kept() {
    let (listener, url) = listen().await;
    let _running = run_at(&url, Some(echo()), on_a_socket());
    let mut socket = registered(&listener).await;
    for nonsense in
        ["", "{", "[]", "null", r#"{"type":"nonsense"}"#, r#"{"type":"request"}"#, r#"{"type":"registered","ref":"x"}"#]
    {
        socket.send(Message::text(nonsense)).await.unwrap();
    }
    socket.send(Message::Binary(Bytes::from_static(&[0, 159, 146, 150]))).await.unwrap();
    socket.send(Message::Ping(Bytes::new())).await.unwrap();
    // Nobody has asked for this, whatever it says.
    say(&mut socket, &json!({"type": "request", "request": request("a", "write", 1), "ref": 77})).await;
    let result = read(&mut socket).await;
    assert_eq!((&result["type"], &result["requestID"]), (&json!("result"), &json!("a")));
    // A code of a later version.
    let refusal = json!({"type": "result", "requestID": "a", "accepted": false, "code": "NEWER", "ref": result["ref"]});
    say(&mut socket, &refusal).await;
    let again = read(&mut socket).await;
    assert_eq!((&again["type"], &again["requestID"]), (&json!("result"), &json!("a")));
    assert_ne!(again["ref"], result["ref"]);
}

#[tokio::test]
async fn a_result_that_was_not_answered_is_sent_on_the_next_socket() {
    let (listener, url) = listen().await;
    let _running = run_at(&url, Some(echo()), on_a_socket());
    let mut socket = registered(&listener).await;
    say(&mut socket, &json!({"type": "request", "request": request("a", "write", 1)})).await;
    assert_eq!(read(&mut socket).await["type"], "result");
    drop(socket);
    let mut socket = registered(&listener).await;
    assert_eq!(read(&mut socket).await["requestID"], "a");
}

#[tokio::test]
async fn why_a_socket_is_closed_is_heard_whatever_is_being_written() {
    for _ in 0..8 {
        let (listener, url) = listen().await;
        let large = Tool::new("tool", "", |_| async { Ok("x".repeat(6 * 1024 * 1024)) });
        let (mut observing, mut seen) = observed();
        observing.transport = Transport::WebSocket;
        let running = run_at(&url, Some(large), observing);
        let mut socket = registered(&listener).await;
        say(&mut socket, &json!({"type": "request", "request": request("a", "write", 1)})).await;
        while !matches!(next(&mut seen).await, Status::Finished { .. }) {}
        // What was written and not read makes the end of the connection a harsh one.
        let stream = socket.get_ref();
        stream.readable().await.unwrap();
        let reason = Cow::Borrowed("go away");
        let frame = CloseFrame { code: CloseCode::Policy, reason: reason.as_ref().into() };
        socket.send(Message::Close(Some(frame))).await.unwrap();
        drop(socket);
        let refused = end(running.task).await.unwrap_err();
        assert!(refused.to_string().ends_with("the server closed the connection: go away"), "{refused}");
    }
}
