//! How threads look that go on at the same time: pieces in, text for the terminal out.
//!
//! At a terminal, calls that go on are rows at the bottom, which are written anew as they change; what is over stands above
//! them and stays. Elsewhere every change is a line. The answer of a thread that is alone streams; where there are several,
//! each line begins with the thread that it belongs to, and one that still grows is a row, too.

use super::pieces::{Call, Piece, Stage};
use crate::chat::layout::{Chunk, INPUT_CHARACTERS, Ink, LINE_CHARACTERS, Layout, Paint, excerpt, seconds};
use crate::output::plain;

/// So many rows are at the bottom; how many more there are is said.
const MOST_ROWS: usize = 10;
/// So much of the end of a line is shown while it grows.
const TAIL_CHARACTERS: usize = 60;

/// Lays out one thing after the other.
#[derive(Debug)]
pub(super) struct Page {
    paint: Paint,
    /// Ends the line of a thread that is alone.
    layout: Layout,
    place: Place,
    /// Whether there are several threads.
    is_shared: bool,
    /// Whether their answers are shown as they come, and not elsewhere.
    shows_shared_answers: bool,
    /// What goes on, in the order in which it began.
    rows: Vec<Row>,
    /// How many rows are on the terminal, right above the cursor.
    drawn: usize,
    are_changed: bool,
    /// What is to be written above the rows.
    written: Vec<Chunk>,
}

/// What is written to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// A terminal, on which the rows at the bottom can be written anew.
    Terminal,
    /// A file or a pipe.
    Log,
}

/// Something that goes on.
#[derive(Debug)]
struct Row {
    thread: usize,
    content: Content,
}

#[derive(Debug)]
enum Content {
    Call(Call),
    /// The last line of a text.
    Line {
        part: String,
        text: String,
        kind: Kind,
    },
}

/// Which text a line belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Answer,
    Thought,
}

impl Page {
    pub(super) fn new(paint: Paint, place: Place, shows_shared_answers: bool) -> Self {
        Self {
            paint,
            layout: Layout::new(paint.coloured),
            place,
            is_shared: false,
            shows_shared_answers,
            rows: Vec::new(),
            drawn: 0,
            are_changed: false,
            written: Vec::new(),
        }
    }

    /// From now on there are several threads.
    pub(super) fn share(&mut self) -> Vec<Chunk> {
        self.end_line();
        self.is_shared = true;
        self.are_changed = true;
        self.flush()
    }

    /// Pieces of a thread.
    pub(super) fn show(&mut self, thread: usize, pieces: &[Piece]) -> Vec<Chunk> {
        for piece in pieces {
            match piece {
                Piece::Text { part, text } => self.text(thread, part, text, Kind::Answer),
                Piece::Thought { part, text } => self.text(thread, part, text, Kind::Thought),
                Piece::Call(call) => self.call(thread, call),
                Piece::Unread(what) => self.put_line(Some(thread), Ink::Yellow, what),
            }
        }
        self.flush()
    }

    /// A thread has stopped, for now: what it has not ended is left as it is.
    pub(super) fn end(&mut self, thread: usize) -> Vec<Chunk> {
        self.end_line();
        let (own, others) = std::mem::take(&mut self.rows).into_iter().partition(|row| row.thread == thread);
        self.rows = others;
        self.leave(own);
        self.flush()
    }

    /// A line that stands for itself, its text from anywhere.
    pub(super) fn line(&mut self, thread: Option<usize>, ink: Ink, text: &str) -> Vec<Chunk> {
        self.put_line(thread, ink, text);
        self.flush()
    }

    /// The user has pressed Ctrl-C: goes on below what the terminal shows of that, unless it is wiped out with the rows.
    pub(super) fn interrupted(&mut self) -> Vec<Chunk> {
        self.end_line();
        if self.place == Place::Terminal && self.drawn == 0 && self.written.is_empty() {
            self.written.push(Chunk::Aside("\n".to_owned()));
        }
        self.flush()
    }

    /// Somebody else has written, below what is there: goes on below that.
    pub(super) fn move_on(&mut self) {
        self.layout = Layout::new(self.paint.coloured);
        self.drawn = 0;
        self.are_changed = true;
    }

    /// What texts are written with.
    pub(super) fn paint(&self) -> Paint {
        self.paint
    }

