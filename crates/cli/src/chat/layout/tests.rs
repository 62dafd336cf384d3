use handback_wire::session::CacheTokens;

use super::*;

fn text(part: &str, text: &str) -> Piece {
    Piece::Text { part: part.to_owned(), text: text.to_owned() }
}

fn thought(text: &str) -> Piece {
    Piece::Thought { part: "prt_t".to_owned(), text: text.to_owned() }
}

fn started(part: &str, tool: &str, input: &str) -> Piece {
    Piece::CallStarted { part: part.to_owned(), tool: tool.to_owned(), input: input.to_owned() }
}

fn ended(part: &str, tool: &str, end: CallEnd) -> Piece {
    Piece::CallEnded { part: part.to_owned(), tool: tool.to_owned(), took: Duration::from_millis(120), end }
}

fn completed(part: &str, tool: &str, output: &str) -> Piece {
    ended(part, tool, CallEnd::Completed { output: output.to_owned(), files: Vec::new() })
}

/// All of it on one terminal, and what of it is on standard output.
fn shown_by(mut layout: Layout, pieces: &[Piece]) -> (String, String) {
    let mut chunks: Vec<Chunk> = pieces.iter().flat_map(|piece| layout.piece(piece)).collect();
    chunks.extend(layout.end_line());
    let (mut terminal, mut stdout) = (String::new(), String::new());
    for chunk in chunks {
        match chunk {
            Chunk::Answer(text) => {
                terminal.push_str(&text);
                stdout.push_str(&text);
            }
            Chunk::Aside(text) => terminal.push_str(&text),
        }
    }
    (terminal, stdout)
}

fn shown(pieces: &[Piece]) -> (String, String) {
    shown_by(Layout::new(false), pieces)
}

#[test]
fn a_turn_reads_from_top_to_bottom() {
    let pieces = [
        thought("I should read\n"),
        thought("the notes."),
        text("prt_1", "Let me "),
        text("prt_1", "look."),
        started("prt_2", "read_file", r#"{"path":"notes.txt"}"#),
        completed("prt_2", "read_file", "milk\neggs\n"),
        text("prt_3", "Milk"),
        text("prt_3", " and eggs.\n"),
    ];
    let terminal = "┊ I should read\n┊ the notes.\nLet me look.\n\
                    ⚙ read_file {\"path\":\"notes.txt\"} … ✓ 0.1 s\n  │ milk\n  │ eggs\nMilk and eggs.\n";
    assert_eq!(shown(&pieces), (terminal.to_owned(), "Let me look.\nMilk and eggs.\n".to_owned()));
}

#[test]
fn calls_at_the_same_time_are_told_apart() {
    let pieces = [
        started("prt_1", "slow", "{}"),
        started("prt_2", "quick", "{}"),
        completed("prt_2", "quick", ""),
        ended("prt_1", "slow", CallEnd::Failed("it broke\nat line 1".to_owned())),
    ];
    let terminal = "⚙ slow {} …\n⚙ quick {} … ✓ 0.1 s\n✗ slow it broke\n  │ at line 1\n";
    assert_eq!(shown(&pieces), (terminal.to_owned(), String::new()));
}

#[test]
fn long_inputs_and_outputs_are_cut() {
    let lines = |count: usize| (1..=count).map(|line| format!("{line}\n")).collect::<String>();
    let quoted = |count: usize| (1..=count).map(|line| format!("  │ {line}\n")).collect::<String>();
    let output = |output: &str| shown(&[started("p", "t", "{}"), completed("p", "t", output)]).0;
    assert_eq!(output(&lines(6)), format!("⚙ t {{}} … ✓ 0.1 s\n{}", quoted(6)));
    assert_eq!(output(&lines(7)), format!("⚙ t {{}} … ✓ 0.1 s\n{}  │ … 2 more lines\n", quoted(5)));
    assert_eq!(output(&"x".repeat(500)), format!("⚙ t {{}} … ✓ 0.1 s\n  │ {}…\n", "x".repeat(159)));
    let input = format!("{{\"text\":\"{}\"}}", "ä".repeat(500));
    assert_eq!(shown(&[started("p", "t", &input)]).0, format!("⚙ t {{\"text\":\"{}… …\n", "ä".repeat(90)));
}

#[test]
fn files_are_named() {
    let end = CallEnd::Completed { output: String::new(), files: vec!["a.png (image/png)".to_owned()] };
    let (terminal, _) = shown(&[started("p", "t", "{}"), ended("p", "t", end)]);
    assert_eq!(terminal, "⚙ t {} … ✓ 0.1 s\n  │ 📎 a.png (image/png)\n");
}

#[test]
fn colours_are_there_only_where_they_are_wanted() {
    let pieces = [started("p", "t", "{}"), completed("p", "t", "milk"), text("q", "Milk."), thought("Hm")];
    let (terminal, stdout) = shown_by(Layout::new(true), &pieces);
    let expected = "\u{1b}[36m⚙\u{1b}[0m \u{1b}[1mt\u{1b}[0m {} \u{1b}[2m…\u{1b}[0m \u{1b}[32m✓\u{1b}[0m \
                    \u{1b}[2m0.1 s\u{1b}[0m\n  \u{1b}[2m│ milk\u{1b}[0m\nMilk.\n\u{1b}[2m┊ Hm\u{1b}[0m\n";
    assert_eq!((terminal.as_str(), stdout.as_str()), (expected, "Milk.\n"));
    assert!(!shown(&pieces).0.contains('\u{1b}'));
}

#[test]
fn nothing_from_a_model_or_a_tool_reaches_the_terminal_raw() {
    let hostile = "\u{1b}]0;title\u{7}\u{1b}[2J\u{9b}1A\u{8}\r\u{202e}!";
    let pieces = [
        thought(hostile),
        text("prt_1", hostile),
        started("prt_2", hostile, hostile),
        text("prt_3", hostile),
        completed("prt_2", hostile, hostile),
        started("prt_4", hostile, hostile),
        ended("prt_4", hostile, CallEnd::Failed(hostile.to_owned())),
        ended("prt_5", hostile, CallEnd::Completed { output: String::new(), files: vec![hostile.to_owned()] }),
    ];
    let mut layout = Layout::new(false);
    let mut chunks: Vec<Chunk> = pieces.iter().flat_map(|piece| layout.piece(piece)).collect();
    chunks.extend(layout.line(Ink::Red, hostile));
    for chunk in chunks {
        let (Chunk::Answer(text) | Chunk::Aside(text)) = chunk;
        let obeyed = |char: char| char != '\n' && (char.is_control() || char == '\u{202e}');
        assert!(!text.contains(obeyed), "{text:?}");
    }
}

#[test]
fn what_a_turn_cost_is_said_if_anybody_counted() {
    assert_eq!(usage(Tokens::default()), None);
    let tokens = Tokens { input: 10, output: 2, reasoning: 1, cache: CacheTokens { read: 3, write: 4 } };
    assert_eq!(usage(tokens).as_deref(), Some("17 tokens in, 3 out"));
    let most = u64::MAX;
    let tokens = Tokens { input: most, output: most, reasoning: most, cache: CacheTokens { read: most, write: most } };
    assert_eq!(usage(tokens), Some(format!("{most} tokens in, {most} out")));
}

#[test]
fn times_are_short() {
    let times = [49, 12_345, 59_960, 60_000, 125_000].map(|millis| seconds(Duration::from_millis(millis)));
    assert_eq!(times, ["0.0 s", "12.3 s", "60.0 s", "1 min 0 s", "2 min 5 s"]);
}
