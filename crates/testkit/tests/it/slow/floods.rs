//! Peers that send and send, and read little or nothing of what is answered. What waits for them is bounded in bytes, on
//! every kind of connection: the server stops reading, and the peer finds that it cannot send any more.

use std::time::Duration;

use handback_testkit::{RawSocket, TestSocket};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_tungstenite::MaybeTlsStream;

use super::{SOON, impatient, unread_socket};

const MIB: usize = 1 << 20;
/// What a peer sends if nobody stops it.
const FLOOD: usize = 96 * MIB;
/// What it may get rid of: the largest message, what is answered to it, and what the kernel takes on both sides.
const TAKEN: usize = 40 * MIB;
/// Nothing is taken for so long: nothing will be.
const BLOCKED: Duration = Duration::from_millis(500);

/// A frame as clients send it; the mask is zero, and changes nothing.
fn frame(kind: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![0x80 | kind];
    match payload.len() {
        length @ 0..=125 => frame.push(0x80 | length as u8),
        length => {
            frame.push(0x80 | 127);
            frame.extend((length as u64).to_be_bytes());
        }
    }
    frame.extend([0; 4]);
    frame.extend(payload);
    frame
}

fn text(message: &Value) -> Vec<u8> {
    frame(1, message.to_string().as_bytes())
}

/// What a client may send over and over on a WebSocket, and is answered.
fn messages() -> [(&'static str, Vec<u8>); 4] {
    [
        ("pings", frame(9, &[b'x'; 125]).repeat(500)),
        ("small messages", text(&json!({ "type": "ping" })).repeat(500)),
        ("messages that make no sense", frame(1, b"{}").repeat(500)),
        ("messages with a long ref", text(&json!({ "type": "ping", "ref": "x".repeat(3 * MIB) }))),
    ]
}

/// Requests that are sent one after the other, with and without a body in them and in their answers.
fn requests() -> [(&'static str, Vec<u8>); 4] {
    let preflight = "OPTIONS /session HTTP/1.1\r\nHost: localhost\r\nOrigin: http://localhost\r\n\
                     Access-Control-Request-Method: POST\r\n";
    [
        ("answers with a body", b"GET /doc HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(100)),
        ("answers without", format!("{preflight}\r\n").into_bytes().repeat(100)),
        (
            "answers without to requests with a body",
            format!("{preflight}Content-Length: 1\r\n\r\nx").into_bytes().repeat(100),
        ),
        ("heads alone", b"HEAD /healthz HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\n\r\nx".repeat(100)),
    ]
}

/// Sends a piece over and over until nothing more is taken; gives how many bytes were. A piece that was begun goes on
/// with the next flood.
async fn flood(socket: &mut TcpStream, piece: &[u8], sent: &mut usize) {
    while *sent < FLOOD {
        match timeout(BLOCKED, socket.write(&piece[*sent % piece.len()..])).await {
            Ok(written) => *sent += written.expect("the server does not close"),
            Err(_) => return,
        }
    }
}

/// Floods a connection, reading a little in between, and checks that little is taken.
async fn must_be_bounded(what: &str, socket: &mut TcpStream, piece: &[u8]) -> usize {
    let (mut sent, mut some) = (0, vec![0; 64 << 10]);
    for _ in 0..4 {
        flood(socket, piece, &mut sent).await;
        assert!(sent < TAKEN, "{what}: {sent} bytes were taken");
        socket.read_exact(&mut some).await.expect("something was answered");
    }
    sent
}

fn connection(socket: &mut TestSocket) -> &mut TcpStream {
    match socket.0.get_mut() {
        MaybeTlsStream::Plain(connection) => connection,
        _ => unreachable!("the tests use no TLS"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_waits_for_a_socket_that_is_hardly_read_is_bounded() {
    let server = impatient(60_000).await;
    for (what, piece) in messages() {
        let mut socket = unread_socket(&server).await;
        must_be_bounded(what, connection(&mut socket), &piece).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_waits_for_a_connection_whose_answers_are_hardly_read_is_bounded() {
    let server = impatient(60_000).await;
    for (what, piece) in requests() {
        let mut socket = RawSocket::open_narrow(server.address).await.socket;
        must_be_bounded(what, &mut socket, &piece).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flooded_socket_goes_on_when_it_is_read() {
    let server = impatient(60_000).await;
    let mut socket = unread_socket(&server).await;
    let piece = frame(9, &[b'x'; 125]);
    let (stream, mut sent) = (connection(&mut socket), 0);
    flood(stream, &piece, &mut sent).await;
    let (mut reading, mut writing) = stream.split();
    let rest = piece[sent % piece.len()..].to_vec();
    let last = [rest, text(&json!({ "type": "ping", "ref": "last" }))].concat();
    let reading = async {
        let (mut bytes, mut tail) = (vec![0; MIB], Vec::new());
        while !String::from_utf8_lossy(&tail).contains("\"last\"") {
            let read = reading.read(&mut bytes).await.expect("the server goes on");
            assert_ne!(read, 0, "the server goes on");
            tail.drain(..tail.len().saturating_sub(100));
            tail.extend_from_slice(&bytes[..read]);
        }
    };
    let (written, answered) = tokio::join!(writing.write_all(&last), timeout(SOON, reading));
    written.expect("all is sent");
    answered.expect("the last message is answered");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_peer_that_sends_and_takes_nothing_is_disconnected() {
    let server = impatient(1000).await;
    let mut sockets = vec![("a request", RawSocket::open_narrow(server.address).await.socket, requests()[2].1.clone())];
    for (what, piece) in messages() {
        let MaybeTlsStream::Plain(socket) = unread_socket(&server).await.0.into_inner() else { unreachable!() };
        sockets.push((what, socket, piece));
    }
    let cuts = sockets.into_iter().map(async |(what, mut socket, piece)| {
        // However much it goes on sending: that is no sign of life.
        let cut = async { while socket.write_all(&piece).await.is_ok() {} };
        assert!(timeout(SOON, cut).await.is_ok(), "{what}");
    });
    futures_util::future::join_all(cuts).await;
    server.until("nothing is left", |counts| counts.connections == 0).await;
}
