//! HTTP/1.1 as far as the bench needs it: one request at a time on a connection that is kept, with reused buffers. A full
//! client costs more CPU, and the bench shares the machine with the server that it measures.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use httparse::Status;
use reqwest::Url;
use serde::Deserialize;
use serde_json::Value;
use thiserror::Error;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// No answer for this long is an error, whatever was asked.
const PATIENCE: Duration = Duration::from_secs(30);

/// More than this in the head or the body of an answer is an error.
const LARGEST_ANSWER: usize = 4 << 20;

/// How much room a read gets at least; most answers are smaller.
const ROOM: usize = 1 << 10;

/// What can go wrong with one exchange; the text is the name that it is counted under.
#[derive(Debug, Error)]
pub(super) enum Failure {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("closed by the server")]
    Closed,
    #[error("no answer within {} s", PATIENCE.as_secs())]
    NoAnswer,
    #[error("HTTP {status}{}{code}", if code.is_empty() { "" } else { " " })]
    Status { status: u16, code: String },
    #[error("refused: {0}")]
    Refused(String),
    #[error("{0}")]
    Other(String),
    #[error("not understood: {0}")]
    Malformed(&'static str),
}

impl Failure {
    /// The failure of an answer whose status is no success, with the code of its error body.
    pub(super) fn status(status: u16, body: &[u8]) -> Self {
        let body: Value = serde_json::from_slice(body).unwrap_or_default();
        let code = body["code"].as_str().unwrap_or_default().to_owned();
        Self::Status { status, code }
    }
}

/// Reads the JSON of an answer; `malformed` names what it is if it is not what was expected.
pub(super) fn json<'a, T: Deserialize<'a>>(body: &'a [u8], malformed: &'static str) -> Result<T, Failure> {
    serde_json::from_slice(body).map_err(|_| Failure::Malformed(malformed))
}

/// Waits for one exchange, but not for ever.
pub(super) async fn within_patience<T>(exchange: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    timeout(PATIENCE, exchange).await.unwrap_or(Err(Failure::NoAnswer))
}

/// Where the server is and what every request to it says.
#[derive(Debug)]
pub(super) struct Target {
    address: SocketAddr,
    /// `Host` and, with a token, `Authorization`.
    headers: String,
    /// The path of the URL, without a slash at its end.
    prefix: String,
}

impl Target {
    pub(super) fn resolve(url: &str, token: Option<&str>) -> anyhow::Result<Self> {
        if url.starts_with("https://") {
            bail!("https is not supported: measure the server itself, by http");
        }
        let Some(parsed) = Url::parse(url).ok().filter(|parsed| parsed.scheme() == "http") else {
            bail!("`{url}` is no http:// URL")
        };
        let authority = parsed.authority();
        let addresses = parsed.socket_addrs(|| None).with_context(|| format!("cannot find `{authority}`"))?;
        let address = *addresses.first().with_context(|| format!("`{authority}` has no address"))?;
        let mut headers = format!("Host: {authority}\r\n");
        if let Some(token) = token {
            ensure!(
                token.bytes().all(|byte| byte.is_ascii_graphic()),
                "the token has characters that no header can carry"
            );
            headers.push_str(&format!("Authorization: Bearer {token}\r\n"));
        }
        Ok(Self { address, headers, prefix: parsed.path().trim_end_matches('/').to_owned() })
    }

    /// The bytes of a GET with one more header, or several.
    pub(super) fn get(&self, endpoint: &str, header: &str) -> Vec<u8> {
        format!("GET {}{endpoint} HTTP/1.1\r\n{}{header}\r\n\r\n", self.prefix, self.headers).into_bytes()
    }

    /// The bytes of a POST.
    pub(super) fn post(&self, endpoint: &str, body: &str) -> Vec<u8> {
        format!(
            "POST {}{endpoint} HTTP/1.1\r\n{}Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            self.prefix,
            self.headers,
            body.len()
        )
        .into_bytes()
    }
}

/// A connection that is opened when it is first needed and again after a failure.
pub(super) struct Connection {
    target: Arc<Target>,
    stream: Option<Stream>,
    body: Vec<u8>,
}

