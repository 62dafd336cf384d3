//! A provider's answer: its stream is read event by event, bounded in size and time, and told as the model's events.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::{Stream, StreamExt, TryFutureExt, TryStreamExt, stream};
use handback_core::sessions::{ModelEvent, ModelStream};
use reqwest::Response;
use sse_stream::{Sse, SseByteStream};
use tokio::time::{Instant, timeout_at};

use super::Bounds;
use super::fault::Fault;
use super::queue::EventQueue;
use super::upstream::{Question, Upstream};

/// So many times [`Bounds::stall`] may pass without an event while other bytes come: comments, as routers send them
/// while they wait, or pieces of an event. Then the answer ends as a silent one does.
const STALLS_WITHOUT_EVENT: u32 = 5;

/// How the events of one provider's stream are read. What they mean is added to `said`.
pub(super) trait Decode: Send + 'static {
    /// Reads the data of one event.
    fn read(&mut self, data: &str, said: &mut EventQueue) -> Result<(), Fault>;

    /// Whether the model has said that it is done.
    fn is_done(&self) -> bool;

    /// There are no more events. If the model was done nevertheless, `said` gets the end of its answer.
    fn end(&mut self, said: &mut EventQueue);
}

/// Asks a question when it is first polled, and streams the answer. Dropping it closes the connection.
pub(super) fn stream(
    upstream: &Arc<Upstream>,
    model: &str,
    question: Result<Question, Fault>,
    decoder: impl Decode,
) -> ModelStream {
    let (asked, model) = (Arc::clone(upstream), Arc::<str>::from(model));
    let (upstream, name) = (Arc::clone(upstream), Arc::clone(&model));
    let answer = async move {
        let deadline = Instant::now() + upstream.bounds.whole;
        let response = match timeout_at(deadline, upstream.ask(&name, question?)).await {
            Ok(response) => response?,
            Err(_elapsed) => return Err(Fault::endless(upstream.bounds.whole)),
        };
        let answer = Answer::new(Body::new(response, upstream.bounds, deadline), decoder);
        Ok(stream::try_unfold(answer, |mut answer| async move {
            let event = answer.next().await?;
            Ok(event.map(|event| (event, answer)))
        }))
    };
    Box::pin(answer.try_flatten_stream().map_err(move |fault| asked.error(&model, &fault)))
}

struct Answer<D> {
    frames: Pin<Box<dyn Stream<Item = Result<Sse, sse_stream::Error>> + Send>>,
    /// Bytes read since the last event ended.
    unfinished: Arc<AtomicUsize>,
    decoder: D,
    said: EventQueue,
    bounds: Bounds,
    /// Whether an event has come.
    begun: bool,
    /// Since when the model is done.
    done: Option<Instant>,
    over: bool,
}

impl<D: Decode> Answer<D> {
    fn new(body: Body, decoder: D) -> Self {
        let (unfinished, bounds) = (Arc::clone(&body.unfinished), body.bounds);
        let chunks = stream::try_unfold(body, |mut body| async move {
            let chunk = body.next().await?;
            Ok::<_, Fault>(chunk.map(|chunk| (chunk, body)))
        });
        let frames = Box::pin(SseByteStream::new(chunks));
        Self { frames, unfinished, decoder, said: EventQueue::default(), bounds, begun: false, done: None, over: false }
    }

    /// How long the next event may take, whatever else comes: comments are no sign that the model lives.
    fn patience(&self) -> Duration {
        if self.begun { self.bounds.stall * STALLS_WITHOUT_EVENT } else { self.bounds.first_byte }
    }

    async fn next(&mut self) -> Result<Option<ModelEvent>, Fault> {
        // From now, not from the last event: a slow reader is not the provider's fault.
        let mut waiting_since = Instant::now();
        while !self.over {
            if let Some(event) = self.said.pop() {
                self.over = matches!(event, ModelEvent::Stop(_));
                return Ok(Some(event));
            }
            let patience = self.patience();
            let until = self.done.map_or(waiting_since + patience, |since| since + self.bounds.last_words);
            let frame = timeout_at(until, self.frames.next()).await;
            let may_be_whole = self.done.is_some() || matches!(frame, Ok(None));
            let fault = match frame {
                Ok(Some(Ok(frame))) => {
                    self.unfinished.store(0, Ordering::Relaxed);
                    // The parser also yields blocks without data, which are no events.
                    if let Some(data) = frame.data {
                        (self.begun, waiting_since) = (true, Instant::now());
                        self.decoder.read(&data, &mut self.said)?;
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
            // What is lost after the model was done is not missed.
            if may_be_whole {
                self.decoder.end(&mut self.said);
            }
            if self.said.is_empty() {
                return Err(fault);
            }
        }
        Ok(None)
    }
}

/// The bytes of an answer. The parser has no bounds of its own, so they are counted before it sees them.
struct Body {
    response: Response,
    bounds: Bounds,
    deadline: Instant,
    total: usize,
    unfinished: Arc<AtomicUsize>,
}

impl Body {
    fn new(response: Response, bounds: Bounds, deadline: Instant) -> Self {
        Self { response, bounds, deadline, total: 0, unfinished: Arc::default() }
    }

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
