//! HTTP/1.1 as far as the bench needs it: one request at a time on a connection that is kept, with reused buffers.

use std::future::poll_fn;
use std::io;
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Poll, ready};
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use serde::Deserialize;
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::PATIENCE;

/// More than this in the head or the body of an answer is an error.
const LARGEST_ANSWER: usize = 4 << 20;

/// What can go wrong with one exchange; the text is the name that it is counted under.
#[derive(Debug, Error)]
pub(super) enum Failure {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("closed by the server")]
    Closed,
    #[error("closed by the server with {0}")]
    ClosedWith(u16),
    #[error("no answer within {} s", PATIENCE.as_secs())]
    NoAnswer,
    #[error("given up after {} s", .0.as_secs())]
    GivenUp(Duration),
    #[error("HTTP {status}{}{code}", if code.is_empty() { "" } else { " " })]
    Status { status: u16, code: String },
    #[error("refused: {0}")]
    Refused(String),
    #[error("the server has no GET {0}")]
    NoSuchStream(String),
    #[error("the server refuses calls beyond {limit}; start it with {variable}")]
    Limited { limit: &'static str, variable: &'static str },
    #[error("the answer does not quote the tool: {0}")]
    Unquoted(String),
    #[error("{0}")]
    Protocol(String),
    #[error("not understood: {0}")]
    Malformed(&'static str),
}

impl Failure {
    /// An answer that is not 200, with the code of its error body.
    pub(super) fn status(status: u16, body: &[u8]) -> Self {
        #[derive(Deserialize)]
        struct ErrorBody {
            code: String,
        }
        let code = serde_json::from_slice(body).map(|body: ErrorBody| body.code).unwrap_or_default();
        Self::Status { status, code }
    }
}

/// Waits for one exchange, but not for ever.
pub(super) async fn within<T>(
    limit: Duration,
    exchange: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    timeout(limit, exchange).await.unwrap_or(Err(Failure::NoAnswer))
}

/// Where the server is and what every request to it says.
#[derive(Debug)]
pub(super) struct Target {
    pub(super) address: SocketAddr,
    /// `Host` and, with a token, `Authorization`.
    headers: String,
    /// The path of the URL, without a slash at its end.
    prefix: String,
    /// `host:port` as in the URL.
    pub(super) authority: String,
    pub(super) token: Option<String>,
}

impl Target {
    pub(super) async fn resolve(url: &str, token: Option<&str>) -> anyhow::Result<Self> {
        if url.starts_with("https://") {
            bail!("https is not supported: measure the server itself, by http");
        }
        let Some(rest) = url.strip_prefix("http://") else { bail!("`{url}` is no http:// URL") };
        let (authority, path) = rest.find('/').map_or((rest, ""), |slash| rest.split_at(slash));
        let has_port =
            authority.rsplit_once(':').is_some_and(|(_, port)| port.bytes().all(|byte| byte.is_ascii_digit()));
        let lookup = if has_port { authority.to_owned() } else { format!("{authority}:80") };
        let address = tokio::net::lookup_host(&lookup)
            .await
            .with_context(|| format!("cannot find `{authority}`"))?
            .next()
            .with_context(|| format!("`{authority}` has no address"))?;
        let mut headers = format!("Host: {authority}\r\n");
        if let Some(token) = token {
            ensure!(
                token.bytes().all(|byte| byte.is_ascii_graphic()),
                "the token has characters that no header can carry"
            );
            headers.push_str(&format!("Authorization: Bearer {token}\r\n"));
        }
        Ok(Self {
            address,
            headers,
            prefix: path.trim_end_matches('/').to_owned(),
            authority: authority.to_owned(),
            token: token.map(str::to_owned),
        })
    }

    /// The full path of an endpoint.
    pub(super) fn path(&self, endpoint: &str) -> String {
        format!("{}{endpoint}", self.prefix)
    }

