//! How answers look: pieces in, text for the terminal out.
//!
//! Answers are one thing and go to standard output, all else is aside and goes to standard error. Both may be the same
//! terminal, so a line that one has begun is ended before the other begins its own. Whatever a model or a tool said
//! passes through [`plain`].
//!
//! The answer of a thread that is alone streams. Where there are several, each line begins with the thread that it belongs
//! to. At a terminal, lines that still grow and calls that go on are rows at the bottom, which are written anew as they
//! change; what is over stands above them and stays.

use super::paint::{Ink, LINE_CHARACTERS, Paint, excerpt, seconds};
use super::piece::{Call, Piece, Stage};
use crate::output::plain;

/// So much of a tool's name and of its input is shown.
const CALL_CHARACTERS: usize = 100;
/// So many rows are at the bottom; how many more there are is said.
const MOST_ROWS: usize = 10;
/// So much of the end of a line is shown while it grows.
const TAIL_CHARACTERS: usize = 60;

/// A text, and where it goes.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Chunk {
    /// To standard output.
    Answer(String),
    /// To standard error.
    Aside(String),
}

/// What is written to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// A terminal, on which rows can be written anew.
    Terminal,
    /// A file or a pipe.
    Log,
}

/// How calls are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CallStyle {
    /// A line is begun when the call is, and ended when the call is over.
    OneLine,
    /// Every stage is shown: at a terminal in a row that is written anew, in a log on a line for each.
    Stages,
}

/// Lays out one thing after the other.
#[derive(Debug)]
pub(super) struct Layout {
    pub(super) paint: Paint,
    place: Place,
    style: CallStyle,
    /// Whether there are several threads.
    is_shared: bool,
    /// Whether the answers of several threads are shown as they come, and not elsewhere.
    shows_shared_answers: bool,
    /// The line of a thread that is alone, as long as it is not ended.
    open: Option<OpenLine>,
    /// What goes on, in the order in which it began.
    rows: Vec<Row>,
    /// The rows that are on the terminal, right above the cursor.
    drawn: String,
    /// What is to be written above the rows.
    written: Vec<Chunk>,
}

/// A line that streams.
#[derive(Debug)]
struct OpenLine {
    kind: Kind,
    /// The part of the answer, or the call.
    part: String,
    /// Whether the cursor is at the start of a line already.
    at_line_start: bool,
}

/// What a line belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Answer,
    Thought,
    Call,
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
    /// The last line of an answer or of a thought.
    Line {
        part: String,
        text: String,
        kind: Kind,
    },
}

impl Layout {
    pub(super) fn new(paint: Paint, place: Place, style: CallStyle, shows_shared_answers: bool) -> Self {
        Self {
            paint,
            place,
            style,
            is_shared: false,
            shows_shared_answers,
            open: None,
            rows: Vec::new(),
            drawn: String::new(),
            written: Vec::new(),
        }
    }

    /// From now on there are several threads.
    pub(super) fn share(&mut self) -> Vec<Chunk> {
        self.end_line();
        self.is_shared = true;
        self.flush()
    }

