//! The pieces of an answer, as they are shown.

use std::time::Duration;

use super::paint::Ink;

/// Something to show.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Piece {
    /// More of an answer.
    Text { part: String, text: String },
    /// More of a thought of the model.
    Thought { part: String, text: String },
    /// A call that is new or at another stage.
    Call(Call),
    /// A note about the answer, on a line of its own.
    Note(Ink, String),
}

/// A call of a tool, and its stage.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Call {
    pub(super) id: String,
    pub(super) tool: String,
    /// The input as JSON, as far as it has come.
    pub(super) input: String,
    pub(super) stage: Stage,
}

/// The stage of a call.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Stage {
    /// Its input comes in.
    Receiving,
    /// Its input is complete.
    Ready,
    Running,
    /// The call is done; `took` is `None` if nobody measured it.
    Done {
        output: String,
        files: Vec<String>,
        took: Option<Duration>,
    },
    /// The call failed, or was not made at all.
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