    /// The bytes of a GET.
    pub(super) fn get(&self, endpoint: &str, accept: &str) -> Vec<u8> {
        format!("GET {}{endpoint} HTTP/1.1\r\n{}Accept: {accept}\r\n\r\n", self.prefix, self.headers).into_bytes()
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

    pub(super) async fn connect(&self) -> Result<TcpStream, Failure> {
        let stream = TcpStream::connect(self.address).await?;
        stream.set_nodelay(true)?;
        Ok(stream)
    }
}

/// A connection that is opened when it is first needed and again after a failure.
#[derive(Default)]
pub(super) struct Connection {
    stream: Option<TcpStream>,
    read: Vec<u8>,
    body: Vec<u8>,
}

impl Connection {
    /// Sends a request and reads its answer: the status and the body.
    pub(super) async fn exchange(&mut self, target: &Target, request: &[u8]) -> Result<(u16, &[u8]), Failure> {
        // Taken out and put back only once the answer is complete: a connection that failed or was given up on is not used again.
        let mut stream = match self.stream.take() {
            Some(stream) => stream,
            None => target.connect().await?,
        };
        stream.write_all(request).await?;
        self.read.clear();
        self.body.clear();
        let head = loop {
            fill(&mut stream, &mut self.read).await?;
            if let Some(head) = Head::parse(&self.read)? {
                break head;
            }
        };
        let body = match head.framing {
            Framing::Length(length) => {
                if length > LARGEST_ANSWER {
                    return Err(Failure::Malformed("the answer is too large"));
                }
                while self.read.len() < head.size + length {
                    fill(&mut stream, &mut self.read).await?;
                }
                &self.read[head.size..head.size + length]
            }
            Framing::Chunked => {
                let mut chunks = Chunks::default();
                let mut decoded = head.size;
                while !chunks.ended() {
                    if decoded == self.read.len() {
                        self.read.clear();
                        fill(&mut stream, &mut self.read).await?;
                        decoded = 0;
                    }
                    let body = &mut self.body;
                    chunks.decode(&self.read[decoded..], |data| body.extend_from_slice(data))?;
                    decoded = self.read.len();
                    if self.body.len() > LARGEST_ANSWER {
                        return Err(Failure::Malformed("the answer is too large"));
                    }
                }
                &self.body[..]
            }
            Framing::UntilClosed => {
                loop {
                    match fill(&mut stream, &mut self.read).await {
                        Ok(()) => {}
                        Err(Failure::Closed) => break,
                        Err(failure) => return Err(failure),
                    }
                }
                &self.read[head.size..]
            }
        };
        if !head.closes {
            self.stream = Some(stream);
        }
        Ok((head.status, body))
    }
}

async fn fill(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> Result<(), Failure> {
    if buffer.len() > LARGEST_ANSWER {
        return Err(Failure::Malformed("the answer is too large"));
    }
    buffer.reserve(1024);
    match stream.read_buf(buffer).await? {
        0 => Err(Failure::Closed),
        _ => Ok(()),
    }
}

/// Opens a stream of server-sent events: returns the connection, the head of the answer, and what came of the body with it.
/// The stream is open once the server's head is here.
pub(super) async fn open_events(target: &Target, endpoint: &str) -> Result<(TcpStream, Head, Vec<u8>), Failure> {
    let mut stream = target.connect().await?;
    stream.write_all(&target.get(endpoint, "text/event-stream")).await?;
    let mut received = Vec::new();
    let head = loop {
        read_once::<8192, _>(&mut stream, |bytes| {
            received.extend_from_slice(bytes);
            Ok(())
        })
        .await?;
        if let Some(head) = Head::parse(&received)? {
            break head;
        }
    };
    let body = received.split_off(head.size);
    if head.status == 200 { Ok((stream, head, body)) } else { Err(Failure::status(head.status, &body)) }
}

/// Reads once, into a buffer on the stack: thousands of idle streams hold none.
pub(super) async fn read_once<const SIZE: usize, T>(
    stream: &mut TcpStream,
    mut take: impl FnMut(&[u8]) -> Result<T, Failure>,
) -> Result<T, Failure> {
    poll_fn(|context| {
        let mut space = [MaybeUninit::uninit(); SIZE];
        let mut buffer = ReadBuf::uninit(&mut space);
        ready!(Pin::new(&mut *stream).poll_read(context, &mut buffer))?;
        Poll::Ready(if buffer.filled().is_empty() { Err(Failure::Closed) } else { take(buffer.filled()) })
    })
    .await
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
        let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") else { return Ok(None) };
        let text = std::str::from_utf8(&bytes[..end]).map_err(|_| Failure::Malformed("a head that is no text"))?;
        let (first, fields) = text.split_once("\r\n").unwrap_or((text, ""));
        let status = first
            .strip_prefix("HTTP/1.")
            .and_then(|rest| rest.get(2..5))
            .and_then(|status| status.parse().ok())
            .ok_or(Failure::Malformed("a head without a status"))?;
        let mut framing = Framing::UntilClosed;
        let mut closes = first.starts_with("HTTP/1.0");
        for line in fields.split("\r\n") {
            let Some((field, value)) = line.split_once(':') else { continue };
            let value = value.trim();
            if field.eq_ignore_ascii_case("content-length") && framing != Framing::Chunked {
                framing = Framing::Length(value.parse().map_err(|_| Failure::Malformed("a bad Content-Length"))?);
            } else if field.eq_ignore_ascii_case("transfer-encoding") && value.eq_ignore_ascii_case("chunked") {
                framing = Framing::Chunked;
            } else if field.eq_ignore_ascii_case("connection") && value.eq_ignore_ascii_case("close") {
                closes = true;
            }
        }
        if status < 200 || status == 204 || status == 304 {
            framing = Framing::Length(0);
        }
        closes |= framing == Framing::UntilClosed;
        Ok(Some(Self { status, size: end + 4, framing, closes }))
    }
}

/// Takes a chunked body apart as it comes, wherever the reads cut it.
#[derive(Debug, Default)]
pub(super) struct Chunks {
    at: At,
}

/// Where in a chunked body the next byte stands.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum At {
    /// Before the first digit of a chunk's size.
    #[default]
    Start,
    /// In the size, so far this.
    Size(usize),
    /// After the size, in an extension or before the end of the line.
    Extension(usize),
    /// So many bytes of data to come.
    Data(usize),
    /// After the data, before the end of the line.
    DataEnd,
    /// After the last chunk, at the start of a line, which an empty one ends.
    Trailer,
    /// In a line after the last chunk.
    TrailerLine,
    Ended,
}

