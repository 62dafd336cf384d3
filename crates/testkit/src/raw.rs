//! A connection whose bytes the test writes and reads itself.

use std::io;
use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;

use crate::server::{Answer, PATIENCE};

/// The head of an answer.
#[derive(Debug, Clone)]
pub struct Head {
    /// The status.
    pub status: u16,
    /// The headers in their order, names in lower case.
    pub headers: Vec<(String, String)>,
}

impl Head {
    /// A header, or "".
    pub fn header(&self, name: &str) -> &str {
        self.headers.iter().find(|(key, _)| key == name).map_or("", |(_, value)| value)
    }
}

/// A bare connection to a server.
pub struct RawSocket {
    /// The socket.
    pub socket: TcpStream,
    unread: Vec<u8>,
    /// Of a chunked body: what was taken out of its chunks and not yet given.
    body: String,
}

impl RawSocket {
    /// Connects.
    pub async fn open(server: SocketAddr) -> Self {
        Self::on(TcpStream::connect(server).await.expect("the server accepts"))
    }

    /// Connects with a receive buffer so small that the server soon has to wait for the reader.
    pub async fn open_narrow(server: SocketAddr) -> Self {
        let socket = TcpSocket::new_v4().expect("a socket");
        socket.set_recv_buffer_size(4096).expect("a small buffer");
        Self::on(socket.connect(server).await.expect("the server accepts"))
    }

    /// Takes a connection that the test has made.
    pub fn on(socket: TcpStream) -> Self {
        socket.set_nodelay(true).expect("a socket without delay");
        Self { socket, unread: Vec::new(), body: String::new() }
    }

    /// Opens a stream with a GET, and reads the head of the answer.
    pub async fn get(&mut self, path: &str) -> Head {
        self.send(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n")).await.expect("the request is sent");
        self.head().await
    }

    /// Sends bytes.
    pub async fn send(&mut self, bytes: impl AsRef<[u8]>) -> io::Result<()> {
        self.socket.write_all(bytes.as_ref()).await
    }

    /// Sends a whole request, and reads the answer up to its end.
    pub async fn exchange(server: SocketAddr, request: impl AsRef<[u8]>) -> (Head, Answer) {
        let mut socket = Self::open(server).await;
        // A server that has heard enough closes before it has read all; its answer is there nevertheless.
        _ = socket.send(request).await;
        socket.answer().await
    }

    /// Reads an answer whose length is told.
    pub async fn answer(&mut self) -> (Head, Answer) {
        let head = self.head().await;
        let length = head.header("content-length").parse().unwrap_or(0);
        while self.unread.len() < length {
            assert!(self.fill().await, "the answer is complete");
        }
        let body = String::from_utf8(self.unread.drain(..length).collect()).expect("the body is text");
        let answer = Answer::of(head.status, Some(head.header("x-request-id")), body);
        (head, answer)
    }

    /// Reads the head of an answer.
    pub async fn head(&mut self) -> Head {
        let text = self.until("\r\n\r\n").await;
        let mut lines = text.trim_end().split("\r\n");
        let status = lines.next().and_then(|line| line.split(' ').nth(1)).and_then(|status| status.parse().ok());
        let headers = lines.filter_map(|line| line.split_once(": "));
        let headers = headers.map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned())).collect();
        Head { status: status.expect("a status"), headers }
    }

    /// Reads a frame of a chunked stream, with the empty line that ends it.
    pub async fn frame(&mut self) -> String {
        loop {
            if let Some(end) = self.body.find("\n\n") {
                return self.body.drain(..end + 2).collect();
            }
            let chunk = self.chunk().await;
            assert!(!chunk.is_empty(), "the stream goes on");
            self.body.push_str(&chunk);
        }
    }

    async fn chunk(&mut self) -> String {
        let size = self.until("\r\n").await;
        let size = usize::from_str_radix(size.trim_end(), 16).expect("the size of a chunk");
        while self.unread.len() < size + 2 {
            assert!(self.fill().await, "the chunk is complete");
        }
        let chunk = self.unread.drain(..size).collect();
        assert_eq!(self.unread.drain(..2).collect::<Vec<u8>>(), b"\r\n");
        String::from_utf8(chunk).expect("the stream is text")
    }

    /// Reads up to and with a text.
    pub async fn until(&mut self, end: &str) -> String {
        loop {
            if let Some(start) = self.unread.windows(end.len()).position(|bytes| bytes == end.as_bytes()) {
                return String::from_utf8(self.unread.drain(..start + end.len()).collect()).expect("text");
            }
            assert!(self.fill().await, "the server goes on: {:?}", String::from_utf8_lossy(&self.unread));
        }
    }

    /// Reads until the server closes or cuts the connection; gives how many bytes there were.
    pub async fn drain(&mut self) -> usize {
        let mut bytes = self.unread.len();
        while self.fill().await {
            bytes += self.unread.len();
            self.unread.clear();
        }
        bytes
    }

    /// The same, and gives what there was.
    pub async fn drain_text(&mut self) -> String {
        while self.fill().await {}
        String::from_utf8_lossy(&std::mem::take(&mut self.unread)).into_owned()
    }

    /// Reads some more; false when the server has closed or cut the connection.
    async fn fill(&mut self) -> bool {
        let read = timeout(PATIENCE, self.socket.read_buf(&mut self.unread)).await.expect("the server says something");
        read.is_ok_and(|bytes| bytes > 0)
    }
}
