//! Checkpoints of the write-ahead log: a thread of its own does most of one while the writer goes on, and the writer does
//! the little that came meanwhile, so that the log begins anew.

use std::ffi::c_int;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

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
    /// It is long: the thread is to make a checkpoint, or does so.
    Wanted,
    /// The thread has done what was there.
    Done,
    /// The thread is needed no more.
    Over,
}

/// What the writer and the thread tell each other.
#[derive(Debug, Default)]
pub(super) struct Checkpoints {
    stage: Mutex<Stage>,
    changed: Condvar,
}

impl Checkpoints {
    /// Has the writer's connection look at the log after every commit.
    pub(super) fn watch(self: &Arc<Self>, writer: &mut Connection) -> Result<(), Fault> {
        let checkpoints = self.clone();
        let hook = move |log: &mut Wal, pages: c_int| {
            if checkpoints.is_writers_turn(pages)
                && let Err(error) = log.checkpoint_v2(CheckpointMode::PASSIVE)
            {
                failed(&error);
            }
            Ok(())
        };
        Ok(writer.wal_hook(Some(hook))?)
    }

    /// Whether the writer is to finish the checkpoint of the log, which has so many pages.
    fn is_writers_turn(&self, pages: c_int) -> bool {
        let mut stage = self.lock();
        let (next, is_writers_turn) = match *stage {
            Stage::Done if pages < PAGES => (Stage::Idle, false),
            Stage::Done => (Stage::Idle, true),
            Stage::Idle if pages >= PAGES => (Stage::Wanted, false),
            stage => (stage, false),
        };
        *stage = next;
        drop(stage);
        if next == Stage::Wanted {
            self.changed.notify_all();
        }
        is_writers_turn
    }

    /// Makes checkpoints whenever they are wanted, on a connection of its own, until it is over.
    pub(super) fn run(&self, connection: &Connection) {
        loop {
            let waiting = |stage: &mut Stage| matches!(stage, Stage::Idle | Stage::Done);
            let stage = self.changed.wait_while(self.lock(), waiting).unwrap_or_else(PoisonError::into_inner);
            if *stage == Stage::Over {
                return;
            }
            drop(stage);
            if let Err(error) = connection.wal_checkpoint_v2(Some(MAIN_DB), CheckpointMode::PASSIVE) {
                failed(&error);
            }
            let mut stage = self.lock();
            if *stage == Stage::Wanted {
                *stage = Stage::Done;
                self.changed.notify_all();
            }
        }
    }

    /// The thread is needed no more.
    pub(super) fn end(&self) {
        *self.lock() = Stage::Over;
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, Stage> {
        self.stage.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Nothing is lost, the log only grows, and it is tried again.
fn failed(error: &rusqlite::Error) {
    tracing::warn!(%error, "a checkpoint of the write-ahead log failed");
}

#[cfg(test)]
mod tests;
