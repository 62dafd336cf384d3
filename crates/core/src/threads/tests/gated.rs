//! A store that keeps events of runs when the test lets it.

use std::sync::Arc;

use tokio::sync::Semaphore;

use crate::call::{CallHead, FinishedCall};
use crate::id::{ClientId, MessageId, RequestId, RunId, SessionId};
use crate::message::{Message, Session};
use crate::store::{CallFilter, MemoryStore, Most, Page, SessionFilter, SessionPlace, Store, StoreFuture, Usage};
use crate::thread_run::ThreadRun;

/// A store that keeps events of runs when the test lets it, and everything else at once.
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

impl Store for GatedStore {
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

    passed_on! {
        begin(call: &Arc<CallHead>) -> ();
        finish(call: &Arc<FinishedCall>) -> ();
        finished(request: &RequestId) -> Option<Arc<FinishedCall>>;
        list_finished(filter: &CallFilter, before: Option<u64>, most: Most) -> Page<(u64, Arc<FinishedCall>)>;
        save_session(session: &Arc<Session>) -> ();
        session(session: &SessionId) -> Option<Arc<Session>>;
        list_sessions(filter: &SessionFilter, after: Option<&SessionPlace>, most: Most) -> Page<Arc<Session>>;
        delete_session(session: &SessionId) -> bool;
        save_message(message: &Arc<Message>) -> ();
        messages(session: &SessionId) -> Vec<Arc<Message>>;
        messages_after(session: &SessionId, after: Option<&MessageId>, most: Most) -> Option<Page<Arc<Message>>>;
        newest_messages(session: &SessionId, before: Option<&MessageId>, most: usize) -> Option<Vec<MessageId>>;
        has_message(session: &SessionId, message: &MessageId) -> bool;
        delete_messages_from(session: &SessionId, message: &MessageId) -> ();
        save_run(run: &Arc<ThreadRun>) -> ();
        run(session: &SessionId, run: &RunId) -> Option<Arc<ThreadRun>>;
        runs(session: &SessionId) -> Vec<Arc<ThreadRun>>;
        run_events(session: &SessionId, run: &RunId, from: usize) -> Vec<Arc<str>>;
        unfinished_runs() -> Vec<Arc<ThreadRun>>;
        usage(client: Option<&ClientId>) -> Usage;
        flush() -> ();
        unanswered() -> Vec<Arc<Message>>;
    }
}
