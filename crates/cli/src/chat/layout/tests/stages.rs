//! Calls whose every stage is shown, in one thread and in several.

use super::*;

fn stages(place: Place) -> Layout {
    Layout::new(Paint { coloured: false }, place, CallStyle::Stages, AnswerDisplay::Always)
}

/// What a terminal shows in the end, if it does what it is told.
fn seen(written: &str) -> String {
    let mut lines = vec![String::new()];
    let mut rest = written;
    while let Some(character) = rest.chars().next() {
        rest = &rest[character.len_utf8()..];
        match character {
            '\u{1b}' => {
                let end = rest.find(|char: char| char.is_ascii_alphabetic()).unwrap();
                let (code, after) = rest.split_at(end + 1);
                rest = after;
                match code.strip_suffix('A') {
                    Some(up) => {
                        let up: usize = up[1..].parse().unwrap();
                        lines.truncate(lines.len() - up);
                        lines.last_mut().unwrap().clear();
                    }
                    None => assert!(["[J", "[?7l", "[?7h"].contains(&code), "{code}"),
                }
            }
            '\r' => assert!(rest.starts_with("\u{1b}["), "only to go up"),
            '\n' => lines.push(String::new()),
            other => lines.last_mut().unwrap().push(other),
        }
    }
    lines.join("\n")
}

#[test]
fn without_a_terminal_every_change_is_a_line() {
    let mut layout = stages(Place::Log);
    let pieces = [
        text("a", "Let me look."),
        call("1", "", Stage::Receiving),
        call("1", "{\"a\"", Stage::Receiving),
        call("1", "{\"a\":1}", Stage::Ready),
        call("1", "{\"a\":1}", Stage::Running),
        call("1", "{\"a\":1}", done("milk\neggs\n")),
        text("b", "Milk and eggs."),
    ];
    let mut chunks = layout.drawn(|layout| layout.show(1, &pieces));
    chunks.extend(layout.drawn(|layout| layout.end(1)));
    let all = "Let me look.\n⚙ tool-1 · receiving\n⚙ tool-1 {\"a\":1} · ready\n⚙ tool-1 {\"a\":1} · running\n\
               ✓ tool-1 {\"a\":1} · done in 0.1 s\n  │ milk\n  │ eggs\nMilk and eggs.\n";
    assert_eq!(written(chunks), (all.to_owned(), "Let me look.\nMilk and eggs.\n".to_owned()));
}

#[test]
fn at_a_terminal_the_row_of_a_call_is_written_anew() {
    let mut layout = stages(Place::Terminal);
    let mut chunks = layout.drawn(|layout| layout.show(1, &[text("a", "Let me look.")]));
    chunks.extend(layout.drawn(|layout| layout.show(1, &[call("1", "{\"a", Stage::Receiving)])));
    chunks.extend(layout.drawn(|layout| {
        layout.show(1, &[call("1", "{\"a\":1}", Stage::Ready), call("1", "{\"a\":1}", Stage::Running)])
    }));
    chunks.extend(layout.drawn(|layout| layout.show(1, &[])));
    chunks.extend(layout.drawn(|layout| layout.show(1, &[call("1", "{\"a\":1}", done("milk"))])));
    chunks.extend(layout.drawn(|layout| layout.show(1, &[text("b", "Milk.")])));
    chunks.extend(layout.drawn(|layout| layout.end(1)));
    let (all, answers) = written(chunks);
    assert_eq!(
        all,
        "Let me look.\n\u{1b}[?7l⚙ tool-1 {\"a · receiving\n\u{1b}[?7h\
         \r\u{1b}[1A\u{1b}[J\u{1b}[?7l⚙ tool-1 {\"a\":1} · running\n\u{1b}[?7h\
         \r\u{1b}[1A\u{1b}[J✓ tool-1 {\"a\":1} · done in 0.1 s\n  │ milk\nMilk.\n"
    );
    assert_eq!(seen(&all), "Let me look.\n✓ tool-1 {\"a\":1} · done in 0.1 s\n  │ milk\nMilk.\n");
    assert_eq!(answers, "Let me look.\nMilk.\n");
}

