//! What waits for the thread that owns the file: operations in the order in which they were asked for.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::Bounds;
use super::operation::Operation;

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
#[derive(Debug)]
pub(super) struct Queue {
    // std's mutex: nothing happens inside but pushing and popping.
    waiting: Mutex<Waiting>,
    filled: Condvar,
    most: usize,
    most_bytes: usize,
}

#[derive(Debug)]
struct Waiting {
    operations: VecDeque<(usize, Box<dyn Operation>)>,
    bytes: usize,
    is_open: bool,
    /// The thread sleeps, and has to be woken.
    is_idle: bool,
}

impl Queue {
    pub(super) fn new(bounds: &Bounds) -> Self {
        let waiting = Waiting { operations: VecDeque::new(), bytes: 0, is_open: true, is_idle: false };
        Self {
            waiting: Mutex::new(waiting),
            filled: Condvar::new(),
            most: bounds.queued,
            most_bytes: bounds.queued_bytes,
        }
    }

    /// Adds an operation that holds on to so many bytes. The last one in may exceed the bound: however large an
    /// operation is, there is a time at which it is taken. One that holds on to none, a read, is taken whatever waits.
    pub(super) fn push(&self, bytes: usize, operation: Box<dyn Operation>) -> Result<(), Refused> {
        let mut waiting = self.lock();
        if !waiting.is_open {
            return Err(Refused::Closed);
        }
        if waiting.operations.len() >= self.most || (bytes > 0 && waiting.bytes >= self.most_bytes) {
            return Err(Refused::Full);
        }
        waiting.operations.push_back((bytes, operation));
        waiting.bytes += bytes;
        let wake = std::mem::take(&mut waiting.is_idle);
        drop(waiting);
        if wake {
            self.filled.notify_one();
        }
        Ok(())
    }

    /// Waits for operations, for so long, and takes as many as are written together, or none; `None` once the queue is
    /// closed and empty.
    pub(super) fn take(&self, patience: Duration) -> Option<Vec<Box<dyn Operation>>> {
        let mut waiting = self.lock();
        waiting.is_idle = true;
        let is_idle = |waiting: &mut Waiting| waiting.operations.is_empty() && waiting.is_open;
        let waited = self.filled.wait_timeout_while(waiting, patience, is_idle);
        (waiting, _) = waited.unwrap_or_else(PoisonError::into_inner);
        waiting.is_idle = false;
        if waiting.operations.is_empty() && !waiting.is_open {
            return None;
        }
        let (mut batch, mut bytes) = (Vec::new(), 0);
        while batch.len() < BATCH
            && bytes < BATCH_BYTES
            && let Some((weight, operation)) = waiting.operations.pop_front()
        {
            bytes += weight;
            batch.push(operation);
        }
        waiting.bytes -= bytes;
        Some(batch)
    }

    /// Takes nothing new from now on. What waits is still done.
    pub(super) fn close(&self) {
        self.lock().is_open = false;
        self.filled.notify_all();
    }

    /// Takes nothing new, and drops what waits: whoever waits for it is told.
    pub(super) fn abandon(&self) {
        let abandoned = {
            let mut waiting = self.lock();
            waiting.is_open = false;
            waiting.bytes = 0;
            std::mem::take(&mut waiting.operations)
        };
        // After the lock is free: dropping wakes those who wait.
        drop(abandoned);
    }

    /// How many operations wait.
    pub(super) fn len(&self) -> usize {
        self.lock().operations.len()
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
