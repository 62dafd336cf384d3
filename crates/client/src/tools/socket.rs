//! A WebSocket connection, which carries the calls and the client's requests.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt, StreamExt};
use handback_wire::client_tools::ToolCancel;
use handback_wire::error::ErrorCode;
use handback_wire::socket::{ClientMessage, Numbered, ServerMessage, close};
use reqwest::Upgraded;
use serde::Deserialize;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{interval, sleep, timeout};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role, WebSocketConfig};
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use super::clock::ServerClock;
use super::connection::ConnectionEvent;
use crate::api::Api;
use crate::error::{Error, Refusal};
use crate::http::{MAX_EVENT_BYTES, answer_timeout, root_cause, sending_time};
use crate::lock::lock;

/// How many events wait to be taken; the socket is not read while there are more.
const MAX_EVENTS: usize = 64;
/// How many messages wait to be sent; further senders wait for room.
const MAX_OUTGOING: usize = 64;
/// How long writing a message may take, beyond what its size needs; then the connection counts as lost.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);
/// The shortest interval between two pings.
const MIN_PING_INTERVAL: Duration = Duration::from_millis(10);
/// How long closing may take, and how long the reason is awaited when writing fails.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

type Stream = WebSocketStream<Upgraded>;
type AnswerSender = oneshot::Sender<Result<ServerMessage, Error>>;

/// Takes over an upgraded connection; `date` is the server's clock at that time.
pub(super) async fn start(
    upgraded: Upgraded,
    date: Option<&str>,
    api: &Api,
    silence: Duration,
    tasks: &TaskTracker,
) -> (SocketEvents, SocketUplink) {
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
    let events = SocketEvents { events, api: api.clone(), _close_on_drop: closing.drop_guard() };
    (events, SocketUplink { outgoing, next_reference: AtomicU64::new(1), api: api.clone() })
}

/// Reads messages as a socket does; returns each event. The first messages can be answers to two that wait.
pub(crate) fn events_of(api: &Api, messages: &[&str]) -> Vec<String> {
    let socket = Socket {
        events: mpsc::channel(1).0,
        unanswered: Mutex::new((1..=2).map(|reference| (reference, (1, oneshot::channel().0))).collect()),
        clock: ServerClock::new(Some("Thu, 01 Jan 2026 00:00:00 GMT")),
        api: api.clone(),
        silence: CLOSE_TIMEOUT,
        closing: CancellationToken::new(),
    };
    messages.iter().filter_map(|text| socket.read(text)).map(|event| format!("{event:?}")).collect()
}

/// The events of a socket. Dropping them closes the socket.
pub(super) struct SocketEvents {
    events: mpsc::Receiver<Result<ConnectionEvent, Error>>,
    api: Api,
    _close_on_drop: DropGuard,
}

impl SocketEvents {
    pub(super) async fn next(&mut self) -> Result<ConnectionEvent, Error> {
        let closed = || Err(self.api.interrupted("the connection is closed".to_owned()));
        self.events.recv().await.unwrap_or_else(closed)
    }
}

/// Sends messages on a socket, and waits for their answers.
pub(super) struct SocketUplink {
    outgoing: mpsc::Sender<Outgoing>,
    next_reference: AtomicU64,
    api: Api,
}

impl SocketUplink {
    /// Sends a message, and returns when the server has accepted it.
    pub(super) async fn send(&self, message: ClientMessage<'_>) -> Result<(), Error> {
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
                // A message that is sent while the socket breaks may stay in the channel, and never be answered.
                () = self.outgoing.closed() => Err(lost()),
            }
        };
        let late = |_| Err(self.api.interrupted("no answer came in time".to_owned()));
        match timeout(longest, asking).await.unwrap_or_else(late)? {
            ServerMessage::Error { error, code } => Err(refused(code, error)),
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
}

fn refused(code: ErrorCode, message: String) -> Error {
    let (status, code) = (code.status(), Some(code));
    Error::Refused(Box::new(Refusal { status, code, message, body: None, retry_after: None, is_ours: true }))
}

