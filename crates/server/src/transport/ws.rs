//! WebSocket: one task that reads and writes, and never lets one wait for the other.

use std::collections::VecDeque;
use std::future::Future;
use std::time::Duration;

use axum::extract::ws::{CloseFrame, Message, Utf8Bytes, WebSocket, WebSocketUpgrade};
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt, StreamExt};
use handback_wire::socket::close;
use tokio::time::{Instant, MissedTickBehavior};
use tokio_tungstenite::tungstenite::Error as SocketError;

/// How many bytes of answers and pongs may wait to be written. Beyond it nothing is read. The last answer may exceed it.
const WAITING: usize = 64 << 10;
/// About how many bytes an answer takes besides its text, so that the number of small ones is bounded too.
const ANSWER: usize = 256;
/// How long the peer may take to receive the close frame.
const GOODBYE: Duration = Duration::from_secs(2);
/// The size of a connection's read buffer. Larger messages grow it. It is small because many connections are idle.
const READ_BUFFER: usize = 1024;

/// The settings of a socket.
#[derive(Debug, Clone, Copy)]
pub struct SocketSettings {
    /// The largest message. A larger one closes the connection.
    pub largest_message: usize,
    /// The time between pings.
    pub keepalive: Duration,
    /// How long the connection may last.
    pub lifetime: Option<Duration>,
}

impl SocketSettings {
    /// Sizes the buffers of a socket that is about to open.
    pub fn apply(&self, upgrade: WebSocketUpgrade) -> WebSocketUpgrade {
        upgrade
            .read_buffer_size(READ_BUFFER)
            .write_buffer_size(0)
            .max_message_size(self.largest_message)
            .max_frame_size(self.largest_message)
    }
}

/// What to write.
#[derive(Debug)]
pub enum Outgoing {
    /// A message.
    Text(String),
    /// The end: close the socket.
    Close(Close),
}

/// Why a socket is closed.
#[derive(Debug, Clone, Copy)]
pub struct Close {
    /// The code, which tells the peer whether to come back.
    pub code: u16,
    /// For people.
    pub reason: &'static str,
}

/// Our side of the conversation on a socket.
pub trait Speaker: Send {
    /// Waits for what to write next. The future may be dropped while it waits.
    fn next(&mut self) -> impl Future<Output = Outgoing> + Send;
    /// The answer to a message; `None` is one that is not text.
    fn answer(&mut self, message: Option<Utf8Bytes>) -> impl Future<Output = String> + Send;
}

/// Runs the conversation until the peer leaves or has to leave. The speaker is dropped before the close frame is sent.
pub async fn drive(socket: WebSocket, settings: SocketSettings, speaker: impl Speaker) {
    let (mut sink, mut stream) = socket.split();
    let close = talk(&mut sink, &mut stream, settings, speaker).await.unwrap_or_else(close_after);
    let goodbye = async {
        if let Some(Close { code, reason }) = close {
            sink.send(Message::Close(Some(CloseFrame { code, reason: reason.into() }))).await?;
        }
        sink.close().await
    };
    // A peer that does not take it has gone, and needs no close frame.
    _ = tokio::time::timeout(GOODBYE, goodbye).await;
}

async fn talk(
    sink: &mut SplitSink<WebSocket, Message>,
    stream: &mut SplitStream<WebSocket>,
    settings: SocketSettings,
    mut speaker: impl Speaker,
) -> Result<Option<Close>, axum::Error> {
    let mut answers = Answers::default();
    let mut unwritten = false;
    let mut ping = tokio::time::interval_at(Instant::now() + settings.keepalive, settings.keepalive);
    ping.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let far = Duration::from_secs(365 * 24 * 60 * 60);
    let end = Instant::now() + settings.lifetime.unwrap_or(far).min(far);
    loop {
        if !unwritten && let Some(answer) = answers.next() {
            sink.feed(Message::text(answer)).await?;
            unwritten = true;
        }
        tokio::select! {
            flushed = sink.flush(), if unwritten => {
                flushed?;
                unwritten = false;
                answers.pongs = 0;
            }
            read = stream.next(), if answers.waiting() < WAITING => match read.transpose()? {
                Some(Message::Text(text)) => answers.add(speaker.answer(Some(text)).await),
                Some(Message::Binary(_)) => answers.add(speaker.answer(None).await),
                // The socket has queued a pong, which the next flush writes.
                Some(Message::Ping(_)) => {
                    answers.pongs += ANSWER;
                    unwritten = true;
                }
                Some(Message::Pong(_)) => {}
                Some(Message::Close(_)) | None => return Ok(None),
            },
            outgoing = speaker.next(), if !unwritten => match outgoing {
                Outgoing::Text(text) => {
                    sink.feed(Message::text(text)).await?;
                    unwritten = true;
                }
                Outgoing::Close(close) => return Ok(Some(close)),
            },
            _ = ping.tick(), if !unwritten => {
                sink.feed(Message::Ping(bytes::Bytes::new())).await?;
                unwritten = true;
            }
            () = tokio::time::sleep_until(end), if settings.lifetime.is_some() => {
                return Ok(Some(Close { code: close::POLICY, reason: "the token has expired" }));
            }
        }
    }
}

/// The replies to what was read that wait to be written.
#[derive(Default)]
struct Answers {
    texts: VecDeque<String>,
    /// About how many bytes the texts take.
    bytes: usize,
    /// About how many bytes the pongs take, which the socket queues by itself.
    pongs: usize,
}

impl Answers {
    fn add(&mut self, text: String) {
        self.bytes += ANSWER + text.len();
        self.texts.push_back(text);
    }

    fn next(&mut self) -> Option<String> {
        let text = self.texts.pop_front()?;
        self.bytes -= ANSWER + text.len();
        Some(text)
    }

    fn waiting(&self) -> usize {
        self.bytes + self.pongs
    }
}

/// How to close after an error; `None` if the peer has gone.
fn close_after(error: axum::Error) -> Option<Close> {
    match error.into_inner().downcast_ref::<SocketError>() {
        Some(SocketError::Capacity(_)) => Some(Close { code: close::TOO_BIG, reason: "the message is too big" }),
        Some(SocketError::Io(error)) if error.kind() == std::io::ErrorKind::TimedOut => {
            Some(Close { code: close::TOO_SLOW, reason: "too slow" })
        }
        Some(SocketError::Utf8(_)) => Some(Close { code: 1007, reason: "text must be UTF-8" }),
        Some(SocketError::Protocol(_)) => Some(Close { code: 1002, reason: "this is not WebSocket" }),
        _ => None,
    }
}
