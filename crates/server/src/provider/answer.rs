//! Reads a provider's answer event by event, bounded in size and time, and yields the model's events.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use futures_util::{Stream, StreamExt, TryFutureExt, TryStreamExt, stream};
use handback_core::sessions::{ModelEvent, ModelRequest, ModelStream};
use reqwest::Response;
use sse_stream::{Sse, SseByteStream};
use tokio::time::{Instant, timeout_at};

use super::RequestBounds;
use super::conversation::ChatEntry;
use super::fault::Fault;
use super::queue::EventQueue;
use super::upstream::{Question, Upstream};

/// How many times [`RequestBounds::stall`] may pass without an event while other bytes come: comments, which routers send
/// while they wait, or pieces of an event. Then the answer ends as a silent one does.
const STALLS_WITHOUT_EVENT: u32 = 5;

/// How many calls one answer may have. With more it ends with an error.
pub(super) const MOST_CALLS: usize = 256;

/// Reads the stream of one kind of provider, and adds the model's events to a queue.
pub(super) trait Decode: Send + 'static {
    /// Reads the data of one event.
    fn read(&mut self, data: &str, events: &mut EventQueue) -> Result<(), Fault>;

    /// Whether the model has said that it is done.
    fn is_done(&self) -> bool;

    /// Ends the stream. If the model is done, this adds the end of its answer.
    fn end(&mut self, events: &mut EventQueue);
}

/// Writes a request, sends it when the stream is first polled, and streams the answer. Dropping the stream closes the
/// connection.
pub(super) fn stream<'a>(
    upstream: &Arc<Upstream>,
    request: &ModelRequest<'a>,
    write: impl Fn(Vec<ChatEntry<'a>>) -> serde_json::Result<Vec<u8>>,
    decoder: impl Decode,
) -> ModelStream {
    let question = Question::new(request, upstream, write);
    let (asked, model) = (Arc::clone(upstream), Arc::<str>::from(request.model));
    let (upstream, name) = (Arc::clone(upstream), Arc::clone(&model));
    let answer = async move {
        let deadline = Instant::now() + upstream.bounds.whole;
        let response = match timeout_at(deadline, upstream.ask(&name, question?)).await {
            Ok(response) => response?,
            Err(_elapsed) => return Err(Fault::endless(upstream.bounds.whole)),
        };
        Ok(EventReader::new(response, upstream.bounds, deadline, decoder).into_stream())
    };
    Box::pin(answer.try_flatten_stream().map_err(move |fault| asked.error(&model, &fault)))
}

/// Reads an answer that comes in these pieces, up to its end or its first fault.
pub(super) async fn events_of(pieces: Vec<Bytes>, decoder: impl Decode) -> Vec<Result<ModelEvent, String>> {
    let body = reqwest::Body::wrap_stream(stream::iter(pieces.into_iter().map(Ok::<_, Fault>)));
    let response = Response::from(axum::http::Response::new(body));
    let bounds = RequestBounds::default();
    let events = EventReader::new(response, bounds, Instant::now() + bounds.whole, decoder).into_stream();
    events.map_err(|fault| fault.to_string()).collect().await
}

struct EventReader<D> {
    frames: Pin<Box<dyn Stream<Item = Result<Sse, sse_stream::Error>> + Send>>,
    /// How many bytes came since the last frame ended.
    unfinished: Arc<AtomicUsize>,
    decoder: D,
    events: EventQueue,
    bounds: RequestBounds,
    /// Whether an event has come.
    has_begun: bool,
    /// Since when the model is done.
    done: Option<Instant>,
    is_over: bool,
}

impl<D: Decode> EventReader<D> {
    fn new(response: Response, bounds: RequestBounds, deadline: Instant, decoder: D) -> Self {
        let unfinished = Arc::default();
        let body = BoundedBody { response, bounds, deadline, total: 0, unfinished: Arc::clone(&unfinished) };
        let chunks = stream::try_unfold(body, |mut body| async move {
            let chunk = body.next().await?;
            Ok::<_, Fault>(chunk.map(|chunk| (chunk, body)))
        });
        let (frames, events) = (Box::pin(SseByteStream::new(chunks)), EventQueue::default());
        Self { frames, unfinished, decoder, events, bounds, has_begun: false, done: None, is_over: false }
    }