    /// Pieces of a thread.
    pub(super) fn show(&mut self, thread: usize, pieces: &[Piece]) -> Vec<Chunk> {
        for piece in pieces {
            match piece {
                Piece::Text { part, text } => self.text(thread, part, text, Kind::Answer),
                Piece::Thought { part, text } => self.text(thread, part, text, Kind::Thought),
                Piece::Call(call) if self.style == CallStyle::OneLine => self.call_on_one_line(call),
                Piece::Call(call) => self.call_in_stages(thread, call),
                Piece::Note(ink, text) => self.put_line(Some(thread), *ink, text),
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

    /// Ends the line that is open; `None` if that would break a text.
    pub(super) fn make_room(&mut self) -> Option<Vec<Chunk>> {
        if self.open.as_ref().is_some_and(|open| open.kind != Kind::Call && !open.at_line_start) {
            return None;
        }
        self.end_line();
        Some(self.flush())
    }

    /// The user has pressed Ctrl-C: goes on below what the terminal shows of that, unless it is wiped out with the rows.
    pub(super) fn interrupted(&mut self) -> Vec<Chunk> {
        self.end_line();
        if self.place == Place::Terminal && self.drawn.is_empty() && self.written.is_empty() {
            self.written.push(Chunk::Aside("\n".to_owned()));
        }
        self.flush()
    }

    /// Somebody else has written, below what is there: goes on below that.
    pub(super) fn move_on(&mut self) {
        self.open = None;
        self.drawn.clear();
    }

    /// What a thread's lines begin with.
    pub(super) fn mark(&self, thread: usize) -> String {
        if self.is_shared { self.paint.ink(Ink::Dim, &format!("[{thread}] ")) } else { String::new() }
    }

    fn text(&mut self, thread: usize, part: &str, text: &str, kind: Kind) {
        let text = plain(text);
        if !self.is_shared {
            self.stream(part, text, kind);
        } else if kind == Kind::Thought || self.shows_shared_answers {
            self.grow(thread, part, text, kind);
        }
    }

    /// More of a text of the thread that is alone. Each line of a thought is marked: not everybody sees that it is dim.
    fn stream(&mut self, part: &str, text: String, kind: Kind) {
        // Rows cannot stay below a line that is not ended.
        if self.place == Place::Terminal {
            let rows = std::mem::take(&mut self.rows);
            self.leave(rows);
        }
        if self.open.as_ref().is_some_and(|open| open.kind != kind || open.part != part) {
            self.end_line();
        }
        let mut at_line_start = self.open.as_ref().is_none_or(|open| open.at_line_start);
        let mut marked = String::new();
        for line in text.split_inclusive('\n') {
            if kind == Kind::Thought && at_line_start {
                marked.push_str("┊ ");
            }
            marked.push_str(line);
            at_line_start = line.ends_with('\n');
        }
        self.open = Some(OpenLine { kind, part: part.to_owned(), at_line_start });
        self.put(kind, if kind == Kind::Answer { marked } else { self.paint.ink(Ink::Dim, &marked) });
    }

    /// More of a text of one of several threads: lines that are complete are written, the last one is a row.
    fn grow(&mut self, thread: usize, part: &str, text: String, kind: Kind) {
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
    }

    fn call_on_one_line(&mut self, call: &Call) {
        let is_open = self.open.as_ref().is_some_and(|open| open.kind == Kind::Call && open.part == call.id);
        let (words, quoted) = self.words(&call.stage);
        let line = match (call.stage.is_over(), is_open) {
            (false, _) => format!("{} {} {words}", self.head(call), excerpt(&call.input, CALL_CHARACTERS)),
            (true, true) => format!(" {} {words}\n{quoted}", self.sign(&call.stage)),
            // Something came in between: it says again what was called.
            (true, false) => format!("{} {words}\n{quoted}", self.head(call)),
        };
        if is_open {
            self.open = None;
        } else {
            self.end_line();
        }
        if !call.stage.is_over() {
            self.open = Some(OpenLine { kind: Kind::Call, part: call.id.clone(), at_line_start: false });
        }
        self.written.push(Chunk::Aside(line));
    }

    fn call_in_stages(&mut self, thread: usize, call: &Call) {
        self.end_line();
        if let Some((_, begun, kind)) = self.take_line(thread) {
            self.put_text(thread, &begun, kind);
        }
        let known = self.rows.iter().position(|row| {
            row.thread == thread && matches!(&row.content, Content::Call(known) if known.id == call.id)
        });
        let place = known.unwrap_or(self.rows.len());
        let is_as_before = match known.map(|row| self.rows.remove(row).content) {
            Some(Content::Call(before)) => before.stage == call.stage,
            _ => false,
        };
        if call.stage.is_over() || (self.place == Place::Log && !is_as_before) {
            self.written.push(Chunk::Aside(self.call_lines(thread, call)));
        }
        if !call.stage.is_over() {
            self.rows.insert(place, Row { thread, content: Content::Call(call.clone()) });
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
        for row in rows {
            match row.content {
                Content::Line { text, kind, .. } => self.put_text(row.thread, &text, kind),
                Content::Call(call) if self.place == Place::Terminal => {
                    self.written.push(Chunk::Aside(self.call_lines(row.thread, &call)));
                }
                // In a log it is written already.
                Content::Call(_) => {}
            }
        }
    }

    fn put_text(&mut self, thread: usize, line: &str, kind: Kind) {
        self.put(kind, self.text_line(thread, line, kind));
    }

    fn put(&mut self, kind: Kind, text: String) {
        self.written.push(if kind == Kind::Answer { Chunk::Answer(text) } else { Chunk::Aside(text) });
    }

    fn put_line(&mut self, thread: Option<usize>, ink: Ink, text: &str) {
        self.end_line();
        let mark = thread.map(|thread| self.mark(thread)).unwrap_or_default();
        self.written.push(Chunk::Aside(format!("{mark}{}\n", self.paint.ink(ink, &plain(text)))));
    }

    fn end_line(&mut self) {
        if let Some(OpenLine { kind, at_line_start: false, .. }) = self.open.take() {
            self.put(kind, "\n".to_owned());
        }
    }

    /// A line of a text of one of several threads.
    fn text_line(&self, thread: usize, line: &str, kind: Kind) -> String {
        let thought = || self.paint.ink(Ink::Dim, &format!("┊ {line}"));
        format!("{}{}\n", self.mark(thread), if kind == Kind::Answer { line.to_owned() } else { thought() })
    }

    /// A call as it is now, with what came of it.
    fn call_lines(&self, thread: usize, call: &Call) -> String {
        let input = match call.stage {
            // What of it is there when it is written is chance, and it stays written.
            Stage::Receiving if self.place == Place::Log => String::new(),
            _ if call.input.is_empty() => String::new(),
            _ => format!(" {}", excerpt(&call.input, CALL_CHARACTERS)),
        };
        let (words, quoted) = self.words(&call.stage);
        let mark = self.mark(thread);
        let quoted: String = quoted.lines().map(|line| format!("{mark}{line}\n")).collect();
        format!("{mark}{}{input} {words}\n{quoted}", self.head(call))
    }

    /// What a call's line begins with: how it stands, and the tool.
    fn head(&self, call: &Call) -> String {
        format!("{} {}", self.sign(&call.stage), self.paint.ink(Ink::Bold, &excerpt(&call.tool, CALL_CHARACTERS)))
    }

    fn sign(&self, stage: &Stage) -> String {
        match stage {
            Stage::Done { .. } => self.paint.ink(Ink::Green, "✓"),
            Stage::Failed { .. } => self.paint.ink(Ink::Red, "✗"),
            Stage::Receiving | Stage::Ready | Stage::Running => self.paint.ink(Ink::Cyan, "⚙"),
        }
    }

    /// How far a call is, in words, and what follows on lines of its own.
    fn words(&self, stage: &Stage) -> (String, String) {
        let dim = |words: &str| self.paint.ink(Ink::Dim, words);
        let is_one_line = self.style == CallStyle::OneLine;
        match stage {
            Stage::Receiving | Stage::Ready | Stage::Running if is_one_line => (dim("…"), String::new()),
            Stage::Receiving => (dim("· receiving"), String::new()),
            Stage::Ready => (dim("· ready"), String::new()),
            Stage::Running => (dim("· running"), String::new()),
            Stage::Done { output, files, took } => {
                let words = match took {
                    took if is_one_line => seconds(took.unwrap_or_default()),
                    Some(took) => format!("· done in {}", seconds(*took)),
                    None => "· done".to_owned(),
                };
                let files = files.iter().map(|file| format!("📎 {}", excerpt(file, LINE_CHARACTERS)));
                let files: String = files.map(|file| self.paint.quoted(&file)).collect();
                (dim(&words), self.paint.excerpt_lines(output) + &files)
            }
            Stage::Failed { error } => {
                let error = plain(error);
                let (first, rest) = error.trim().split_once('\n').unwrap_or((error.trim(), ""));
                let failed = if is_one_line { "" } else { "· failed: " };
                let words = format!("{failed}{}", excerpt(first, LINE_CHARACTERS));
                (self.paint.ink(Ink::Red, &words), self.paint.excerpt_lines(rest))
            }
        }
    }

    /// What is to be written: the rows are taken away, what stays is written in their place, and they come below it.
    fn flush(&mut self) -> Vec<Chunk> {
        let written = std::mem::take(&mut self.written);
        let rows = if self.place == Place::Terminal { self.draw() } else { String::new() };
        if written.is_empty() && rows == self.drawn {
            return written;
        }
        let mut chunks = Vec::new();
        if !self.drawn.is_empty() {
            // From the start of the line: what is being typed may be on it.
            chunks.push(Chunk::Aside(format!("\r\u{1b}[{}A\u{1b}[J", self.drawn.lines().count())));
        }
        chunks.extend(written);
        if !rows.is_empty() {
            // The terminal cuts a row that is too long for it, so that each is one line.
            chunks.push(Chunk::Aside(format!("\u{1b}[?7l{rows}\u{1b}[?7h")));
        }
        self.drawn = rows;
        chunks
    }

    fn draw(&self) -> String {
        let drawn = self.rows.iter().take(MOST_ROWS).map(|Row { thread, content }| match content {
            Content::Call(call) => self.call_lines(*thread, call),
            Content::Line { text, kind, .. } => self.text_line(*thread, &tail(text), *kind),
        });
        let mut rows: String = drawn.collect();
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
