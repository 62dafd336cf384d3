//! A connection that is a WebSocket: calls come on it, and everything that the client says goes on it.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::stream::{self, SplitSink, SplitStream};
use futures_util::{SinkExt, StreamExt};
use handback_wire::client_tools::{RegisterRequest, ResultRequest, ToolCancel, UnregisterRequest};
use handback_wire::error::ErrorCode;
use handback_wire::socket::{ClientMessage, Numbered, ServerMessage, close};
use reqwest::Upgraded;
use serde::Deserialize;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{interval, sleep, timeout};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role, WebSocketConfig};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::clock::ServerClock;
use super::incoming::{Incoming, IncomingStream};
use crate::api::Api;
use crate::error::{Error, Refusal};
use crate::http::{MAX_EVENT_BYTES, answer_timeout, root_cause, sending_time};

/// Events that wait to be taken; then the socket is not read.
const MAX_EVENTS: usize = 64;
/// Messages that wait to be sent; then whoever wants to send one more waits.
const MAX_OUTGOING: usize = 64;
/// How long a message may take to be written, beyond what its size needs; then the connection is dead.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);
/// However little silence is borne.
const SHORTEST_PING: Duration = Duration::from_millis(10);
/// How long closing may take, and how long is listened for the reason when nothing can be written any more.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

type Stream = WebSocketStream<Upgraded>;
type AnswerSender = oneshot::Sender<Result<ServerMessage, Error>>;

/// Takes over a connection that was upgraded; `date` is the server's clock at that time. Gives what comes on it, and the
/// way to say something on it.
pub(super) async fn start(
    upgraded: Upgraded,
    date: Option<&str>,
    api: &Api,
    silence: Duration,
    tasks: &TaskTracker,
) -> (IncomingStream, SocketSpeaker) {
    let config =
        WebSocketConfig::default().max_message_size(Some(MAX_EVENT_BYTES)).max_frame_size(Some(MAX_EVENT_BYTES));
    let (sink, stream) = Stream::from_raw_socket(upgraded, Role::Client, Some(config)).await.split();
    let (sender, events) = mpsc::channel(MAX_EVENTS);
    let (outgoing, to_send) = mpsc::channel(MAX_OUTGOING);
    let closing = CancellationToken::new();
    let socket = Socket {
        events: sender,
        unanswered: Mutex::default(),
        clock: ServerClock::new(date),
        api: api.clone(),
        silence,
        closing: closing.clone(),
    };
    tasks.spawn(socket.run(stream, sink, to_send));
    let incoming = stream::unfold((events, closing.drop_guard()), |(mut events, close)| async move {
        Some((events.recv().await?, (events, close)))
    });
    (incoming.boxed(), SocketSpeaker { outgoing, next_reference: AtomicU64::new(1), api: api.clone() })
}

/// Speaks on a socket. What it says is answered, or the socket is lost.
pub(super) struct SocketSpeaker {
    outgoing: mpsc::Sender<Outgoing>,
    next_reference: AtomicU64,
    api: Api,
}

impl SocketSpeaker {
    pub(super) async fn register(&self, request: &RegisterRequest) -> Result<(), Error> {
        let message = ClientMessage::Register { tools: &request.tools, session_id: request.session_id.as_deref() };
        self.ask(message).await.map(drop)
    }

    pub(super) async fn unregister(&self, request: &UnregisterRequest) -> Result<(), Error> {
        let (tool_ids, session_id) = (request.tool_ids.as_deref(), request.session_id.as_deref());
        self.ask(ClientMessage::Unregister { tool_ids, session_id }).await.map(drop)
    }

    pub(super) async fn result(&self, request: &ResultRequest) -> Result<(), Error> {
        let message = ClientMessage::Result { request_id: &request.request_id, result: &request.result };
        match self.ask(message).await? {
            ServerMessage::Result { accepted: false, code, .. } => {
                let code = code.unwrap_or(ErrorCode::InternalError);
                let why = match code {
                    ErrorCode::NotFound => "it does not know the call",
                    ErrorCode::Conflict => "it has taken another one",
                    ErrorCode::Gone => "the call is over",
                    ErrorCode::Forbidden => "it is another client's call",
                    _ => "it cannot",
                };
                Err(refused(code, format!("the server did not take the result: {why}")))
            }
            _ => Ok(()),
        }
    }

