//! Checkpoints of the write-ahead log. A thread of its own does most of a checkpoint while the writer goes on; then the
//! writer adds the few pages that came meanwhile, so that the log starts again from its beginning.

use std::ffi::c_int;
use std::sync::mpsc::{Receiver, Sender, channel};

use rusqlite::Connection;
use rusqlite::hooks::Wal;
use rusqlite::wal::CheckpointMode;

use super::database::Fault;

/// How many pages the log has when a checkpoint is due. Pages that change often are written once for each checkpoint, so
/// fewer checkpoints write less.
const PAGES: c_int = 8_192;

/// The writer's side. The thread ends when this is dropped.
struct Checkpoints {
    requests: Sender<()>,
    made: Receiver<()>,
    /// Whether the thread makes a checkpoint, or is about to.
    is_requested: bool,
}

impl Checkpoints {
    /// Whether the writer is to complete a checkpoint of the log, which has so many pages.
    fn is_writers_turn(&mut self, pages: c_int) -> bool {
        let is_long = pages >= PAGES;
        if !self.is_requested {
            self.is_requested = is_long && self.requests.send(()).is_ok();
            return false;
        }
        let is_made = self.made.try_recv().is_ok();
        self.is_requested = !is_made;
        is_made && is_long
    }
}

/// The thread's side.
pub(super) struct Checkpointer {
    requests: Receiver<()>,
    made: Sender<()>,
}

impl Checkpointer {
    /// Makes a checkpoint for every request, until [`stop`].
    pub(super) fn run(self, connection: &Connection) {
        while self.requests.recv().is_ok() {
            self.make(connection);
        }
    }

    fn make(&self, connection: &Connection) {
        // Unlike SQLite's function, the pragma works on a connection that has never read and does not know of the log yet.
        log_failure(connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(())));
        // The writer may be closing.
        _ = self.made.send(());
    }
}

/// Has the writer's connection look at the log after every commit. Returns what the thread runs.
pub(super) fn watch(writer: &mut Connection) -> Result<Checkpointer, Fault> {
    let ((requests, requested), (make, made)) = (channel(), channel());
    let mut checkpoints = Checkpoints { requests, made, is_requested: false };
    writer.wal_hook(Some(move |log: &mut Wal, pages: c_int| {
        if checkpoints.is_writers_turn(pages) {
            log_failure(log.checkpoint_v2(CheckpointMode::PASSIVE).map(|_| ()));
        }
        Ok(())
    }))?;
    Ok(Checkpointer { requests: requested, made: make })
}

/// Stops the thread.
pub(super) fn stop(writer: &mut Connection) -> Result<(), Fault> {
    Ok(writer.wal_hook(None::<fn(&mut Wal, c_int) -> rusqlite::Result<()>>)?)
}

/// Logs a checkpoint that failed. Nothing is lost: the log only grows, and a later commit tries again.
fn log_failure(made: rusqlite::Result<()>) {
    if let Err(error) = made {
        tracing::warn!(%error, "a checkpoint of the write-ahead log failed");
    }
}

#[cfg(test)]
mod tests;
