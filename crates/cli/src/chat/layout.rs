//! The layout of a chat: turns pieces into text for the terminal.
//!
//! Answers go to standard output, everything else to standard error. Both may be the same terminal, so a line that one
//! of them has begun is ended before the other begins its own. Untrusted text passes through [`plain`].
//!
//! The answer of a single thread streams. With several threads, each line begins with the number of its thread. At a
//! terminal, lines that still grow and calls that still run are rows at the bottom, which are rewritten as they change;
//! finished lines stand above the rows and stay.

use super::paint::{Ink, LINE_CHARACTERS, Paint, seconds};
use super::piece::{Call, Piece, Stage};
use crate::output::{excerpt, plain};

/// How much of a tool's name and of its input is shown.
const CALL_CHARACTERS: usize = 100;
/// The most rows at the bottom; the number of the others is shown instead of them.
const MOST_ROWS: usize = 10;
/// How much of the end of a line is shown while it grows.
const TAIL_CHARACTERS: usize = 60;

/// A text and its destination.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Chunk {
    Stdout(String),
    Stderr(String),
}

/// The kind of standard error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// A terminal, on which rows can be rewritten.
    Terminal,
    /// A file or a pipe.
    Log,
}

/// How calls are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CallStyle {
    /// A line begins when the call begins, and ends when the call is over.
    OneLine,
    /// Every stage is shown: at a terminal in a row that is rewritten, in a log on a line for each.
    Stages,
}

/// When answers are shown as they come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AnswerDisplay {
    Always,
    /// Only if there is one thread. The answers of several are printed when they are complete.
    OfSingleThread,
    /// Never, because they are printed as JSON.
    Never,
}

/// The state of the display.
#[derive(Debug)]
pub(super) struct Layout {
    pub(super) paint: Paint,
    pub(super) place: Place,
    style: CallStyle,
    pub(super) answers: AnswerDisplay,
    /// Whether there are several threads.
    is_shared: bool,
    /// The line of a single thread that has not ended yet.
    open: Option<OpenLine>,
    /// Growing lines and running calls, in the order in which they began.
    rows: Vec<Row>,
    /// The rows that are on the terminal, right above the cursor.
    drawn: String,
    /// The chunks to write above the rows.
    written: Vec<Chunk>,
}

/// A line that streams.
#[derive(Debug)]
struct OpenLine {
    kind: Kind,
    /// The part of the answer, or the id of the call.
    part: String,
    /// Whether the cursor is at the start of a line.
    at_line_start: bool,
}

/// The kind of text in a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Answer,
    Thought,
    Call,
}

/// A growing line, or a running call.
#[derive(Debug)]
struct Row {
    thread: usize,
    content: Content,
}

#[derive(Debug)]
enum Content {
    Call(Call),
    /// The last line of an answer or of a thought.
    Text {
        part: String,
        text: String,
        kind: Kind,
    },
}

impl Layout {
    pub(super) fn new(paint: Paint, place: Place, style: CallStyle, answers: AnswerDisplay) -> Self {
        let (is_shared, open, rows, drawn, written) = Default::default();
        Self { paint, place, style, answers, is_shared, open, rows, drawn, written }
    }

    /// Marks lines with their threads from now on, because there are several.
    pub(super) fn share(&mut self) {
        self.end_line();
        self.is_shared = true;
    }

    /// Shows pieces of a thread.
    pub(super) fn show(&mut self, thread: usize, pieces: &[Piece]) {
        for piece in pieces {
            match piece {
                Piece::Text { part, text } => self.text(thread, part, text, Kind::Answer),
                Piece::Thought { part, text } => self.text(thread, part, text, Kind::Thought),
                Piece::Call(call) if self.style == CallStyle::OneLine => self.call_on_one_line(call),
                Piece::Call(call) => self.call_in_stages(thread, call),
                Piece::Note(ink, text) => self.line(Some(thread), *ink, text),
            }
        }
    }

    /// Ends the lines and rows of a thread whose answer is over or waits.
    pub(super) fn end(&mut self, thread: usize) {
        self.end_line();
        let own: Vec<Row> = self.rows.extract_if(.., |row| row.thread == thread).collect();
        self.leave(own);
    }

    /// Shows a line of its own. The text may be untrusted.
    pub(super) fn line(&mut self, thread: Option<usize>, ink: Ink, text: &str) {
        self.end_line();
        let mark = thread.map(|thread| self.mark(thread)).unwrap_or_default();
        self.written.push(Chunk::Stderr(format!("{mark}{}\n", self.paint.ink(ink, &plain(text)))));
    }

    /// Whether the cursor is in the middle of a text, which another line would break.
    pub(super) fn is_in_text(&self) -> bool {
        self.open.as_ref().is_some_and(|open| open.kind != Kind::Call && !open.at_line_start)
    }

