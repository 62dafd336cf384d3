//! The clients. Each registers one tool, stays connected over SSE or a WebSocket, and answers its calls.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::{SinkExt, StreamExt, stream};
use handback_client::Transport;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error, Message};

use super::http::{Connection, Failure, Stream, json, within_patience};
use super::run::Run;

/// How many clients connect at the same time.
const CONNECTING: usize = 64;

/// How long connecting all clients may take; those that are left by then are counted as errors.
const CONNECTING_LIMIT: Duration = Duration::from_secs(120);

/// The name of every client's tool.
pub(super) const TOOL: &str = "read_file";

/// The output of the tool. Nothing else in an answer contains this text.
pub(super) const OUTPUT: &str = "fn main() {}";

/// The timeout of a call that is not answered, in milliseconds: longer than any measurement.
const HELD_FOR: u32 = 600_000;

/// The longest line of an event stream, in bytes; the requests of a bench have a few hundred.
const LONGEST_LINE: usize = 1 << 20;

/// The headers that ask for a WebSocket. The key guards against caches, and there are none, so it is constant.
const UPGRADE: &str = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
                       Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==";

/// The part of a call that the client needs to answer it.
#[derive(Deserialize)]
pub(super) struct Request<'a> {
    /// The id as it is in the JSON, with its quotes: it is sent back unread.
    #[serde(rename = "requestID", borrow)]
    pub(super) request_id: &'a RawValue,
}

