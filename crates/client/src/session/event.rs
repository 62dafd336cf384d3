//! The events of a turn.

use handback_wire::session::{MessageWithParts, Part, Tokens};

use super::ask::Ask;

/// An event of a turn.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum TurnEvent {
    /// More of an answer.
    Text {
        /// The part that has grown: the pieces of a part, joined, are its text.
        part: String,
        /// What was added.
        text: String,
    },
    /// More reasoning of the model before its answer.
    Reasoning {
        /// The part that has grown: the pieces of a part, joined, are its text.
        part: String,
        /// What was added.
        text: String,
    },
    /// A call has moved on: its `state.status` is `pending`, `running`, then `completed` or `error`. Each comes once,
    /// and earlier ones may be left out. While the call is pending, `tool` may be the name that the model uses.
    Tool(Box<Part>),
    /// A call waits until somebody allows it.
    Ask(Box<Ask>),
    /// An ask is closed: somebody answered it, or it expired.
    AskClosed {
        /// The id of its permission.
        id: String,
    },
    /// The connection is lost, and is opened again.
    Disconnected {
        /// Why.
        reason: String,
    },
    /// The connection is open again, and what was missed follows.
    Reconnected,
    /// The turn is over; always the last event.
    Done {
        /// The last message of the answer. If the turn ended early, its `info.error` says why.
        message: Box<MessageWithParts>,
        /// The tokens that the whole turn took.
        tokens: Tokens,
    },
}
