//! Both ways to show calls, in a log and at a terminal.

mod one_line;
mod stages;

use std::time::Duration;

use super::*;

fn text(part: &str, text: &str) -> Piece {
    Piece::Text { part: part.to_owned(), text: text.to_owned() }
}

fn thought(text: &str) -> Piece {
    Piece::Thought { part: "thought".to_owned(), text: text.to_owned() }
}

fn call(id: &str, input: &str, stage: Stage) -> Piece {
    Piece::Call(Call { id: id.to_owned(), tool: format!("tool-{id}"), input: input.to_owned(), stage })
}

fn done(output: &str) -> Stage {
    Stage::Done { output: output.to_owned(), files: Vec::new(), took: Some(Duration::from_millis(120)) }
}

fn failed(error: &str) -> Stage {
    Stage::Failed { error: error.to_owned() }
}

impl Layout {
    /// What is written after a change.
    fn drawn(&mut self, change: impl FnOnce(&mut Self)) -> Vec<Chunk> {
        change(self);
        self.flush()
    }
}

/// All that is written, and what of it is an answer.
fn written(chunks: impl IntoIterator<Item = Chunk>) -> (String, String) {
    let (mut all, mut answers) = (String::new(), String::new());
    for chunk in chunks {
        match chunk {
            Chunk::Stdout(text) => {
                all.push_str(&text);
                answers.push_str(&text);
            }
            Chunk::Stderr(text) => all.push_str(&text),
        }
    }
    (all, answers)
}

#[test]
fn nothing_from_a_model_or_a_tool_reaches_the_terminal_raw() {
    let hostile = "\u{1b}]0;title\u{7}\u{1b}[2J\u{9b}1A\u{8}\r\u{202e}!";
    let hostile_call = |stage| {
        let [id, tool, input] = [hostile; 3].map(str::to_owned);
        Piece::Call(Call { id, tool, input, stage })
    };
    let files = vec![hostile.to_owned()];
    let pieces = [
        thought(hostile),
        text("a", hostile),
        hostile_call(Stage::Receiving),
        hostile_call(Stage::Ready),
        text("b", hostile),
        hostile_call(Stage::Running),
        hostile_call(Stage::Done { output: hostile.to_owned(), files, took: None }),
        hostile_call(failed(hostile)),
        Piece::Note(Ink::Yellow, hostile.to_owned()),
    ];
    for (style, is_shared) in [(CallStyle::OneLine, false), (CallStyle::Stages, false), (CallStyle::Stages, true)] {
        let mut layout = Layout::new(Paint { coloured: false }, Place::Log, style, AnswerDisplay::Always);
        if is_shared {
            layout.drawn(|layout| layout.share());
        }
        let mut chunks = layout.drawn(|layout| layout.show(1, &pieces));
        chunks.extend(layout.drawn(|layout| layout.line(Some(1), Ink::Red, hostile)));
        let (all, _) = written(chunks);
        assert!(!all.contains(|char: char| char != '\n' && (char.is_control() || char == '\u{202e}')), "{all:?}");
    }
}
