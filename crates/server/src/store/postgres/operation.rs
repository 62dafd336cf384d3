//! An operation on the database: anyone asks for one, and it is sent over a connection.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use handback_core::id::SessionId;
use handback_core::store::StoreError;
use tokio::sync::oneshot;

use super::fault::Fault;
use super::lane::Lane;
use super::messages::SavedMessages;
use crate::store::rank::Rank;

/// The result of an operation. It is an error of the channel if the operation is dropped before it ran.
pub(super) type Reply<T> = oneshot::Receiver<Result<T, StoreError>>;

/// What an operation has sent: its first poll sends everything, and it ends with the answers.
pub(super) type Sent<'a, T = ()> = BoxFuture<'a, Result<T, Fault>>;

/// What an operation does. It can run again after a rollback, and replies once.
pub(super) trait Work: Send {
    /// Sends its statements, and remembers the result.
    fn send<'a>(&'a mut self, lane: &'a Lane, saved: &mut SavedMessages) -> Sent<'a>;
    /// Remembers an error in place of the result.
    fn fail(&mut self, error: StoreError);
    /// Sends what is remembered.
    fn reply(self: Box<Self>);
}

/// An operation for the writer.
pub(super) struct Operation {
    pub(super) work: Box<dyn Work>,
    pub(super) kind: Kind,
    /// Whether it was sent over a connection that broke before the answer came.
    pub(super) is_uncertain: bool,
}

/// What the queue needs to know of an operation.
pub(super) enum Kind {
    /// It reads what earlier operations write.
    Read,
    /// It writes.
    Write {
        /// The session that it changes, if it changes one.
        session: Option<SessionId>,
        /// About how many bytes it holds on to while it waits.
        bytes: usize,
        rank: Rank,
        /// What undoes it, if it may have been written although its caller is told that it failed.
        undo: Option<Box<dyn Work>>,
    },
}

impl Operation {
    pub(super) fn read(work: Box<dyn Work>) -> Self {
        Self { work, kind: Kind::Read, is_uncertain: false }
    }

    /// The session that it changes, or none, if it is a write.
    pub(super) fn changes(&self) -> Option<&Option<SessionId>> {
        match &self.kind {
            Kind::Write { session, .. } => Some(session),
            Kind::Read => None,
        }
    }

    /// Whether it is a write with this rank.
    pub(super) fn has_rank(&self, wanted: Rank) -> bool {
        matches!(&self.kind, Kind::Write { rank, .. } if *rank == wanted)
    }

    /// What undoes it, if it failed and may have been written all the same.
    pub(super) fn take_undo(&mut self) -> Option<Self> {
        let Kind::Write { session, undo, .. } = &mut self.kind else { return None };
        let work = undo.take().filter(|_| self.is_uncertain)?;
        let kind = Kind::Write { session: session.clone(), bytes: 0, rank: Rank::Waits, undo: None };
        Some(Self { work, kind, is_uncertain: false })
    }
}

/// Makes an operation of work that may be done several times.
pub(super) fn work<T, F>(database: &Arc<str>, work: F) -> (Box<dyn Work>, Reply<T>)
where
    T: Send + 'static,
    F: for<'a> Fn(&'a Lane, &mut SavedMessages) -> Sent<'a, T> + Send + 'static,
{
    let (sender, reply) = oneshot::channel();
    (Box::new(Pending { work, database: database.clone(), result: None, sender }), reply)
}

struct Pending<T, F> {
    work: F,
    database: Arc<str>,
    result: Option<Result<T, StoreError>>,
    sender: oneshot::Sender<Result<T, StoreError>>,
}

impl<T, F> Work for Pending<T, F>
where
    T: Send,
    F: for<'a> Fn(&'a Lane, &mut SavedMessages) -> Sent<'a, T> + Send,
{
    fn send<'a>(&'a mut self, lane: &'a Lane, saved: &mut SavedMessages) -> Sent<'a> {
        let sent = (self.work)(lane, saved);
        let result = &mut self.result;
        Box::pin(async move {
            *result = Some(Ok(sent.await?));
            Ok(())
        })
    }

    fn fail(&mut self, error: StoreError) {
        self.result = Some(Err(error));
    }

    fn reply(self: Box<Self>) {
        let Self { result, sender, database, .. } = *self;
        // Whoever asked may have gone; what is written stays.
        if let Some(Err(Err(error))) = result.map(|result| sender.send(result)) {
            tracing::error!(%error, %database, "a write that nobody waits for failed");
        }
    }
}
