//! Writes a chat: answers to standard output, all else to standard error.

use std::io::{self, IsTerminal, Write};

use super::args::ChatArgs;
use super::layout::{AnswerDisplay, CallStyle, Chunk, Layout, Place};
use super::paint::{Ink, Paint};
use crate::output::print;

/// The screen of a chat.
#[derive(Debug)]
pub(super) struct Screen {
    pub(super) layout: Layout,
    /// Whether the cursor is in a line that says what the answer waits for.
    tells_waiting: bool,
}

impl Screen {
    pub(super) fn new(args: &ChatArgs) -> Self {
        let place = if io::stderr().is_terminal() { Place::Terminal } else { Place::Log };
        let paint = Paint { coloured: place == Place::Terminal && !args.no_color };
        let style = if args.agui.is_some() { CallStyle::Stages } else { CallStyle::OneLine };
        let answers = match (args.json, io::stdout().is_terminal()) {
            (true, _) => AnswerDisplay::Never,
            (false, true) => AnswerDisplay::Always,
            (false, false) => AnswerDisplay::OfSingleThread,
        };
        Self { layout: Layout::new(paint, place, style, answers), tells_waiting: false }
    }

    /// Changes the layout and writes what has changed.
    pub(super) fn draw(&mut self, change: impl FnOnce(&mut Layout)) -> io::Result<()> {
        self.end_waiting()?;
        change(&mut self.layout);
        // Consecutive chunks are joined into one write, so that nothing flickers.
        let mut aside = String::new();
        for chunk in self.layout.flush() {
            match chunk {
                Chunk::Stderr(text) => aside.push_str(&text),
                Chunk::Stdout(text) => {
                    write_aside(&std::mem::take(&mut aside))?;
                    print(&text)?;
                }
            }
        }
        write_aside(&aside)
    }

    /// Shows a line of its own, which may belong to a thread. The text may be untrusted.
    pub(super) fn line(&mut self, thread: impl Into<Option<usize>>, ink: Ink, text: &str) -> io::Result<()> {
        self.draw(|layout| layout.line(thread.into(), ink, text))
    }

    /// Shows at a terminal what the answer waits for, until there is something else to show.
    pub(super) fn waiting(&mut self, text: &str) -> io::Result<()> {
        if self.layout.place != Place::Terminal || self.layout.is_in_text() {
            return Ok(());
        }
        self.draw(Layout::end_line)?;
        write_aside(&self.layout.paint.ink(Ink::Dim, text))?;
        self.tells_waiting = true;
        Ok(())
    }

    /// Writes to standard error, where the cursor is. The text must be safe for a terminal.
    pub(super) fn aside(&mut self, thread: impl Into<Option<usize>>, ink: Ink, text: &str) -> io::Result<()> {
        self.end_waiting()?;
        let mark = thread.into().map(|thread| self.layout.mark(thread)).unwrap_or_default();
        write_aside(&format!("{mark}{}", self.layout.paint.ink(ink, text)))?;
        self.layout.move_on();
        Ok(())
    }

    /// Erases the text about waiting.
    fn end_waiting(&mut self) -> io::Result<()> {
        if std::mem::take(&mut self.tells_waiting) { write_aside("\r\u{1b}[K") } else { Ok(()) }
    }
}

/// Writes to standard error.
pub(super) fn write_aside(text: &str) -> io::Result<()> {
    io::stderr().lock().write_all(text.as_bytes())
}