struct Outgoing {
    text: String,
    reference: u64,
    answer: AnswerSender,
}

/// A socket, read and written in one task.
struct Socket {
    events: mpsc::Sender<Result<ConnectionEvent, Error>>,
    /// The messages that were sent and not answered yet, by reference, with their size.
    unanswered: Mutex<HashMap<u64, (usize, AnswerSender)>>,
    clock: ServerClock,
    api: Api,
    silence: Duration,
    /// Fires when the events are dropped.
    closing: CancellationToken,
}

impl Socket {
    /// Reads and writes until the socket is closed or lost. If it is lost, the last event is the error; requests that
    /// are not answered fail when this returns.
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
                // The server may have sent the reason before it closed the connection.
                Some(error) => timeout(CLOSE_TIMEOUT, reading).await.unwrap_or(Some(error)),
                None => None,
            },
            // A server that does not take the close frame detects the end by itself.
            () = async { self.closing.cancelled().await; sleep(CLOSE_TIMEOUT).await } => None,
        };
        if let Some(error) = lost {
            // The send fails if the events were dropped.
            let _ = self.events.send(Err(error)).await;
        }
    }

    /// Writes until the socket is dropped (`None`) or lost.
    async fn write_all(
        &self,
        mut sink: SplitSink<Stream, Message>,
        to_send: &mut mpsc::Receiver<Outgoing>,
    ) -> Option<Error> {
        // Without answers to these pings, the reader finds the connection silent.
        let mut pings = interval((self.silence / 3).max(MIN_PING_INTERVAL));
        pings.reset();
        loop {
            let text = tokio::select! {
                () = self.closing.cancelled() => {
                    // Closing fails if the server is gone already.
                    let _ = sink.close().await;
                    return None;
                }
                outgoing = to_send.recv() => {
                    let Outgoing { text, reference, answer } = outgoing?;
                    let mut unanswered = lock(&self.unanswered);
                    // Senders that gave up need no answer.
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
                    if let Some(event) = self.read(&text) {
                        self.events.send(Ok(event)).await.ok()?;
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

    /// Reads a message: returns an event, or passes an answer to the sender that waits for it.
    fn read(&self, text: &str) -> Option<ConnectionEvent> {
        #[derive(Deserialize)]
        struct Reference {
            #[serde(rename = "ref")]
            reference: Option<u64>,
        }
        let read = || Ok((serde_json::from_str::<Reference>(text)?, serde_json::from_str::<ServerMessage>(text)?));
        let (Reference { reference }, message) = read()
            // One message that cannot be read must not end the connection.
            .inspect_err(|error: &serde_json::Error| tracing::warn!(%error, "a message that cannot be read"))
            .ok()?;
        match (reference, message) {
            (_, ServerMessage::Request { request }) => {
                let deadline = self.clock.deadline(&request.deadline);
                return Some(ConnectionEvent::Request(request, deadline));
            }
            (_, ServerMessage::Cancel { request_id, reason }) => {
                return Some(ConnectionEvent::Cancel(ToolCancel { request_id, reason }));
            }
            (Some(reference), answer) => self.answer(reference, Ok(answer)),
            (None, ServerMessage::Error { error, .. }) => tracing::warn!(error, "the server did not take a message"),
            (None, _) => {}
        }
        None
    }

    fn answer(&self, reference: u64, message: Result<ServerMessage, Error>) {
        let answer = lock(&self.unanswered).remove(&reference);
        if let Some((_, answer)) = answer {
            let _ = answer.send(message);
        }
    }

    /// Refuses the largest unanswered message: if one is too large, the server closes the socket without saying which.
    fn refuse_largest(&self) {
        let largest = lock(&self.unanswered).iter().max_by_key(|(_, (size, _))| *size).map(|(reference, _)| *reference);
        if let Some(reference) = largest {
            let message = "it is larger than the server takes".to_owned();
            self.answer(reference, Err(refused(ErrorCode::TooLarge, message)));
        }
    }

    /// The error for a close frame.
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
