//! Writing a chat: answers to standard output, all else to standard error.

use std::io::{self, IsTerminal, Write};

use super::layout::{Chunk, Ink, Layout, Paint};
use super::pieces::Piece;
use crate::output::print;

/// Where a chat is shown.
#[derive(Debug)]
pub(super) struct Screen {
    layout: Layout,
    shows_answers: bool,
    /// Whether it is a terminal, on which a line can be written anew.
    is_terminal: bool,
    /// Whether the line that the cursor is in says what is waited for.
    tells_waiting: bool,
    /// What comes while a question is open, to be shown when it is answered. Little does: a model that waits for calls
    /// says nothing, and of a call only a few lines are shown.
    held: Option<Vec<Chunk>>,
}

impl Screen {
    /// A screen; the answers are left out where they are printed in another form.
    pub(super) fn new(coloured: bool, shows_answers: bool) -> Self {
        let is_terminal = io::stderr().is_terminal();
        Self { layout: Layout::new(coloured), shows_answers, is_terminal, tells_waiting: false, held: None }
    }

    /// What texts are written with.
    pub(super) fn paint(&self) -> Paint {
        self.layout.paint
    }

    /// Shows what is new of a turn.
    pub(super) fn show(&mut self, pieces: &[Piece]) -> io::Result<()> {
        for piece in pieces {
            let chunks = self.layout.piece(piece);
            self.write(chunks)?;
        }
        Ok(())
    }

    /// Shows a line of its own.
    pub(super) fn line(&mut self, ink: Ink, text: &str) -> io::Result<()> {
        let chunks = self.layout.line(ink, text);
        self.write(chunks)
    }

    /// Ends the line that is open.
    pub(super) fn end_line(&mut self) -> io::Result<()> {
        let chunks = self.layout.end_line();
        self.write(chunks)
    }

    /// Shows at a terminal what is waited for and for how long, until there is something else to show.
    pub(super) fn waiting(&mut self, text: &str) -> io::Result<()> {
        if !self.is_terminal || self.held.is_some() {
            return Ok(());
        }
        // In the middle of a text it would break the text.
        let Some(chunks) = self.layout.make_room() else { return Ok(()) };
        self.write(chunks)?;
        write_aside(&self.layout.paint(Ink::Dim, text))?;
        self.tells_waiting = true;
        Ok(())
    }

    /// Writes to standard error at once, where the cursor is. The text is our own, or made plain.
    pub(super) fn aside(&mut self, ink: Ink, text: &str) -> io::Result<()> {
        self.end_waiting()?;
        write_aside(&self.layout.paint(ink, text))
    }

    /// From now on holds back what comes, since a question is open.
    pub(super) fn hold(&mut self) -> io::Result<()> {
        if self.held.is_none() {
            self.end_line()?;
            self.held = Some(Vec::new());
        }
        Ok(())
    }

    /// Goes on without the question that is open, if there is one: nobody will answer it.
    pub(super) fn leave_question(&mut self) -> io::Result<()> {
        if self.held.is_some() {
            write_aside("\n")?;
        }
        self.release()
    }

    /// The user has pressed Ctrl-C: goes on below what the terminal shows of that.
    pub(super) fn interrupted(&mut self) -> io::Result<()> {
        if self.held.is_some() {
            return self.leave_question();
        }
        let chunks = self.layout.end_line();
        if chunks.is_empty() && self.is_terminal {
            return write_aside("\n");
        }
        self.write(chunks)
    }

    /// Shows what was held back.
    pub(super) fn release(&mut self) -> io::Result<()> {
        match self.held.take() {
            Some(held) => self.write(held),
            None => Ok(()),
        }
    }

    /// Takes back what is said about waiting.
    fn end_waiting(&mut self) -> io::Result<()> {
        if std::mem::take(&mut self.tells_waiting) { write_aside("\r\u{1b}[K") } else { Ok(()) }
    }

    fn write(&mut self, chunks: Vec<Chunk>) -> io::Result<()> {
        self.end_waiting()?;
        if let Some(held) = &mut self.held {
            held.extend(chunks);
            return Ok(());
        }
        for chunk in chunks {
            match chunk {
                Chunk::Answer(text) if self.shows_answers => print(&text)?,
                Chunk::Answer(_) => {}
                Chunk::Aside(text) => write_aside(&text)?,
            }
        }
        Ok(())
    }
}

pub(super) fn write_aside(text: &str) -> io::Result<()> {
    io::stderr().lock().write_all(text.as_bytes())
}
