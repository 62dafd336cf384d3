//! HTTP/1.1 as far as blocking threads need it here: a request on a connection of its own, requests on one that is kept, a stream
//! of events, and a body that is thrown away.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use anyhow::{Context, ensure};

/// Nothing waits longer for an answer.
const PATIENCE: Duration = Duration::from_secs(60);

/// One request on a connection of its own; returns the status.
pub(crate) fn ask(address: &str, line: &str, body: &str) -> anyhow::Result<u16> {
    let mut stream = connect(address)?;
    stream.write_all(head(address, line, "close", body).as_bytes())?;
    // A server that refuses a body early does not read the rest of it.
    let _ = stream.write_all(body.as_bytes());
    let mut answer = Vec::new();
    // What counts is the status: a connection that is reset after it has told all there is to know.
    let _ = stream.read_to_end(&mut answer);
    status(&answer).with_context(|| format!("no answer to {line}"))
}

/// Asks for something large and throws it away; returns how much it was, with the head of the answer.
pub(crate) fn discard(address: &str, path: &str) -> anyhow::Result<u64> {
    let mut stream = connect(address)?;
    stream.write_all(head(address, &format!("GET {path}"), "close", "").as_bytes())?;
    let mut space = vec![0; 256 << 10];
    let mut total = stream.read(&mut space)?;
    let status = status(&space[..total]).with_context(|| format!("no answer to GET {path}"))?;
    ensure!(status == 200, "GET {path} answered {status}");
    loop {
        match stream.read(&mut space)? {
            0 => return Ok(total as u64),
            more => total += more,
        }
    }
}

fn connect(address: &str) -> anyhow::Result<TcpStream> {
    let stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

fn head(address: &str, line: &str, connection: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "{line} HTTP/1.1\r\nhost: {address}\r\nconnection: {connection}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n"
    )
}

fn status(answer: &[u8]) -> Option<u16> {
    std::str::from_utf8(answer.get(9..12)?).ok()?.parse().ok()
}

/// A connection that is kept.
pub(crate) struct Line {
    address: String,
    stream: BufReader<TcpStream>,
}

impl Line {
    pub(crate) fn open(address: &str) -> anyhow::Result<Self> {
        Ok(Self { address: address.to_owned(), stream: BufReader::new(connect(address)?) })
    }

    /// Makes a request and returns the body of its answer, which must have a length and be a success.
    pub(crate) fn ask(&mut self, line: &str, body: &str) -> anyhow::Result<Vec<u8>> {
        let request = head(&self.address, line, "keep-alive", body) + body;
        self.stream.get_mut().write_all(request.as_bytes())?;
        let (status, length) = self.read_head().with_context(|| format!("no answer to {line}"))?;
        // 204 is an answer without a body.
        let length = length.or((status == 204).then_some(0));
        let mut answer = vec![0; length.with_context(|| format!("{line}: an answer without a length"))?];
        self.stream.read_exact(&mut answer)?;
        ensure!((200..300).contains(&status), "{line} answered {status}: {}", String::from_utf8_lossy(&answer));
        Ok(answer)
    }

    /// Turns it into a stream of events.
    pub(crate) fn into_events(mut self, path: &str) -> anyhow::Result<Events> {
        let request = head(&self.address, &format!("GET {path}"), "keep-alive", "");
        self.stream.get_mut().write_all(request.as_bytes())?;
        let (status, _) = self.read_head().with_context(|| format!("no answer to GET {path}"))?;
        ensure!(status == 200, "GET {path} answered {status}");
        Ok(Events { stream: self.stream })
    }

    /// The status and the length of the body.
    fn read_head(&mut self) -> anyhow::Result<(u16, Option<usize>)> {
        let first = self.next_line()?;
        let status = status(first.as_bytes()).with_context(|| format!("not understood: {first}"))?;
        let mut length = None;
        loop {
            let field = self.next_line()?.to_ascii_lowercase();
            if let Some(value) = field.strip_prefix("content-length:") {
                length = Some(value.trim().parse()?);
            }
            if field.trim().is_empty() {
                return Ok((status, length));
            }
        }
    }

    fn next_line(&mut self) -> anyhow::Result<String> {
        let mut line = String::new();
        ensure!(self.stream.read_line(&mut line)? > 0, "the server closed the connection");
        Ok(line)
    }
}

/// A stream of server-sent events.
pub(crate) struct Events {
    stream: BufReader<TcpStream>,
}

impl Events {
    /// Waits for an event that has this in its data. Chunks are not taken apart: each event comes as one.
    pub(crate) fn wait_for(&mut self, text: &str) -> anyhow::Result<()> {
        let mut line = String::new();
        loop {
            line.clear();
            ensure!(self.stream.read_line(&mut line)? > 0, "the server closed a stream");
            if line.starts_with("data:") && line.contains(text) {
                return Ok(());
            }
        }
    }
}
