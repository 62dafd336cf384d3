//! What a turn tells.

use handback_wire::session::{MessageWithParts, Part, Tokens};

use super::ask::Ask;

/// What happens in a turn.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum TurnEvent {
    /// More of an answer.
    Text {
        /// The part that has grown: its pieces, joined, are its text.
        part: String,
        /// What was added.
        text: String,
    },
    /// More of what the model thinks before it answers.
    Reasoning {
        /// The part that has grown: its pieces, joined, are its text.
        part: String,
        /// What was added.
        text: String,
    },
    /// A call has come further: its `state.status` is `pending`, `running`, then `completed` or `error`, each told once;
    /// the earlier ones may be left out. While it is pending, `tool` may be the name that the model knows it by.
    Tool(Box<Part>),
    /// A call waits until somebody allows it.
    Ask(Box<Ask>),
    /// An ask is over: it was answered, here or elsewhere, or its time was over.
    AskClosed {
        /// The id of its permission.
        id: String,
    },
    /// The connection is lost; it is tried again. Nothing has to be done about it.
    Disconnected {
        /// Why.
        reason: String,
    },
    /// The connection is there again, and what was missed follows.
    Reconnected,
    /// The turn is over; always the last.
    Done {
        /// The last message of the answer. If the turn ended early, its `info.error` says why.
        message: Box<MessageWithParts>,
        /// What the whole turn cost.
        tokens: Tokens,
    },
}