    async fn ask(&self, message: ClientMessage<'_>) -> Result<ServerMessage, Error> {
        let reference = self.next_reference.fetch_add(1, Ordering::Relaxed);
        let text = serde_json::to_string(&Numbered { message, reference })
            .map_err(|error| refused(ErrorCode::InvalidRequest, error.to_string()))?;
        let (longest, (answer, answered)) = (answer_timeout(text.len()), oneshot::channel());
        let lost = || self.api.interrupted("the connection was lost before the server answered".to_owned());
        let asking = async {
            self.outgoing.send(Outgoing { text, reference, answer }).await.map_err(|_| lost())?;
            tokio::select! {
                biased;
                Ok(answer) = answered => answer,
                // A message that is sent just when the socket is lost may stay in the channel, and never be answered.
                () = self.outgoing.closed() => Err(lost()),
            }
        };
        let late = |_| Err(self.api.interrupted("no answer came in time".to_owned()));
        match timeout(longest, asking).await.unwrap_or_else(late)? {
            ServerMessage::Error { error, code } => Err(refused(code, error)),
            answer => Ok(answer),
        }
    }
}

fn refused(code: ErrorCode, message: String) -> Error {
    Error::Refused(Box::new(Refusal {
        status: code.status(),
        code: Some(code),
        message,
        body: None,
        retry_after: None,
    }))
}

struct Outgoing {
    text: String,
    reference: u64,
    answer: AnswerSender,
}

/// A socket, read and written in one task.
struct Socket {
    events: mpsc::Sender<Result<Incoming, Error>>,
    /// The messages that were sent and not answered yet, with their size.
    unanswered: Mutex<HashMap<u64, (usize, AnswerSender)>>,
    clock: ServerClock,
    api: Api,
    silence: Duration,
    /// Fires when nobody takes the events any more.
    closing: CancellationToken,
}

impl Socket {
    /// Reads and writes until one of them cannot go on, and says why; whoever waits for an answer is told as well.
    async fn run(
        self,
        stream: SplitStream<Stream>,
        sink: SplitSink<Stream, Message>,
        mut to_send: mpsc::Receiver<Outgoing>,
    ) {
        let mut reading = pin!(self.read_all(stream));
        let lost = tokio::select! {
            lost = &mut reading => lost,
            lost = self.write_all(sink, &mut to_send) => match lost {
                // The server may have said why before it went.
                Some(error) => timeout(CLOSE_TIMEOUT, reading).await.unwrap_or(Some(error)),
                None => None,
            },
            // The other end finds out by itself if it does not take the goodbye.
            () = async { self.closing.cancelled().await; sleep(CLOSE_TIMEOUT).await } => None,
        };
        if let Some(error) = lost {
            // Nobody listens any more when the socket was dropped.
            let _ = self.events.send(Err(error)).await;
        }
    }

