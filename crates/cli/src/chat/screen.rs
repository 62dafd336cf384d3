//! Writing a chat: answers to standard output, all else to standard error.

use std::io::{self, IsTerminal, Write};

use super::layout::{Chunk, Ink, Layout};
use super::pieces::Piece;
use crate::output::print;

/// Where a chat is shown.
#[derive(Debug)]
pub(super) struct Screen {
    layout: Layout,
    shows_answers: bool,
    /// What comes while a question is open, to be shown when it is answered. Little does: a model that waits for calls
    /// says nothing, and of a call only a few lines are shown.
    held: Option<Vec<Chunk>>,
}

impl Screen {
    /// A screen; the answers are left out where they are printed in another form.
    pub(super) fn new(coloured: bool, shows_answers: bool) -> Self {
        Self { layout: Layout::new(coloured), shows_answers, held: None }
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

    /// Writes to standard error at once, where the cursor is. The text is our own, or made plain.
    pub(super) fn aside(&self, ink: Ink, text: &str) -> io::Result<()> {
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
        if chunks.is_empty() && io::stderr().is_terminal() {
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

    fn write(&mut self, chunks: Vec<Chunk>) -> io::Result<()> {
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

fn write_aside(text: &str) -> io::Result<()> {
    io::stderr().lock().write_all(text.as_bytes())
}
