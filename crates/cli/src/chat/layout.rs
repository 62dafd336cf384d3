//! How a turn looks: pieces in, text for the terminal out.
//!
//! Answers are one thing and go to standard output, all else is aside and goes to standard error. Both may be the same
//! terminal, so a line that one has begun is ended before the other begins its own. Whatever a model or a tool said
//! passes through [`plain`], here and nowhere else.

use std::time::Duration;

use handback_wire::session::Tokens;

use super::pieces::{CallEnd, Piece};
use crate::output::plain;

/// So much of an input is shown when a tool is called.
pub(super) const INPUT_CHARACTERS: usize = 100;
/// So many lines of a tool's output are shown; how many more there are is said.
const OUTPUT_LINES: usize = 5;
/// So much of each of them.
pub(super) const LINE_CHARACTERS: usize = 160;

/// A text, and where it goes.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Chunk {
    /// To standard output.
    Answer(String),
    /// To standard error.
    Aside(String),
}

/// How a text stands out.
#[derive(Debug, Clone, Copy)]
pub(super) enum Ink {
    Bold,
    Dim,
    Red,
    Green,
    Yellow,
    Cyan,
}

/// What texts are written with.
#[derive(Debug, Clone, Copy)]
pub(super) struct Paint {
    pub(super) coloured: bool,
}

/// Lays out one thing after the other.
#[derive(Debug)]
pub(super) struct Layout {
    pub(super) paint: Paint,
    open: Open,
}

/// The line that is not ended yet, and whose it is.
#[derive(Debug, PartialEq)]
enum Open {
    Nothing,
    Text { part: String, at_line_start: bool },
    Thought { part: String, at_line_start: bool },
    Call { part: String },
}

impl Layout {
    pub(super) fn new(coloured: bool) -> Self {
        Self { paint: Paint { coloured }, open: Open::Nothing }
    }

    /// A piece of a turn.
    pub(super) fn piece(&mut self, piece: &Piece) -> Vec<Chunk> {
        match piece {
            Piece::Text { part, text } => self.text(part, text),
            Piece::Thought { part, text } => self.thought(part, text),
            Piece::CallStarted { part, tool, input } => {
                let mut chunks = self.end_line();
                let tool = self.paint(Ink::Bold, &plain(tool));
                let line = format!(
                    "{} {tool} {} {}",
                    self.paint(Ink::Cyan, "⚙"),
                    excerpt(input, INPUT_CHARACTERS),
                    self.paint(Ink::Dim, "…")
                );
                chunks.push(Chunk::Aside(line));
                self.open = Open::Call { part: part.clone() };
                chunks
            }
            Piece::CallEnded { part, tool, took, end } => self.call_ended(part, tool, *took, end),
        }
    }

    /// Ends the line that is open, if there is one.
    pub(super) fn end_line(&mut self) -> Vec<Chunk> {
        let line_end = || "\n".to_owned();
        match std::mem::replace(&mut self.open, Open::Nothing) {
            Open::Text { at_line_start: false, .. } => vec![Chunk::Answer(line_end())],
            Open::Thought { at_line_start: false, .. } | Open::Call { .. } => vec![Chunk::Aside(line_end())],
            Open::Nothing | Open::Text { .. } | Open::Thought { .. } => Vec::new(),
        }
    }

    /// Ends the line that is open, unless a text goes on there.
    pub(super) fn make_room(&mut self) -> Option<Vec<Chunk>> {
        match self.open {
            Open::Text { at_line_start: false, .. } | Open::Thought { at_line_start: false, .. } => None,
            Open::Nothing | Open::Text { .. } | Open::Thought { .. } | Open::Call { .. } => Some(self.end_line()),
        }
    }

    /// A line that stands for itself, its text from anywhere.
    pub(super) fn line(&mut self, ink: Ink, text: &str) -> Vec<Chunk> {
        let mut chunks = self.end_line();
        chunks.push(Chunk::Aside(format!("{}\n", self.paint(ink, &plain(text)))));
        chunks
    }

    /// Text that stands out, where that is wanted.
    pub(super) fn paint(&self, ink: Ink, text: &str) -> String {
        self.paint.ink(ink, text)
    }

    /// More of an answer.
    pub(super) fn text(&mut self, part: &str, text: &str) -> Vec<Chunk> {
        let text = plain(text);
        let mut chunks = Vec::new();
        if !matches!(&self.open, Open::Text { part: open, .. } if open == part) {
            chunks = self.end_line();
        }
        self.open = Open::Text { part: part.to_owned(), at_line_start: text.ends_with('\n') };
        chunks.push(Chunk::Answer(text));
        chunks
    }

