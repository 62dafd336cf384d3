//! HTTP/1.1 as far as the bench needs it: one request at a time on a connection that is kept. A full client costs more CPU,
//! and the bench shares the machine with the server that it measures.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use httparse::Status;
use reqwest::Url;
use serde::Deserialize;
use serde_json::Value;
use thiserror::Error;
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// How long any answer may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// The largest head or body of an answer, in bytes.
const LARGEST_ANSWER: usize = 4 << 20;

/// The buffer of a connection, in bytes. Most answers are smaller, and thousands of idle streams have one each.
const BUFFER: usize = 1 << 10;

/// The failures of a request. The errors of a run are counted by these texts.
#[derive(Debug, Error)]
pub(super) enum Failure {
    #[error(transparent)]
    Io(io::Error),
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

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        if error.kind() == ErrorKind::UnexpectedEof { Self::Closed } else { Self::Io(error) }
    }
}

impl Failure {
    /// The failure of an unsuccessful status, with the code of the error body.
    pub(super) fn status(status: u16, body: &[u8]) -> Self {
        let body: Value = serde_json::from_slice(body).unwrap_or_default();
        let code = body["code"].as_str().unwrap_or_default().to_owned();
        Self::Status { status, code }
    }
}

/// Parses the JSON of an answer; `malformed` is the error if that fails.
pub(super) fn json<'a, T: Deserialize<'a>>(body: &'a [u8], malformed: &'static str) -> Result<T, Failure> {
    serde_json::from_slice(body).map_err(|_| Failure::Malformed(malformed))
}

/// Limits how long a request may take.
pub(super) async fn within_patience<T>(exchange: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    timeout(PATIENCE, exchange).await.unwrap_or(Err(Failure::NoAnswer))
}

/// The address of the server, and the headers of every request to it.
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

    async fn connect(&self) -> Result<BufReader<TcpStream>, Failure> {
        let socket = TcpStream::connect(self.address).await?;
        socket.set_nodelay(true)?;
        Ok(BufReader::with_capacity(BUFFER, socket))
    }

    /// The bytes of a GET with more headers.
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

/// A connection that is opened when it is first needed, and again after a failure.
pub(super) struct Connection {
    target: Arc<Target>,
    reader: Option<BufReader<TcpStream>>,
    body: Vec<u8>,
}

impl Connection {
    pub(super) fn new(target: &Arc<Target>) -> Self {
        Self { target: target.clone(), reader: None, body: Vec::new() }
    }

    pub(super) async fn get(&mut self, endpoint: &str) -> Result<&[u8], Failure> {
        self.exchange(&self.target.get(endpoint, "Accept: */*")).await
    }

    pub(super) async fn post(&mut self, endpoint: &str, body: &str) -> Result<&[u8], Failure> {
        self.exchange(&self.target.post(endpoint, body)).await
    }

    /// Sends a request and returns the body of its answer. An unsuccessful status is a failure.
    async fn exchange(&mut self, request: &[u8]) -> Result<&[u8], Failure> {
        let answer = async {
            // The connection is kept only if its answer is complete; one that failed or timed out is not used again.
            let mut reader = match self.reader.take() {
                Some(reader) => reader,
                None => self.target.connect().await?,
            };
            let head = send(&mut reader, request).await?;
            self.body.clear();
            while head.framing.read(&mut reader, &mut self.body).await? {}
            if !reader.buffer().is_empty() {
                return Err(Failure::Malformed("bytes after the answer"));
            }
            self.reader = Some(reader).filter(|_| !head.closes);
            Ok(head.status)
        };
        match within_patience(answer).await? {
            200..=299 => Ok(&self.body),
            status => Err(Failure::status(status, &self.body)),
        }
    }
}

/// A streamed answer.
pub(super) struct Stream {
    pub(super) reader: BufReader<TcpStream>,
    framing: Framing,
}

impl Stream {
    /// Opens a stream of server-sent events.
    pub(super) async fn events(target: &Target, endpoint: &str) -> Result<Self, Failure> {
        Self::open(target, endpoint, "Accept: text/event-stream", 200).await
    }

