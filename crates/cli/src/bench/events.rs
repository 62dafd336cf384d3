//! One client's SSE stream, read as far as the bench needs it: the ids of the calls that it is offered.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::net::TcpStream;

use super::clients::{Manner, answer_fields};
use super::http::{Chunks, Connection, Failure, Framing, Target, open_events, read_once, within};
use super::{Errors, PATIENCE};

/// A longer line is an error; the requests of a bench are a few hundred bytes.
const LONGEST_LINE: usize = 1 << 20;

/// The call's id as it stands in the JSON, quotes and all: it goes back unread.
pub(super) type RawId = Box<str>;

/// The part of a request that its answer needs.
#[derive(Deserialize)]
pub(super) struct Request<'a> {
    #[serde(rename = "requestID", borrow)]
    pub(super) request_id: &'a RawValue,
}

/// An open stream.
pub(super) struct EventStream {
    stream: TcpStream,
    /// `None` where the body is not chunked.
    chunks: Option<Chunks>,
    events: Events,
}

impl EventStream {
    /// Opens the stream of a client.
    pub(super) async fn open(target: &Target, client_id: &str) -> Result<Self, Failure> {
        let (stream, head, body) = open_events(target, &format!("/client-tools/pending/{client_id}")).await?;
        let chunks = (head.framing == Framing::Chunked).then(Chunks::default);
        let mut stream = Self { stream, chunks, events: Events::default() };
        stream.events.take(&mut stream.chunks, &body)?;
        Ok(stream)
    }

    /// Waits for bytes and adds the calls that are complete with them.
    async fn read(&mut self) -> Result<(), Failure> {
        let Self { stream, chunks, events } = self;
        read_once::<8192, _>(stream, |bytes| events.take(chunks, bytes)).await
    }

    /// Answers every call until the stream ends, each when the one before it is answered for; or answers none.
    pub(super) async fn serve(mut self, target: Arc<Target>, manner: Manner, errors: Arc<Errors>) {
        let mut connection = Connection::default();
        loop {
            for request_id in std::mem::take(&mut self.events.requests) {
                if let Manner::Hold(received) = &manner {
                    received.fetch_add(1, Ordering::Relaxed);
                    continue;
                }
                let request = target.post("/client-tools/result", &format!("{{{}}}", answer_fields(&request_id)));
                match within(PATIENCE, connection.exchange(&target, &request)).await {
                    Ok((200, _)) => {}
                    Ok((status, body)) => errors.count("result", &Failure::status(status, body)),
                    Err(failure) => errors.count("result", &failure),
                }
            }
            if let Err(failure) = self.read().await {
                errors.count("stream", &failure);
                return;
            }
        }
    }
}

/// The events of a stream, wherever the reads cut them.
#[derive(Debug, Default)]
pub(super) struct Events {
    /// The calls that were read and are not answered yet.
    pub(super) requests: Vec<RawId>,
    line: Vec<u8>,
    data: Vec<u8>,
    is_request: bool,
}

impl Events {
    /// Takes bytes as they came from the connection.
    fn take(&mut self, chunks: &mut Option<Chunks>, bytes: &[u8]) -> Result<(), Failure> {
        let Some(chunks) = chunks else { return self.feed(bytes) };
        let mut fed = Ok(());
        chunks.decode(bytes, |data| {
            if fed.is_ok() {
                fed = self.feed(data);
            }
        })?;
        if chunks.ended() { Err(Failure::Closed) } else { fed }
    }

    /// Takes bytes of the stream's text.
    pub(super) fn feed(&mut self, mut bytes: &[u8]) -> Result<(), Failure> {
        while let Some(end) = bytes.iter().position(|&byte| byte == b'\n') {
            self.line.extend_from_slice(&bytes[..end]);
            bytes = &bytes[end + 1..];
            let mut line = std::mem::take(&mut self.line);
            self.end_line(line.strip_suffix(b"\r").unwrap_or(&line))?;
            line.clear();
            self.line = line;
        }
        self.line.extend_from_slice(bytes);
        if self.line.len() > LONGEST_LINE { Err(Failure::Malformed("an endless line")) } else { Ok(()) }
    }

    fn end_line(&mut self, line: &[u8]) -> Result<(), Failure> {
        if line.is_empty() {
            if self.is_request {
                let request: Request<'_> =
                    serde_json::from_slice(&self.data).map_err(|_| Failure::Malformed("a request without an id"))?;
                self.requests.push(request.request_id.get().into());
            }
            self.data.clear();
            self.is_request = false;
        } else if let Some(event) = line.strip_prefix(b"event: ") {
            self.is_request = event == b"tool-request";
        } else if let Some(data) = line.strip_prefix(b"data: ") {
            self.data.extend_from_slice(data);
        }
        Ok(())
    }
}
