//! The operations that wait for the writer, in the order in which they were asked for.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use ahash::HashMap;
use handback_core::id::SessionId;
use tokio::sync::Notify;

use super::operation::{Kind, Operation, Work};
use crate::store::rank::Rank;

/// How many operations one batch has at most.
const BATCH: usize = 512;
/// About how many bytes one batch writes, so that its transaction stays short.
const BATCH_BYTES: usize = 4 << 20;

/// Why the queue does not take an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refused {
    /// Too much waits already.
    Full,
    /// The store is closed.
    Closed,
}

/// The queue. Whoever adds an operation never waits: beyond the bounds it is refused.
#[derive(Default)]
pub(super) struct Queue {
    // std's mutex: nothing happens inside but pushing and popping.
    waiting: Mutex<Waiting>,
    more: Notify,
    most: usize,
    most_bytes: usize,
}

#[derive(Default)]
struct Waiting {
    operations: VecDeque<Operation>,
    /// Writes that could not be written and wait. They come before all others.
    postponed: Vec<Operation>,
    /// About how many bytes wait to be written.
    bytes: usize,
    /// How many writes to each session, and to none, are not committed yet.
    uncommitted: HashMap<Option<SessionId>, usize>,
    is_closed: bool,
}

impl Queue {
    pub(super) fn new(most: usize, most_bytes: usize) -> Self {
        Self { most, most_bytes, ..Self::default() }
    }

    /// Adds a write. The last write may exceed the bound, so that however large a write is, there is a time at which it is
    /// taken. One that waits is taken all the same: what is under way is bounded.
    pub(super) fn write(&self, operation: Operation) -> Result<(), Refused> {
        let mut waiting = self.lock_open()?;
        let is_full = waiting.operations.len() >= self.most || waiting.bytes >= self.most_bytes;
        if is_full && !operation.has_rank(Rank::Waits) {
            return Err(Refused::Full);
        }
        if let Kind::Write { session, bytes, .. } = &operation.kind {
            waiting.bytes += bytes;
            *waiting.uncommitted.entry(session.clone()).or_default() += 1;
        }
        waiting.operations.push_back(operation);
        drop(waiting);
        self.more.notify_one();
        Ok(())
    }

    /// Adds a read of one session, or of several, if it must see writes that are not committed yet. Otherwise gives it
    /// back, to be read over another connection.
    pub(super) fn read(
        &self,
        session: Option<&SessionId>,
        work: Box<dyn Work>,
    ) -> Result<Option<Box<dyn Work>>, Refused> {
        let mut waiting = self.lock_open()?;
        let must_wait = match session {
            Some(session) => waiting.uncommitted.contains_key(&Some(session.clone())),
            None => !waiting.uncommitted.is_empty(),
        };
        if !must_wait {
            return Ok(Some(work));
        }
        if waiting.operations.len() >= self.most {
            return Err(Refused::Full);
        }
        waiting.operations.push_back(Operation::read(work));
        drop(waiting);
        self.more.notify_one();
        Ok(None)
    }

    fn lock_open(&self) -> Result<MutexGuard<'_, Waiting>, Refused> {
        let waiting = self.lock();
        if waiting.is_closed { Err(Refused::Closed) } else { Ok(waiting) }
    }

    /// Waits until there are operations, or the queue is closed. Cancel safe.
    pub(super) async fn more(&self) {
        loop {
            let more = self.more.notified();
            let is_idle = {
                let waiting = self.lock();
                waiting.operations.is_empty() && !waiting.is_closed
            };
            if !is_idle {
                return;
            }
            more.await;
        }
    }

    /// Takes operations to run in one transaction: those that were postponed, and then others. `None` once the queue is closed
    /// and empty.
    pub(super) fn take(&self) -> Option<Vec<Operation>> {
        let mut waiting = self.lock();
        let mut taken: Vec<Operation> = std::mem::take(&mut waiting.postponed);
        if taken.is_empty() && waiting.operations.is_empty() && waiting.is_closed {
            return None;
        }
        let (most, mut bytes_taken) = (taken.len() + BATCH, 0);
        while taken.len() < most
            && bytes_taken < BATCH_BYTES
            && let Some(operation) = waiting.operations.pop_front()
        {
            if let Kind::Write { bytes, .. } = &operation.kind {
                bytes_taken += bytes;
            }
            taken.push(operation);
        }
        waiting.bytes -= bytes_taken;
        Some(taken)
    }

    /// Takes back writes that could not be written. They are tried again before all others.
    pub(super) fn postpone(&self, operations: Vec<Operation>) {
        self.lock().postponed = operations;
    }

    /// Whether writes wait until they can be written.
    pub(super) fn has_postponed(&self) -> bool {
        !self.lock().postponed.is_empty()
    }

    /// Whether the writes that are taken are the last.
    pub(super) fn is_closed(&self) -> bool {
        self.lock().is_closed
    }

    /// Counts a write that was made without being asked for.
    pub(super) fn count(&self, operation: &Operation) {
        if let Some(session) = operation.changes() {
            *self.lock().uncommitted.entry(session.clone()).or_default() += 1;
        }
    }

    /// Notes that writes are committed or have failed: reads over other connections see what they wrote.
    pub(super) fn settle(&self, operations: &[Operation]) {
        let mut waiting = self.lock();
        for session in operations.iter().filter_map(Operation::changes) {
            if let Some(count) = waiting.uncommitted.get_mut(session) {
                *count -= 1;
                if *count == 0 {
                    waiting.uncommitted.remove(session);
                }
            }
        }
    }

    /// Refuses operations from now on. Those that wait still run.
    pub(super) fn close(&self) {
        self.lock().is_closed = true;
        self.more.notify_one();
    }

    /// How many operations wait.
    pub(super) fn len(&self) -> usize {
        self.lock().operations.len()
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// When the writer ends, however it ends, this closes the queue and drops what waits, so that nobody waits for ever.
pub(super) struct AbandonOnDrop<'a>(pub(super) &'a Queue);

impl Drop for AbandonOnDrop<'_> {
    fn drop(&mut self) {
        let mut waiting = self.0.lock();
        waiting.is_closed = true;
        let abandoned = (std::mem::take(&mut waiting.postponed), std::mem::take(&mut waiting.operations));
        // Dropping them wakes whoever waits, which must not happen under the lock.
        drop(waiting);
        drop(abandoned);
    }
}
