//! A socket whose writer does not wait for ever: a peer that takes nothing for too long is an error.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use pin_project_lite::pin_project;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

use super::watch::Activity;

pin_project! {
    /// Wraps a socket.
    pub(super) struct Patient<S> {
        #[pin]
        socket: S,
        writing: Writing,
    }
}

impl<S> Patient<S> {
    pub(super) fn new(socket: S, patience: Duration, activity: Arc<Activity>) -> Self {
        Self { socket, writing: Writing { patience, stuck: None, activity } }
    }
}

struct Writing {
    patience: Duration,
    // Only while a write is stuck: most sockets never have one.
    stuck: Option<Pin<Box<Sleep>>>,
    activity: Arc<Activity>,
}

impl Writing {
    /// Passes on what the socket said; a write that is stuck for too long is an error.
    fn judge(&mut self, said: Poll<io::Result<usize>>, context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        self.activity.wrote(&said);
        if said.is_ready() {
            self.stuck = None;
            return said;
        }
        let timer = self.stuck.get_or_insert_with(|| Box::pin(tokio::time::sleep(self.patience)));
        match timer.as_mut().poll(context) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(()) => {
                // Whoever tries again, to say goodbye, has as long again.
                self.stuck = None;
                Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the peer takes nothing")))
            }
        }
    }
}

impl<S: AsyncWrite> AsyncWrite for Patient<S> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.project();
        this.writing.judge(this.socket.poll_write(context, bytes), context)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.project();
        this.writing.judge(this.socket.poll_write_vectored(context, slices), context)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.project().socket.poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.project().socket.poll_shutdown(context)
    }
}

impl<S: AsyncRead> AsyncRead for Patient<S> {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.project().socket.poll_read(context, buffer)
    }
}
