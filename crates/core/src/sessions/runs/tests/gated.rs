//! A store that keeps events of runs when the test lets it.

use std::sync::Arc;

use tokio::sync::Semaphore;

use crate::id::{RunId, SessionId};
use crate::store::{IfFull, MemoryStore, RunStore, StoreFuture, ThreadRun};

/// A store of runs that keeps events when the test lets it, takes a moment to say that a run is
/// saved and what it has of one, and does everything else at once.
pub(super) struct GatedStore {
    pub(super) kept: Arc<MemoryStore>,
    /// How often events may still be kept.
    pub(super) gate: Arc<Semaphore>,
}

/// Passes calls on to the store behind the gate.
macro_rules! passed_on {
    ($($name:ident($($argument:ident: $kind:ty),*) -> $result:ty;)*) => {
        $(fn $name(&self, $($argument: $kind),*) -> StoreFuture<$result> {
            self.kept.$name($($argument),*)
        })*
    };
}

/// What is done already, told a moment later.
fn after_a_moment<T: Send + 'static>(doing: StoreFuture<T>) -> StoreFuture<T> {
    Box::pin(async move {
        let done = doing.await;
        tokio::task::yield_now().await;
        done
    })
}

impl RunStore for GatedStore {
    fn append_run_events(
        &self,
        session: &SessionId,
        run: &RunId,
        first: usize,
        events: Vec<Arc<str>>,
    ) -> StoreFuture<()> {
        let (kept, gate, session, run) = (self.kept.clone(), self.gate.clone(), session.clone(), run.clone());
        Box::pin(async move {
            gate.acquire().await.expect("the gate is never closed for good").forget();
            kept.append_run_events(&session, &run, first, events).await
        })
    }

    fn run(&self, session: &SessionId, run: &RunId) -> StoreFuture<Option<Arc<ThreadRun>>> {
        after_a_moment(self.kept.run(session, run))
    }

    fn run_events(&self, session: &SessionId, run: &RunId, from: usize) -> StoreFuture<Vec<Arc<str>>> {
        after_a_moment(self.kept.run_events(session, run, from))
    }

    fn save_run(&self, run: &Arc<ThreadRun>, if_full: IfFull) -> StoreFuture<()> {
        after_a_moment(self.kept.save_run(run, if_full))
    }

    passed_on! {
        runs(session: &SessionId) -> Vec<Arc<ThreadRun>>;
        unfinished_runs() -> Vec<Arc<ThreadRun>>;
    }
}
