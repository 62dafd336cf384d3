//! What waits for the threads that have the file open: operations in the order in which they were asked for.

use std::collections::{HashMap, VecDeque};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use handback_core::id::SessionId;

use super::Bounds;
use super::operation::{Kind, Operation, Read};

/// How many operations are written together at the most.
const BATCH: usize = 512;
/// About how many bytes are written together, so that one transaction stays short.
const BATCH_BYTES: usize = 4 << 20;

/// Why an operation was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refused {
    /// Too much waits already.
    Full,
    /// Nothing is taken any more.
    Closed,
}

/// Operations that wait. Whoever adds one never waits: beyond the bound it is refused.
///
/// A read goes to the readers, unless something that it is to see is not written yet: then it takes its turn behind that,
/// with the writer.
#[derive(Debug)]
pub(super) struct Queue {
    // std's mutex: nothing happens inside but pushing and popping.
    waiting: Mutex<Waiting>,
    /// Something waits for the writer.
    to_write: Condvar,
    /// Something waits for a reader.
    to_read: Condvar,
    most: usize,
    most_bytes: usize,
}

#[derive(Debug, Default)]
struct Waiting {
    /// For the writer.
    operations: VecDeque<Entry>,
    /// For the readers.
    reads: VecDeque<Box<dyn Read>>,
    /// About how many bytes wait to be written.
    bytes: usize,
    /// How many writes are not over.
    unwritten: usize,
    /// How many of them are about each session.
    of_sessions: HashMap<SessionId, usize>,
    is_closed: bool,
    /// The writer needs the readers no more.
    is_over: bool,
    /// The writer sleeps, and has to be woken.
    is_asleep: bool,
}

#[derive(Debug)]
struct Entry {
    operation: Box<dyn Operation>,
    bytes: usize,
    /// The session that it writes to, if it does.
    session: Option<SessionId>,
}

/// Operations that are run together.
#[derive(Debug, Default)]
pub(super) struct Batch {
    pub(super) operations: Vec<Box<dyn Operation>>,
    writes: usize,
    /// The sessions that they write to.
    sessions: Vec<SessionId>,
}

#[cfg(test)]
impl Batch {
    /// Operations that no queue knows of.
    pub(super) fn of(operations: Vec<Box<dyn Operation>>) -> Self {
        Self { operations, ..Self::default() }
    }
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

    /// Adds a write that holds on to so many bytes, to a session if it is to one. The last one in may exceed the bound:
    /// however large a write is, there is a time at which it is taken.
    pub(super) fn write(
        &self,
        session: Option<SessionId>,
        bytes: usize,
        operation: Box<dyn Operation>,
    ) -> Result<(), Refused> {
        let mut waiting = self.lock();
        self.must_take(&waiting)?;
        if waiting.bytes >= self.most_bytes {
            return Err(Refused::Full);
        }
        waiting.bytes += bytes;
        waiting.unwritten += 1;
        if let Some(session) = session.clone() {
            *waiting.of_sessions.entry(session).or_default() += 1;
        }
        self.give_to_writer(waiting, Entry { operation, bytes, session });
        Ok(())
    }

    /// Adds a read of a session, or of anything.
    pub(super) fn read(&self, session: Option<&SessionId>, operation: Box<dyn Read>) -> Result<(), Refused> {
        let mut waiting = self.lock();
        self.must_take(&waiting)?;
        let must_wait = match session {
            Some(session) => waiting.of_sessions.contains_key(session),
            None => waiting.unwritten > 0,
        };
        if must_wait {
            self.give_to_writer(waiting, Entry { operation, bytes: 0, session: None });
        } else {
            waiting.reads.push_back(operation);
            drop(waiting);
            self.to_read.notify_one();
        }
        Ok(())
    }

    fn must_take(&self, waiting: &Waiting) -> Result<(), Refused> {
        if waiting.is_closed {
            return Err(Refused::Closed);
        }
        if waiting.operations.len() + waiting.reads.len() >= self.most { Err(Refused::Full) } else { Ok(()) }
    }

    fn give_to_writer(&self, mut waiting: MutexGuard<'_, Waiting>, entry: Entry) {
        waiting.operations.push_back(entry);
        let wakes = std::mem::take(&mut waiting.is_asleep);
        drop(waiting);
        if wakes {
            self.to_write.notify_one();
        }
    }

    /// Waits for operations, for so long, and takes as many as are written together, or none; `None` once the queue is
    /// closed and empty.
    pub(super) fn take(&self, patience: Duration) -> Option<Batch> {
        let mut waiting = self.lock();
        let is_idle = |waiting: &mut Waiting| {
            waiting.is_asleep = waiting.operations.is_empty() && !waiting.is_closed;
            waiting.is_asleep
        };
        (waiting, _) =
            self.to_write.wait_timeout_while(waiting, patience, is_idle).unwrap_or_else(PoisonError::into_inner);
        waiting.is_asleep = false;
        if waiting.operations.is_empty() && waiting.is_closed {
            return None;
        }
        let (mut batch, mut taken) = (Batch::default(), 0);
        while batch.operations.len() < BATCH
            && taken < BATCH_BYTES
            && let Some(Entry { operation, bytes, session }) = waiting.operations.pop_front()
        {
            taken += bytes;
            batch.writes += usize::from(operation.kind() == Kind::Write);
            batch.operations.push(operation);
            batch.sessions.extend(session);
        }
        waiting.bytes -= taken;
        Some(batch)
    }

    /// The writes of a batch are over, whatever came of them: readers see what they have written.
    pub(super) fn written(&self, batch: &Batch) {
        let mut waiting = self.lock();
        waiting.unwritten -= batch.writes;
        for session in &batch.sessions {
            if let Some(count) = waiting.of_sessions.get_mut(session) {
                *count -= 1;
                if *count == 0 {
                    waiting.of_sessions.remove(session);
                }
            }
        }
    }

    /// Waits for a read; `None` once there will be none.
    pub(super) fn take_read(&self) -> Option<Box<dyn Read>> {
        let is_idle = |waiting: &mut Waiting| waiting.reads.is_empty() && !waiting.is_over;
        let waited = self.to_read.wait_while(self.lock(), is_idle);
        waited.unwrap_or_else(PoisonError::into_inner).reads.pop_front()
    }

    /// Takes nothing new from now on. What waits is still done.
    pub(super) fn close(&self) {
        self.lock().is_closed = true;
        self.to_write.notify_all();
    }

    /// Takes nothing new, and lets the readers go when they have done what waits for them.
    pub(super) fn end_reads(&self) {
        let mut waiting = self.lock();
        (waiting.is_closed, waiting.is_over) = (true, true);
        drop(waiting);
        self.to_read.notify_all();
    }

    /// Takes nothing new, and drops what waits: whoever waits for it is told.
    pub(super) fn abandon(&self) {
        let abandoned = {
            let mut waiting = self.lock();
            (waiting.is_closed, waiting.is_over, waiting.bytes) = (true, true, 0);
            (std::mem::take(&mut waiting.operations), std::mem::take(&mut waiting.reads))
        };
        self.to_read.notify_all();
        self.to_write.notify_all();
        // After the lock is free: dropping wakes those who wait.
        drop(abandoned);
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

#[cfg(test)]
mod tests;
