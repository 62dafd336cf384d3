//! Where a run stands.

use handback_wire::agui::Interrupt;

use crate::agui::agent::AgentError;
use crate::agui::conversation::{Conversation, Status};

/// What is seen of a run: where it stands, and the conversation so far.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct View {
    /// Where it stands.
    pub state: RunState,
    /// What was said and done.
    pub conversation: Conversation,
}

/// Where a run stands. From the moment when it is asked for until it has come to its end it is [`RunState::Running`],
/// however many requests, tools and continuations there are in between.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub enum RunState {
    /// Nothing was asked for yet.
    #[default]
    Idle,
    /// It goes on.
    Running(Phase),
    /// It is done.
    Completed,
    /// The agent must know something before it goes on: see [`Run::resume`](super::Run::resume).
    Interrupted(Vec<Interrupt>),
    /// It failed, and can be tried again: see [`Run::retry`](super::Run::retry).
    Failed(RunError),
    /// Somebody stopped it.
    Cancelled,
}

/// What a run does right now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Phase {
    /// It was asked for, and its events come.
    Streaming,
    /// Tools are run here.
    Executing,
    /// Their results are on the way to the agent.
    Continuing,
}

impl RunState {
    /// Whether it goes on, in whatever phase.
    pub fn is_running(&self) -> bool {
        matches!(self, Self::Running(_))
    }

    /// Whether something may be said. An interrupted run wants answers.
    pub fn can_send(&self) -> bool {
        !matches!(self, Self::Running(_) | Self::Interrupted(_))
    }

    /// Whether a front end should show that something is going on: from the first request to the last event.
    pub fn is_streaming(&self) -> bool {
        self.is_running()
    }
}

/// Why a run failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// The agent could not be asked, or was lost.
    #[error(transparent)]
    Agent(#[from] AgentError),
    /// The agent says that the run failed.
    #[error("{message}")]
    Reported {
        /// Why.
        message: String,
        /// Why, for programs.
        code: Option<String>,
    },
    /// The agent called tools again and again.
    #[error("the depth limit is reached: {limit} continuations, and the agent calls tools again")]
    DepthLimit {
        /// How many continuations there may be.
        limit: u32,
    },
}

impl View {
    pub(super) fn fail(&mut self, error: RunError) {
        let why = format!("the tool was not run: {error}");
        self.conversation.stop(Status::Failed(error.to_string()), &why);
        self.state = RunState::Failed(error);
    }
}