impl Chunks {
    pub(super) fn ended(&self) -> bool {
        self.at == At::Ended
    }

    /// Gives the data in `input` to `take`, piece by piece.
    pub(super) fn decode(&mut self, mut input: &[u8], mut take: impl FnMut(&[u8])) -> Result<(), Failure> {
        while let Some((&byte, rest)) = input.split_first() {
            if let At::Data(left) = self.at {
                let (data, rest) = input.split_at(left.min(input.len()));
                take(data);
                input = rest;
                self.at = if data.len() == left { At::DataEnd } else { At::Data(left - data.len()) };
                continue;
            }
            self.at = self.at.after(byte)?;
            input = rest;
        }
        Ok(())
    }
}

impl At {
    /// Where the byte after `byte` stands; data is taken by [`Chunks::decode`] itself.
    fn after(self, byte: u8) -> Result<Self, Failure> {
        let digit = char::from(byte).to_digit(16).map(|digit| digit as usize);
        Ok(match (self, byte) {
            (Self::Start, _) => Self::Size(digit.ok_or(Failure::Malformed("a chunk without a size"))?),
            (Self::Size(size) | Self::Extension(size), b'\n') if size == 0 => Self::Trailer,
            (Self::Size(size) | Self::Extension(size), b'\n') => Self::Data(size),
            (Self::Size(size), _) => match digit {
                Some(digit) if size <= LARGEST_ANSWER => Self::Size(size * 16 + digit),
                Some(_) => return Err(Failure::Malformed("a chunk that is too large")),
                None => Self::Extension(size),
            },
            (Self::DataEnd, b'\n') => Self::Start,
            (Self::DataEnd, b'\r') => Self::DataEnd,
            (Self::DataEnd, _) => return Err(Failure::Malformed("a chunk longer than its size")),
            (Self::Trailer, b'\n') => Self::Ended,
            (Self::Trailer, b'\r') => Self::Trailer,
            (Self::Trailer, _) => Self::TrailerLine,
            (Self::TrailerLine, b'\n') => Self::Trailer,
            (Self::Ended, _) => return Err(Failure::Malformed("bytes after the last chunk")),
            (unchanged, _) => unchanged,
        })
    }
}