    /// Handles Ctrl-C: output continues below the `^C` of the terminal, unless `^C` is erased together with the rows.
    pub(super) fn interrupted(&mut self) {
        self.end_line();
        if self.place == Place::Terminal && self.drawn.is_empty() && self.written.is_empty() {
            self.written.push(Chunk::Stderr("\n".to_owned()));
        }
    }

    /// Handles text that others wrote at the cursor: output continues below it.
    pub(super) fn move_on(&mut self) {
        self.open = None;
        self.drawn.clear();
    }

    /// The mark that the lines of a thread begin with.
    pub(super) fn mark(&self, thread: usize) -> String {
        if self.is_shared { self.paint.ink(Ink::Dim, &format!("[{thread}] ")) } else { String::new() }
    }

    fn text(&mut self, thread: usize, part: &str, text: &str, kind: Kind) {
        let is_hidden = match self.answers {
            AnswerDisplay::Always => false,
            AnswerDisplay::OfSingleThread => self.is_shared,
            AnswerDisplay::Never => true,
        };
        if kind == Kind::Answer && is_hidden {
            self.end_line();
        } else if self.is_shared {
            self.grow(thread, part, plain(text), kind);
        } else {
            self.stream(part, &plain(text), kind);
        }
    }

    /// Streams the text of a single thread. Each line of reasoning is marked, because some users do not see dim text.
    fn stream(&mut self, part: &str, text: &str, kind: Kind) {
        // Rows cannot stay below an unfinished line.
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
        self.push(kind, if kind == Kind::Answer { marked } else { self.paint.ink(Ink::Dim, &marked) });
    }

    /// Adds to the text of one of several threads: complete lines are written, and the last one is a row.
    fn grow(&mut self, thread: usize, part: &str, text: String, kind: Kind) {
        let (place, row) = self.take_text(thread);
        let mut grown = match row {
            Some(Row { content: Content::Text { part: open, text: begun, kind: open_kind }, .. })
                if open == part && open_kind == kind =>
            {
                begun + &text
            }
            row => {
                self.leave(row);
                text
            }
        };
        while let Some((line, rest)) = grown.split_once('\n') {
            self.push(kind, self.text_line(thread, line, kind));
            grown = rest.to_owned();
        }
        if !grown.is_empty() {
            let content = Content::Text { part: part.to_owned(), text: grown, kind };
            self.rows.insert(place, Row { thread, content });
        }
    }

    fn call_on_one_line(&mut self, call: &Call) {
        let is_open = self.open.as_ref().is_some_and(|open| open.kind == Kind::Call && open.part == call.id);
        let (sign, words, quoted) = self.describe(&call.stage);
        let tool = self.tool_name(call);
        let line = match (call.stage.is_over(), is_open) {
            (false, _) => format!("{sign} {tool} {} {words}", excerpt(&call.input, CALL_CHARACTERS)),
            (true, true) => format!(" {sign} {words}\n{quoted}"),
            // The line has ended meanwhile, so the tool is named again.
            (true, false) => format!("{sign} {tool} {words}\n{quoted}"),
        };
        if is_open {
            self.open = None;
        } else {
            self.end_line();
        }
        if !call.stage.is_over() {
            self.open = Some(OpenLine { kind: Kind::Call, part: call.id.clone(), at_line_start: false });
        }
        self.written.push(Chunk::Stderr(line));
    }

    fn call_in_stages(&mut self, thread: usize, call: &Call) {
        self.end_line();
        let (_, text) = self.take_text(thread);
        self.leave(text);
        let (place, before) = self.take_row(|row| {
            row.thread == thread && matches!(&row.content, Content::Call(known) if known.id == call.id)
        });
        let is_same_stage =
            matches!(before, Some(Row { content: Content::Call(before), .. }) if before.stage == call.stage);
        if call.stage.is_over() || (self.place == Place::Log && !is_same_stage) {
            self.written.push(Chunk::Stderr(self.call_lines(thread, call)));
        }
        if !call.stage.is_over() {
            self.rows.insert(place, Row { thread, content: Content::Call(call.clone()) });
        }
    }

    /// Removes a row. Also returns its index, or the index for a new row.
    fn take_row(&mut self, is_wanted: impl Fn(&Row) -> bool) -> (usize, Option<Row>) {
        match self.rows.iter().position(is_wanted) {
            Some(place) => (place, Some(self.rows.remove(place))),
            None => (self.rows.len(), None),
        }
    }

    /// Removes the row of a thread's growing line.
    fn take_text(&mut self, thread: usize) -> (usize, Option<Row>) {
        self.take_row(|row| row.thread == thread && matches!(row.content, Content::Text { .. }))
    }

