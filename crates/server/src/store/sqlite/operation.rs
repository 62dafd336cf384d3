//! One operation on the file: it is asked for by anyone, and run by a thread that has the file open.

use std::fmt;

use handback_core::store::StoreError;
use rusqlite::Connection;
use tokio::sync::oneshot;

use super::database::{Database, Fault};

/// Whether an operation changes something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Read,
    Write,
}

/// What the writer does with an operation: run it, perhaps more than once, and answer it once.
pub(super) trait Operation: fmt::Debug + Send {
    fn kind(&self) -> Kind;
    /// Whether it still has to be done: it has no answer yet, and is no read that nobody waits for any more.
    fn is_open(&self) -> bool;
    /// Does it; what comes of it is kept for the answer. It can be run again after a rollback.
    fn run(&mut self, database: &mut Database) -> Result<(), Fault>;
    /// Answers with what came of it.
    fn succeed(&mut self);
    /// Answers with an error.
    fn fail(&mut self, error: StoreError);
}

/// An operation that changes nothing, and that anybody can run who has the file open.
pub(super) trait Read: Operation {
    /// Does it; what comes of it is kept for the answer.
    fn read(&mut self, connection: &Connection) -> Result<(), Fault>;
}

/// What an operation is answered with.
pub(super) type Answer<T> = oneshot::Receiver<Result<T, StoreError>>;

/// A write, and where its answer will come.
pub(super) fn write<T, F>(work: F) -> (Box<dyn Operation>, Answer<T>)
where
    T: Send + 'static,
    F: Fn(&mut Database) -> Result<T, Fault> + Send + 'static,
{
    let (asked, answer) = ask(Writing(work));
    (Box::new(asked), answer)
}

/// A read, and where its answer will come.
pub(super) fn read<T, F>(work: F) -> (Box<dyn Read>, Answer<T>)
where
    T: Send + 'static,
    F: Fn(&Connection) -> Result<T, Fault> + Send + 'static,
{
    let (asked, answer) = ask(Reading(work));
    (Box::new(asked), answer)
}

fn ask<T, W>(work: W) -> (Asked<T, W>, Answer<T>) {
    let (answer, answered) = oneshot::channel();
    (Asked { work, value: None, answer: Some(answer) }, answered)
}

/// What is to be done.
trait Work<T>: Send {
    const KIND: Kind;
    fn run(&self, database: &mut Database) -> Result<T, Fault>;
}

struct Writing<F>(F);

impl<T, F: Fn(&mut Database) -> Result<T, Fault> + Send> Work<T> for Writing<F> {
    const KIND: Kind = Kind::Write;

    fn run(&self, database: &mut Database) -> Result<T, Fault> {
        self.0(database)
    }
}

struct Reading<F>(F);

impl<T, F: Fn(&Connection) -> Result<T, Fault> + Send> Work<T> for Reading<F> {
    const KIND: Kind = Kind::Read;

    fn run(&self, database: &mut Database) -> Result<T, Fault> {
        self.0(&database.connection)
    }
}

struct Asked<T, W> {
    work: W,
    value: Option<T>,
    answer: Option<oneshot::Sender<Result<T, StoreError>>>,
}

impl<T, W: Work<T>> fmt::Debug for Asked<T, W> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Asked").field("kind", &W::KIND).finish_non_exhaustive()
    }
}

impl<T: Send, W: Work<T>> Operation for Asked<T, W> {
    fn kind(&self) -> Kind {
        W::KIND
    }

    fn is_open(&self) -> bool {
        self.answer.as_ref().is_some_and(|answer| W::KIND == Kind::Write || !answer.is_closed())
    }

    fn run(&mut self, database: &mut Database) -> Result<(), Fault> {
        self.value = Some(self.work.run(database)?);
        Ok(())
    }

    fn succeed(&mut self) {
        if let (Some(answer), Some(value)) = (self.answer.take(), self.value.take()) {
            // Whoever asked may have gone; what is written stays.
            _ = answer.send(Ok(value));
        }
    }

    fn fail(&mut self, error: StoreError) {
        if let Some(Err(Err(error))) = self.answer.take().map(|answer| answer.send(Err(error)))
            && W::KIND == Kind::Write
        {
            tracing::error!(%error, "a write that nobody waits for failed");
        }
    }
}

impl<T: Send, F: Fn(&Connection) -> Result<T, Fault> + Send> Read for Asked<T, Reading<F>> {
    fn read(&mut self, connection: &Connection) -> Result<(), Fault> {
        self.value = Some(self.work.0(connection)?);
        Ok(())
    }
}
