//! Streams of server-sent events.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::{Stream, StreamExt, stream};
use sse_stream::{Sse, SseByteStream};
use tokio::time::timeout;

use crate::http::{MAX_EVENT_BYTES, root_cause};

/// The events of one connection.
pub(crate) struct EventReader {
    events: Pin<Box<dyn Stream<Item = Result<Sse, sse_stream::Error>> + Send>>,
    /// Bytes read since the last event ended.
    unfinished: Arc<AtomicUsize>,
}

impl EventReader {
    /// Reads events from a body. A connection that is silent for longer than `silence` counts as lost.
    pub(crate) fn new(
        bytes: impl Stream<Item = Result<Bytes, reqwest::Error>> + Send + 'static,
        silence: Duration,
    ) -> Self {
        let unfinished = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&unfinished);
        // The parser has no size limit of its own, and hides comments, so both are checked before it sees the bytes.
        let watched = stream::unfold(Box::pin(bytes), move |mut bytes| {
            let counter = Arc::clone(&counter);
            async move {
                let chunk = match timeout(silence, bytes.next()).await {
                    Ok(None) => return None,
                    Ok(Some(Err(error))) => Err(root_cause(&error)),
                    Err(_elapsed) => Err("the server is silent".to_owned()),
                    Ok(Some(Ok(chunk))) => {
                        let total = counter.fetch_add(chunk.len(), Ordering::Relaxed) + chunk.len();
                        let too_large = || format!("an event is larger than {MAX_EVENT_BYTES} bytes");
                        if total > MAX_EVENT_BYTES { Err(too_large()) } else { Ok(chunk) }
                    }
                };
                let chunk = chunk.map_err(io::Error::other);
                Some((chunk, bytes))
            }
        });
        Self { events: Box::pin(SseByteStream::new(Box::pin(watched))), unfinished }
    }

    /// The next event, which may have no data; an error says why the connection is lost. Safe to drop while it waits.
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
mod tests;
