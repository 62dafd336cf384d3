//! Lines on their way to standard error. A thread writes them, many at once, so that nobody waits for a slow terminal or a full pipe.

use std::io::{self, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use tracing_subscriber::fmt::MakeWriter;

/// How many bytes may wait to be written. A line that no longer fits is dropped and counted.
const MOST_WAITING: usize = 4 * 1024 * 1024;
/// How long lines gather before they are written. The first one after a silence is written at once.
const GATHER: Duration = Duration::from_millis(5);
/// How long the end of the process waits for the last lines to be written.
const LAST: Duration = Duration::from_secs(1);

/// Where lines are put.
#[derive(Debug, Clone, Default)]
pub(super) struct Lines(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    waiting: Mutex<Waiting>,
    /// Somebody waits for a change of what waits: the thread for lines, or the end for the thread.
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Waiting {
    bytes: Vec<u8>,
    dropped: u64,
    closing: bool,
    closed: bool,
}

impl Lines {
    /// How many lines were dropped.
    pub(super) fn dropped(&self) -> u64 {
        self.waiting().dropped
    }

    /// Starts the thread that writes.
    pub(super) fn write_to(&self, out: impl Write + Send + 'static) -> io::Result<Writer> {
        let lines = self.clone();
        thread::Builder::new().name("handback-log".to_owned()).spawn(move || lines.run(out))?;
        Ok(Writer(self.clone()))
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait_while(&self, at_most: Duration, condition: impl FnMut(&mut Waiting) -> bool) -> MutexGuard<'_, Waiting> {
        let waiting = self.0.changed.wait_timeout_while(self.waiting(), at_most, condition);
        waiting.unwrap_or_else(PoisonError::into_inner).0
    }

    /// Writes lines until the end.
    fn run(&self, mut out: impl Write) {
        let mut bytes = Vec::new();
        loop {
            let mut waiting = self.wait_while(Duration::MAX, |waiting| waiting.bytes.is_empty() && !waiting.closing);
            if waiting.bytes.is_empty() {
                waiting.closed = true;
                self.0.changed.notify_all();
                return;
            }
            std::mem::swap(&mut waiting.bytes, &mut bytes);
            drop(waiting);
            if out.write_all(&bytes).is_err() {
                let lines = bytes.iter().filter(|byte| **byte == b'\n').count();
                self.waiting().dropped += lines as u64;
            }
            bytes.clear();
            drop(self.wait_while(GATHER, |waiting| !waiting.closing));
        }
    }
}

/// Puts a line, which the log hands over as a whole. It stays one line: a value in it, such as the message of an error, may
/// have control characters.
impl Write for &Lines {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let taken = line.len();
        let text = line.strip_suffix(b"\n").unwrap_or(line);
        let escaped = text.iter().any(u8::is_ascii_control).then(|| escape(text));
        let line = escaped.as_deref().unwrap_or(line);
        let mut waiting = self.waiting();
        if waiting.bytes.len() + line.len() > MOST_WAITING {
            waiting.dropped += 1;
        } else {
            let is_first = waiting.bytes.is_empty();
            waiting.bytes.extend_from_slice(line);
            drop(waiting);
            if is_first {
                self.0.changed.notify_all();
            }
        }
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The line with control characters as a string literal has them, and its end.
fn escape(text: &[u8]) -> Vec<u8> {
    let mut line = Vec::with_capacity(text.len() + 16);
    for byte in text {
        match byte.is_ascii_control() {
            true => line.extend(byte.escape_ascii()),
            false => line.push(*byte),
        }
    }
    line.push(b'\n');
    line
}

impl<'a> MakeWriter<'a> for Lines {
    type Writer = &'a Lines;

    fn make_writer(&'a self) -> Self::Writer {
        self
    }
}

/// The thread that writes. Dropping this has it write the lines that wait, for up to a second.
#[derive(Debug)]
pub(super) struct Writer(Lines);

impl Drop for Writer {
    fn drop(&mut self) {
        self.0.waiting().closing = true;
        self.0.0.changed.notify_all();
        drop(self.0.wait_while(LAST, |waiting| !waiting.closed));
    }
}

#[cfg(test)]
mod tests;
