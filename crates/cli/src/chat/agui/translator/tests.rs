use std::time::Duration;

use handback_client::agui::process;
use handback_client::agui::wire::Event;
use serde_json::{Value, json};

use super::*;

fn event(event: Value) -> Event {
    serde_json::from_value(event).unwrap()
}

/// A conversation, what was shown of it, and the times of its calls.
#[derive(Default)]
struct Watched {
    conversation: Conversation,
    translator: Translator,
    times: Times,
}

impl Watched {
    /// What is new after these events, of which only the last conversation is seen.
    fn after(&mut self, events: &[Value]) -> Vec<Piece> {
        for value in events {
            self.conversation = process(std::mem::take(&mut self.conversation), &event(value.clone()));
        }
        self.translator.translate(&self.conversation, &self.times)
    }
}

fn text(part: &str, text: &str) -> Piece {
    Piece::Text { part: part.to_owned(), text: text.to_owned() }
}

fn thought(text: &str) -> Piece {
    Piece::Thought { part: "thought".to_owned(), text: text.to_owned() }
}

fn call(arguments: &str, stage: Stage) -> Piece {
    Piece::Call(Call { id: "c".to_owned(), tool: "day".to_owned(), input: arguments.to_owned(), stage })
}

fn done(output: &str, took: Option<Duration>) -> Stage {
    Stage::Done { output: output.to_owned(), files: Vec::new(), took }
}

fn started() -> Value {
    json!({"type": "RUN_STARTED", "threadId": "t", "runId": "r"})
}

fn call_events() -> [Value; 3] {
    [
        json!({"type": "TOOL_CALL_START", "toolCallId": "c", "toolCallName": "day"}),
        json!({"type": "TOOL_CALL_ARGS", "toolCallId": "c", "delta": "{}"}),
        json!({"type": "TOOL_CALL_END", "toolCallId": "c"}),
    ]
}

fn result() -> Value {
    json!({"type": "TOOL_CALL_RESULT", "messageId": "m", "toolCallId": "c", "content": "Sunday"})
}

#[test]
fn each_stage_of_a_call_is_a_piece() {
    let mut watched = Watched::default();
    let [start, arguments, end] = call_events();
    assert_eq!(watched.after(&[started(), start]), [call("", Stage::Receiving)]);
    assert_eq!(watched.after(&[arguments]), [call("{}", Stage::Receiving)]);
    assert_eq!(watched.after(&[end]), [call("{}", Stage::Ready)]);
    assert_eq!(watched.after(&[]), []);
    assert_eq!(watched.after(&[result()]), [call("{}", done("Sunday", None))]);
    assert_eq!(watched.after(&[]), []);
}

#[test]
fn a_call_that_is_too_fast_is_seen_at_every_stage_all_the_same() {
    let mut watched = Watched::default();
    let took = Duration::from_millis(5);
    watched.times.table().insert("c".to_owned(), Some(took));
    let events = [&[started()][..], &call_events(), &[result()]].concat();
    let stages = [Stage::Receiving, Stage::Ready, Stage::Running, done("Sunday", Some(took))];
    assert_eq!(watched.after(&events), stages.map(|stage| call("{}", stage)));
    assert!(watched.times.table().is_empty(), "its time is kept no longer");
}

#[test]
fn a_call_whose_arguments_are_incomplete_was_never_ready() {
    let mut watched = Watched::default();
    let [start, arguments, _] = call_events();
    let finished = json!({"type": "RUN_FINISHED", "threadId": "t", "runId": "r"});
    let error = "incomplete arguments: the run ended before they were complete".to_owned();
    let pieces = [call("{}", Stage::Receiving), call("{}", Stage::Failed { error })];
    assert_eq!(watched.after(&[started(), start, arguments, finished]), pieces);
}

#[test]
fn a_call_that_was_not_allowed_has_failed_whatever_comes_of_it() {
    let mut watched = Watched::default();
    watched.after(&[&[started()][..], &call_events()].concat());
    watched.translator.reject("c");
    assert_eq!(watched.after(&[result()]), [call("{}", Stage::Failed { error: "Sunday".to_owned() })]);
}

#[test]
fn texts_and_thoughts_grow_and_are_shown_once() {
    let mut watched = Watched::default();
    let thinks = |delta: &str| json!({"type": "REASONING_MESSAGE_CONTENT", "messageId": "x", "delta": delta});
    let says = |id: &str, delta: &str| json!({"type": "TEXT_MESSAGE_CONTENT", "messageId": id, "delta": delta});
    let begins = |id: &str| json!({"type": "TEXT_MESSAGE_START", "messageId": id, "role": "assistant"});
    let ends = |id: &str| json!({"type": "TEXT_MESSAGE_END", "messageId": id});
    let thinking = json!({"type": "REASONING_MESSAGE_START", "messageId": "x", "role": "reasoning"});
    assert_eq!(watched.after(&[started(), thinking, thinks("Let me")]), [thought("Let me")]);
    let pieces = [thought(" see."), text("a", "It ")];
    assert_eq!(watched.after(&[thinks(" see."), begins("a"), says("a", "It ")]), pieces);
    let pieces = [text("a", "is."), text("b", "Yes.")];
    assert_eq!(watched.after(&[says("a", "is."), ends("a"), begins("b"), says("b", "Yes."), ends("b")]), pieces);
    // A run that is tried again may tell again what it has told.
    assert_eq!(watched.after(&[started(), begins("b"), says("b", "Ye")]), []);
    assert_eq!(watched.after(&[says("b", "s.")]), []);
    assert_eq!(watched.after(&[says("b", " Sunday.")]), [text("b", " Sunday.")]);
    assert_eq!(watched.after(&[ends("b"), started(), begins("b"), says("b", "No.")]), [text("b again", "No.")]);
}

#[test]
fn what_the_user_says_is_not_shown() {
    let mut watched = Watched::default();
    watched.conversation.say("hello");
    assert_eq!(watched.after(&[started()]), []);
}
