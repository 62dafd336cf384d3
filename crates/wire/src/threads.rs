//! Threads and runs of AG-UI, as Soliplex serves them: rooms hold threads, threads hold runs, and a run is executed once.
//!
//! The envelopes are in snake case, and what belongs to AG-UI in them in camel case. What has no value is null here.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// A room: an agent to talk to.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Room {
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// What it is for.
    #[serde(default)]
    pub description: String,
    /// What it greets with.
    #[serde(default)]
    pub welcome_message: String,
    /// What one could say.
    #[serde(default)]
    pub suggestions: Vec<String>,
}

/// The rooms, by id.
pub type Rooms = BTreeMap<String, Room>;

/// The threads of a room.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Threads {
    /// They, the one used last first.
    pub threads: Vec<Thread>,
}

/// A thread to be made.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(default)]
pub struct NewThread {
    /// What it is called.
    pub metadata: Option<ThreadMetadata>,
}

/// What a thread is called.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(default)]
pub struct ThreadMetadata {
    /// Its name.
    pub name: Option<String>,
    /// What it is about.
    pub description: Option<String>,
}

/// A thread.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Thread {
    /// Its room.
    pub room_id: String,
    /// Its id.
    pub thread_id: String,
    /// When it was made (RFC 3339).
    pub created: String,
    /// What it is called.
    pub metadata: Option<ThreadMetadata>,
    /// Its runs by id, without their events; null in a list of threads.
    pub runs: Option<BTreeMap<String, Run>>,
}

/// A run to be made.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(default)]
pub struct NewRun {
    /// The run that it goes on from.
    pub parent_run_id: Option<String>,
    /// What it is called.
    pub metadata: Option<RunMetadata>,
}

/// What a run is called.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(default)]
pub struct RunMetadata {
    /// Its name.
    pub label: Option<String>,
}

/// A run.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Run {
    /// Its id.
    pub run_id: String,
    /// Its thread.
    pub thread_id: String,
    /// The run that it goes on from.
    pub parent_run_id: Option<String>,
    /// When it was made (RFC 3339).
    pub created: String,
    /// When it was over (RFC 3339).
    pub finished: Option<String>,
    /// What it was started with: a [`RunAgentInput`](crate::agui::RunAgentInput). Null where runs are listed.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Object>))]
    pub run_input: Option<Box<RawValue>>,
    /// Its events so far: [`Event`](crate::agui::Event)s. Null where runs are listed.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Vec<Object>>))]
    pub events: Option<Vec<Box<RawValue>>>,
    /// What it is called.
    pub metadata: Option<RunMetadata>,
    /// What it cost, once it is over.
    pub usage: Option<RunUsage>,
}

/// What a run cost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RunUsage {
    /// Tokens read.
    pub input_tokens: u64,
    /// Tokens written.
    pub output_tokens: u64,
    /// Requests to the model.
    pub requests: u64,
    /// Calls of tools.
    pub tool_calls: u64,
}

/// An error of this API.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Detail {
    /// What went wrong, for people.
    pub detail: String,
}
