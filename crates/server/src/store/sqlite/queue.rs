//! The operations that wait for the threads that have the file open, in the order in which they were asked for.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use handback_core::id::SessionId;
use tokio::time::Instant;

use super::Bounds;
use super::operation::{Operation, Read, Write};
use crate::store::rank::Rank;

/// How many operations one batch has at most.
const BATCH: usize = 512;
/// About how many bytes one batch writes, so that its transaction stays short.
const BATCH_BYTES: usize = 4 << 20;

/// How long writes that wait for room wait until they are tried again, unless something else is written before.
const TRIED_AGAIN: Duration = Duration::from_millis(250);

/// Why the queue does not take an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refused {
    /// Too much waits already.
    Full,
    /// The store is closed.
    Closed,
}

/// The queue. Whoever adds an operation never waits: beyond the bounds it is refused.
///
/// A read goes to the readers, unless a write that it must see is not committed yet: then it goes to the writer, behind
/// that write.
pub(super) struct Queue {
    // std's mutex: nothing happens inside but pushing and popping.
    waiting: Mutex<Waiting>,
    /// Wakes the writer.
    to_write: Condvar,
    /// Wakes a reader.
    to_read: Condvar,
    most: usize,
    most_bytes: usize,
}

#[derive(Default)]
struct Waiting {
    /// For the writer.
    operations: VecDeque<Operation>,
    /// Writes that could not be written and wait for room, and when they are tried again. They come before all others.
    postponed: Vec<Operation>,
    tried_again: Option<Instant>,
    /// For the readers.
    reads: VecDeque<Read>,
    /// About how many bytes wait to be written.
    bytes: usize,
    /// How many writes to each session, and to none, are not committed yet.
    uncommitted: HashMap<Option<SessionId>, usize>,
    is_closed: bool,
    /// Whether the readers stop when nothing waits for them.
    readers_stop: bool,
    /// Whether the writer sleeps and has to be woken.
    is_asleep: bool,
}

impl Queue {
    pub(super) fn new(bounds: &Bounds) -> Self {
        Self {
            waiting: Mutex::default(),
            to_write: Condvar::new(),
            to_read: Condvar::new(),
            most: bounds.queued,
            most_bytes: bounds.queued_bytes,
        }
    }

    /// Adds a write of about so many bytes. The last write may exceed the bound, so that however large a write is, there
    /// is a time at which it is taken. One that may wait is taken all the same: what is under way is bounded.
    pub(super) fn write(
        &self,
        session: Option<SessionId>,
        bytes: usize,
        rank: Rank,
        write: Box<dyn Write>,
    ) -> Result<(), Refused> {
        let mut waiting = self.lock_open()?;
        if rank != Rank::Waits && (self.is_full(&waiting) || waiting.bytes >= self.most_bytes) {
            return Err(Refused::Full);
        }
        waiting.bytes += bytes;
        *waiting.uncommitted.entry(session.clone()).or_default() += 1;
        self.give_to_writer(waiting, Operation::Write { write, session, bytes, rank });
        Ok(())
    }

    /// Adds a read of one session, or of several.
    pub(super) fn read(&self, session: Option<&SessionId>, read: Read) -> Result<(), Refused> {
        let mut waiting = self.lock_open()?;
        if self.is_full(&waiting) {
            return Err(Refused::Full);
        }
        let must_wait = match session {
            Some(session) => waiting.uncommitted.contains_key(&Some(session.clone())),
            None => !waiting.uncommitted.is_empty(),
        };
        if must_wait {
            self.give_to_writer(waiting, Operation::Read(Some(read)));
        } else {
            waiting.reads.push_back(read);
            drop(waiting);
            self.to_read.notify_one();
        }
        Ok(())
    }

