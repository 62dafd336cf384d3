//! Watches a connection for the two reasons to end it from outside: it sends no request, or the server closes.
//!
//! Hyper's own header timeout sets a timer for each request. This one lets a single timer run and looks, when it has,
//! whether anything happened meanwhile: a request costs a few writes to memory.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::response::Response;
use bytes::Bytes;
use http_body::{Body, Frame};
use pin_project_lite::pin_project;
use tokio::time::{Instant, Sleep};
use tokio_util::sync::WaitForCancellationFuture;

use crate::app::App;

/// What a connection has been doing. Only its own task writes and reads it.
#[derive(Debug, Default)]
pub(super) struct Activity {
    /// Grows with every request that comes and everything that is written.
    progress: AtomicU64,
    /// A request is being answered.
    busy: AtomicBool,
    /// A write waits for the peer; how long it may is not for us to say.
    stuck: AtomicBool,
}

impl Activity {
    /// A request has come.
    pub(super) fn begin(&self) -> Begun {
        self.busy.store(true, Ordering::Relaxed);
        // Nothing is written before there is a request.
        if self.progress.fetch_add(1, Ordering::Relaxed) == 0 { Begun::First } else { Begun::Later }
    }

    /// What the socket said to a write.
    pub(super) fn wrote(&self, said: &Poll<io::Result<usize>>) {
        self.progress.fetch_add(1, Ordering::Relaxed);
        self.stuck.store(said.is_pending(), Ordering::Relaxed);
    }

    fn is_idle_since(&self, seen: u64) -> bool {
        let resting = !self.busy.load(Ordering::Relaxed) && !self.stuck.load(Ordering::Relaxed);
        resting && self.progress.load(Ordering::Relaxed) == seen
    }

    /// It is answered. A body without a known end is a stream, and the connection stays busy until that is over.
    pub(super) fn end(self: &Arc<Self>, response: Response) -> Response {
        if response.body().size_hint().exact().is_some() {
            self.busy.store(false, Ordering::Relaxed);
            return response;
        }
        response.map(|body| axum::body::Body::new(Streaming { body, activity: self.clone() }))
    }
}

/// A body without a known end. When it is dropped, it has been told, or nobody listens any more.
struct Streaming {
    body: axum::body::Body,
    activity: Arc<Activity>,
}

impl Body for Streaming {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }
}

impl Drop for Streaming {
    fn drop(&mut self) {
        self.activity.busy.store(false, Ordering::Relaxed);
    }
}

/// Which request of its connection one is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Begun {
    First,
    Later,
}

/// Why a connection has to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It sent no whole request for too long.
    Idle,
    /// The server closes.
    Closing,
}

pin_project! {
    /// Ends when the connection has to. It must always be polled by the same task: it gives its waker away once.
    pub(super) struct Watch<'a> {
        app: &'a App,
        activity: &'a Activity,
        patience: Duration,
        seen: u64,
        registered: bool,
        #[pin]
        timer: Sleep,
        #[pin]
        closing: WaitForCancellationFuture<'a>,
    }
}

impl<'a> Watch<'a> {
    pub(super) fn new(app: &'a App, activity: &'a Activity, patience: Duration) -> Self {
        Self {
            app,
            activity,
            patience,
            seen: 0,
            registered: false,
            timer: tokio::time::sleep(patience),
            closing: app.closing().cancelled(),
        }
    }
}

impl Future for Watch<'_> {
    type Output = Verdict;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Verdict> {
        let mut this = self.project();
        if this.app.is_closing() || (!*this.registered && this.closing.poll(context).is_ready()) {
            return Poll::Ready(Verdict::Closing);
        }
        if !*this.registered || this.timer.is_elapsed() {
            *this.registered = true;
            while this.timer.as_mut().poll(context).is_ready() {
                if this.activity.is_idle_since(*this.seen) {
                    return Poll::Ready(Verdict::Idle);
                }
                *this.seen = this.activity.progress.load(Ordering::Relaxed);
                this.timer.as_mut().reset(Instant::now() + *this.patience);
            }
        }
        Poll::Pending
    }
}
