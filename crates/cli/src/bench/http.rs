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
use thiserror::Error;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// No answer for this long is an error, whatever was asked.
const PATIENCE: Duration = Duration::from_secs(30);

/// More than this in the head or the body of an answer is an error.
const LARGEST_ANSWER: usize = 4 << 20;

const TOO_LARGE: Failure = Failure::Malformed("the answer is too large");

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
        #[derive(Deserialize)]
        struct ErrorBody {
            code: String,
        }
        let code = serde_json::from_slice(body).map(|body: ErrorBody| body.code).unwrap_or_default();
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

    async fn connect(&self) -> Result<TcpStream, Failure> {
        let stream = TcpStream::connect(self.address).await?;
        stream.set_nodelay(true)?;
        Ok(stream)
    }
}

/// A connection that is opened when it is first needed and again after a failure.
pub(super) struct Connection {
    pub(super) target: Arc<Target>,
    stream: Option<TcpStream>,
    received: Vec<u8>,
    body: Vec<u8>,
}

impl Connection {
    pub(super) fn new(target: &Arc<Target>) -> Self {
        Self { target: target.clone(), stream: None, received: Vec::new(), body: Vec::new() }
    }

    /// Sends a request and returns the body of its answer. An answer whose status is no success is a failure.
    pub(super) async fn exchange(&mut self, request: &[u8]) -> Result<&[u8], Failure> {
        match within_patience(self.answer(request)).await? {
            (200..=299, body) => Ok(body),
            (status, body) => Err(Failure::status(status, body)),
        }
    }

    async fn answer(&mut self, request: &[u8]) -> Result<(u16, &[u8]), Failure> {
        // The stream goes back only once the answer is complete: one that failed or was given up on is not used again.
        let mut stream = match self.stream.take() {
            Some(stream) => stream,
            None => self.target.connect().await?,
        };
        let Self { received, body, .. } = self;
        let head = send(&mut stream, request, received).await?;
        let body = match head.framing {
            Framing::Length(length) if length > LARGEST_ANSWER => return Err(TOO_LARGE),
            Framing::Length(length) => {
                while received.len() < head.size + length {
                    fill(&mut stream, received, ROOM).await?;
                }
                &received[head.size..head.size + length]
            }
            Framing::Chunked => {
                received.drain(..head.size);
                body.clear();
                while !take_chunks(received, body)? {
                    fill(&mut stream, received, ROOM).await?;
                }
                &body[..]
            }
            Framing::UntilClosed => loop {
                match fill(&mut stream, received, ROOM).await {
                    Ok(_) => {}
                    Err(Failure::Closed) => break &received[head.size..],
                    Err(failure) => return Err(failure),
                }
            },
        };
        if !head.closes {
            self.stream = Some(stream);
        }
        Ok((head.status, body))
    }
}

/// The stream that a connection has become: of server-sent events, or of a WebSocket.
pub(super) struct Stream {
    pub(super) stream: TcpStream,
    is_chunked: bool,
    /// What came of it and is not taken yet.
    pub(super) received: Vec<u8>,
}

impl Stream {
    /// Opens a stream of server-sent events.
    pub(super) async fn events(target: &Target, endpoint: &str) -> Result<Self, Failure> {
        Self::open(target, &target.get(endpoint, "Accept: text/event-stream"), 200).await
    }

    /// Opens a stream. It is open once the head of the server's answer is here and has this status.
    pub(super) async fn open(target: &Target, request: &[u8], status: u16) -> Result<Self, Failure> {
        let mut stream = target.connect().await?;
        let mut received = Vec::new();
        let head = send(&mut stream, request, &mut received).await?;
        received.drain(..head.size);
        if head.status != status {
            return Err(Failure::status(head.status, &received));
        }
        Ok(Self { stream, is_chunked: head.framing == Framing::Chunked, received })
    }

    /// Adds the text that has come to `text`, and waits for it if there is none.
    pub(super) async fn read(&mut self, text: &mut Vec<u8>) -> Result<(), Failure> {
        let length = text.len();
        loop {
            if !self.is_chunked {
                text.append(&mut self.received);
            } else if take_chunks(&mut self.received, text)? {
                return Err(Failure::Closed);
            }
            if text.len() > length {
                return Ok(());
            }
            fill(&mut self.stream, &mut self.received, ROOM).await?;
        }
    }
}

/// Sends a request and reads until the head of its answer is there; what came of the body stays behind it in `received`.
async fn send(stream: &mut TcpStream, request: &[u8], received: &mut Vec<u8>) -> Result<Head, Failure> {
    stream.write_all(request).await?;
    received.clear();
    loop {
        fill(stream, received, ROOM).await?;
        if let Some(head) = Head::parse(received)? {
            return Ok(head);
        }
    }
}

/// Reads once and returns how many bytes came. Room is made when they are there: thousands of idle streams hold no buffer.
pub(super) async fn fill(stream: &mut TcpStream, received: &mut Vec<u8>, room: usize) -> Result<usize, Failure> {
    if received.len() > LARGEST_ANSWER {
        return Err(TOO_LARGE);
    }
    stream.readable().await?;
    received.reserve(room);
    match stream.read_buf(received).await? {
        0 => Err(Failure::Closed),
        count => Ok(count),
    }
}

/// How the end of a body is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Framing {
    Length(usize),
    Chunked,
    UntilClosed,
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
    let mut has_ended = false;
    while !has_ended {
        let rest = &received[taken..];
        let parsed = httparse::parse_chunk_size(rest).map_err(|_| Failure::Malformed("a chunk without a size"))?;
        let Status::Complete((start, size)) = parsed else { break };
        if size == 0 {
            // Trailers may follow, and an empty line ends the body.
            let Some(end) = rest[start - 2..].windows(4).position(|window| window == b"\r\n\r\n") else { break };
            has_ended = true;
            taken += start + end + 2;
            continue;
        }
        if data.len() as u64 + size > LARGEST_ANSWER as u64 {
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
    if has_ended && taken < received.len() {
        return Err(Failure::Malformed("bytes after the last chunk"));
    }
    received.drain(..taken);
    Ok(has_ended)
}