    fn lock_open(&self) -> Result<MutexGuard<'_, Waiting>, Refused> {
        let waiting = self.lock();
        if waiting.is_closed { Err(Refused::Closed) } else { Ok(waiting) }
    }

    fn is_full(&self, waiting: &Waiting) -> bool {
        waiting.operations.len() + waiting.reads.len() >= self.most
    }

    fn give_to_writer(&self, mut waiting: MutexGuard<'_, Waiting>, operation: Operation) {
        waiting.operations.push_back(operation);
        let wakes = std::mem::take(&mut waiting.is_asleep);
        drop(waiting);
        if wakes {
            self.to_write.notify_one();
        }
    }

    /// Waits for operations and takes some to run in one transaction; none after `patience`. Returns `None` once the queue
    /// is closed and empty.
    pub(super) fn take(&self, patience: Duration) -> Option<Vec<Operation>> {
        let is_idle = |waiting: &mut Waiting| {
            waiting.is_asleep = waiting.operations.is_empty() && !waiting.is_closed;
            waiting.is_asleep
        };
        let mut waiting = self.lock();
        let patience = waiting.tried_again.map_or(patience, |at| at.duration_since(Instant::now()).min(patience));
        (waiting, _) =
            self.to_write.wait_timeout_while(waiting, patience, is_idle).unwrap_or_else(PoisonError::into_inner);
        waiting.is_asleep = false;
        waiting.tried_again = None;
        let mut taken: Vec<Operation> = std::mem::take(&mut waiting.postponed);
        if taken.is_empty() && waiting.operations.is_empty() && waiting.is_closed {
            return None;
        }
        let (most, mut bytes_taken) = (taken.len() + BATCH, 0);
        while taken.len() < most
            && bytes_taken < BATCH_BYTES
            && let Some(operation) = waiting.operations.pop_front()
        {
            if let Operation::Write { bytes, .. } = &operation {
                bytes_taken += bytes;
            }
            taken.push(operation);
        }
        waiting.bytes -= bytes_taken;
        Some(taken)
    }

    /// Takes back writes that could not be written. They are tried again before all others.
    pub(super) fn postpone(&self, operations: Vec<Operation>) {
        if !operations.is_empty() {
            let mut waiting = self.lock();
            waiting.postponed = operations;
            waiting.tried_again = Some(Instant::now() + TRIED_AGAIN);
        }
    }

    /// Whether writes wait for room.
    pub(super) fn has_postponed(&self) -> bool {
        !self.lock().postponed.is_empty()
    }

    /// Whether the writes that are taken are the last.
    pub(super) fn is_closed(&self) -> bool {
        self.lock().is_closed
    }

    /// Tells that writes are committed or have failed, so that readers see what they wrote.
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

    /// Waits for a read. Returns `None` once there will be none.
    pub(super) fn take_read(&self) -> Option<Read> {
        let is_idle = |waiting: &mut Waiting| waiting.reads.is_empty() && !waiting.readers_stop;
        let waited = self.to_read.wait_while(self.lock(), is_idle);
        waited.unwrap_or_else(PoisonError::into_inner).reads.pop_front()
    }

    /// Refuses operations from now on. Those that wait still run.
    pub(super) fn close(&self) {
        self.lock().is_closed = true;
        self.to_write.notify_all();
    }

    /// Refuses operations from now on, and stops the readers when they have run what waits for them.
    pub(super) fn stop_readers(&self) {
        let mut waiting = self.lock();
        (waiting.is_closed, waiting.readers_stop) = (true, true);
        drop(waiting);
        self.to_read.notify_all();
    }

    /// How many operations wait.
    pub(super) fn len(&self) -> usize {
        let waiting = self.lock();
        waiting.operations.len() + waiting.reads.len()
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// When a thread ends, however it ends, this closes the queue and drops what waits, so that nobody waits for ever.
pub(super) struct AbandonOnDrop(pub(super) Arc<Queue>);

impl Drop for AbandonOnDrop {
    fn drop(&mut self) {
        self.0.stop_readers();
        self.0.to_write.notify_all();
        let mut waiting = self.0.lock();
        waiting.bytes = 0;
        let abandoned = (
            std::mem::take(&mut waiting.postponed),
            std::mem::take(&mut waiting.operations),
            std::mem::take(&mut waiting.reads),
        );
        // Dropping them wakes whoever waits, which must not happen under the lock.
        drop(waiting);
        drop(abandoned);
    }
}

#[cfg(test)]
mod tests;
