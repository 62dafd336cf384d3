//! An operation on the database: anyone asks for one, and a thread that has the file open runs it.

use std::sync::Arc;

use handback_core::id::SessionId;
use handback_core::store::StoreError;
use rusqlite::Connection;
use tokio::sync::oneshot;

use super::database::{Database, Fault, store_error};
use crate::store::rank::Rank;

/// The result of an operation. It is an error of the channel if the operation is dropped before it ran.
pub(super) type Reply<T> = oneshot::Receiver<Result<T, StoreError>>;

/// A read, which sends its own reply.
pub(super) type Read = Box<dyn FnOnce(&Connection) + Send>;

/// A write, which can run again after a rollback and replies once.
pub(super) trait Write: Send {
    /// Runs it and remembers the result.
    fn run(&mut self, database: &mut Database) -> Result<(), Fault>;
    /// Remembers an error in place of the result.
    fn fail(&mut self, error: StoreError);
    /// Sends what is remembered.
    fn reply(self: Box<Self>);
}

/// What the writer's thread runs.
pub(super) enum Operation {
    /// A read, until it has run.
    Read(Option<Read>),
    /// A write.
    Write {
        /// The work.
        write: Box<dyn Write>,
        /// The session that it changes, if it changes one.
        session: Option<SessionId>,
        /// About how many bytes it holds on to while it waits.
        bytes: usize,
        rank: Rank,
    },
}

impl Operation {
    /// Runs it.
    pub(super) fn run(&mut self, database: &mut Database) -> Result<(), Fault> {
        if let Self::Write { write, .. } = self {
            return write.run(database);
        }
        self.read(&database.connection);
        Ok(())
    }

    /// The session that it changes, or none, if it is a write.
    pub(super) fn changes(&self) -> Option<&Option<SessionId>> {
        match self {
            Self::Write { session, .. } => Some(session),
            Self::Read(_) => None,
        }
    }

    /// Whether it is a write with this rank.
    pub(super) fn has_rank(&self, wanted: Rank) -> bool {
        matches!(self, Self::Write { rank, .. } if *rank == wanted)
    }

    /// Runs it if it is a read that has not run.
    pub(super) fn read(&mut self, connection: &Connection) {
        if let Self::Read(read) = self
            && let Some(read) = read.take()
        {
            read(connection);
        }
    }

    /// Fails it if it is a write.
    pub(super) fn fail(&mut self, error: StoreError) {
        if let Self::Write { write, .. } = self {
            write.fail(error);
        }
    }

    /// Replies to whoever waits for a write.
    pub(super) fn reply(self) {
        if let Self::Write { write, .. } = self {
            write.reply();
        }
    }
}

/// Makes a read. Everything it looks at comes from one snapshot; if nobody waits for it any more, it does nothing.
pub(super) fn read<T, F>(file: &Arc<str>, work: F) -> (Read, Reply<T>)
where
    T: Send + 'static,
    F: FnOnce(&Connection) -> Result<T, Fault> + Send + 'static,
{
    let (sender, reply) = oneshot::channel();
    let file = file.clone();
    let read = move |connection: &Connection| {
        if sender.is_closed() {
            return;
        }
        let look = || {
            // The writer's own transaction is a snapshot too.
            let _snapshot = connection.is_autocommit().then(|| connection.unchecked_transaction()).transpose()?;
            work(connection)
        };
        _ = sender.send(look().map_err(|fault| store_error(&file, &fault)));
    };
    (Box::new(read), reply)
}

/// Makes a write.
pub(super) fn write<T, F>(work: F) -> (Box<dyn Write>, Reply<T>)
where
    T: Send + 'static,
    F: Fn(&mut Database) -> Result<T, Fault> + Send + 'static,
{
    let (sender, reply) = oneshot::channel();
    (Box::new(PendingWrite { work, result: None, sender }), reply)
}

struct PendingWrite<T, F> {
    work: F,
    result: Option<Result<T, StoreError>>,
    sender: oneshot::Sender<Result<T, StoreError>>,
}

impl<T: Send, F: Fn(&mut Database) -> Result<T, Fault> + Send> Write for PendingWrite<T, F> {
    fn run(&mut self, database: &mut Database) -> Result<(), Fault> {
        self.result = Some(Ok((self.work)(database)?));
        Ok(())
    }

    fn fail(&mut self, error: StoreError) {
        self.result = Some(Err(error));
    }

    fn reply(self: Box<Self>) {
        let Self { result, sender, .. } = *self;
        // Whoever asked may have gone; what is written stays.
        if let Some(Err(Err(error))) = result.map(|result| sender.send(result)) {
            tracing::error!(%error, "a write that nobody waits for failed");
        }
    }
}