    /// Writes until the socket is dropped (`None`) or lost.
    async fn write_all(
        &self,
        mut sink: SplitSink<Stream, Message>,
        to_send: &mut mpsc::Receiver<Outgoing>,
    ) -> Option<Error> {
        // A ping now and then: without an answer the reader finds the connection silent.
        let mut pings = interval((self.silence / 3).max(SHORTEST_PING));
        pings.reset();
        loop {
            let text = tokio::select! {
                () = self.closing.cancelled() => {
                    // It fails when the other end is gone already.
                    let _ = sink.close().await;
                    return None;
                }
                outgoing = to_send.recv() => {
                    let Outgoing { text, reference, answer } = outgoing?;
                    let mut unanswered = self.unanswered();
                    // Those whose asker has gone are of no use.
                    unanswered.retain(|_, (_, answer)| !answer.is_closed());
                    unanswered.insert(reference, (text.len(), answer));
                    text
                }
                _ = pings.tick() => r#"{"type":"ping"}"#.to_owned(),
            };
            let longest = WRITE_TIMEOUT + sending_time(text.len());
            match timeout(longest, sink.send(Message::text(text))).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => return Some(self.api.interrupted(root_cause(&error))),
                Err(_elapsed) => return Some(self.api.interrupted("the server does not read".to_owned())),
            }
        }
    }

    /// Reads until the socket is dropped (`None`) or lost.
    async fn read_all(&self, mut stream: SplitStream<Stream>) -> Option<Error> {
        loop {
            let lost = match timeout(self.silence, stream.next()).await {
                Ok(Some(Ok(Message::Text(text)))) => {
                    if let Some(incoming) = self.read(&text) {
                        self.events.send(Ok(incoming)).await.ok()?;
                    }
                    continue;
                }
                Ok(Some(Ok(Message::Close(frame)))) => return Some(self.closed(frame)),
                Ok(Some(Ok(_))) => continue,
                Ok(Some(Err(error))) => root_cause(&error),
                Ok(None) => "the server cut it".to_owned(),
                Err(_elapsed) => "the server is silent".to_owned(),
            };
            return Some(self.api.interrupted(lost));
        }
    }

    /// Reads a message; an answer goes to whoever waits for it.
    fn read(&self, text: &str) -> Option<Incoming> {
        #[derive(Deserialize)]
        struct Head {
            #[serde(rename = "ref")]
            reference: Option<u64>,
        }
        let read = || Ok((serde_json::from_str::<Head>(text)?, serde_json::from_str::<ServerMessage>(text)?));
        let (Head { reference }, message) = read()
            // It cannot be answered, and one bad message must not end the connection.
            .inspect_err(|error: &serde_json::Error| tracing::warn!(%error, "a message that cannot be read"))
            .ok()?;
        match (reference, message) {
            (_, ServerMessage::Request { request }) => {
                let deadline = self.clock.deadline(&request.deadline);
                return Some(Incoming::Request(request, deadline));
            }
            (_, ServerMessage::Cancel { request_id, reason }) => {
                return Some(Incoming::Cancel(ToolCancel { request_id, reason }));
            }
            (Some(reference), answer) => self.answer(reference, Ok(answer)),
            (None, ServerMessage::Error { error, .. }) => tracing::warn!(error, "the server did not take a message"),
            (None, _) => {}
        }
        None
    }

    fn unanswered(&self) -> MutexGuard<'_, HashMap<u64, (usize, AnswerSender)>> {
        self.unanswered.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn answer(&self, reference: u64, message: Result<ServerMessage, Error>) {
        let answer = self.unanswered().remove(&reference);
        if let Some((_, answer)) = answer {
            let _ = answer.send(message);
        }
    }

    /// The server closes the socket when a message is too large, and does not say which. The largest was.
    fn refuse_largest(&self) {
        let largest = self.unanswered().iter().max_by_key(|(_, (size, _))| *size).map(|(reference, _)| *reference);
        if let Some(reference) = largest {
            let message = "it is larger than the server takes".to_owned();
            self.answer(reference, Err(refused(ErrorCode::TooLarge, message)));
        }
    }

    /// Why the server closed, and whether to come back.
    fn closed(&self, frame: Option<CloseFrame>) -> Error {
        let url = self.api.url().to_owned();
        let Some(CloseFrame { code, reason }) = frame else {
            return self.api.interrupted("the server closed it".to_owned());
        };
        match u16::from(code) {
            close::SUPERSEDED => Error::Superseded { url },
            close::POLICY => Error::Closed { url, reason: format!("the server closed the connection: {reason}") },
            code => {
                if code == close::TOO_BIG {
                    self.refuse_largest();
                }
                self.api.interrupted(format!("the server closed it ({code}: {reason})"))
            }
        }
    }
}