    /// More of a thought, each line of which is marked: not everybody sees that it is dim.
    pub(super) fn thought(&mut self, part: &str, text: &str) -> Vec<Chunk> {
        let (mut chunks, mut at_line_start) = match &self.open {
            Open::Thought { part: open, at_line_start } if open == part => (Vec::new(), *at_line_start),
            _ => (self.end_line(), true),
        };
        let mut marked = String::new();
        for line in plain(text).split_inclusive('\n') {
            if at_line_start {
                marked.push_str("┊ ");
            }
            marked.push_str(line);
            at_line_start = line.ends_with('\n');
        }
        chunks.push(Chunk::Aside(self.paint(Ink::Dim, &marked)));
        self.open = Open::Thought { part: part.to_owned(), at_line_start };
        chunks
    }

    fn call_ended(&mut self, part: &str, tool: &str, took: Duration, end: &CallEnd) -> Vec<Chunk> {
        // On the line that says that it was called, if nothing came in between; else it says again what was called.
        let (mut chunks, mut line) = match &self.open {
            Open::Call { part: open } if open == part => (Vec::new(), String::from(" ")),
            _ => (self.end_line(), String::new()),
        };
        let name = if line.is_empty() { format!("{} ", self.paint(Ink::Bold, &plain(tool))) } else { String::new() };
        self.open = Open::Nothing;
        match end {
            CallEnd::Completed { output, files } => {
                let (mark, took) = (self.paint(Ink::Green, "✓"), self.paint(Ink::Dim, &seconds(took)));
                line.push_str(&format!("{mark} {name}{took}\n"));
                line.push_str(&self.paint.excerpt_lines(output));
                for file in files {
                    line.push_str(&self.paint.quoted(&format!("📎 {}", excerpt(file, LINE_CHARACTERS))));
                }
            }
            CallEnd::Failed(error) => {
                let error = plain(error);
                let (first, rest) = error.trim().split_once('\n').unwrap_or((error.trim(), ""));
                let mark = self.paint(Ink::Red, "✗");
                line.push_str(&format!("{mark} {name}{}\n", self.paint(Ink::Red, &excerpt(first, LINE_CHARACTERS))));
                line.push_str(&self.paint.excerpt_lines(rest));
            }
        }
        chunks.push(Chunk::Aside(line));
        chunks
    }
}

impl Paint {
    /// Text that stands out, where that is wanted.
    pub(super) fn ink(self, ink: Ink, text: &str) -> String {
        if !self.coloured || text.is_empty() {
            return text.to_owned();
        }
        let code = match ink {
            Ink::Bold => "1",
            Ink::Dim => "2",
            Ink::Red => "31",
            Ink::Green => "32",
            Ink::Yellow => "33",
            Ink::Cyan => "36",
        };
        format!("\u{1b}[{code}m{text}\u{1b}[0m")
    }

    /// The first lines of what a tool said.
    pub(super) fn excerpt_lines(self, text: &str) -> String {
        let text = plain(text);
        let lines: Vec<&str> = text.trim_end().lines().collect();
        // One line more is as short as saying so.
        let most = if lines.len() == OUTPUT_LINES + 1 { OUTPUT_LINES + 1 } else { OUTPUT_LINES };
        let mut shown: String =
            lines.iter().take(most).map(|line| self.quoted(&excerpt(line, LINE_CHARACTERS))).collect();
        if lines.len() > most {
            shown.push_str(&self.quoted(&format!("… {} more lines", lines.len() - most)));
        }
        shown
    }

    fn quoted(self, line: &str) -> String {
        format!("  {}\n", self.ink(Ink::Dim, format!("│ {line}").trim_end()))
    }
}

/// A text from anywhere, as one line of at most so many characters.
pub(super) fn excerpt(text: &str, most: usize) -> String {
    let line: String = plain(text).chars().map(|char| if char == '\n' { ' ' } else { char }).collect();
    match line.char_indices().nth(most) {
        Some(_) => line.chars().take(most - 1).chain(['…']).collect(),
        None => line,
    }
}

/// What a turn cost, in a few words; `None` if nobody counted.
pub(super) fn usage(tokens: Tokens) -> Option<String> {
    let read = tokens.input.saturating_add(tokens.cache.read).saturating_add(tokens.cache.write);
    let written = tokens.output.saturating_add(tokens.reasoning);
    (read > 0 || written > 0).then(|| format!("{read} tokens in, {written} out"))
}

pub(super) fn seconds(took: Duration) -> String {
    match took.as_secs() {
        0..60 => format!("{:.1} s", took.as_secs_f64()),
        seconds => format!("{} min {} s", seconds / 60, seconds % 60),
    }
}

#[cfg(test)]
mod tests;
