//! The stream of a client's calls, read event by event.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use handback_wire::client_tools::{ToolCancel, ToolRequest};
use serde::de::DeserializeOwned;
use sse_stream::{Sse, SseByteStream};

use crate::api::root_cause;

/// How large one event may be. A larger one ends the connection: the server sends inputs of at most 4 MiB.
const MAX_EVENT_BYTES: usize = 8 * 1024 * 1024;

/// What the server sends to a client.
#[derive(Debug)]
pub(super) enum Event {
    /// A call to run.
    Request(ToolRequest),
    /// A call that is over.
    Cancel(ToolCancel),
    /// A keep-alive, or an event of a later version.
    Other,
}

#[derive(Debug, thiserror::Error)]
enum ReadError {
    #[error("{}", root_cause(.0))]
    Body(reqwest::Error),
    #[error("an event is larger than {MAX_EVENT_BYTES} bytes")]
    TooLarge,
}

/// The events of one connection.
pub(super) struct EventStream {
    events: Pin<Box<dyn Stream<Item = Result<Sse, sse_stream::Error>> + Send>>,
    /// Bytes read since the last event ended.
    unfinished: Arc<AtomicUsize>,
}

impl EventStream {
    pub(super) fn new(bytes: impl Stream<Item = Result<Bytes, reqwest::Error>> + Send + 'static) -> Self {
        let unfinished = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&unfinished);
        // The parser has no bound of its own, so the bytes are counted before it sees them.
        let bounded = bytes.map(move |chunk| {
            let chunk = chunk.map_err(ReadError::Body)?;
            let total = counter.fetch_add(chunk.len(), Ordering::Relaxed) + chunk.len();
            if total > MAX_EVENT_BYTES { Err(ReadError::TooLarge) } else { Ok(chunk) }
        });
        Self { events: Box::pin(SseByteStream::new(Box::pin(bounded))), unfinished }
    }

    /// The next event, and its id if it has one; `None` when the server ended the stream.
    pub(super) async fn next(&mut self) -> Option<Result<(Event, Option<String>), String>> {
        let event = match self.events.next().await? {
            Ok(event) => event,
            Err(error) => return Some(Err(root_cause(&error))),
        };
        self.unfinished.store(0, Ordering::Relaxed);
        let Sse { event, data, id, .. } = event;
        // The parser also yields blocks without data, which are no events but may carry an id.
        let event = match (event.as_deref(), data) {
            (Some("tool-request"), Some(data)) => decode(&data).map_or(Event::Other, Event::Request),
            (Some("tool-cancel"), Some(data)) => decode(&data).map_or(Event::Other, Event::Cancel),
            _ => Event::Other,
        };
        Some(Ok((event, id)))
    }
}

/// An event that cannot be read cannot be answered either; one bad event must not end the connection.
fn decode<T: DeserializeOwned>(data: &str) -> Option<T> {
    serde_json::from_str(data).inspect_err(|error| tracing::warn!(%error, "an event that cannot be read")).ok()
}

#[cfg(test)]
mod tests {
    use futures_util::stream;

    use super::*;

    fn events(chunks: Vec<Bytes>) -> EventStream {
        EventStream::new(stream::iter(chunks.into_iter().map(Ok)))
    }

    #[tokio::test]
    async fn events_are_read_across_chunks_with_their_ids() {
        let text = "event: tool-cancel\ndata: {\"requestID\":\"a\",\"reason\":\"b\"}\nid: e-1\n\nid: e-2\n\n\
                    event: ping\ndata: \n\nevent: tool-request\ndata: {\n\n";
        let mut stream = events(text.as_bytes().chunks(7).map(Bytes::copy_from_slice).collect());
        let mut seen = Vec::new();
        while let Some(event) = stream.next().await {
            let (event, id) = event.unwrap();
            let kind = match event {
                Event::Request(request) => request.request_id,
                Event::Cancel(cancel) => cancel.request_id,
                Event::Other => "other".to_owned(),
            };
            seen.push((kind, id));
        }
        let expected = [("a", Some("e-1")), ("other", Some("e-2")), ("other", None), ("other", None)];
        assert_eq!(seen, expected.map(|(kind, id)| (kind.to_owned(), id.map(str::to_owned))));
    }

    #[tokio::test]
    async fn an_event_larger_than_the_limit_ends_the_stream() {
        let mut chunks = vec![Bytes::from_static(b"event: ping\ndata: \n\n"), Bytes::from_static(b"data: ")];
        chunks.extend(vec![Bytes::from(vec![b'x'; 1024 * 1024]); 9]);
        let mut stream = events(chunks);
        assert!(matches!(stream.next().await, Some(Ok((Event::Other, None)))));
        let error = stream.next().await.unwrap().unwrap_err();
        assert_eq!(error, "an event is larger than 8388608 bytes");
        assert!(stream.next().await.is_none());
    }
}
