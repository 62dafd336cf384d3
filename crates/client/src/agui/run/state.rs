//! The state of a run.

use handback_wire::agui::Interrupt;

use crate::agui::agent::AgentError;
use crate::agui::conversation::{Conversation, ConversationStatus};

/// The part of a run that watchers see.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct View {
    /// The state.
    pub state: RunState,
    /// The conversation so far.
    pub conversation: Conversation,
}

/// The state of a run. It is [`RunState::Running`] from a request to its end, including all tools and continuations.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub enum RunState {
    /// There was no request yet.
    #[default]
    Idle,
    /// A request is under way.
    Running(Phase),
    /// The agent is done.
    Completed,
    /// The agent waits for answers: see [`Run::resume`](super::Run::resume).
    Interrupted(Vec<Interrupt>),
    /// The request failed: see [`Run::retry`](super::Run::retry).
    Failed(RunError),
    /// Somebody cancelled the request.
    Cancelled,
}

/// The current phase of a running request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Phase {
    /// It waits for the agent, or reads its events.
    Streaming,
    /// It runs tools.
    Executing,
    /// It sends the results to the agent.
    Continuing,
}

impl RunState {
    /// Whether a request is under way, in any phase.
    pub fn is_running(&self) -> bool {
        matches!(self, Self::Running(_))
    }

    /// Whether a message may be sent. An interrupted run needs answers first.
    pub fn can_send(&self) -> bool {
        !matches!(self, Self::Running(_) | Self::Interrupted(_))
    }

    /// Whether a front end should show activity: the same as [`RunState::is_running`].
    pub fn is_streaming(&self) -> bool {
        self.is_running()
    }
}

/// Why a run failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// The agent could not be reached, or the connection to it was lost.
    #[error(transparent)]
    Agent(#[from] AgentError),
    /// The agent reports a failure.
    #[error("{message}")]
    Reported {
        /// The reason.
        message: String,
        /// The reason, for programs.
        code: Option<String>,
    },
    /// The agent still called tools after the last continuation.
    #[error("the depth limit is reached: {limit} continuations, and the agent calls tools again")]
    DepthLimit {
        /// [`RunOptions::depth_limit`](super::RunOptions::depth_limit).
        limit: u32,
    },
}

impl View {
    pub(super) fn fail(&mut self, error: RunError) {
        let why = format!("the tool was not run: {error}");
        self.conversation.stop(ConversationStatus::Failed(error.to_string()), &why);
        self.state = RunState::Failed(error);
    }
}