    fn into_stream(self) -> impl Stream<Item = Result<ModelEvent, Fault>> {
        stream::try_unfold(self, |mut reader| async move {
            let event = reader.next().await?;
            Ok(event.map(|event| (event, reader)))
        })
    }

    async fn next(&mut self) -> Result<Option<ModelEvent>, Fault> {
        // The wait starts now and not with the last event: a slow reader is not the provider's fault.
        let mut waiting_since = Instant::now();
        while !self.is_over {
            if let Some(event) = self.events.pop() {
                self.is_over = matches!(event, ModelEvent::Stop(_));
                return Ok(Some(event));
            }
            // Other bytes do not extend this: comments are no sign that the model lives.
            let patience =
                if self.has_begun { self.bounds.stall * STALLS_WITHOUT_EVENT } else { self.bounds.first_byte };
            let until = self.done.map_or(waiting_since + patience, |since| since + self.bounds.last_words);
            let frame = timeout_at(until, self.frames.next()).await;
            let may_be_whole = self.done.is_some() || matches!(frame, Ok(None));
            let fault = match frame {
                Ok(Some(Ok(frame))) => {
                    self.unfinished.store(0, Ordering::Relaxed);
                    // The parser also yields blocks without data, which are no events.
                    if let Some(data) = frame.data {
                        (self.has_begun, waiting_since) = (true, Instant::now());
                        self.decoder.read(&data, &mut self.events)?;
                        self.done = self.decoder.is_done().then(|| self.done.unwrap_or(waiting_since));
                    }
                    continue;
                }
                Ok(Some(Err(sse_stream::Error::Body(error)))) => match error.downcast::<Fault>() {
                    Ok(fault) => *fault,
                    Err(error) => Fault::cut(Some(&*error)),
                },
                Ok(Some(Err(error))) => Fault::unreadable(&error),
                Ok(None) => Fault::cut(None),
                Err(_elapsed) => Fault::silent(patience),
            };
            // Once the model is done, the rest of the stream is not missed.
            if may_be_whole {
                self.decoder.end(&mut self.events);
            }
            if self.events.is_empty() {
                return Err(fault);
            }
        }
        Ok(None)
    }
}

/// The body of an answer. It counts the bytes, because the parser behind it has no bounds of its own.
struct BoundedBody {
    response: Response,
    bounds: RequestBounds,
    deadline: Instant,
    total: usize,
    unfinished: Arc<AtomicUsize>,
}

impl BoundedBody {
    async fn next(&mut self) -> Result<Option<Bytes>, Fault> {
        let patience = if self.total == 0 { self.bounds.first_byte } else { self.bounds.stall };
        let limit = (Instant::now() + patience).min(self.deadline);
        let chunk = match timeout_at(limit, self.response.chunk()).await {
            Ok(Ok(Some(chunk))) => chunk,
            Ok(Ok(None)) => return Ok(None),
            Ok(Err(error)) => return Err(Fault::cut(Some(&error.without_url()))),
            Err(_elapsed) if limit == self.deadline => return Err(Fault::endless(self.bounds.whole)),
            Err(_elapsed) => return Err(Fault::silent(patience)),
        };
        self.total += chunk.len();
        let unfinished = self.unfinished.fetch_add(chunk.len(), Ordering::Relaxed) + chunk.len();
        if unfinished > self.bounds.event_bytes {
            return Err(Fault::too_much("bytes in one event", self.bounds.event_bytes));
        }
        if self.total > self.bounds.answer_bytes {
            return Err(Fault::too_much("bytes in one answer", self.bounds.answer_bytes));
        }
        Ok(Some(chunk))
    }
}

#[cfg(test)]
mod tests;
