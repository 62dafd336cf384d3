//! What is typed, line by line.

use std::io::{self, BufRead};
use std::sync::mpsc as requests;

use tokio::sync::mpsc;

/// The lines that are typed into the terminal. It is read only when a line is wanted: what is typed while nothing is
/// asked stays in the terminal, for whoever reads it next.
#[derive(Debug)]
pub(super) struct Lines {
    reader: Option<Reader>,
}

#[derive(Debug)]
struct Reader {
    requests: requests::Sender<()>,
    lines: mpsc::Receiver<String>,
    /// Whether a line was asked for that has not come yet.
    is_asked: bool,
}

impl Lines {
    /// Standard input, which is a terminal: that bounds the length of a line.
    pub(super) fn of_terminal() -> Self {
        Self { reader: None }
    }

    /// The next line; `None` when there will be no more. Safe to drop while it waits: no line is lost.
    pub(super) async fn next(&mut self) -> io::Result<Option<String>> {
        let reader = match &mut self.reader {
            Some(reader) => reader,
            empty => empty.insert(Reader::start()?),
        };
        if !reader.is_asked {
            // Fails when the reader has met the end, and then there is no line either.
            reader.is_asked = reader.requests.send(()).is_ok();
        }
        let line = reader.lines.recv().await;
        reader.is_asked = false;
        Ok(line)
    }

    /// Forgets what was typed before anybody asked.
    pub(super) fn forget_typed(&mut self) {
        #[cfg(unix)]
        // Fails where there is no terminal any more, and then there is nothing to forget.
        let _ = rustix::termios::tcflush(io::stdin(), rustix::termios::QueueSelector::IFlush);
    }
}

impl Reader {
    fn start() -> io::Result<Self> {
        let (requests, requested) = requests::channel();
        let (sender, lines) = mpsc::channel(1);
        // A thread that nobody waits for: a read from a terminal cannot be stopped, and must not hold up the end.
        std::thread::Builder::new().name("lines".to_owned()).spawn(move || {
            while requested.recv().is_ok() {
                let mut line = Vec::new();
                // An error is the end as well: the terminal is gone.
                if !io::stdin().lock().read_until(b'\n', &mut line).is_ok_and(|length| length > 0) {
                    return;
                }
                let line = String::from_utf8_lossy(&line).trim_end_matches(['\n', '\r']).to_owned();
                if sender.blocking_send(line).is_err() {
                    return;
                }
            }
        })?;
        Ok(Self { requests, lines, is_asked: false })
    }
}
