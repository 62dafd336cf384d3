//! Runs the commands that a page of the documentation shows.

use std::fmt::Write as _;
use std::process::{Command, Stdio};

use crate::markdown::Shown;

/// Compares word by word; `…` stands for anything within a line.
fn fits(expected: &str, found: &str) -> bool {
    let squeeze = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    let (expected, found) = (squeeze(expected), squeeze(found));
    let Some((first, others)) = expected.split_once('…') else { return expected == found };
    let (middle, last) = others.rsplit_once('…').unwrap_or(("", others));
    let Some(mut rest) = found.strip_prefix(first) else { return false };
    for piece in middle.split('…') {
        match rest.find(piece) {
            Some(place) => rest = &rest[place + piece.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

/// Runs all commands in one `bash`, and compares what each of them prints with what the page says.
pub(crate) fn check(commands: &[Shown], bash: &mut Command) {
    let mut script = String::new();
    for (place, shown) in commands.iter().enumerate() {
        write!(script, "echo '@@ {place}'\n{}\n", shown.command).unwrap();
    }
    script.push_str("echo '@@ end'\nkill $(jobs -p) 2>/dev/null\n");
    let ran = bash.args(["-c", &script]).stdin(Stdio::null()).output().unwrap();
    let printed = String::from_utf8(ran.stdout).unwrap();
    let complaints = String::from_utf8_lossy(&ran.stderr);
    for (place, shown) in commands.iter().enumerate() {
        let found = printed.split(&format!("@@ {place}\n")).nth(1).unwrap_or_default().split("@@ ").next().unwrap();
        let (found, expected) = (found.trim_end().lines(), shown.output.join("\n"));
        let found: Vec<&str> = found.collect();
        let expected: Vec<&str> = expected.trim_end().lines().collect();
        let same = found.len() == expected.len() && expected.iter().zip(&found).all(|(one, other)| fits(one, other));
        assert!(
            same,
            "`{}` printed\n{}\nand not\n{}\n{complaints}",
            shown.command,
            found.join("\n"),
            expected.join("\n")
        );
    }
}
