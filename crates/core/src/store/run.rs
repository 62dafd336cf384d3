//! A run of a thread, for front ends that come back. Pure data; stores keep its serde form.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::clock::Time;
use crate::id::{RunId, SessionId};

/// A run of a thread, without its events.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ThreadRun {
    /// The run's id.
    pub id: RunId,
    /// The session that is its thread.
    pub session: SessionId,
    /// The run that this one continues.
    pub parent: Option<RunId>,
    /// When the run was created.
    pub created: Time,
    /// When the run was started. A run is started once.
    pub started: Option<Time>,
    /// When the run was over.
    pub finished: Option<Time>,
    /// A title for people.
    pub label: Option<String>,
    /// The front end's input as it was sent, an object.
    pub input: Option<Box<RawValue>>,
    /// What the run used, once it is over.
    pub usage: Option<RunUsage>,
}

impl ThreadRun {
    /// A copy of the run without its input.
    pub fn without_input(&self) -> Self {
        let Self { id, session, parent, created, started, finished, label, input: _, usage } = self;
        Self {
            id: id.clone(),
            session: session.clone(),
            parent: parent.clone(),
            created: *created,
            started: *started,
            finished: *finished,
            label: label.clone(),
            input: None,
            usage: *usage,
        }
    }

    /// Whether the run was started and is not over.
    pub fn is_unfinished(&self) -> bool {
        self.started.is_some() && self.finished.is_none()
    }
}

/// What a run used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunUsage {
    /// Tokens that models read.
    pub input_tokens: u64,
    /// Tokens that models wrote.
    pub output_tokens: u64,
    /// The number of requests to models.
    pub requests: u64,
    /// The number of tool calls.
    pub tool_calls: u64,
}
