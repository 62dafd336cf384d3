//! A front end of AG-UI: runs of any agent that speaks it, with tools that run here.
//!
//! | module | responsibility |
//! | --- | --- |
//! | `registry` | the tools that the front end runs |
//! | `conversation` | the conversation, as a front end shows it |
//! | `processor` | applies events to a conversation |
//! | `mapper` | a conversation as the messages of a request |
//! | `agent` | agents, which execute runs: at one URL, or with threads and runs |
//! | `run` | a run with the tools that it calls and the runs that continue it |
//! | `runs` | many runs at once |
//!
//! A conversation with a tool that the agent may call:
//!
//! ```no_run
#![doc = include_str!("../examples/first_run.rs")]
//! ```

mod agent;
mod conversation;
mod mapper;
mod processor;
mod registry;
mod run;
mod runs;

pub(crate) use agent::decode;
pub use agent::{Agent, AgentError, EventStream, HttpAgent, Incoming, OneUrl, Room, ServerAgent, ThreadAgent};
pub use conversation::{
    Activity, Conversation, ConversationStatus, Item, Role, Text, ToolCall, ToolCallGroup, ToolCallStatus, Usage,
};
pub use handback_wire::agui as wire;
pub use mapper::messages;
pub use processor::process;
pub use registry::{ClientTool, ToolContext, ToolRegistry, UnknownTool};
pub use run::{Phase, Run, RunError, RunHandle, RunOptions, RunRequest, RunRequestError, RunState, View};
pub use runs::{Ending, Lifecycle, RunKey, RunRegistry, StartError};

/// A new random id.
fn new_id(kind: &str) -> String {
    format!("{kind}_{:032x}", fastrand::u128(..))
}

/// The arguments of a call, or an empty object if it has none.
fn arguments_or_empty(arguments: &str) -> &str {
    if arguments.trim().is_empty() { "{}" } else { arguments }
}