    /// Opens a stream whose answer has the expected status.
    pub(super) async fn open(target: &Target, endpoint: &str, header: &str, expected: u16) -> Result<Self, Failure> {
        let mut reader = target.connect().await?;
        let Head { status, framing, .. } = send(&mut reader, &target.get(endpoint, header)).await?;
        let mut stream = Self { reader, framing };
        if status == expected {
            return Ok(stream);
        }
        let mut body = Vec::new();
        while stream.read(&mut body).await? {}
        Err(Failure::status(status, &body))
    }

    /// Adds the next bytes of the body to `data`. Returns whether more can come.
    pub(super) async fn read(&mut self, data: &mut Vec<u8>) -> Result<bool, Failure> {
        self.framing.read(&mut self.reader, data).await
    }
}

/// Sends a request and reads the head of its answer.
async fn send(reader: &mut BufReader<TcpStream>, request: &[u8]) -> Result<Head, Failure> {
    reader.write_all(request).await?;
    Head::read(reader).await
}

/// How the end of a body is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Framing {
    /// The body has so many bytes.
    Length(usize),
    Chunked,
    UntilClosed,
}

impl Framing {
    /// Adds the next bytes of a body to `data`. Returns whether more can come.
    pub(super) async fn read(
        self,
        reader: &mut (impl AsyncBufRead + Unpin),
        data: &mut Vec<u8>,
    ) -> Result<bool, Failure> {
        match self {
            Self::Length(length) => read_exactly(reader, length, data).await.map(|()| false),
            Self::UntilClosed if data.len() > LARGEST_ANSWER => Err(Failure::Malformed("the answer is too large")),
            Self::UntilClosed => Ok(reader.read_buf(data).await? > 0),
            Self::Chunked => {
                let mut line = Vec::new();
                read_line(reader, &mut line).await?;
                let Ok(Status::Complete((_, size))) = httparse::parse_chunk_size(&line) else {
                    return Err(Failure::Malformed("a chunk without a size"));
                };
                if size == 0 {
                    // Trailers may follow, and an empty line ends the body.
                    while line != b"\r\n" {
                        line.clear();
                        read_line(reader, &mut line).await?;
                    }
                    return Ok(false);
                }
                read_exactly(reader, usize::try_from(size).unwrap_or(usize::MAX), data).await?;
                let mut end = [0; 2];
                reader.read_exact(&mut end).await?;
                if end == *b"\r\n" { Ok(true) } else { Err(Failure::Malformed("a chunk longer than its size")) }
            }
        }
    }
}

/// Adds `count` bytes to `data`.
async fn read_exactly(
    reader: &mut (impl AsyncBufRead + Unpin),
    count: usize,
    data: &mut Vec<u8>,
) -> Result<(), Failure> {
    let start = data.len();
    if count > LARGEST_ANSWER.saturating_sub(start) {
        return Err(Failure::Malformed("the answer is too large"));
    }
    data.resize(start + count, 0);
    reader.read_exact(&mut data[start..]).await?;
    Ok(())
}

/// Adds a line to `data`, with its end.
async fn read_line(reader: &mut (impl AsyncBufRead + Unpin), data: &mut Vec<u8>) -> Result<(), Failure> {
    let room = LARGEST_ANSWER.saturating_sub(data.len());
    let length = reader.take(room as u64).read_until(b'\n', data).await?;
    match data.last() {
        Some(b'\n') => Ok(()),
        _ if length == room => Err(Failure::Malformed("the answer is too large")),
        _ => Err(Failure::Closed),
    }
}

/// The head of an answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) status: u16,
    pub(super) framing: Framing,
    /// Whether the server closes the connection after this answer.
    pub(super) closes: bool,
}

impl Head {
    /// Reads a head, up to the empty line.
    pub(super) async fn read(reader: &mut (impl AsyncBufRead + Unpin)) -> Result<Self, Failure> {
        let mut head = Vec::with_capacity(BUFFER);
        while !head.ends_with(b"\r\n\r\n") {
            read_line(reader, &mut head).await?;
        }
        let mut fields = [httparse::EMPTY_HEADER; 64];
        let mut response = httparse::Response::new(&mut fields);
        let (Ok(_), Some(status)) = (response.parse(&head), response.code) else {
            return Err(Failure::Malformed("a head without a status"));
        };
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
        Ok(Self { status, framing, closes })
    }
}
