//! A socket whose peer has to read: a peer that takes nothing for too long is an error, and a peer that sends more and more
//! without reading is not read from until it reads.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Sleep;

use super::watch::Activity;

/// A socket and the bounds of its peer.
pub(super) struct Patient {
    pub(super) socket: TcpStream,
    /// How long the peer may take nothing. After that a write is an error.
    pub(super) patience: Duration,
    /// How many bytes are read while something waits to be written. After that reading waits too. This bounds the
    /// replies to what is read, on every kind of connection.
    pub(super) most_read: usize,
    /// The connection's place among all, which it keeps until it closes, whichever protocol it changes to.
    pub(super) _place: OwnedSemaphorePermit,
    pub(super) activity: Arc<Activity>,
    pub(super) stall: Stall,
}

/// What waits for the peer.
#[derive(Default)]
pub(super) struct Stall {
    // Only while a write is stuck: most sockets never have one.
    timer: Option<Pin<Box<Sleep>>>,
    /// How many bytes were read since a write had to wait; `None` while everything is written.
    read: Option<usize>,
    /// Wakes the reader when everything is written.
    reader: Option<Waker>,
}

impl Patient {
    /// Passes on the result of a write. A write that is stuck for too long is an error.
    fn check(&mut self, result: Poll<io::Result<usize>>, context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        self.activity.wrote(&result);
        if result.is_ready() {
            self.stall.timer = None;
            return result;
        }
        self.stall.read.get_or_insert(0);
        let timer = self.stall.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep(self.patience)));
        timer.as_mut().poll(context).map(|()| {
            // A later write, such as a goodbye, has as long again.
            self.stall.timer = None;
            Err(io::Error::new(io::ErrorKind::TimedOut, "the peer takes nothing"))
        })
    }
}

impl AsyncWrite for Patient {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let result = Pin::new(&mut this.socket).poll_write(context, bytes);
        this.check(result, context)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let result = Pin::new(&mut this.socket).poll_write_vectored(context, slices);
        this.check(result, context)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    /// The writer flushes when the socket has taken everything.
    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stall.read = None;
        if let Some(reader) = self.stall.reader.take() {
            reader.wake();
        }
        Pin::new(&mut self.socket).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(context)
    }
}

impl AsyncRead for Patient {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.stall.read.is_some_and(|read| read >= self.most_read) {
            self.stall.reader = Some(context.waker().clone());
            return Poll::Pending;
        }
        let before = buffer.filled().len();
        let result = Pin::new(&mut self.socket).poll_read(context, buffer);
        if let Some(bytes) = &mut self.stall.read {
            *bytes += buffer.filled().len() - before;
        }
        result
    }
}