#[test]
fn calls_at_the_same_time_are_rows_of_their_own() {
    let mut layout = stages(Place::Terminal);
    let mut chunks =
        layout.drawn(|layout| layout.show(1, &[call("1", "{}", Stage::Running), call("2", "{}", Stage::Running)]));
    chunks.extend(layout.drawn(|layout| layout.show(1, &[call("2", "{}", failed("it broke\nat line 1"))])));
    let (all, _) = written(chunks);
    assert_eq!(seen(&all), "✗ tool-2 {} · failed: it broke\n  │ at line 1\n⚙ tool-1 {} · running\n");
    let (more, _) = written(layout.drawn(|layout| layout.show(1, &[call("1", "{}", done(""))])));
    assert_eq!(seen(&(all + &more)), "✗ tool-2 {} · failed: it broke\n  │ at line 1\n✓ tool-1 {} · done in 0.1 s\n");
}

#[test]
fn a_text_that_comes_while_a_call_is_open_does_not_wipe_it_out() {
    let mut layout = stages(Place::Terminal);
    let mut chunks = layout.drawn(|layout| layout.show(1, &[call("1", "{}", Stage::Ready)]));
    chunks.extend(layout.drawn(|layout| layout.show(1, &[text("a", "One ")])));
    chunks.extend(layout.drawn(|layout| layout.show(1, &[text("a", "moment.")])));
    chunks.extend(layout.drawn(|layout| layout.show(1, &[call("1", "{}", Stage::Running)])));
    let (all, answers) = written(chunks);
    assert_eq!(seen(&all), "⚙ tool-1 {} · ready\nOne moment.\n⚙ tool-1 {} · running\n");
    assert_eq!(answers, "One moment.\n");
}

#[test]
fn each_line_says_which_of_several_threads_it_belongs_to() {
    let mut layout = stages(Place::Terminal);
    let mut chunks = layout.drawn(|layout| layout.share());
    chunks.extend(layout.drawn(|layout| layout.line(Some(1), Ink::Dim, "> first")));
    chunks.extend(layout.drawn(|layout| layout.line(Some(2), Ink::Dim, "> second")));
    chunks.extend(layout.drawn(|layout| layout.show(1, &[call("1", "{}", Stage::Running)])));
    chunks.extend(layout.drawn(|layout| layout.show(2, &[thought("Hm"), text("a", "On a\nSun")])));
    let (all, _) = written(chunks);
    let above = "[1] > first\n[2] > second\n[2] ┊ Hm\n[2] On a\n";
    assert_eq!(seen(&all), format!("{above}[1] ⚙ tool-1 {{}} · running\n[2] Sun\n"));
    let mut chunks = layout.drawn(|layout| layout.show(1, &[call("1", "{}", done("milk"))]));
    chunks.extend(layout.drawn(|layout| layout.show(2, &[text("a", "day.")])));
    chunks.extend(layout.drawn(|layout| layout.end(2)));
    let (more, answers) = written(chunks);
    let expected = format!("{above}[1] ✓ tool-1 {{}} · done in 0.1 s\n[1]   │ milk\n[2] Sunday.\n");
    assert_eq!((seen(&(all + &more)), answers.as_str()), (expected, "[2] Sunday.\n"));
}

#[test]
fn lines_that_grow_stay_where_they_are() {
    let mut layout = stages(Place::Terminal);
    let mut chunks = layout.drawn(|layout| layout.share());
    for (thread, more) in [(1, "Sun"), (2, "Mon"), (1, "day"), (2, "day,"), (1, " or")] {
        chunks.extend(layout.drawn(|layout| layout.show(thread, &[text("a", more)])));
    }
    assert_eq!(seen(&written(chunks).0), "[1] Sunday or\n[2] Monday,\n");
}

#[test]
fn answers_that_are_printed_in_another_form_are_not_shown() {
    let mut layout =
        Layout::new(Paint { coloured: false }, Place::Log, CallStyle::Stages, AnswerDisplay::OfSingleThread);
    layout.drawn(|layout| layout.share());
    let mut chunks =
        layout.drawn(|layout| layout.show(1, &[thought("Hm"), text("a", "Sunday.\n"), call("1", "{}", Stage::Ready)]));
    chunks.extend(layout.drawn(|layout| layout.end(1)));
    assert_eq!(written(chunks), ("[1] ┊ Hm\n[1] ⚙ tool-1 {} · ready\n".to_owned(), String::new()));
}

