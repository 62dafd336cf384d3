//! One operation on the file: it is asked for by anyone, and run by the thread that owns the file.

use std::fmt;

use handback_core::store::StoreError;
use tokio::sync::oneshot;

use super::database::{Database, Fault};

/// Whether an operation changes something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Read,
    Write,
}

/// What the thread does with an operation: run it, perhaps more than once, and answer it once.
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

/// What an operation is answered with.
pub(super) type Answer<T> = oneshot::Receiver<Result<T, StoreError>>;

/// An operation, and where its answer will come.
pub(super) fn operation<T, F>(kind: Kind, work: F) -> (Box<dyn Operation>, Answer<T>)
where
    T: Send + 'static,
    F: Fn(&mut Database) -> Result<T, Fault> + Send + 'static,
{
    let (answer, answered) = oneshot::channel();
    (Box::new(Asked { kind, work, value: None, answer: Some(answer) }), answered)
}

struct Asked<T, F> {
    kind: Kind,
    work: F,
    value: Option<T>,
    answer: Option<oneshot::Sender<Result<T, StoreError>>>,
}

impl<T, F> fmt::Debug for Asked<T, F> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Asked").field("kind", &self.kind).finish_non_exhaustive()
    }
}

impl<T, F> Operation for Asked<T, F>
where
    T: Send,
    F: Fn(&mut Database) -> Result<T, Fault> + Send,
{
    fn kind(&self) -> Kind {
        self.kind
    }

    fn is_open(&self) -> bool {
        self.answer.as_ref().is_some_and(|answer| self.kind == Kind::Write || !answer.is_closed())
    }

    fn run(&mut self, database: &mut Database) -> Result<(), Fault> {
        self.value = Some((self.work)(database)?);
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
            && self.kind == Kind::Write
        {
            tracing::error!(%error, "a write that nobody waits for failed");
        }
    }
}
