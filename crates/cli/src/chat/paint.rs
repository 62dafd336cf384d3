//! Prepares texts for a terminal: safe, short, and coloured where that is wanted.

use std::time::Duration;

use handback_wire::session::Tokens;

use crate::output::{excerpt, plain};

/// How many lines of a tool's output are shown; the number of the others is shown instead of them.
const OUTPUT_LINES: usize = 5;
/// How much of each of these lines is shown.
pub(super) const LINE_CHARACTERS: usize = 160;

/// How a text stands out.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Ink {
    Bold,
    Dim,
    Red,
    Green,
    Yellow,
    Cyan,
}

/// Whether texts are coloured.
#[derive(Debug, Clone, Copy)]
pub(super) struct Paint {
    pub(super) coloured: bool,
}

impl Paint {
    /// The text in a colour, if texts are coloured.
    pub(super) fn ink(self, ink: Ink, text: &str) -> String {
        if !self.coloured || text.trim().is_empty() {
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

    /// The first lines of a tool's output, each quoted. The output may be untrusted.
    pub(super) fn excerpt_lines(self, text: &str) -> String {
        let text = plain(text);
        let lines: Vec<&str> = text.trim_end().lines().collect();
        // One more line takes no more room than the note about it.
        let most = if lines.len() == OUTPUT_LINES + 1 { OUTPUT_LINES + 1 } else { OUTPUT_LINES };
        let mut shown: String =
            lines.iter().take(most).map(|line| self.quoted(&excerpt(line, LINE_CHARACTERS))).collect();
        if lines.len() > most {
            shown.push_str(&self.quoted(&format!("… {} more lines", lines.len() - most)));
        }
        shown
    }

    /// A quoted line.
    pub(super) fn quoted(self, line: &str) -> String {
        format!("  {}\n", self.ink(Ink::Dim, format!("│ {line}").trim_end()))
    }
}

/// The tokens of an answer, in a few words; `None` if they were not counted.
pub(super) fn usage(tokens: Tokens) -> Option<String> {
    let read = tokens.input.saturating_add(tokens.cache.read).saturating_add(tokens.cache.write);
    let written = tokens.output.saturating_add(tokens.reasoning);
    (read > 0 || written > 0).then(|| format!("{read} tokens in, {written} out"))
}

/// A duration, in a few characters.
pub(super) fn seconds(took: Duration) -> String {
    match took.as_secs() {
        0..60 => format!("{:.1} s", took.as_secs_f64()),
        seconds => format!("{} min {} s", seconds / 60, seconds % 60),
    }
}

#[cfg(test)]
mod tests;
