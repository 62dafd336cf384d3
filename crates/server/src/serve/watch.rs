//! Watches a connection for the two reasons to end it from outside: it sends no request, or the server closes.
//!
//! Hyper's own header timeout sets a timer for each request. This one has a single timer, and checks when it fires whether
//! anything happened meanwhile, so that a request costs only a few writes to memory.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use http_body::Body as _;
use http_body_util::BodyExt;
use pin_project_lite::pin_project;
use tokio::time::{Instant, Sleep};
use tokio_util::sync::WaitForCancellationFuture;

use crate::app::App;

/// What a connection has been doing. Only its own task writes and reads it.
#[derive(Default)]
pub(super) struct Activity {
    /// Grows with every request and every write.
    progress: AtomicU64,
    /// Whether a request is being answered.
    busy: AtomicBool,
    /// Whether a write waits for the peer. The socket has its own bound for that.
    stuck: AtomicBool,
}

impl Activity {
    /// Notes a request. Returns whether it is the first of its connection.
    pub(super) fn begin(&self) -> bool {
        self.busy.store(true, Ordering::Relaxed);
        // Nothing is written before the first request.
        self.progress.fetch_add(1, Ordering::Relaxed) == 0
    }

    /// Notes the result of a write.
    pub(super) fn wrote(&self, result: &Poll<io::Result<usize>>) {
        self.progress.fetch_add(1, Ordering::Relaxed);
        self.stuck.store(result.is_pending(), Ordering::Relaxed);
    }

    fn is_idle_since(&self, seen: u64) -> bool {
        let resting = !self.busy.load(Ordering::Relaxed) && !self.stuck.load(Ordering::Relaxed);
        resting && self.progress.load(Ordering::Relaxed) == seen
    }

    /// Notes a response. A body without a known length is a stream, and the connection stays busy until the stream ends.
    pub(super) fn end(self: &Arc<Self>, response: Response) -> Response {
        if response.body().size_hint().exact().is_some() {
            self.busy.store(false, Ordering::Relaxed);
            return response;
        }
        let idle = IdleOnDrop(self.clone());
        response.map(|body| {
            Body::new(body.map_frame(move |frame| {
                _ = &idle;
                frame
            }))
        })
    }
}

/// Is part of a stream's body, which is dropped when it has been sent, or when the reader has gone.
struct IdleOnDrop(Arc<Activity>);

impl Drop for IdleOnDrop {
    fn drop(&mut self) {
        self.0.busy.store(false, Ordering::Relaxed);
    }
}

/// Why a connection has to end.
pub(super) enum Verdict {
    /// It sends no whole request for too long.
    Idle,
    /// The server closes.
    Closing,
}

pin_project! {
    /// Ends when the connection has to end. Only one task may poll it, because it registers its waker once.
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
