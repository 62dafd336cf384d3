//! What is typed while no prompt is open, line by line.

use std::io;

#[cfg(unix)]
use rustix::io::retry_on_intr;

use super::mode::{Mode, forget_typed};

/// The lines that are typed into the terminal. It is read only when a line is wanted: what is typed while nothing is
/// asked stays in the terminal, for whoever reads it next.
#[derive(Debug, Default)]
pub(super) struct Lines {
    reader: Option<Reader>,
    /// How the terminal was, if what is typed unasked is not shown.
    shown: Option<Mode>,
}

impl Lines {
    /// The next line; `None` when there will be no more. Safe to drop while it waits: no line is lost.
    pub(super) async fn next(&mut self) -> io::Result<Option<String>> {
        let reader = match &mut self.reader {
            Some(reader) => reader,
            empty => empty.insert(Reader::new()?),
        };
        reader.next().await
    }

    /// From now on what is typed is shown only while something is asked: it would stand in the middle of what is written.
    pub(super) fn hide(&mut self) {
        let mode = Mode::of_terminal();
        mode.hide_typed();
        self.shown = Some(mode);
    }

    /// Whether what is typed unasked is not shown.
    pub(super) fn are_hidden(&self) -> bool {
        self.shown.is_some()
    }

    /// Something is asked: what was typed before is no answer to it.
    pub(super) fn ask(&mut self) {
        forget_typed();
        if let Some(mode) = &self.shown {
            mode.restore();
        }
    }

    /// Nothing is asked any more.
    pub(super) fn stop_asking(&mut self) {
        if let Some(mode) = &self.shown {
            mode.hide_typed();
        }
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        if let Some(mode) = &self.shown {
            mode.restore();
        }
    }
}

/// Reads standard input, which is a terminal and gives whole lines. Nothing is read that nobody waits for: the prompt reads
/// the same terminal.
#[cfg(unix)]
#[derive(Debug)]
struct Reader(tokio::io::unix::AsyncFd<io::Stdin>);

#[cfg(unix)]
impl Reader {
    /// No terminal has longer lines.
    const LONGEST_LINE: usize = 4096;

    #[expect(deprecated, reason = "what took its place is unsafe; standard input is never closed")]
    fn new() -> io::Result<Self> {
        tokio::io::unix::AsyncFd::with_interest(io::stdin(), tokio::io::Interest::READABLE).map(Self)
    }

    async fn next(&mut self) -> io::Result<Option<String>> {
        loop {
            let mut ready = self.0.readable().await?;
            if !Self::has_line()? {
                ready.clear_ready();
                continue;
            }
            let mut line = [0; Self::LONGEST_LINE];
            // An error is the end as well: the terminal is gone.
            return Ok(match retry_on_intr(|| rustix::io::read(io::stdin(), &mut line)) {
                Ok(0) | Err(_) => None,
                Ok(length) => Some(String::from_utf8_lossy(&line[..length]).trim_end_matches(['\n', '\r']).to_owned()),
            });
        }
    }

    /// Whether a read would return at once. A signal that comes meanwhile is no failure: the system interrupts even a poll
    /// that does not wait.
    fn has_line() -> io::Result<bool> {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let stdin = io::stdin();
        let mut polled = [PollFd::new(&stdin, PollFlags::IN)];
        Ok(retry_on_intr(|| poll(&mut polled, Some(&Timespec::default())))? > 0)
    }
}

/// Reads standard input. A line that was asked for is read, also if nobody waits for it any more.
#[cfg(not(unix))]
#[derive(Debug, Default)]
struct Reader(Option<tokio::sync::oneshot::Receiver<String>>);

#[cfg(not(unix))]
impl Reader {
    fn new() -> io::Result<Self> {
        Ok(Self::default())
    }

    async fn next(&mut self) -> io::Result<Option<String>> {
        let line = self.0.get_or_insert_with(|| {
            let (sender, line) = tokio::sync::oneshot::channel();
            // A thread that nobody waits for: a read from a terminal cannot be stopped, and must not hold up the end.
            std::thread::spawn(move || {
                if let Some(Ok(line)) = io::stdin().lines().next() {
                    let _ = sender.send(line);
                }
            });
            line
        });
        let line = line.await.ok();
        self.0 = None;
        Ok(line)
    }
}
