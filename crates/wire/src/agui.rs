//! AG-UI 1.0: what a front end sends to run an agent, and the events that it gets.
//!
//! One request is one run: a [`RunAgentInput`] goes out, a stream of [`Event`]s comes back. The types are those of
//! protocol 1.0; those who speak an earlier one leave out what it does not know (see [`speaks_1_0`]).
//!
//! Optional fields are left out when they are written, never null; null is taken for absent when they are read. Unknown
//! fields are passed over, and messages and content parts of a kind that is not known are kept as they are.
//!
//! | module | what it has |
//! | --- | --- |
//! | `event` | the 31 types of events |
//! | `input` | what a run is started with: tools, context, answers to interrupts |
//! | `message` | the messages of a conversation and what they are made of |
//! | `outcome` | how a run ends: interrupts, usage |

mod event;
mod input;
mod message;
mod outcome;

pub use event::{Body, Common, EncryptedEntity, Event, ReasoningRole, TextRole, ToolRole};
pub use input::{Context, Resume, ResumeStatus, RunAgentInput, Tool};
pub use message::{CallType, Content, FunctionCall, Labels, Message, Part, Source, ToolCall};
pub use outcome::{Interrupt, Outcome, SubagentOutcome, TokenUsage};

/// The version of the protocol that these types are.
pub const PROTOCOL_VERSION: &str = "1.0";

/// Whether whoever declares this version knows what came with 1.0.
pub fn speaks_1_0(declared: Option<&str>) -> bool {
    let major = declared.and_then(|version| version.split('.').next());
    major.and_then(|major| major.trim().parse::<u64>().ok()).is_some_and(|major| major >= 1)
}

#[cfg(test)]
mod tests;
