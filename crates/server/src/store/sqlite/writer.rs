//! The thread that writes: it takes what waits, runs it in one transaction, commits, and answers.

use std::slice;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::time::Instant;

use super::checkpoint::Checkpoints;
use super::database::{Database, Fault, store_error};
use super::operation::{Kind, Operation};
use super::queue::{Batch, Queue};
use super::usage::WRITTEN_WITHIN;

/// How often the thread looks whether the file is still there.
const LOOK_AROUND: Duration = Duration::from_secs(5);

/// The thread's own.
#[derive(Debug)]
pub(super) struct Writer {
    pub(super) database: Database,
    pub(super) queue: Arc<Queue>,
    /// The file's name, for errors.
    pub(super) file: Arc<str>,
    /// How many transactions were committed.
    pub(super) commits: Arc<AtomicU64>,
    pub(super) checkpoints: Arc<Checkpoints>,
    /// The other threads that have the file open; they are done before it is closed.
    pub(super) others: Vec<JoinHandle<()>>,
}

impl Writer {
    /// Runs operations until the queue is closed and empty; then closes the file.
    pub(super) fn run(mut self) -> Result<(), String> {
        // However this ends, by a panic too: who waits is told, and who comes later is refused.
        let _abandoned = Abandon(self.queue.clone(), self.checkpoints.clone());
        let mut looked = Instant::now();
        while let Some(batch) = self.queue.take(self.patience()) {
            if batch.operations.is_empty() {
                self.settle();
            }
            self.run_batch(batch);
            // Writes look for themselves; there may be none for long.
            if looked.elapsed() >= LOOK_AROUND {
                looked = Instant::now();
                // What it finds is in the log, and known from now on.
                _ = self.database.guard.check();
            }
        }
        self.settle();
        self.queue.end_reads();
        self.checkpoints.end();
        // One that panicked has said so, and has left nothing open.
        self.others.into_iter().for_each(|other| _ = other.join());
        let file = self.file;
        self.database.close().map_err(|fault| format!("{file}: {fault}"))
    }

    /// How long to wait for something to do.
    fn patience(&self) -> Duration {
        if self.database.counter.has_unwritten() { WRITTEN_WITHIN } else { LOOK_AROUND }
    }

    /// There is time for what was put off. Nobody waits for it, and it is tried again.
    fn settle(&mut self) {
        if let Err(fault) = self.database.settle() {
            tracing::warn!(file = %self.file, %fault, "what sessions take could not be written");
        }
    }

    /// Runs all of them in one transaction. If one fails it must not take the others with it: each is run for itself.
    fn run_batch(&mut self, mut batch: Batch) {
        if self.run_together(&mut batch.operations).is_err() {
            self.database.roll_back();
            for operation in &mut batch.operations {
                if let Err(fault) = self.run_together(slice::from_mut(operation)) {
                    self.database.roll_back();
                    operation.fail(store_error(&self.file, &fault));
                }
            }
        }
        // First: whoever has an answer may read at once.
        self.queue.written(&batch);
        batch.operations.iter_mut().for_each(|operation| operation.succeed());
    }

    /// Runs operations in one transaction. A read is answered when it is done, the writes are to be answered afterwards.
    /// After an error no write has taken place.
    fn run_together(&mut self, batch: &mut [Box<dyn Operation>]) -> Result<(), Fault> {
        let begun = self.begin_for(batch);
        for operation in batch.iter_mut().filter(|operation| operation.is_open()) {
            match (operation.kind(), operation.run(&mut self.database)) {
                (Kind::Write, ran) => ran?,
                (Kind::Read, Ok(())) => operation.succeed(),
                (Kind::Read, Err(fault)) => operation.fail(store_error(&self.file, &fault)),
            }
            if begun && self.database.connection.is_autocommit() {
                return Err(Fault::TransactionLost);
            }
        }
        if begun {
            self.database.commit()?;
            self.commits.fetch_add(1, Ordering::Relaxed);
            // Only what is in a file that can be found again is acknowledged.
            self.database.guard.check()?;
        }
        Ok(())
    }

    /// Begins a transaction if there is something to write. If that cannot be (another program holds on to the file, or
    /// it is gone) all the writes have failed: each for itself would wait as long, and fail alike.
    fn begin_for(&mut self, batch: &mut [Box<dyn Operation>]) -> bool {
        if !batch.iter().any(|operation| operation.is_open() && operation.kind() == Kind::Write) {
            return false;
        }
        let begun = if self.database.guard.is_lost() { Err(Fault::Lost) } else { self.database.begin() };
        let Err(fault) = begun else { return true };
        for operation in batch.iter_mut().filter(|operation| operation.kind() == Kind::Write) {
            operation.fail(store_error(&self.file, &fault));
        }
        false
    }
}

/// Ends the queue and the other threads with this one.
struct Abandon(Arc<Queue>, Arc<Checkpoints>);

impl Drop for Abandon {
    fn drop(&mut self) {
        self.0.abandon();
        self.1.end();
    }
}

#[cfg(test)]
mod tests;