impl Connection {
    pub(super) fn new(target: &Arc<Target>) -> Self {
        Self { target: target.clone(), stream: None, body: Vec::new() }
    }

    pub(super) async fn get(&mut self, endpoint: &str) -> Result<&[u8], Failure> {
        self.exchange(&self.target.get(endpoint, "Accept: */*")).await
    }

    pub(super) async fn post(&mut self, endpoint: &str, body: &str) -> Result<&[u8], Failure> {
        self.exchange(&self.target.post(endpoint, body)).await
    }

    /// Sends a request and returns the body of its answer. An answer whose status is no success is a failure.
    async fn exchange(&mut self, request: &[u8]) -> Result<&[u8], Failure> {
        let answer = async {
            // The stream goes back only once the answer is complete: one that failed or was given up on is not used again.
            let mut stream = match self.stream.take() {
                Some(stream) => stream,
                None => Stream::connect(&self.target).await?,
            };
            let status = stream.send(request).await?;
            self.body.clear();
            while stream.read(&mut self.body).await? {}
            self.stream = Some(stream).filter(|stream| !stream.closes);
            Ok(status)
        };
        match within_patience(answer).await? {
            200..=299 => Ok(&self.body),
            status => Err(Failure::status(status, &self.body)),
        }
    }
}

/// An open connection, and what has come of the answer to the last request.
pub(super) struct Stream {
    pub(super) socket: TcpStream,
    /// What was received and is not taken yet.
    pub(super) received: Vec<u8>,
    framing: Framing,
    closes: bool,
}

impl Stream {
    async fn connect(target: &Target) -> Result<Self, Failure> {
        let socket = TcpStream::connect(target.address).await?;
        socket.set_nodelay(true)?;
        Ok(Self { socket, received: Vec::new(), framing: Framing::UntilClosed, closes: false })
    }

    /// Opens a stream of server-sent events.
    pub(super) async fn events(target: &Target, endpoint: &str) -> Result<Self, Failure> {
        Self::open(target, endpoint, "Accept: text/event-stream", 200).await
    }

    /// Opens a stream that the server goes on with: the head of its answer is here and has the expected status.
    pub(super) async fn open(target: &Target, endpoint: &str, header: &str, expected: u16) -> Result<Self, Failure> {
        let mut stream = Self::connect(target).await?;
        let status = stream.send(&target.get(endpoint, header)).await?;
        if status != expected {
            return Err(Failure::status(status, &stream.received));
        }
        stream.received.shrink_to_fit();
        Ok(stream)
    }

    /// Sends a request and reads the head of its answer.
    async fn send(&mut self, request: &[u8]) -> Result<u16, Failure> {
        self.socket.write_all(request).await?;
        self.received.clear();
        let head = loop {
            fill(&mut self.socket, &mut self.received, ROOM).await?;
            if let Some(head) = Head::parse(&self.received)? {
                break head;
            }
        };
        self.received.drain(..head.size);
        (self.framing, self.closes) = (head.framing, head.closes);
        Ok(head.status)
    }

    /// Adds what has come of the body to `data`, and waits if there is nothing. Returns whether more can come.
    pub(super) async fn read(&mut self, data: &mut Vec<u8>) -> Result<bool, Failure> {
        let length = data.len();
        loop {
            if self.framing.take(&mut self.received, data)? {
                return Ok(false);
            } else if data.len() > length {
                return Ok(true);
            }
            match fill(&mut self.socket, &mut self.received, ROOM).await {
                Err(Failure::Closed) if self.framing == Framing::UntilClosed => return Ok(false),
                filled => filled?,
            };
        }
    }
}

/// Reads once and returns how many bytes came. Room is made when they are there: thousands of idle streams hold no buffer.
pub(super) async fn fill(socket: &mut TcpStream, received: &mut Vec<u8>, room: usize) -> Result<usize, Failure> {
    if received.len() > LARGEST_ANSWER {
        return Err(Failure::Malformed("the answer is too large"));
    }
    socket.readable().await?;
    received.reserve(room);
    match socket.read_buf(received).await? {
        0 => Err(Failure::Closed),
        count => Ok(count),
    }
}

