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
    let mut text = serde_json::to_string(value)?;
    text.push('\n');
    Ok(print(&text)?)
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
    text.chars().map(|char| if char.is_control() && !matches!(char, '\n' | '\t') { '\u{fffd}' } else { char }).collect()
}

fn shorten(cell: &str) -> String {
    let line = cell.lines().next().unwrap_or_default().replace('\t', " ");
    let cut = line.len() < cell.trim_end().len() || line.chars().count() > MAX_CELL;
    if cut { line.chars().take(MAX_CELL - 1).chain(['…']).collect() } else { line }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_and_cells_are_one_line() {
        let rows = [["a", "first\nsecond"], ["längere", "\u{1b}[31mred"]].map(|row| row.map(str::to_owned));
        let table = Table::new(["ID", "TEXT"], "nothing", rows);
        assert_eq!(table.render(), "ID       TEXT\na        first…\nlängere  \u{fffd}[31mred\n");
    }

    #[test]
    fn long_cells_are_cut() {
        assert_eq!(shorten(&"x".repeat(80)), "x".repeat(80));
        assert_eq!(shorten(&"x".repeat(81)), format!("{}…", "x".repeat(79)));
    }
}