    /// What a thread's lines begin with.
    pub(super) fn mark(&self, thread: usize) -> String {
        if self.is_shared { self.paint.ink(Ink::Dim, &format!("[{thread}] ")) } else { String::new() }
    }

    fn text(&mut self, thread: usize, part: &str, text: &str, kind: Kind) {
        if !self.is_shared {
            // Rows cannot stay below a line that is not ended.
            if self.place == Place::Terminal {
                let rows = std::mem::take(&mut self.rows);
                self.leave(rows);
            }
            let chunks = match kind {
                Kind::Answer => self.layout.text(part, text),
                Kind::Thought => self.layout.thought(part, text),
            };
            self.written.extend(chunks);
            return;
        }
        if kind == Kind::Answer && !self.shows_shared_answers {
            return;
        }
        let text = plain(text);
        // It stays where it is among the rows.
        let place = self.find_line(thread).unwrap_or(self.rows.len());
        let mut grown = match self.take_line(thread) {
            Some((open, begun, open_kind)) if open == part && open_kind == kind => begun + &text,
            Some((_, begun, open_kind)) => {
                self.put_text(thread, &begun, open_kind);
                text
            }
            None => text,
        };
        while let Some((line, rest)) = grown.split_once('\n') {
            self.put_text(thread, line, kind);
            grown = rest.to_owned();
        }
        if !grown.is_empty() {
            let content = Content::Line { part: part.to_owned(), text: grown, kind };
            self.rows.insert(place, Row { thread, content });
        }
        self.are_changed = true;
    }

    fn call(&mut self, thread: usize, call: &Call) {
        self.end_line();
        if let Some((_, begun, kind)) = self.take_line(thread) {
            self.put_text(thread, &begun, kind);
        }
        self.are_changed = true;
        let is_over = matches!(call.stage, Stage::Done { .. } | Stage::Failed { .. });
        let known = self.rows.iter().position(|row| {
            row.thread == thread && matches!(&row.content, Content::Call(known) if known.id == call.id)
        });
        let is_further = match known.map(|row| &self.rows[row].content) {
            Some(Content::Call(known)) => known.stage != call.stage,
            _ => true,
        };
        if is_over || (is_further && self.place == Place::Log) {
            let lines = format!("{}{}", self.mark(thread), self.call_lines(thread, call));
            self.written.push(Chunk::Aside(lines));
        }
        match known {
            Some(row) if is_over => drop(self.rows.remove(row)),
            Some(row) => self.rows[row].content = Content::Call(call.clone()),
            None if is_over => {}
            None => self.rows.push(Row { thread, content: Content::Call(call.clone()) }),
        }
    }

    /// The row of a thread's line that still grows.
    fn find_line(&self, thread: usize) -> Option<usize> {
        self.rows.iter().position(|row| row.thread == thread && matches!(row.content, Content::Line { .. }))
    }

    fn take_line(&mut self, thread: usize) -> Option<(String, String, Kind)> {
        let row = self.find_line(thread)?;
        match self.rows.remove(row).content {
            Content::Line { part, text, kind } => Some((part, text, kind)),
            Content::Call(_) => None,
        }
    }

    /// Writes rows down, to stay.
    fn leave(&mut self, rows: Vec<Row>) {
        self.are_changed |= !rows.is_empty();
        for row in rows {
            match row.content {
                Content::Line { text, kind, .. } => self.put_text(row.thread, &text, kind),
                // Elsewhere it is written already.
                Content::Call(call) if self.place == Place::Terminal => {
                    let lines = format!("{}{}", self.mark(row.thread), self.call_lines(row.thread, &call));
                    self.written.push(Chunk::Aside(lines));
                }
                Content::Call(_) => {}
            }
        }
    }

    fn put_text(&mut self, thread: usize, line: &str, kind: Kind) {
        let mark = self.mark(thread);
        self.written.push(match kind {
            Kind::Answer => Chunk::Answer(format!("{mark}{line}\n")),
            Kind::Thought => Chunk::Aside(format!("{mark}{}\n", self.paint.ink(Ink::Dim, &format!("┊ {line}")))),
        });
    }

    fn put_line(&mut self, thread: Option<usize>, ink: Ink, text: &str) {
        self.end_line();
        let mark = thread.map(|thread| self.mark(thread)).unwrap_or_default();
        self.written.push(Chunk::Aside(format!("{mark}{}\n", self.paint.ink(ink, &plain(text)))));
    }

