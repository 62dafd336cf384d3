//! A thread that only reads. What it shows is committed, and it keeps nobody from writing.

use std::sync::Arc;
use std::thread;

use rusqlite::Connection;

use super::database::{Fault, store_error};
use super::operation::Read;
use super::queue::Queue;

/// The thread's own.
#[derive(Debug)]
pub(super) struct Reader {
    pub(super) connection: Connection,
    pub(super) queue: Arc<Queue>,
    /// The file's name, for errors.
    pub(super) file: Arc<str>,
}

impl Reader {
    /// Reads until there will be no more to read.
    pub(super) fn run(self) {
        let _abandoned = AbandonInPanic(&self.queue);
        while let Some(mut read) = self.queue.take_read() {
            if !read.is_open() {
                continue;
            }
            match self.read(&mut *read) {
                Ok(()) => read.succeed(),
                Err(fault) => read.fail(store_error(&self.file, &fault)),
            }
        }
    }

    /// All of a read sees the same, whatever is committed meanwhile.
    fn read(&self, read: &mut dyn Read) -> Result<(), Fault> {
        let _snapshot = self.connection.unchecked_transaction()?;
        read.read(&self.connection)
    }
}

/// Nobody waits for a thread that is no more.
struct AbandonInPanic<'a>(&'a Queue);

impl Drop for AbandonInPanic<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.abandon();
        }
    }
}