#[test]
fn what_was_not_ended_stays_when_a_thread_stops() {
    let mut layout = stages(Place::Terminal);
    let mut chunks = layout.drawn(|layout| layout.share());
    chunks.extend(layout.drawn(|layout| layout.show(1, &[call("1", "{}", Stage::Ready)])));
    chunks.extend(layout.drawn(|layout| layout.show(2, &[call("2", "{}", Stage::Running)])));
    chunks.extend(layout.drawn(|layout| layout.end(1)));
    let (all, _) = written(chunks);
    assert_eq!(seen(&all), "[1] ⚙ tool-1 {} · ready\n[2] ⚙ tool-2 {} · running\n");
    // Something is typed below it, and it goes on below that.
    layout.move_on();
    let (more, _) = written(layout.drawn(|layout| layout.show(2, &[call("2", "{}", done(""))])));
    assert_eq!(
        seen(&(all + "/threads\n" + &more)),
        "[1] ⚙ tool-1 {} · ready\n[2] ⚙ tool-2 {} · running\n/threads\n[2] ✓ tool-2 {} · done in 0.1 s\n"
    );
}

#[test]
fn what_the_terminal_shows_of_ctrl_c_is_wiped_out_or_left_above() {
    let mut layout = stages(Place::Terminal);
    let (begun, _) = written(layout.drawn(|layout| layout.show(1, &[call("1", "{}", Stage::Running)])));
    let mut chunks = layout.drawn(|layout| layout.interrupted());
    chunks.extend(layout.drawn(|layout| layout.show(1, &[call("1", "{}", failed("stopped"))])));
    let (ended, _) = written(chunks);
    assert_eq!(seen(&(begun + "^C" + &ended)), "✗ tool-1 {} · failed: stopped\n");
    let mut chunks = layout.drawn(|layout| layout.interrupted());
    chunks.extend(layout.drawn(|layout| layout.line(Some(1), Ink::Yellow, "Stopped.")));
    assert_eq!(seen(&("^C".to_owned() + &written(chunks).0)), "^C\nStopped.\n");
    layout.drawn(|layout| layout.show(1, &[text("a", "Sun")]));
    assert_eq!(layout.drawn(|layout| layout.interrupted()), [Chunk::Stdout("\n".to_owned())]);
}

#[test]
fn a_terminal_is_not_filled_with_rows() {
    let mut layout = stages(Place::Terminal);
    let calls: Vec<Piece> = (1..=12).map(|id| call(&id.to_string(), "", Stage::Receiving)).collect();
    let shown: String = (1..=10).map(|id| format!("⚙ tool-{id} · receiving\n")).collect();
    assert_eq!(seen(&written(layout.drawn(|layout| layout.show(1, &calls))).0), format!("{shown}… 2 more\n"));
    assert_eq!(tail(&"x".repeat(60)), "x".repeat(60));
    assert_eq!(tail(&"ä".repeat(61)), format!("…{}", "ä".repeat(59)));
}

#[test]
fn colours_are_there_only_where_they_are_wanted() {
    let pieces = [call("1", "{}", done("milk")), call("2", "", failed("no"))];
    let mut layout = Layout::new(Paint { coloured: true }, Place::Log, CallStyle::Stages, AnswerDisplay::Always);
    let expected = "\u{1b}[32m✓\u{1b}[0m \u{1b}[1mtool-1\u{1b}[0m {} \u{1b}[2m· done in 0.1 s\u{1b}[0m\n  \
                    \u{1b}[2m│ milk\u{1b}[0m\n\u{1b}[31m✗\u{1b}[0m \u{1b}[1mtool-2\u{1b}[0m \
                    \u{1b}[31m· failed: no\u{1b}[0m\n";
    assert_eq!(written(layout.drawn(|layout| layout.show(1, &pieces))).0, expected);
}
