//! Printing: answers on standard output, remarks on standard error.

use std::io::{self, Write};

use serde::Serialize;

/// Longer cells are cut.
const MAX_CELL: usize = 80;

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

/// JSON that a terminal can show: JSON itself escapes some of what a terminal would obey, this the rest.
fn json_line(value: &impl Serialize) -> serde_json::Result<String> {
    let mut line = String::new();
    for char in serde_json::to_string(value)?.chars() {
        match char {
            // Only between values, where somebody else wrote them so; in strings JSON escapes them.
            '\n' | '\r' | '\t' => line.push(' '),
            // Only in strings: between values JSON has nothing but ASCII.
            char if is_obeyed(char) => line.push_str(&format!("\\u{:04x}", u32::from(char))),
            char => line.push(char),
        }
    }
    Ok(line)
}

/// Writes a remark to standard error; when that is closed there is nobody to tell.
pub(crate) fn remark(text: &str) {
    let _ = writeln!(io::stderr().lock(), "{}", plain(text));
}

/// Rows under headings, the columns aligned.
#[derive(Debug)]
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
    empty: &'static str,
}

impl Table {
    /// A table with these headings; `empty` is said when there are no rows.
    pub(crate) fn new<const N: usize>(
        headings: [&str; N],
        empty: &'static str,
        rows: impl IntoIterator<Item = [String; N]>,
    ) -> Self {
        let headings = headings.map(str::to_owned).to_vec();
        let rows = rows.into_iter().map(|row| row.map(|cell| shorten(&plain(&cell))).to_vec());
        Self { rows: std::iter::once(headings).chain(rows).collect(), empty }
    }

    /// Writes the table to standard output.
    pub(crate) fn print(&self) -> io::Result<()> {
        if self.rows.len() == 1 {
            remark(self.empty);
            return Ok(());
        }
        print(&self.render())
    }

    /// The table, or what is said when it has no rows; the last line is not ended.
    pub(crate) fn text(&self) -> String {
        if self.rows.len() == 1 { self.empty.to_owned() } else { self.render().trim_end().to_owned() }
    }

    fn render(&self) -> String {
        let columns = self.rows.first().map_or(0, Vec::len);
        let mut widths = vec![0; columns];
        for row in &self.rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = cell.chars().count().max(*width);
            }
        }
        let mut text = String::new();
        for row in &self.rows {
            let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
            text.push_str(cells.collect::<Vec<_>>().join("  ").trim_end());
            text.push('\n');
        }
        text
    }
}

/// Text from elsewhere without what a terminal would obey; line ends and tabs stay.
pub(crate) fn plain(text: &str) -> String {
    // A carriage return is half of a line end, or would let one text hide another.
    let kept = text.chars().filter(|char| *char != '\r');
    kept.map(|char| if is_obeyed(char) && !matches!(char, '\n' | '\t') { '\u{fffd}' } else { char }).collect()
}

/// Control characters, which move the cursor and more, and those that change the order in which text is shown.
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
