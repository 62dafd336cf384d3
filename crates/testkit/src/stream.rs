//! A reader of server-sent events over a real socket.

use std::pin::Pin;

use futures_util::{Stream, StreamExt};
use reqwest::RequestBuilder;
use reqwest::header::HeaderMap;
use serde_json::Value;
use sse_stream::{Sse, SseStream};
use tokio::time::timeout;

use crate::server::PATIENCE;

/// One frame.
#[derive(Debug, Clone, PartialEq)]
pub struct Frame {
    /// Its `event`, or "".
    pub event: String,
    /// Its `data`, as JSON; null where it is empty.
    pub data: Value,
    /// Its `id`, or "".
    pub id: String,
}

impl Frame {
    /// The call that it is about.
    pub fn request_id(&self) -> &str {
        self.data["requestID"].as_str().unwrap_or_default()
    }
}

type Frames = Pin<Box<dyn Stream<Item = Result<Sse, sse_stream::Error>> + Send>>;

/// An open stream.
pub struct TestStream {
    /// What it was answered with.
    pub headers: HeaderMap,
    frames: Frames,
}

impl TestStream {
    /// Opens a stream; it must be answered with 200.
    pub async fn open(request: RequestBuilder) -> Self {
        let response = request.send().await.expect("the server answers");
        assert_eq!(response.status().as_u16(), 200);
        let headers = response.headers().clone();
        let frames = SseStream::from_bytes_stream(Box::pin(response.bytes_stream()));
        Self { headers, frames: Box::pin(frames) }
    }

    /// The next frame; `None` at a clean end, an error where the stream is cut.
    pub async fn try_next(&mut self) -> Option<Result<Frame, String>> {
        let next = timeout(PATIENCE, self.frames.next()).await.expect("a frame comes in time")?;
        Some(next.map_err(|error| error.to_string()).map(|frame| Frame {
            event: frame.event.unwrap_or_default(),
            data: frame.data.as_deref().and_then(|data| serde_json::from_str(data).ok()).unwrap_or(Value::Null),
            id: frame.id.unwrap_or_default(),
        }))
    }

    /// The next frame.
    pub async fn next(&mut self) -> Frame {
        self.try_next().await.expect("the stream goes on").expect("the stream is whole")
    }

    /// The next frame, which must be of that kind.
    pub async fn expect(&mut self, event: &str) -> Frame {
        let frame = self.next().await;
        assert_eq!(frame.event, event, "{frame:?}");
        frame
    }
}
