//! Checkpoints of the write-ahead log. A thread of its own does most of a checkpoint while the writer goes on; then the
//! writer adds the few pages that came meanwhile, so that the log starts again from its beginning.

use std::ffi::c_int;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rusqlite::hooks::Wal;
use rusqlite::wal::CheckpointMode;
use rusqlite::{Connection, MAIN_DB};

use super::database::Fault;

/// How many pages the log has when a checkpoint is due.
const PAGES: c_int = 4_096;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Stage {
    /// The log is short.
    #[default]
    Idle,
    /// The log is long, and the thread makes a checkpoint or is about to.
    Requested,
    /// The thread has made a checkpoint, and the writer is to complete it.
    Made,
}

/// The writer's side. The thread ends when this is dropped.
pub(super) struct Checkpoints {
    stage: Arc<Mutex<Stage>>,
    requests: Sender<()>,
}

/// The thread's side.
pub(super) struct Worker {
    stage: Arc<Mutex<Stage>>,
    requests: Receiver<()>,
}

impl Worker {
    /// Makes a checkpoint for every request, until there will be none.
    pub(super) fn run(self, connection: &Connection) {
        for () in self.requests {
            log_failure(connection.wal_checkpoint_v2(Some(MAIN_DB), CheckpointMode::PASSIVE).map(|_| ()));
            *lock(&self.stage) = Stage::Made;
        }
    }
}

impl Checkpoints {
    /// Has the writer's connection look at the log after every commit. Returns what the thread runs on a connection of
    /// its own, until [`stop`].
    pub(super) fn watch(writer: &mut Connection) -> Result<Worker, Fault> {
        let (requests, requested) = channel();
        let checkpoints = Self { stage: Arc::default(), requests };
        let worker = Worker { stage: checkpoints.stage.clone(), requests: requested };
        writer.wal_hook(Some(move |log: &mut Wal, pages: c_int| {
            if checkpoints.is_writers_turn(pages) {
                log_failure(log.checkpoint_v2(CheckpointMode::PASSIVE).map(|_| ()));
            }
            Ok(())
        }))?;
        Ok(worker)
    }

    /// Whether the writer is to complete a checkpoint of the log, which has so many pages.
    fn is_writers_turn(&self, pages: c_int) -> bool {
        let mut stage = lock(&self.stage);
        let is_long = pages >= PAGES;
        match *stage {
            Stage::Idle if is_long => {
                *stage = Stage::Requested;
                // If the thread has gone, the log only grows.
                _ = self.requests.send(());
                false
            }
            Stage::Made => {
                *stage = Stage::Idle;
                is_long
            }
            Stage::Idle | Stage::Requested => false,
        }
    }
}

/// Stops the thread.
pub(super) fn stop(writer: &mut Connection) -> Result<(), Fault> {
    Ok(writer.wal_hook(None::<fn(&mut Wal, c_int) -> rusqlite::Result<()>>)?)
}

fn lock(stage: &Mutex<Stage>) -> MutexGuard<'_, Stage> {
    stage.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Logs a checkpoint that failed. Nothing is lost: the log only grows, and the next commit tries again.
fn log_failure(made: rusqlite::Result<()>) {
    if let Err(error) = made {
        tracing::warn!(%error, "a checkpoint of the write-ahead log failed");
    }
}

#[cfg(test)]
mod tests;