    /// Writes removed rows, so that they stay.
    fn leave(&mut self, rows: impl IntoIterator<Item = Row>) {
        for Row { thread, content } in rows {
            match content {
                Content::Text { text, kind, .. } => self.push(kind, self.text_line(thread, &text, kind)),
                Content::Call(call) if self.place == Place::Terminal => {
                    self.written.push(Chunk::Stderr(self.call_lines(thread, &call)));
                }
                // A log has the call already.
                Content::Call(_) => {}
            }
        }
    }

    fn push(&mut self, kind: Kind, text: String) {
        self.written.push(if kind == Kind::Answer { Chunk::Stdout(text) } else { Chunk::Stderr(text) });
    }

    /// Ends the open line.
    pub(super) fn end_line(&mut self) {
        if let Some(OpenLine { kind, at_line_start: false, .. }) = self.open.take() {
            self.push(kind, "\n".to_owned());
        }
    }

    /// A line of the text of one of several threads.
    fn text_line(&self, thread: usize, line: &str, kind: Kind) -> String {
        let thought = || self.paint.ink(Ink::Dim, &format!("┊ {line}"));
        format!("{}{}\n", self.mark(thread), if kind == Kind::Answer { line.to_owned() } else { thought() })
    }

    /// The lines of a call, with its result.
    fn call_lines(&self, thread: usize, call: &Call) -> String {
        let input = match call.stage {
            // A log shows no partial input: its length is random, and a log cannot be rewritten.
            Stage::Receiving if self.place == Place::Log => String::new(),
            _ if call.input.is_empty() => String::new(),
            _ => format!(" {}", excerpt(&call.input, CALL_CHARACTERS)),
        };
        let (sign, words, quoted) = self.describe(&call.stage);
        let (mark, tool) = (self.mark(thread), self.tool_name(call));
        let quoted: String = quoted.lines().map(|line| format!("{mark}{line}\n")).collect();
        format!("{mark}{sign} {tool}{input} {words}\n{quoted}")
    }

    fn tool_name(&self, call: &Call) -> String {
        self.paint.ink(Ink::Bold, &excerpt(&call.tool, CALL_CHARACTERS))
    }

    /// The stage of a call as a sign and in words, and the lines that follow.
    fn describe(&self, stage: &Stage) -> (String, String, String) {
        let is_one_line = self.style == CallStyle::OneLine;
        let (ink, sign, words_ink, words, quoted) = match stage {
            Stage::Receiving | Stage::Ready | Stage::Running => {
                let words = match stage {
                    _ if is_one_line => "…",
                    Stage::Receiving => "· receiving",
                    Stage::Ready => "· ready",
                    _ => "· running",
                };
                (Ink::Cyan, "⚙", Ink::Dim, words.to_owned(), String::new())
            }
            Stage::Done { output, files, took } => {
                let words = match took {
                    took if is_one_line => seconds(took.unwrap_or_default()),
                    Some(took) => format!("· done in {}", seconds(*took)),
                    None => "· done".to_owned(),
                };
                let files = files.iter().map(|file| format!("📎 {}", excerpt(file, LINE_CHARACTERS)));
                let files: String = files.map(|file| self.paint.quoted(&file)).collect();
                (Ink::Green, "✓", Ink::Dim, words, self.paint.excerpt_lines(output) + &files)
            }
            Stage::Failed { error } => {
                let error = plain(error);
                let (first, rest) = error.trim().split_once('\n').unwrap_or((error.trim(), ""));
                let failed = if is_one_line { "" } else { "· failed: " };
                let words = format!("{failed}{}", excerpt(first, LINE_CHARACTERS));
                (Ink::Red, "✗", Ink::Red, words, self.paint.excerpt_lines(rest))
            }
        };
        (self.paint.ink(ink, sign), self.paint.ink(words_ink, &words), quoted)
    }

    /// Returns the chunks to write: they erase the rows, write finished lines in their place, and draw the rows below.
    pub(super) fn flush(&mut self) -> Vec<Chunk> {
        let written = std::mem::take(&mut self.written);
        let rows = if self.place == Place::Terminal { self.draw() } else { String::new() };
        if written.is_empty() && rows == self.drawn {
            return written;
        }
        let mut chunks = Vec::new();
        if !self.drawn.is_empty() {
            // The erasing starts at the beginning of the line, which may contain text that the user is typing.
            chunks.push(Chunk::Stderr(format!("\r\u{1b}[{}A\u{1b}[J", self.drawn.lines().count())));
        }
        chunks.extend(written);
        if !rows.is_empty() {
            // Without line wrapping, each row takes one line of the terminal.
            chunks.push(Chunk::Stderr(format!("\u{1b}[?7l{rows}\u{1b}[?7h")));
        }
        self.drawn = rows;
        chunks
    }

    fn draw(&self) -> String {
        let drawn = self.rows.iter().take(MOST_ROWS).map(|Row { thread, content }| match content {
            Content::Call(call) => self.call_lines(*thread, call),
            Content::Text { text, kind, .. } => self.text_line(*thread, &tail(text), *kind),
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
