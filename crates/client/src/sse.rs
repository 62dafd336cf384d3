//! A stream of server-sent events, read one by one.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::{Stream, StreamExt, stream};
use sse_stream::{Sse, SseByteStream};
use tokio::time::timeout;

use crate::api::{MAX_EVENT_BYTES, root_cause};

#[derive(Debug, thiserror::Error)]
enum ReadError {
    #[error("{}", root_cause(.0))]
    Body(reqwest::Error),
    #[error("an event is larger than {MAX_EVENT_BYTES} bytes")]
    TooLarge,
    #[error("the server is silent")]
    Silent,
}

/// The events of one connection.
pub(crate) struct EventReader {
    events: Pin<Box<dyn Stream<Item = Result<Sse, sse_stream::Error>> + Send>>,
    /// Bytes read since the last event ended.
    unfinished: Arc<AtomicUsize>,
}

impl EventReader {
    /// A connection that is silent for longer than `silence` is dead.
    pub(crate) fn new(
        bytes: impl Stream<Item = Result<Bytes, reqwest::Error>> + Send + 'static,
        silence: Duration,
    ) -> Self {
        let unfinished = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&unfinished);
        // Bytes are watched before the parser sees them: it has no bound of its own, and does not tell of comments.
        let watched = stream::unfold(Box::pin(bytes), move |mut bytes| {
            let counter = Arc::clone(&counter);
            async move {
                let chunk = match timeout(silence, bytes.next()).await {
                    Ok(None) => return None,
                    Ok(Some(Err(error))) => Err(ReadError::Body(error)),
                    Err(_elapsed) => Err(ReadError::Silent),
                    Ok(Some(Ok(chunk))) => {
                        let total = counter.fetch_add(chunk.len(), Ordering::Relaxed) + chunk.len();
                        if total > MAX_EVENT_BYTES { Err(ReadError::TooLarge) } else { Ok(chunk) }
                    }
                };
                Some((chunk, bytes))
            }
        });
        Self { events: Box::pin(SseByteStream::new(Box::pin(watched))), unfinished }
    }

    /// The next event, or a block that has no data; the error says why the connection is lost. Safe to drop while it
    /// waits.
    pub(crate) async fn next(&mut self) -> Result<Sse, String> {
        let event = match self.events.next().await {
            Some(Ok(event)) => event,
            Some(Err(error)) => return Err(root_cause(&error)),
            None => return Err("the server ended the stream".to_owned()),
        };
        self.unfinished.store(0, Ordering::Relaxed);
        Ok(event)
    }
}

#[cfg(test)]
mod tests {
    use futures_util::stream;

    use super::*;

    fn reader(chunks: Vec<Bytes>) -> EventReader {
        EventReader::new(stream::iter(chunks.into_iter().map(Ok)), Duration::from_secs(90))
    }

    #[tokio::test]
    async fn events_are_read_across_chunks() {
        let text = ": comment\n\nevent: ping\ndata: \n\nid: e-2\n\ndata: {\"a\":\ndata: 1}\n\ndata: cut off";
        let mut reader = reader(text.as_bytes().chunks(7).map(Bytes::copy_from_slice).collect());
        let mut seen = Vec::new();
        let end = loop {
            match reader.next().await {
                Ok(Sse { event, data, id, .. }) => seen.push((event, data, id)),
                Err(reason) => break reason,
            }
        };
        let text = |text: &str| Some(text.to_owned());
        let expected = [(text("ping"), text(""), None), (None, None, text("e-2")), (None, text("{\"a\":\n1}"), None)];
        assert_eq!((&seen[..], end.as_str()), (&expected[..], "the server ended the stream"));
    }

    #[tokio::test]
    async fn an_event_larger_than_the_limit_ends_the_stream() {
        let mut chunks = vec![Bytes::from_static(b"event: ping\ndata: \n\n"), Bytes::from_static(b"data: ")];
        chunks.extend(vec![Bytes::from(vec![b'x'; 1024 * 1024]); 9]);
        let mut reader = reader(chunks);
        assert_eq!(reader.next().await.map(|event| event.event), Ok(Some("ping".to_owned())));
        assert_eq!(reader.next().await.err(), Some("an event is larger than 8388608 bytes".to_owned()));
        assert_eq!(reader.next().await.err(), Some("the server ended the stream".to_owned()));
    }

    #[tokio::test(start_paused = true)]
    async fn comments_keep_a_connection_alive_and_silence_ends_it() {
        let comments = stream::iter(0..3).then(|_| async {
            tokio::time::sleep(Duration::from_secs(60)).await;
            Ok(Bytes::from_static(b": keep-alive\n\n"))
        });
        let began = tokio::time::Instant::now();
        let mut reader = EventReader::new(comments.chain(stream::pending()), Duration::from_secs(90));
        assert_eq!(reader.next().await.err(), Some("the server is silent".to_owned()));
        assert_eq!(began.elapsed(), Duration::from_secs(3 * 60 + 90));
    }
}
