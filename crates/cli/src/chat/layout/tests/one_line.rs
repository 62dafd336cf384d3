//! Calls on one line each, in a thread that is alone.

use super::*;

/// All of it in a log, and what of it is on standard output.
fn shown_by(coloured: bool, pieces: &[Piece]) -> (String, String) {
    let mut layout = Layout::new(Paint { coloured }, Place::Log, CallStyle::OneLine, AnswerDisplay::Always);
    let mut chunks: Vec<Chunk> =
        pieces.iter().flat_map(|piece| layout.drawn(|layout| layout.show(1, std::slice::from_ref(piece)))).collect();
    chunks.extend(layout.drawn(|layout| layout.end(1)));
    written(chunks)
}

fn shown(pieces: &[Piece]) -> (String, String) {
    shown_by(false, pieces)
}

#[test]
fn a_turn_reads_from_top_to_bottom() {
    let pieces = [
        thought("I should read\n"),
        thought("the notes."),
        text("prt_1", "Let me "),
        text("prt_1", "look."),
        call("2", r#"{"path":"notes.txt"}"#, Stage::Running),
        call("2", "", done("milk\neggs\n")),
        text("prt_3", "Milk"),
        text("prt_3", " and eggs.\n"),
    ];
    let terminal = "┊ I should read\n┊ the notes.\nLet me look.\n\
                    ⚙ tool-2 {\"path\":\"notes.txt\"} … ✓ 0.1 s\n  │ milk\n  │ eggs\nMilk and eggs.\n";
    assert_eq!(shown(&pieces), (terminal.to_owned(), "Let me look.\nMilk and eggs.\n".to_owned()));
}

#[test]
fn calls_at_the_same_time_are_told_apart() {
    let pieces = [
        call("1", "{}", Stage::Running),
        call("2", "{}", Stage::Running),
        call("2", "{}", done("")),
        call("1", "{}", failed("it broke\nat line 1")),
    ];
    let terminal = "⚙ tool-1 {} …\n⚙ tool-2 {} … ✓ 0.1 s\n✗ tool-1 it broke\n  │ at line 1\n";
    assert_eq!(shown(&pieces), (terminal.to_owned(), String::new()));
}

#[test]
fn long_inputs_and_outputs_are_cut() {
    let lines = |count: usize| (1..=count).map(|line| format!("{line}\n")).collect::<String>();
    let quoted = |count: usize| (1..=count).map(|line| format!("  │ {line}\n")).collect::<String>();
    let output = |output: &str| shown(&[call("1", "{}", Stage::Running), call("1", "{}", done(output))]).0;
    assert_eq!(output(&lines(6)), format!("⚙ tool-1 {{}} … ✓ 0.1 s\n{}", quoted(6)));
    assert_eq!(output(&lines(7)), format!("⚙ tool-1 {{}} … ✓ 0.1 s\n{}  │ … 2 more lines\n", quoted(5)));
    assert_eq!(output(&"x".repeat(500)), format!("⚙ tool-1 {{}} … ✓ 0.1 s\n  │ {}…\n", "x".repeat(159)));
    let input = format!("{{\"text\":\"{}\"}}", "ä".repeat(500));
    assert_eq!(shown(&[call("1", &input, Stage::Running)]).0, format!("⚙ tool-1 {{\"text\":\"{}… …\n", "ä".repeat(90)));
}

#[test]
fn files_are_named() {
    let end = Stage::Done { output: String::new(), files: vec!["a.png (image/png)".to_owned()], took: None };
    let (terminal, _) = shown(&[call("1", "{}", Stage::Running), call("1", "{}", end)]);
    assert_eq!(terminal, "⚙ tool-1 {} … ✓ 0.0 s\n  │ 📎 a.png (image/png)\n");
}

#[test]
fn colours_are_there_only_where_they_are_wanted() {
    let pieces = [call("1", "{}", Stage::Running), call("1", "{}", done("milk")), text("q", "Milk."), thought("Hm")];
    let (terminal, stdout) = shown_by(true, &pieces);
    let expected = "\u{1b}[36m⚙\u{1b}[0m \u{1b}[1mtool-1\u{1b}[0m {} \u{1b}[2m…\u{1b}[0m \u{1b}[32m✓\u{1b}[0m \
                    \u{1b}[2m0.1 s\u{1b}[0m\n  \u{1b}[2m│ milk\u{1b}[0m\nMilk.\n\u{1b}[2m┊ Hm\u{1b}[0m\n";
    assert_eq!((terminal.as_str(), stdout.as_str()), (expected, "Milk.\n"));
    assert!(!shown(&pieces).0.contains('\u{1b}'));
}
