//! Server-sent events: a response body that sends frames as they come, and pings in between.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderValue, header};
use axum::response::Response;
use bytes::Bytes;
use http_body::Frame;
use pin_project_lite::pin_project;
use tokio::time::{Instant, Sleep};

/// A comment, which readers ignore.
pub const KEEP_ALIVE: &str = ": keep-alive\n\n";

/// A source of frames.
pub trait FrameSource {
    /// The next frame, rendered when the connection can take it.
    fn poll_frame(&mut self, context: &mut Context<'_>) -> Poll<Next>;
}

/// What a source yields.
#[derive(Debug)]
pub enum Next {
    /// The bytes of one or more whole frames.
    Frame(Bytes),
    /// The stream ends, and the reader need not come back.
    End,
    /// The connection is cut, so that the reader takes it as an error and comes back.
    Cut,
}

/// Marks a response as a stream, which may be cut.
#[derive(Debug, Clone, Copy)]
pub struct IsStream;

/// The stream was cut on purpose.
#[derive(Debug, thiserror::Error)]
#[error("the stream was cut")]
pub struct WasCut;

/// A stream of frames, with a ping after each silent interval. It ends after its lifetime, if it has one.
pub fn response(
    source: impl FrameSource + Send + 'static,
    ping: &'static str,
    interval: Duration,
    lifetime: Option<Duration>,
) -> Response {
    let body = Frames {
        source,
        ping,
        interval,
        next_ping: tokio::time::sleep(interval),
        end: lifetime.map(|lifetime| Box::pin(tokio::time::sleep(lifetime))),
        cutting: false,
    };
    let mut response = Response::new(Body::new(body));
    response.extensions_mut().insert(IsStream);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

pin_project! {
    struct Frames<S> {
        source: S,
        ping: &'static str,
        interval: Duration,
        #[pin]
        next_ping: Sleep,
        // Boxed, because few streams have one.
        end: Option<Pin<Box<Sleep>>>,
        cutting: bool,
    }
}

impl<S: FrameSource> http_body::Body for Frames<S> {
    type Data = Bytes;
    type Error = WasCut;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, WasCut>>> {
        let mut this = self.project();
        if let Some(end) = this.end
            && end.as_mut().poll(context).is_ready()
        {
            return Poll::Ready(None);
        }
        match this.source.poll_frame(context) {
            Poll::Ready(Next::Frame(bytes)) => Poll::Ready(Some(Ok(Frame::data(bytes)))),
            Poll::Ready(Next::End) => Poll::Ready(None),
            Poll::Ready(Next::Cut) | Poll::Pending if *this.cutting => Poll::Ready(Some(Err(WasCut))),
            Poll::Ready(Next::Cut) => {
                // Earlier frames are written while the body is pending. An error now would drop them.
                *this.cutting = true;
                context.waker().wake_by_ref();
                Poll::Pending
            }
            Poll::Pending => {
                ready!(this.next_ping.as_mut().poll(context));
                let next = this.next_ping.deadline() + *this.interval;
                // A connection that was stalled for long gets one ping, not all the missed ones.
                this.next_ping.reset(next.max(Instant::now()));
                Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(this.ping.as_bytes())))))
            }
        }
    }
}

#[cfg(test)]
mod tests;
