//! The thread that writes: it takes the operations that wait, runs them in one transaction, commits, and replies.

use std::slice;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::time::Instant;

use super::Bounds;
use super::checkpoint;
use super::database::{Database, Fault, store_error};
use super::operation::Operation;
use super::queue::Queue;
use super::usage::WRITTEN_WITHIN;
use crate::store::rank::Rank;

/// How often the thread checks whether the file is still there.
const CHECK_INTERVAL: Duration = Duration::from_secs(5);

/// What the thread owns.
pub(super) struct Writer {
    pub(super) database: Database,
    pub(super) queue: Arc<Queue>,
    pub(super) bounds: Bounds,
    /// The file's name, for errors.
    pub(super) file: Arc<str>,
    /// How many transactions were committed.
    pub(super) commits: Arc<AtomicU64>,
    /// Whether writes wait for room.
    pub(super) is_stuck: bool,
    /// The other threads that have the file open. They end before it is closed.
    pub(super) others: Vec<JoinHandle<()>>,
}

impl Writer {
    /// Runs operations until the queue is closed and empty, then closes the file.
    pub(super) fn run(mut self) -> Result<(), String> {
        let mut checked = Instant::now();
        while let Some(operations) = self.queue.take(self.patience()) {
            if operations.is_empty() {
                self.use_idle_time();
            }
            self.run_batch(operations);
            self.prune();
            // Commits check too, but there may be none for long.
            if checked.elapsed() >= CHECK_INTERVAL {
                checked = Instant::now();
                // The guard logs a loss and remembers it.
                _ = self.database.guard.check();
            }
        }
        while self.database.counter.is_unsure() {
            self.use_idle_time();
        }
        self.use_idle_time();
        self.queue.stop_readers();
        let stopped = checkpoint::stop(&mut self.database.connection);
        // A thread that panicked has logged that, and holds nothing open.
        self.others.into_iter().for_each(|other| _ = other.join());
        let closed = stopped.and_then(|()| self.database.close());
        closed.map_err(|fault| format!("{}: {fault}", self.file))
    }

    /// How long to wait for operations.
    fn patience(&self) -> Duration {
        match &self.database.counter {
            counter if counter.is_unsure() || self.is_prunable() => Duration::ZERO,
            counter if counter.has_unwritten() => WRITTEN_WITHIN,
            _ => CHECK_INTERVAL,
        }
    }

    /// Writes what sessions take, if nothing else is to be done. If that fails, it is tried again later.
    fn use_idle_time(&mut self) {
        let is_unsure = self.database.counter.is_unsure();
        let written = if is_unsure { self.database.recount() } else { self.database.write_usage() };
        if let Err(fault) = written {
            tracing::warn!(file = %self.file, %fault, "what sessions take could not be written");
        }
    }

    fn is_prunable(&self) -> bool {
        self.database.pruning.is_due(self.database.ended, &self.bounds)
    }

    /// Deletes the oldest calls, if that is due.
    fn prune(&mut self) {
        if let Err(fault) = self.database.prune(&self.bounds) {
            tracing::warn!(file = %self.file, %fault, "the oldest calls could not be deleted");
        }
    }

    /// Runs all operations in one transaction. If a write fails, that must not fail the others: then each runs alone.
    fn run_batch(&mut self, mut operations: Vec<Operation>) {
        let mut postponed = Vec::new();
        if let Err(fault) = self.begin(&operations) {
            // Another program holds the file, or it is gone. Each write alone would wait as long and fail as well.
            let mut ended = Vec::with_capacity(operations.len());
            for mut operation in operations {
                operation.read(&self.database.connection);
                self.fail_or_postpone(operation, &fault, &mut ended, &mut postponed);
            }
            operations = ended;
        } else if self.run_together(&mut operations).is_err() {
            self.database.roll_back();
            operations = self.run_each(operations, &mut postponed);
        }
        // This comes first, because whoever has a reply may read at once.
        self.queue.settle(&operations);
        self.postpone(postponed);
        operations.into_iter().for_each(Operation::reply);
    }

    /// Runs each operation in a transaction of its own. Returns those that have ended.
    fn run_each(&mut self, operations: Vec<Operation>, postponed: &mut Vec<Operation>) -> Vec<Operation> {
        let mut ended = Vec::with_capacity(operations.len());
        for mut operation in operations {
            let alone = slice::from_mut(&mut operation);
            let run = match hold_up(postponed, &alone[0]) {
                true => Err(Fault::Behind),
                false => self.begin(alone).and_then(|()| self.run_together(alone)),
            };
            match run {
                Ok(()) => ended.push(operation),
                Err(fault) => {
                    self.database.roll_back();
                    self.fail_or_postpone(operation, &fault, &mut ended, postponed);
                }
            }
        }
        ended
    }

    /// Fails an operation if it is a write, or lets it wait.
    fn fail_or_postpone(
        &self,
        mut operation: Operation,
        fault: &Fault,
        ended: &mut Vec<Operation>,
        postponed: &mut Vec<Operation>,
    ) {
        let error = store_error(&self.file, fault);
        let may_pass = error.is_passing() && !matches!(fault, Fault::Lost) && !self.queue.is_closed();
        if may_pass && operation.has_rank(Rank::Waits) {
            if !self.is_stuck && postponed.is_empty() {
                tracing::error!(%error, "what is under way cannot be written, and waits");
            }
            postponed.push(operation);
        } else {
            operation.fail(error);
            ended.push(operation);
        }
    }

    /// Lets writes wait for room.
    fn postpone(&mut self, postponed: Vec<Operation>) {
        let was_stuck = std::mem::replace(&mut self.is_stuck, !postponed.is_empty());
        if was_stuck && !self.is_stuck {
            tracing::info!(file = %self.file, "what had to wait is written");
        }
        self.queue.postpone(postponed);
    }

    /// Begins a transaction if there is something to write.
    fn begin(&self, operations: &[Operation]) -> Result<(), Fault> {
        match operations.iter().any(|operation| matches!(operation, Operation::Write { .. })) {
            true if self.database.guard.is_lost() => Err(Fault::Lost),
            true => self.database.begin(),
            false => Ok(()),
        }
    }

    /// Runs operations, and commits the transaction if one has begun. After an error nothing is acknowledged.
    fn run_together(&mut self, operations: &mut [Operation]) -> Result<(), Fault> {
        let has_begun = !self.database.connection.is_autocommit();
        for operation in operations {
            operation.run(&mut self.database)?;
            if has_begun && self.database.connection.is_autocommit() {
                return Err(Fault::TransactionLost);
            }
        }
        if has_begun {
            self.database.commit()?;
            self.commits.fetch_add(1, Ordering::Relaxed);
            // Only what is in a file that can be found again is acknowledged.
            self.database.guard.check()?;
        }
        Ok(())
    }
}

/// Whether an operation must not run before these writes, which wait.
fn hold_up(postponed: &[Operation], operation: &Operation) -> bool {
    let same = |waiting: &Operation| waiting.changes() == operation.changes();
    operation.has_rank(Rank::Waits) && !postponed.is_empty()
        || operation.has_rank(Rank::Fails) && postponed.iter().any(same)
}

#[cfg(test)]
mod tests;