    fn end_line(&mut self) {
        let chunks = self.layout.end_line();
        self.written.extend(chunks);
    }

    /// A call as it is now, with what came of it.
    fn call_lines(&self, thread: usize, call: &Call) -> String {
        let (ink, sign) = match call.stage {
            Stage::Done { .. } => (Ink::Green, "✓"),
            Stage::Failed { .. } => (Ink::Red, "✗"),
            Stage::Receiving | Stage::Ready | Stage::Running => (Ink::Cyan, "⚙"),
        };
        let tool = excerpt(&call.tool, INPUT_CHARACTERS);
        let arguments = match call.stage {
            // What of them is there when it is written is chance, and it stays written.
            Stage::Receiving if self.place == Place::Log => String::new(),
            _ if call.arguments.is_empty() => String::new(),
            _ => format!(" {}", excerpt(&call.arguments, INPUT_CHARACTERS)),
        };
        let (standing, quoted) = self.standing(thread, &call.stage);
        format!("{} {}{arguments} {standing}\n{quoted}", self.paint.ink(ink, sign), self.paint.ink(Ink::Bold, &tool))
    }

    /// How far a call is, in words, and what follows on lines of its own.
    fn standing(&self, thread: usize, stage: &Stage) -> (String, String) {
        let dim = |words: &str| self.paint.ink(Ink::Dim, &format!("· {words}"));
        let quoted = |text: &str| {
            let lines = self.paint.excerpt_lines(text);
            lines.lines().map(|line| format!("{}{line}\n", self.mark(thread))).collect::<String>()
        };
        match stage {
            Stage::Receiving => (dim("receiving"), String::new()),
            Stage::Ready => (dim("ready"), String::new()),
            Stage::Running => (dim("running"), String::new()),
            Stage::Done { output, took: None } => (dim("done"), quoted(output)),
            Stage::Done { output, took: Some(took) } => (dim(&format!("done in {}", seconds(*took))), quoted(output)),
            Stage::Failed { error } => {
                let error = plain(error);
                let (first, rest) = error.trim().split_once('\n').unwrap_or((error.trim(), ""));
                let failed = format!("· failed: {}", excerpt(first, LINE_CHARACTERS));
                (self.paint.ink(Ink::Red, &failed), quoted(rest))
            }
        }
    }

    /// What is to be written: the rows are taken away, what stays is written in their place, and they come below it.
    fn flush(&mut self) -> Vec<Chunk> {
        let written = std::mem::take(&mut self.written);
        if self.place == Place::Log || (written.is_empty() && !self.are_changed) {
            return written;
        }
        self.are_changed = false;
        let mut chunks = Vec::new();
        if self.drawn > 0 {
            // From the start of the line: what is being typed may be on it.
            chunks.push(Chunk::Aside(format!("\r\u{1b}[{}A\u{1b}[J", self.drawn)));
        }
        chunks.extend(written);
        let rows = self.draw();
        self.drawn = rows.lines().count();
        if self.drawn > 0 {
            // The terminal cuts a row that is too long for it, so that each is one line.
            chunks.push(Chunk::Aside(format!("\u{1b}[?7l{rows}\u{1b}[?7h")));
        }
        chunks
    }

    fn draw(&self) -> String {
        let mut rows = String::new();
        for Row { thread, content } in self.rows.iter().take(MOST_ROWS) {
            rows.push_str(&self.mark(*thread));
            match content {
                Content::Call(call) => rows.push_str(&self.call_lines(*thread, call)),
                Content::Line { text, kind: Kind::Answer, .. } => rows.push_str(&format!("{}\n", tail(text))),
                Content::Line { text, kind: Kind::Thought, .. } => {
                    rows.push_str(&format!("{}\n", self.paint.ink(Ink::Dim, &format!("┊ {}", tail(text)))));
                }
            }
        }
        if self.rows.len() > MOST_ROWS {
            let more = format!("… {} more", self.rows.len() - MOST_ROWS);
            rows.push_str(&format!("{}\n", self.paint.ink(Ink::Dim, &more)));
        }
        rows
    }
}

/// The end of a line.
fn tail(line: &str) -> String {
    let length = line.chars().count();
    match length.checked_sub(TAIL_CHARACTERS) {
        None | Some(0) => line.to_owned(),
        Some(excess) => format!("…{}", line.chars().skip(excess + 1).collect::<String>()),
    }
}

#[cfg(test)]
mod tests;
