//! AG-UI 1.0: the input of a run, and its events.
//!
//! One request is one run: a [`RunAgentInput`] goes out, and a stream of [`Event`]s comes back. The types are those of
//! protocol 1.0; speakers of an earlier version leave out what it does not have (see [`speaks_1_0`]).
//!
//! Optional fields are left out when written, and null counts as absent when read. Unknown fields are ignored. Messages
//! and content parts of an unknown kind are kept unchanged.
//!
//! | module | contents |
//! | --- | --- |
//! | `event` | the 31 types of events |
//! | `input` | the input of a run: tools, context, answers to interrupts |
//! | `message` | the messages of a conversation and their parts |
//! | `outcome` | the end of a run: interrupts, usage |

mod event;
mod input;
mod message;
mod outcome;

pub use event::{Body, Common, EncryptedEntity, Event, ReasoningRole, TextRole, ToolRole};
pub use input::{Context, Resume, ResumeStatus, RunAgentInput, Tool};
pub use message::{CallType, Content, FunctionCall, Labels, Message, Part, Source, ToolCall};
pub use outcome::{Interrupt, Outcome, SubagentOutcome, TokenUsage};

/// The protocol version of these types.
pub const PROTOCOL_VERSION: &str = "1.0";

/// Whether a declared version includes AG-UI 1.0.
pub fn speaks_1_0(declared: Option<&str>) -> bool {
    let major = declared.and_then(|version| version.split('.').next());
    major.and_then(|major| major.trim().parse::<u64>().ok()).is_some_and(|major| major >= 1)
}

#[cfg(test)]
mod tests;
