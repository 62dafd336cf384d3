//! Writing what threads show: answers to standard output, all else to standard error.

use std::io::{self, IsTerminal};

use super::page::{Page, Place};
use super::pieces::Piece;
use crate::chat::layout::{Chunk, Ink, Paint};
use crate::chat::screen::write_aside;
use crate::output::print;

/// Where threads are shown.
#[derive(Debug)]
pub(super) struct Screen {
    page: Page,
    shows_answers: bool,
}

impl Screen {
    /// A screen; the answers are left out where they are printed in another form.
    pub(super) fn new(coloured: bool, shows_answers: bool) -> Self {
        let place = if io::stderr().is_terminal() { Place::Terminal } else { Place::Log };
        Self { page: Page::new(Paint { coloured }, place, io::stdout().is_terminal()), shows_answers }
    }

    /// What texts are written with.
    pub(super) fn paint(&self) -> Paint {
        self.page.paint()
    }

    /// From now on there are several threads.
    pub(super) fn share(&mut self) -> io::Result<()> {
        let chunks = self.page.share();
        self.write(chunks)
    }

    /// Shows what is new of a thread.
    pub(super) fn show(&mut self, thread: usize, pieces: &[Piece]) -> io::Result<()> {
        let chunks = self.page.show(thread, pieces);
        self.write(chunks)
    }

    /// Leaves what a thread has not ended as it is.
    pub(super) fn end(&mut self, thread: usize) -> io::Result<()> {
        let chunks = self.page.end(thread);
        self.write(chunks)
    }

    /// Shows a line of its own.
    pub(super) fn line(&mut self, thread: Option<usize>, ink: Ink, text: &str) -> io::Result<()> {
        let chunks = self.page.line(thread, ink, text);
        self.write(chunks)
    }

    /// Asks the user, or tells what belongs to that. The text is our own, or made plain.
    pub(super) fn aside(&mut self, thread: Option<usize>, ink: Ink, text: &str) -> io::Result<()> {
        let mark = thread.map(|thread| self.page.mark(thread)).unwrap_or_default();
        let painted = self.page.paint().ink(ink, text);
        write_aside(&format!("{mark}{painted}"))?;
        self.page.move_on();
        Ok(())
    }

    /// The user has pressed Ctrl-C.
    pub(super) fn interrupted(&mut self) -> io::Result<()> {
        let chunks = self.page.interrupted();
        self.write(chunks)
    }

    /// The user has typed something, which the terminal shows below what was there.
    pub(super) fn typed(&mut self) {
        self.page.move_on();
    }

    fn write(&mut self, chunks: Vec<Chunk>) -> io::Result<()> {
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
