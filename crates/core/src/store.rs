//! The journal of calls: what has happened to them, for as long as the store keeps it.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::call::{CallHead, FinishedCall, Outcome};
use crate::id::{ClientId, RequestId, SessionId};
use ahash::HashMap;

/// The store could not do it; the cause is for the log.
#[derive(Debug, thiserror::Error)]
#[error("the store failed: {0}")]
pub struct StoreError(pub String);

/// What a store operation gives.
pub type StoreFuture<T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send>>;

/// Which finished calls to list.
#[derive(Debug, Clone, Default)]
pub struct CallFilter {
    /// Only this client's.
    pub client: Option<ClientId>,
    /// Only this session's.
    pub session: Option<SessionId>,
}

impl CallFilter {
    /// Whether a call is among those.
    pub fn takes(&self, head: &CallHead) -> bool {
        self.client.as_ref().is_none_or(|client| client == head.client())
            && self.session.as_ref().is_none_or(|session| *session == head.session)
    }
}

/// Keeps the journal of calls.
///
/// Guarantees: writes take effect in the order in which the methods are called (not in which their futures are
/// polled), a dropped future does not undo its write, and a write whose future has ended is as durable as this store
/// makes anything. A finished call can be read once its `finish` has ended. The call table, not the store, decides how
/// a call ends: for each call there is one `begin` and at most one `finish`.
pub trait Store: Send + Sync + 'static {
    /// A call is made.
    fn begin(&self, call: &Arc<CallHead>) -> StoreFuture<()>;
    /// A call is over.
    fn finish(&self, call: &Arc<FinishedCall>) -> StoreFuture<()>;
    /// A finished call, if it is still kept.
    fn finished(&self, request: &RequestId) -> StoreFuture<Option<Arc<FinishedCall>>>;
    /// The newest finished calls, newest first.
    fn list_finished(&self, filter: &CallFilter, most: usize) -> StoreFuture<Vec<Arc<FinishedCall>>>;
}

/// Keeps the newest finished calls in memory; nothing outlives the process. The oldest go first, when there are too
/// many or they take too much room.
#[derive(Debug)]
pub struct MemoryStore {
    // std's mutex: nothing is awaited inside.
    kept: Mutex<Kept>,
    most_calls: usize,
    most_bytes: usize,
}

#[derive(Debug, Default)]
struct Kept {
    calls: HashMap<RequestId, Arc<FinishedCall>>,
    order: VecDeque<RequestId>,
    bytes: usize,
}

impl MemoryStore {
    /// A store for at most so many calls and about so many bytes.
    pub fn new(most_calls: usize, most_bytes: usize) -> Self {
        Self { kept: Mutex::default(), most_calls, most_bytes }
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new(10_000, 64 * 1024 * 1024)
    }
}

impl Store for MemoryStore {
    fn begin(&self, _call: &Arc<CallHead>) -> StoreFuture<()> {
        // A call under way is in the call table, which lives as long as this store.
        ready(())
    }

    fn finish(&self, call: &Arc<FinishedCall>) -> StoreFuture<()> {
        let mut kept = self.lock();
        if let Some(earlier) = kept.calls.insert(call.head.request.clone(), call.clone()) {
            // Rare: an id is free again once the call table has forgotten it.
            kept.bytes -= weight(&earlier);
            kept.order.retain(|request| *request != call.head.request);
        }
        kept.bytes += weight(call);
        kept.order.push_back(call.head.request.clone());
        let mut forgotten = Vec::new();
        while kept.calls.len() > self.most_calls || kept.bytes > self.most_bytes {
            let Some(oldest) = kept.order.pop_front() else { break };
            if let Some(oldest) = kept.calls.remove(&oldest) {
                kept.bytes -= weight(&oldest);
                forgotten.push(oldest);
            }
        }
        // Freed after the lock is.
        drop(kept);
        drop(forgotten);
        ready(())
    }

    fn finished(&self, request: &RequestId) -> StoreFuture<Option<Arc<FinishedCall>>> {
        ready(self.lock().calls.get(request).cloned())
    }

    fn list_finished(&self, filter: &CallFilter, most: usize) -> StoreFuture<Vec<Arc<FinishedCall>>> {
        let kept = self.lock();
        let newest = kept.order.iter().rev().filter_map(|request| kept.calls.get(request));
        ready(newest.filter(|call| filter.takes(&call.head)).take(most).cloned().collect())
    }
}

fn ready<T: Send + 'static>(value: T) -> StoreFuture<T> {
    Box::pin(std::future::ready(Ok(value)))
}

/// About how many bytes a finished call holds on to.
fn weight(call: &FinishedCall) -> usize {
    let outcome = match &call.outcome {
        Outcome::Success(success) => {
            success.title.len()
                + success.output.len()
                + success.metadata.as_ref().map_or(0, |metadata| metadata.get().len())
                + success.attachments.iter().flatten().map(|file| file.url.len()).sum::<usize>()
        }
        Outcome::Error(error) => error.len(),
        _ => 0,
    };
    512 + call.head.input.get().len() + outcome
}
