//! A run of a thread, as front ends that come back want to see it. Pure data; its serde form is what stores keep.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::clock::Time;
use crate::id::{RunId, SessionId};

/// A run of a thread: started once, with what it told.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ThreadRun {
    /// Its id.
    pub id: RunId,
    /// The session that is its thread.
    pub session: SessionId,
    /// The run that it goes on from.
    pub parent: Option<RunId>,
    /// When it was made.
    pub created: Time,
    /// When it was started; it is started once.
    pub started: Option<Time>,
    /// When it was over.
    pub finished: Option<Time>,
    /// A heading for people.
    pub label: Option<String>,
    /// What it was started with, an object, as the front end sent it.
    pub input: Option<Box<RawValue>>,
    /// What it took, once it is over.
    pub usage: Option<RunUsage>,
}

impl ThreadRun {
    /// The same without what it was started with.
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

    /// Whether it was started and is not over.
    pub fn is_unfinished(&self) -> bool {
        self.started.is_some() && self.finished.is_none()
    }
}

/// What a run took.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunUsage {
    /// Tokens that models were given.
    pub input_tokens: u64,
    /// Tokens that models gave.
    pub output_tokens: u64,
    /// How often a model was asked.
    pub requests: u64,
    /// How many tools were called.
    pub tool_calls: u64,
}
