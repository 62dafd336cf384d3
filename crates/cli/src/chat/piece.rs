//! What is shown of an answer, piece by piece.

use std::time::Duration;

use super::paint::Ink;

/// Something to show.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Piece {
    /// More of an answer.
    Text { part: String, text: String },
    /// More of what the model thinks before it answers.
    Thought { part: String, text: String },
    /// A call, which is new, or further than before.
    Call(Call),
    /// Something to know about the answer, on a line of its own.
    Note(Ink, String),
}

/// A call of a tool, and how far it is.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Call {
    pub(super) id: String,
    pub(super) tool: String,
    /// The input as JSON, as far as it has come.
    pub(super) input: String,
    pub(super) stage: Stage,
}

/// How far a call is.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Stage {
    /// Its input comes in.
    Receiving,
    /// Its input is complete.
    Ready,
    Running,
    /// It is done: what the tool gave, the files that came with that, and how long it took if that is known.
    Done {
        output: String,
        files: Vec<String>,
        took: Option<Duration>,
    },
    /// It failed, or was not made at all.
    Failed {
        error: String,
    },
}

impl Stage {
    /// Whether the call is over.
    pub(super) fn is_over(&self) -> bool {
        matches!(self, Self::Done { .. } | Self::Failed { .. })
    }
}