/// The JSON that registers the tool.
pub(super) fn tool(run: &Run) -> String {
    let timeout = if run.held.is_some() { format!(r#""timeout":{HELD_FOR},"#) } else { String::new() };
    format!(
        r#"{{"id":"{TOOL}","description":"Reads a file.",{timeout}"parameters":{{"type":"object","properties":{{"path":{{"type":"string"}}}},"required":["path"]}}}}"#
    )
}

/// The members of the answer to a call; `None` if the clients hold their calls.
fn answer(run: &Run, request: &Request<'_>) -> Option<String> {
    if let Some(held) = &run.held {
        held.fetch_add(1, Ordering::Relaxed);
        return None;
    }
    let request_id = request.request_id;
    Some(format!(r#""requestID":{request_id},"result":{{"status":"success","title":"","output":"{OUTPUT}"}}"#))
}

/// Connects the clients, [`CONNECTING`] at a time. A client that cannot connect is counted as an error and left out. Returns
/// the ids of the clients and the tasks that answer their calls; dropping the tasks disconnects the clients.
pub(super) async fn connect(run: &Arc<Run>, transport: Transport, count: u32) -> (Vec<String>, JoinSet<()>) {
    // Runs against the same server must not share clients.
    let prefix = format!("bench-{:x}", fastrand::u64(..));
    let bar = run.progress("connecting", count.into(), "{pos}/{len} clients");
    let deadline = Instant::now() + CONNECTING_LIMIT;
    let (clients, serving) = (RefCell::new(Vec::new()), RefCell::new(JoinSet::new()));
    // Clients with event streams register over these connections, which are reused.
    let connections = RefCell::new(Vec::new());
    let connect = async |index| {
        let client_id = format!("{prefix}-{index}");
        let mut connection = connections.borrow_mut().pop().unwrap_or_else(|| Connection::new(&run.target));
        let connecting = async {
            if Instant::now() > deadline {
                return Err(Failure::Other(format!("given up after {} s", CONNECTING_LIMIT.as_secs())));
            }
            if transport == Transport::WebSocket {
                let socket = Socket::open(run, &client_id).await?;
                serving.borrow_mut().spawn(socket.serve(run.clone()));
            } else {
                let stream = open_events(run, &mut connection, &client_id).await?;
                serving.borrow_mut().spawn(serve_events(stream, run.clone()));
            }
            Ok(())
        };
        match within_patience(connecting).await {
            Ok(()) => clients.borrow_mut().push(client_id),
            Err(failure) => run.count("connect", &failure),
        }
        connections.borrow_mut().push(connection);
        bar.inc(1);
    };
    stream::iter(0..count).for_each_concurrent(CONNECTING, connect).await;
    (clients.into_inner(), serving.into_inner())
}

/// Opens the event stream of a client and registers its tool over another connection.
pub(super) async fn open_events(run: &Run, connection: &mut Connection, client_id: &str) -> Result<Stream, Failure> {
    let stream = Stream::events(&run.target, &format!("/client-tools/pending/{client_id}")).await?;
    let body = format!(r#"{{"clientID":"{client_id}","tools":[{}]}}"#, tool(run));
    connection.post("/client-tools/register", &body).await?;
    Ok(stream)
}

/// Answers the calls one after the other until the stream ends, or holds them.
pub(super) async fn serve_events(mut stream: Stream, run: Arc<Run>) {
    let mut connection = Connection::new(&run.target);
    let mut parser = EventParser::default();
    loop {
        let answers = match stream.read(&mut parser.text).await {
            Ok(true) => parser.parse(|request| answer(&run, &request)),
            Ok(false) => Err(Failure::Closed),
            Err(failure) => Err(failure),
        };
        let answers = match answers {
            Ok(answers) => answers,
            Err(failure) => return run.count("stream", &failure),
        };
        for answer in answers.iter().flatten() {
            if let Err(failure) = connection.post("/client-tools/result", &format!("{{{answer}}}")).await {
                run.count("result", &failure);
            }
        }
    }
}

/// Parses an event stream, wherever the reads cut it.
#[derive(Default)]
pub(super) struct EventParser {
    /// The text that is not parsed yet.
    pub(super) text: Vec<u8>,
    data: Vec<u8>,
    is_request: bool,
}

impl EventParser {
    /// Parses every complete line, and maps the calls among the events.
    pub(super) fn parse<T>(&mut self, map: impl Fn(Request<'_>) -> T) -> Result<Vec<T>, Failure> {
        let (mut parsed, mut mapped) = (0, Vec::new());
        while let Some(length) = self.text[parsed..].iter().position(|&byte| byte == b'\n') {
            let line = &self.text[parsed..parsed + length];
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            parsed += length + 1;
            if let Some(event) = line.strip_prefix(b"event: ") {
                self.is_request = event == b"tool-request";
            } else if let Some(data) = line.strip_prefix(b"data: ") {
                self.data.extend_from_slice(data);
            } else if line.is_empty() {
                if self.is_request {
                    mapped.push(map(json(&self.data, "a request without an id")?));
                }
                self.data.clear();
                self.is_request = false;
            }
        }
        self.text.drain(..parsed);
        if self.text.len() > LONGEST_LINE { Err(Failure::Malformed("an endless line")) } else { Ok(mapped) }
    }
}

/// The WebSocket of one client, over which it registers its tool and answers the calls.
pub(super) struct Socket(WebSocketStream<TcpStream>);

/// The part of a WebSocket message that the bench reads.
#[derive(Deserialize)]
struct Incoming<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    #[serde(borrow)]
    request: Option<Request<'a>>,
    #[serde(default)]
    accepted: bool,
    code: Option<String>,
}

impl Socket {
    /// Connects a client and registers its tool.
    pub(super) async fn open(run: &Run, client_id: &str) -> Result<Self, Failure> {
        let endpoint = format!("/client-tools/ws/{client_id}");
        let Stream { reader, .. } = Stream::open(&run.target, &endpoint, UPGRADE, 101).await?;
        // The default buffer is 128 KiB for each connection, and the messages here have a few hundred bytes.
        let config = WebSocketConfig::default().read_buffer_size(1024);
        let (received, socket) = (reader.buffer().to_vec(), reader.into_inner());
        let opened = WebSocketStream::from_partially_read(socket, received, Role::Client, Some(config)).await;
        let mut socket = Self(opened);
        socket.send(format!(r#"{{"type":"register","tools":[{}]}}"#, tool(run))).await?;
        while !socket.receive(|message| message.kind == "registered").await? {}
        Ok(socket)
    }

    /// Answers the calls until the connection ends, or holds them.
    pub(super) async fn serve(mut self, run: Arc<Run>) {
        loop {
            let sent = match self.receive(|message| answer(&run, message.request.as_ref()?)).await {
                Ok(Some(answer)) => self.send(format!(r#"{{"type":"result",{answer}}}"#)).await,
                Ok(None) => Ok(()),
                Err(failure) => Err(failure),
            };
            match sent {
                Ok(()) => {}
                // These do not end the connection.
                Err(failure @ (Failure::Refused(_) | Failure::Malformed(_))) => run.count("result", &failure),
                Err(failure) => return run.count("socket", &failure),
            }
        }
    }

    async fn send(&mut self, text: String) -> Result<(), Failure> {
        Ok(self.0.send(Message::text(text)).await?)
    }

    /// Reads a message. A message that is a refusal or an error is a failure.
    async fn receive<T>(&mut self, take: impl FnOnce(&Incoming<'_>) -> T) -> Result<T, Failure> {
        loop {
            let text = match self.0.next().await.transpose()? {
                Some(Message::Text(text)) => text,
                Some(Message::Close(Some(close))) => {
                    return Err(Failure::Other(format!("closed by the server with {}", u16::from(close.code))));
                }
                Some(Message::Close(None)) | None => return Err(Failure::Closed),
                Some(_) => continue,
            };
            // The text is valid UTF-8 already; parsing it as bytes would check that again.
            let message: Incoming<'_> = serde_json::from_str(&text)
                .map_err(|_| Failure::Malformed("a message that is none of the protocol"))?;
            if message.kind == "error" || (message.kind == "result" && !message.accepted) {
                return Err(Failure::Refused(message.code.unwrap_or_else(|| message.kind.to_owned())));
            }
            return Ok(take(&message));
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        match error {
            Error::Io(error) => Self::Io(error),
            Error::ConnectionClosed | Error::AlreadyClosed => Self::Closed,
            other => Self::Other(other.to_string()),
        }
    }
}
