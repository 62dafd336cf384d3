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

/// How a stream ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// As a complete response: some readers take that as final.
    Clean,
    /// In the middle: an error at the reader, which comes back.
    Cut,
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

    /// The next frame, or how the stream ended, in time.
    pub async fn try_next(&mut self) -> Result<Frame, End> {
        timeout(PATIENCE, self.read()).await.expect("a frame comes in time")
    }

    /// The next frame, or how the stream ended, whenever that is.
    pub async fn read(&mut self) -> Result<Frame, End> {
        match self.frames.next().await {
            None => Err(End::Clean),
            Some(Err(_)) => Err(End::Cut),
            Some(Ok(frame)) => Ok(Frame {
                event: frame.event.unwrap_or_default(),
                data: frame.data.as_deref().and_then(|data| serde_json::from_str(data).ok()).unwrap_or(Value::Null),
                id: frame.id.unwrap_or_default(),
            }),
        }
    }

    /// The next frame.
    pub async fn next(&mut self) -> Frame {
        self.try_next().await.expect("the stream goes on")
    }

    /// The next frame, which must be of that kind.
    pub async fn expect(&mut self, event: &str) -> Frame {
        let frame = self.next().await;
        assert_eq!(frame.event, event, "{frame:?}");
        frame
    }

    /// The next frame, which must be a call.
    pub async fn next_call(&mut self) -> Value {
        self.expect("tool-request").await.data
    }

    /// The next call, whose id must be this.
    pub async fn expect_call(&mut self, request: &str) -> Frame {
        let frame = self.expect("tool-request").await;
        assert_eq!(frame.request_id(), request, "{frame:?}");
        frame
    }

    /// Reads until the stream ends; gives the frames that still came.
    pub async fn end(&mut self) -> (Vec<Frame>, End) {
        let mut frames = Vec::new();
        loop {
            match self.try_next().await {
                Ok(frame) => frames.push(frame),
                Err(end) => return (frames, end),
            }
        }
    }
}
