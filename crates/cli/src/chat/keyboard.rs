//! Reads the lines that are typed while no prompt is open, and sets the mode of the terminal.

use std::io;

#[cfg(unix)]
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::retry_on_intr,
    termios::{LocalModes, OptionalActions, QueueSelector, Termios, tcflush, tcgetattr, tcsetattr},
};

/// The lines that the user types. The terminal is read only when a line is wanted; text that is typed at other times
/// stays in the terminal for the next reader.
#[derive(Debug, Default)]
pub(super) struct Keyboard {
    reader: Option<LineReader>,
    /// The usual mode of the terminal, if typed text is hidden while no question is open.
    usual: Option<Mode>,
}

impl Keyboard {
    /// The next line; `None` when nothing more can be typed. Safe to drop while it waits: no line is lost.
    pub(super) async fn next_line(&mut self) -> io::Result<Option<String>> {
        let reader = match &mut self.reader {
            Some(reader) => reader,
            empty => empty.insert(LineReader::new()?),
        };
        reader.next_line().await
    }

    /// Hides typed text while no question is open, because it would appear in the middle of the answer.
    pub(super) fn hide(&mut self) {
        let mode = Mode::of_terminal();
        mode.hide_typed();
        self.usual = Some(mode);
    }

    /// Whether typed text is hidden while no question is open.
    pub(super) fn is_hidden(&self) -> bool {
        self.usual.is_some()
    }

    /// Prepares for a question. Text that was typed before it is discarded, because it is not an answer.
    pub(super) fn ask(&mut self) {
        #[cfg(unix)]
        let _ = tcflush(io::stdin(), QueueSelector::IFlush);
        if let Some(mode) = &self.usual {
            mode.restore();
        }
    }

    /// Hides typed text again after a question.
    pub(super) fn stop_asking(&mut self) {
        if let Some(mode) = &self.usual {
            mode.hide_typed();
        }
    }
}

impl Drop for Keyboard {
    fn drop(&mut self) {
        if let Some(mode) = &self.usual {
            mode.restore();
        }
    }
}

/// The mode of the terminal when this value was created. Without a terminal there is no mode, and nothing is done.
#[derive(Debug)]
pub(super) struct Mode {
    #[cfg(unix)]
    found: Option<Termios>,
}

impl Mode {
    pub(super) fn of_terminal() -> Self {
        Self {
            #[cfg(unix)]
            found: tcgetattr(io::stdin()).ok(),
        }
    }

    /// Sets the terminal back to this mode.
    pub(super) fn restore(&self) {
        #[cfg(unix)]
        self.set(|_| {});
    }

    /// Sets the terminal back to this mode, but without echo.
    fn hide_typed(&self) {
        #[cfg(unix)]
        self.set(|mode| mode.local_modes.remove(LocalModes::ECHO));
    }

    #[cfg(unix)]
    fn set(&self, change: impl FnOnce(&mut Termios)) {
        if let Some(mut mode) = self.found.clone() {
            change(&mut mode);
            // This fails only if the terminal is gone.
            let _ = tcsetattr(io::stdin(), OptionalActions::Now, &mode);
        }
    }
}

/// Reads whole lines from a terminal on standard input. It reads only when a line is there and wanted, because the
/// prompt reads the same terminal.
#[cfg(unix)]
#[derive(Debug)]
struct LineReader(tokio::io::unix::AsyncFd<io::Stdin>);

#[cfg(unix)]
impl LineReader {
    /// No terminal has longer lines.
    const LONGEST_LINE: usize = 4096;

    #[expect(deprecated, reason = "what took its place is unsafe; standard input is never closed")]
    fn new() -> io::Result<Self> {
        tokio::io::unix::AsyncFd::with_interest(io::stdin(), tokio::io::Interest::READABLE).map(Self)
    }

    async fn next_line(&mut self) -> io::Result<Option<String>> {
        loop {
            let mut ready = self.0.readable().await?;
            let stdin = io::stdin();
            let mut polled = [PollFd::new(&stdin, PollFlags::IN)];
            // A signal interrupts even a poll that does not wait, so the poll is retried.
            if retry_on_intr(|| poll(&mut polled, Some(&Timespec::default())))? == 0 {
                ready.clear_ready();
                continue;
            }
            let mut line = [0; Self::LONGEST_LINE];
            // An error counts as the end: the terminal is gone.
            return Ok(match retry_on_intr(|| rustix::io::read(&stdin, &mut line)) {
                Ok(0) | Err(_) => None,
                Ok(length) => Some(String::from_utf8_lossy(&line[..length]).trim_end_matches(['\n', '\r']).to_owned()),
            });
        }
    }
}

/// Reads standard input. A requested line is read even if nobody waits for it any more.
#[cfg(not(unix))]
#[derive(Debug)]
struct LineReader(tokio::io::Lines<tokio::io::BufReader<tokio::io::Stdin>>);

#[cfg(not(unix))]
impl LineReader {
    fn new() -> io::Result<Self> {
        use tokio::io::AsyncBufReadExt;
        Ok(Self(tokio::io::BufReader::new(tokio::io::stdin()).lines()))
    }

    async fn next_line(&mut self) -> io::Result<Option<String>> {
        self.0.next_line().await
    }
}
