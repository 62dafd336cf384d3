//! Writing a chat: answers to standard output, all else to standard error.

use std::io::{self, IsTerminal, Write};

use super::layout::{CallStyle, Chunk, Layout, Place};
use super::paint::{Ink, Paint};
use crate::output::print;

/// Where a chat is shown.
#[derive(Debug)]
pub(super) struct Screen {
    pub(super) layout: Layout,
    shows_answers: bool,
    /// Whether it is a terminal, on which a line can be written anew.
    is_terminal: bool,
    /// Whether the line that the cursor is in says what is waited for.
    tells_waiting: bool,
}

impl Screen {
    /// A screen; the answers are left out where they are printed in another form.
    pub(super) fn new(coloured: bool, shows_answers: bool, style: CallStyle) -> Self {
        let is_terminal = io::stderr().is_terminal();
        let place = if is_terminal { Place::Terminal } else { Place::Log };
        let paint = Paint { coloured: is_terminal && coloured };
        let layout = Layout::new(paint, place, style, io::stdout().is_terminal());
        Self { layout, shows_answers, is_terminal, tells_waiting: false }
    }

    /// Changes what is shown.
    pub(super) fn draw(&mut self, change: impl FnOnce(&mut Layout) -> Vec<Chunk>) -> io::Result<()> {
        let chunks = change(&mut self.layout);
        self.write(chunks)
    }

    /// Shows a line of its own, which may belong to a thread.
    pub(super) fn line(&mut self, thread: impl Into<Option<usize>>, ink: Ink, text: &str) -> io::Result<()> {
        self.draw(|layout| layout.line(thread.into(), ink, text))
    }

    /// Shows at a terminal what is waited for and for how long, until there is something else to show.
    pub(super) fn waiting(&mut self, text: &str) -> io::Result<()> {
        if !self.is_terminal {
            return Ok(());
        }
        // In the middle of a text it would break the text.
        let Some(chunks) = self.layout.make_room() else { return Ok(()) };
        self.write(chunks)?;
        write_aside(&self.layout.paint.ink(Ink::Dim, text))?;
        self.tells_waiting = true;
        Ok(())
    }

    /// Writes to standard error at once, where the cursor is. The text is our own, or made plain.
    pub(super) fn aside(&mut self, thread: impl Into<Option<usize>>, ink: Ink, text: &str) -> io::Result<()> {
        self.end_waiting()?;
        let mark = thread.into().map(|thread| self.layout.mark(thread)).unwrap_or_default();
        write_aside(&format!("{mark}{}", self.layout.paint.ink(ink, text)))?;
        self.layout.move_on();
        Ok(())
    }

    /// Takes back what is said about waiting.
    fn end_waiting(&mut self) -> io::Result<()> {
        if std::mem::take(&mut self.tells_waiting) { write_aside("\r\u{1b}[K") } else { Ok(()) }
    }

    fn write(&mut self, chunks: Vec<Chunk>) -> io::Result<()> {
        self.end_waiting()?;
        // What belongs together is written together: nothing flickers.
        let mut aside = String::new();
        for chunk in chunks {
            match chunk {
                Chunk::Aside(text) => aside.push_str(&text),
                Chunk::Answer(text) if self.shows_answers => {
                    write_aside(&std::mem::take(&mut aside))?;
                    print(&text)?;
                }
                Chunk::Answer(_) => {}
            }
        }
        write_aside(&aside)
    }
}

/// Writes to standard error.
pub(super) fn write_aside(text: &str) -> io::Result<()> {
    io::stderr().lock().write_all(text.as_bytes())
}
