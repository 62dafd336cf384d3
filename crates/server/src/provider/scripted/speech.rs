//! An answer or calls as a stream: in pieces, as other models send them, but never in many.

use std::borrow::Cow;

use handback_core::sessions::ModelEvent;
use handback_core::store::{StopReason, TurnError, Usage};

/// What a stream is made of.
pub(super) type Events = Vec<Result<ModelEvent, TurnError>>;

/// A call to make.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Call<'a> {
    /// What the model calls the tool.
    pub(super) name: &'a str,
    /// The arguments as they are written.
    pub(super) arguments: Cow<'a, str>,
}

/// Text comes word by word while it is short; in at most about so many pieces when it is long.
const TEXT_PIECES: usize = 200;
/// A call's arguments come in at most so many pieces,
const ARGUMENT_PIECES: usize = 4;
/// none shorter than this, but for the last.
const SHORTEST_ARGUMENT_PIECE: usize = 8;

/// An answer in words, which took so many bytes of reading.
pub(super) fn text(text: &str, read: usize) -> Events {
    let mut events = Events::new();
    say(text, &mut events);
    end(read, text.len(), StopReason::Stop, &mut events);
    events
}

/// Calls of one step, after a note if there is something to say.
pub(super) fn calls(step: usize, calls: &[Call<'_>], note: &str, read: usize) -> Events {
    let mut events = Events::with_capacity(calls.len() * (2 + ARGUMENT_PIECES) + 2);
    say(note, &mut events);
    let mut written = note.len();
    for (index, call) in calls.iter().enumerate() {
        let id = format!("scripted_{step}_{}", index + 1);
        events.push(Ok(ModelEvent::CallStarted { index, id, name: call.name.to_owned() }));
        let length = call.arguments.len().div_ceil(ARGUMENT_PIECES).max(SHORTEST_ARGUMENT_PIECE);
        let mut rest: &str = &call.arguments;
        while !rest.is_empty() {
            let (piece, after) = rest.split_at(rest.ceil_char_boundary(length));
            events.push(Ok(ModelEvent::Arguments { index, delta: piece.to_owned() }));
            rest = after;
        }
        events.push(Ok(ModelEvent::CallEnded { index, kept: None }));
        written += call.name.len() + call.arguments.len();
    }
    end(read, written, StopReason::ToolCalls, &mut events);
    events
}

fn say(text: &str, events: &mut Events) {
    let shortest = text.len().div_ceil(TEXT_PIECES);
    let mut piece = String::new();
    for word in text.split_inclusive(char::is_whitespace) {
        piece.push_str(word);
        if piece.len() >= shortest {
            events.push(Ok(ModelEvent::Text(std::mem::take(&mut piece))));
        }
    }
    if !piece.is_empty() {
        events.push(Ok(ModelEvent::Text(piece)));
    }
}

fn end(read: usize, written: usize, reason: StopReason, events: &mut Events) {
    // Four bytes a token is what tokenizers make of English.
    let tokens = |bytes: usize| bytes.div_ceil(4) as u64;
    events.push(Ok(ModelEvent::Usage(Usage { input: tokens(read), output: tokens(written), ..Usage::default() })));
    events.push(Ok(ModelEvent::Stop(reason)));
}
