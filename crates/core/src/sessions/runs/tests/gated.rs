//! A store that keeps events of runs when the test lets it.

use std::sync::Arc;

use tokio::sync::Semaphore;

use crate::id::{RunId, SessionId};
use crate::store::{IfFull, MemoryStore, RunStore, StoreFuture, ThreadRun};

/// A store of runs that keeps events when the test lets it, takes a moment to find a run, and does everything else at once.
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
        let found = self.kept.run(session, run);
        Box::pin(async move {
            tokio::task::yield_now().await;
            found.await
        })
    }

    passed_on! {
        save_run(run: &Arc<ThreadRun>, if_full: IfFull) -> ();
        runs(session: &SessionId) -> Vec<Arc<ThreadRun>>;
        run_events(session: &SessionId, run: &RunId, from: usize) -> Vec<Arc<str>>;
        unfinished_runs() -> Vec<Arc<ThreadRun>>;
    }
}
