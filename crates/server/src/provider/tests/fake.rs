//! An upstream whose every byte the test writes.

use std::io;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

/// The head of a stream.
pub(super) const STREAM: &str =
    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n";

/// How long a test waits for what has to happen.
const PATIENCE: Duration = Duration::from_secs(30);

pub(super) struct Fake {
    pub(super) listener: TcpListener,
    pub(super) url: String,
}

impl Fake {
    pub(super) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/v1", listener.local_addr().unwrap());
        Self { listener, url }
    }

    /// The next request, read to its end.
    pub(super) async fn request(&self) -> Request {
        let (socket, _) = timeout(PATIENCE, self.listener.accept()).await.expect("a request comes").unwrap();
        socket.set_nodelay(true).unwrap();
        Request::read(socket).await
    }

    /// Takes a request and answers it with a whole stream.
    pub(super) async fn stream(&self, body: impl AsRef<str>) -> Request {
        let mut request = self.request().await;
        request.send(STREAM).await;
        request.chunks([body.as_ref().as_bytes()]).await;
        request.end().await;
        request
    }

    /// Takes a request and answers it with a status and a body.
    pub(super) async fn refuse(&self, status: &str, headers: &str, body: impl AsRef<str>) -> Request {
        let body = body.as_ref();
        let mut request = self.request().await;
        let length = body.len();
        let head = format!("HTTP/1.1 {status}\r\n{headers}Content-Length: {length}\r\nConnection: close\r\n\r\n");
        request.send(&format!("{head}{body}")).await;
        request
    }

    /// Nobody else asks.
    pub(super) async fn is_left_alone(&self) {
        let other = timeout(Duration::from_millis(50), self.listener.accept()).await;
        assert!(other.is_err(), "another request came");
    }
}

pub(super) struct Request {
    socket: TcpStream,
    /// Its line and headers.
    pub(super) head: String,
    pub(super) body: Value,
}

impl Request {
    async fn read(mut socket: TcpStream) -> Self {
        let mut bytes = Vec::new();
        let (head, mut body) = loop {
            assert_ne!(socket.read_buf(&mut bytes).await.unwrap(), 0, "the request has a head");
            if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
                let body = bytes.split_off(end + 4);
                break (String::from_utf8(bytes).unwrap(), body);
            }
        };
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).expect("a length");
        let length: usize = length.parse().unwrap();
        while body.len() < length {
            assert_ne!(socket.read_buf(&mut body).await.unwrap(), 0, "the request has a body");
        }
        Self { socket, head, body: serde_json::from_slice(&body).unwrap() }
    }

    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    }

    /// Sends bytes; a peer that has gone does not matter.
    pub(super) async fn send(&mut self, text: &str) {
        _ = self.socket.write_all(text.as_bytes()).await;
    }

    /// Sends pieces of a body, each of which is read apart.
    pub(super) async fn chunks<'a>(&mut self, pieces: impl IntoIterator<Item = &'a [u8]>) {
        let mut bytes = Vec::new();
        for piece in pieces.into_iter().filter(|piece| !piece.is_empty()) {
            bytes.extend_from_slice(format!("{:x}\r\n", piece.len()).as_bytes());
            bytes.extend_from_slice(piece);
            bytes.extend_from_slice(b"\r\n");
        }
        _ = self.socket.write_all(&bytes).await;
    }

    /// Ends a body.
    pub(super) async fn end(&mut self) {
        self.send("0\r\n\r\n").await;
    }

    /// Waits until the peer has closed.
    pub(super) async fn is_closed(&mut self) {
        let mut bytes = [0; 64];
        let read = timeout(PATIENCE, self.socket.read(&mut bytes)).await.expect("the connection is closed");
        let reset = |error: &io::Error| error.kind() == io::ErrorKind::ConnectionReset;
        assert!(matches!(&read, Ok(0)) || read.as_ref().is_err_and(reset), "{read:?}");
    }
}
