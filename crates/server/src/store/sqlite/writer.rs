//! The thread that owns the file: it takes what waits, runs it in one transaction, commits, and answers.

use std::slice;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use handback_core::store::StoreError;
use rusqlite::ErrorCode;
use tokio::time::Instant;

use super::database::{Database, Fault};
use super::operation::{Kind, Operation};
use super::queue::Queue;

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
}

impl Writer {
    /// Runs operations until the queue is closed and empty; then closes the file.
    pub(super) fn run(mut self) -> Result<(), String> {
        // However this ends, by a panic too: who waits is told, and who comes later is refused.
        let _abandoned = Abandon(self.queue.clone());
        let mut looked = Instant::now();
        while let Some(mut batch) = self.queue.take(LOOK_AROUND) {
            self.run_batch(&mut batch);
            // Writes look for themselves; there may be none for long.
            if looked.elapsed() >= LOOK_AROUND {
                looked = Instant::now();
                // What it finds is in the log, and known from now on.
                _ = self.database.guard.check();
            }
        }
        let file = self.file;
        self.database.close().map_err(|fault| format!("{file}: {fault}"))
    }

    /// Runs all of them in one transaction. If one fails it must not take the others with it: each is run for itself.
    fn run_batch(&mut self, batch: &mut [Box<dyn Operation>]) {
        if self.run_together(batch).is_ok() {
            return;
        }
        self.database.roll_back();
        for operation in batch {
            if let Err(fault) = self.run_together(slice::from_mut(operation)) {
                self.database.roll_back();
                operation.fail(store_error(&self.file, &fault));
            }
        }
    }

    /// Runs operations in one transaction and answers them: a read when it is done, the writes after the commit. After
    /// an error no write has taken place, and none has an answer.
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
        batch.iter_mut().for_each(|operation| operation.succeed());
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

/// Ends the queue with the thread.
struct Abandon(Arc<Queue>);

impl Drop for Abandon {
    fn drop(&mut self) {
        self.0.abandon();
    }
}

fn store_error(file: &str, fault: &Fault) -> StoreError {
    let cause = format!("{file}: {fault}");
    let Fault::Sqlite(error) = fault else {
        return if matches!(fault, Fault::Lost) { StoreError::Unavailable(cause) } else { StoreError::Failed(cause) };
    };
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => StoreError::Full(cause),
        Some(
            ErrorCode::DatabaseBusy
            | ErrorCode::DatabaseLocked
            | ErrorCode::ReadOnly
            | ErrorCode::SystemIoFailure
            | ErrorCode::CannotOpen,
        ) => StoreError::Unavailable(cause),
        _ => StoreError::Failed(cause),
    }
}

#[cfg(test)]
mod tests;
