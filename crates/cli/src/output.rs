//! Printing: answers on standard output, remarks on standard error.

use std::io::{self, Write};
use std::time::{Duration, UNIX_EPOCH};

use serde::Serialize;

/// The longest cell of a table, in characters; longer ones are cut.
const MAX_CELL: usize = 80;

/// The last millisecond that can be shown: that of the year 9999. A server may send any number.
const LATEST: u64 = 253_402_300_799_999;

/// A time in milliseconds since 1970, for people.
pub(crate) fn timestamp(milliseconds: u64) -> String {
    humantime::format_rfc3339_seconds(UNIX_EPOCH + Duration::from_millis(milliseconds.min(LATEST))).to_string()
}

/// Writes an answer to standard output.
pub(crate) fn print(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    stdout.flush()
}

/// Writes an answer to standard output as one line of JSON.
pub(crate) fn print_json(value: &impl Serialize) -> anyhow::Result<()> {
    Ok(print(&format!("{}\n", json_line(value)?))?)
}

/// One line of JSON that is safe for a terminal. JSON escapes some control characters, and this function the others.
pub(crate) fn json_line(value: &impl Serialize) -> serde_json::Result<String> {
    let mut line = String::new();
    for char in serde_json::to_string(value)?.chars() {
        match char {
            // These occur only between the values of raw JSON; in strings they are escaped already.
            '\n' | '\r' | '\t' => line.push(' '),
            // Other control characters occur only in strings, because between values JSON is ASCII.
            char if is_obeyed(char) => line.push_str(&format!("\\u{:04x}", u32::from(char))),
            char => line.push(char),
        }
    }
    Ok(line)
}

/// Writes a remark to standard error. A closed standard error is ignored: there is nobody to tell.
pub(crate) fn remark(text: &str) {
    let _ = writeln!(io::stderr().lock(), "{}", plain(text));
}

/// Rows under headings, in aligned columns.
#[derive(Debug)]
pub(crate) struct Table {
    /// The table as text; `None` if it has no rows.
    text: Option<String>,
    empty: &'static str,
    /// The widths of the columns.
    widths: Vec<usize>,
}

impl Table {
    /// A table with these headings; `empty` is printed when there are no rows.
    pub(crate) fn new<const N: usize>(
        headings: [&str; N],
        empty: &'static str,
        rows: impl IntoIterator<Item = [String; N]>,
    ) -> Self {
        let rows = rows.into_iter().map(|row| row.map(|cell| shorten(&plain(&cell))));
        let rows: Vec<[String; N]> = std::iter::once(headings.map(str::to_owned)).chain(rows).collect();
        let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or_default();
        let widths: [usize; N] = std::array::from_fn(width);
        let lines = rows.iter().map(|row| aligned(row, &widths));
        Self { text: (rows.len() > 1).then(|| lines.collect()), empty, widths: widths.into() }
    }

    /// Writes one more row to standard output, in the columns of this table. A cell that is too wide moves those after it.
    pub(crate) fn print_row<const N: usize>(&self, row: [String; N]) -> io::Result<()> {
        print(&aligned(&row.map(|cell| shorten(&plain(&cell))), &self.widths))
    }

    /// Writes the table to standard output, or the note that it is empty to standard error.
    pub(crate) fn print(&self) -> io::Result<()> {
        match &self.text {
            Some(text) => print(text),
            None => {
                remark(self.empty);
                Ok(())
            }
        }
    }

    /// The table without its last line end, or the text for an empty table.
    pub(crate) fn text(&self) -> &str {
        self.text.as_deref().unwrap_or(self.empty).trim_end()
    }
}

/// A line with cells that are filled up to the widths of their columns.
fn aligned(row: &[String], widths: &[usize]) -> String {
    let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}"));
    format!("{}\n", cells.collect::<Vec<_>>().join("  ").trim_end())
}

/// Makes untrusted text safe for a terminal: control characters are replaced, line ends and tabs stay.
pub(crate) fn plain(text: &str) -> String {
    // A carriage return is dropped: it is half of a line end, or it would let one text hide another.
    let kept = text.chars().filter(|char| *char != '\r');
    kept.map(|char| if is_obeyed(char) && !matches!(char, '\n' | '\t') { '\u{fffd}' } else { char }).collect()
}

/// A text as one line. The text may be untrusted.
pub(crate) fn one_line(text: &str) -> String {
    plain(text).replace('\n', " ")
}

/// A text as one line of at most `most` characters. The text may be untrusted.
pub(crate) fn excerpt(text: &str, most: usize) -> String {
    let line = one_line(text);
    match line.char_indices().nth(most) {
        Some(_) => line.chars().take(most - 1).chain(['…']).collect(),
        None => line,
    }
}

/// Whether a terminal would act on a character: control characters, and those that change the order of text.
fn is_obeyed(char: char) -> bool {
    char.is_control() || matches!(char, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn shorten(cell: &str) -> String {
    let line = cell.lines().next().unwrap_or_default().replace('\t', " ");
    let cut = line.len() < cell.trim_end().len() || line.chars().count() > MAX_CELL;
    if cut { line.chars().take(MAX_CELL - 1).chain(['…']).collect() } else { line }
}

#[cfg(test)]
mod tests;
