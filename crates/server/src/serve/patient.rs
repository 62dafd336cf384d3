//! A socket whose peer has to take what it is given: one that takes nothing for too long is an error, and one that sends
//! more and more while it does not read is not listened to until it does.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use pin_project_lite::pin_project;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Sleep;

use super::watch::Activity;

/// What a peer is granted.
pub(super) struct Grant {
    /// How long it may take nothing; then writing to it is an error.
    pub(super) patience: Duration,
    /// Bytes that are read of it while something waits to be written to it; then reading waits as well. Whatever is
    /// answered to what is read is bounded by this, on every kind of connection.
    pub(super) read_meanwhile: usize,
    /// Its place among all connections, which it keeps until it closes, whichever protocol it changes to.
    pub(super) _place: OwnedSemaphorePermit,
}

pin_project! {
    /// Wraps a socket.
    pub(super) struct Patient<S> {
        #[pin]
        socket: S,
        peer: Peer,
    }
}

impl<S> Patient<S> {
    pub(super) fn new(socket: S, grant: Grant, activity: Arc<Activity>) -> Self {
        Self { socket, peer: Peer { grant, activity, stuck: None, read_meanwhile: None, reader: None } }
    }
}

struct Peer {
    grant: Grant,
    activity: Arc<Activity>,
    // Only while a write is stuck: most sockets never have one.
    stuck: Option<Pin<Box<Sleep>>>,
    /// Bytes that were read since a write had to wait; `None` while everything is written.
    read_meanwhile: Option<usize>,
    /// Who waits to read until everything is written.
    reader: Option<Waker>,
}

impl Peer {
    /// Passes on what the socket said; a write that is stuck for too long is an error.
    fn judge(&mut self, said: Poll<io::Result<usize>>, context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        self.activity.wrote(&said);
        if said.is_ready() {
            self.stuck = None;
            return said;
        }
        self.read_meanwhile.get_or_insert(0);
        let timer = self.stuck.get_or_insert_with(|| Box::pin(tokio::time::sleep(self.grant.patience)));
        match timer.as_mut().poll(context) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(()) => {
                // Whoever tries again, to say goodbye, has as long again.
                self.stuck = None;
                Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the peer takes nothing")))
            }
        }
    }

    /// Whoever writes flushes when the socket has taken all that there was.
    fn all_written(&mut self) {
        self.read_meanwhile = None;
        if let Some(reader) = self.reader.take() {
            reader.wake();
        }
    }

    /// Whether nothing more is read until everything is written.
    fn reading_waits(&mut self, context: &Context<'_>) -> bool {
        let waits = self.read_meanwhile.is_some_and(|read| read >= self.grant.read_meanwhile);
        if waits {
            self.reader = Some(context.waker().clone());
        }
        waits
    }
}

impl<S: AsyncWrite> AsyncWrite for Patient<S> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.project();
        this.peer.judge(this.socket.poll_write(context, bytes), context)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.project();
        this.peer.judge(this.socket.poll_write_vectored(context, slices), context)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.project();
        this.peer.all_written();
        this.socket.poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.project().socket.poll_shutdown(context)
    }
}

impl<S: AsyncRead> AsyncRead for Patient<S> {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.project();
        if this.peer.reading_waits(context) {
            return Poll::Pending;
        }
        let before = buffer.filled().len();
        let read = this.socket.poll_read(context, buffer);
        if let Some(bytes) = &mut this.peer.read_meanwhile {
            *bytes += buffer.filled().len() - before;
        }
        read
    }
}