/// How the end of a body is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Framing {
    /// After so many bytes.
    Length(usize),
    Chunked,
    UntilClosed,
}

impl Framing {
    /// Moves the part of the body that is in `received` to `data`; returns whether the body ends with it.
    fn take(&mut self, received: &mut Vec<u8>, data: &mut Vec<u8>) -> Result<bool, Failure> {
        if data.len() > LARGEST_ANSWER {
            return Err(Failure::Malformed("the answer is too large"));
        }
        match self {
            Self::Chunked => take_chunks(received, data),
            Self::UntilClosed => {
                data.append(received);
                Ok(false)
            }
            Self::Length(left) => {
                let length = received.len().min(*left);
                data.extend_from_slice(&received[..length]);
                received.drain(..length);
                *left -= length;
                Ok(*left == 0)
            }
        }
    }
}

/// The head of a response.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) status: u16,
    /// How many bytes it takes, with the empty line.
    pub(super) size: usize,
    pub(super) framing: Framing,
    /// The server will not take another request on this connection.
    pub(super) closes: bool,
}

impl Head {
    /// Reads the head at the start of `bytes`, if it is all there.
    pub(super) fn parse(bytes: &[u8]) -> Result<Option<Self>, Failure> {
        let mut fields = [httparse::EMPTY_HEADER; 64];
        let mut response = httparse::Response::new(&mut fields);
        let Ok(parsed) = response.parse(bytes) else { return Err(Failure::Malformed("a head without a status")) };
        let (Status::Complete(size), Some(status)) = (parsed, response.code) else { return Ok(None) };
        let mut framing = Framing::UntilClosed;
        let mut closes = response.version == Some(0);
        for field in response.headers {
            let value = field.value.trim_ascii();
            if field.name.eq_ignore_ascii_case("content-length") && framing != Framing::Chunked {
                let length = str::from_utf8(value).ok().and_then(|value| value.parse().ok());
                framing = Framing::Length(length.ok_or(Failure::Malformed("a bad Content-Length"))?);
            } else if field.name.eq_ignore_ascii_case("transfer-encoding") && value.eq_ignore_ascii_case(b"chunked") {
                framing = Framing::Chunked;
            } else if field.name.eq_ignore_ascii_case("connection") && value.eq_ignore_ascii_case(b"close") {
                closes = true;
            }
        }
        if status < 200 || status == 204 || status == 304 {
            framing = Framing::Length(0);
        }
        closes |= framing == Framing::UntilClosed;
        Ok(Some(Self { status, size, framing, closes }))
    }
}

/// Moves the data of every chunk that is whole from `received` to `data`; returns whether the body ends with them.
pub(super) fn take_chunks(received: &mut Vec<u8>, data: &mut Vec<u8>) -> Result<bool, Failure> {
    let mut taken = 0;
    loop {
        let rest = &received[taken..];
        let parsed = httparse::parse_chunk_size(rest).map_err(|_| Failure::Malformed("a chunk without a size"))?;
        let Status::Complete((start, size)) = parsed else { break };
        if size == 0 {
            // Trailers may follow, and an empty line ends the body.
            match rest[start - 2..].windows(4).position(|window| window == b"\r\n\r\n") {
                None => break,
                Some(end) if start + end + 2 < rest.len() => {
                    return Err(Failure::Malformed("bytes after the last chunk"));
                }
                Some(_) => return Ok(true),
            }
        }
        if size > LARGEST_ANSWER as u64 {
            return Err(Failure::Malformed("a chunk that is too large"));
        }
        let end = start + size as usize;
        match rest.get(end..end + 2) {
            None => break,
            Some(b"\r\n") => data.extend_from_slice(&rest[start..end]),
            Some(_) => return Err(Failure::Malformed("a chunk longer than its size")),
        }
        taken += end + 2;
    }
    received.drain(..taken);
    Ok(false)
}
