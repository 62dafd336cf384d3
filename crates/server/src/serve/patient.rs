//! A socket whose writer does not wait for ever: a peer that takes nothing for too long is an error.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use pin_project_lite::pin_project;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

pin_project! {
    /// Wraps a socket.
    pub(super) struct Patient<S> {
        #[pin]
        socket: S,
        patience: Duration,
        // Only while a write is stuck: most sockets never have one.
        stuck: Option<Pin<Box<Sleep>>>,
    }
}

impl<S> Patient<S> {
    pub(super) fn new(socket: S, patience: Duration) -> Self {
        Self { socket, patience, stuck: None }
    }
}

/// Passes on what the socket said; a write that is stuck for too long is an error.
fn judge<T>(
    said: Poll<io::Result<T>>,
    stuck: &mut Option<Pin<Box<Sleep>>>,
    patience: Duration,
    context: &mut Context<'_>,
) -> Poll<io::Result<T>> {
    if said.is_ready() {
        *stuck = None;
        return said;
    }
    let timer = stuck.get_or_insert_with(|| Box::pin(tokio::time::sleep(patience)));
    match timer.as_mut().poll(context) {
        Poll::Pending => Poll::Pending,
        Poll::Ready(()) => {
            // Whoever tries again, to say goodbye, has as long again.
            *stuck = None;
            Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the peer takes nothing")))
        }
    }
}

impl<S: AsyncWrite> AsyncWrite for Patient<S> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.project();
        judge(this.socket.poll_write(context, bytes), this.stuck, *this.patience, context)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.project();
        judge(this.socket.poll_write_vectored(context, slices), this.stuck, *this.patience, context)
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
