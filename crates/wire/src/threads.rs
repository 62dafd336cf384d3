//! Threads and runs of AG-UI, in the form of Soliplex: rooms have threads, threads have runs, and a run runs once.
//!
//! Envelopes are in snake case, and values of AG-UI in camel case. Missing values are null here.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_with_macros::skip_serializing_none;

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
    /// Its greeting.
    #[serde(default)]
    pub welcome_message: String,
    /// Suggestions for the first message.
    #[serde(default)]
    pub suggestions: Vec<String>,
}

/// The rooms, by id.
pub type Rooms = BTreeMap<String, Room>;

/// The threads of a room.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Threads {
    /// The threads, most recently used first.
    pub threads: Vec<Thread>,
}

/// A request for a new thread.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(default)]
pub struct NewThread {
    /// Its name and description.
    pub metadata: Option<ThreadMetadata>,
}

/// The name and description of a thread.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(default)]
pub struct ThreadMetadata {
    /// Its name.
    pub name: Option<String>,
    /// Its description.
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
    /// When it was created (RFC 3339).
    pub created: String,
    /// Its name and description.
    pub metadata: Option<ThreadMetadata>,
    /// Its runs by id, without their events; null in a list of threads.
    pub runs: Option<BTreeMap<String, Run>>,
}

/// A request for a new run.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(default)]
pub struct NewRun {
    /// The run that it continues.
    pub parent_run_id: Option<String>,
    /// Its label.
    pub metadata: Option<RunMetadata>,
}

/// The label of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(default)]
pub struct RunMetadata {
    /// Its label.
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
    /// The run that it continues.
    pub parent_run_id: Option<String>,
    /// When it was created (RFC 3339).
    pub created: String,
    /// When it ended (RFC 3339).
    pub finished: Option<String>,
    /// Its input: a [`RunAgentInput`](crate::agui::RunAgentInput). Null in listings.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Object>))]
    pub run_input: Option<Box<RawValue>>,
    /// Its events so far: [`Event`](crate::agui::Event)s. Null in listings.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Vec<Object>>))]
    pub events: Option<Vec<Box<RawValue>>>,
    /// Its label.
    pub metadata: Option<RunMetadata>,
    /// Its usage, once it has ended.
    pub usage: Option<RunUsage>,
}

/// The usage of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RunUsage {
    /// Tokens read.
    pub input_tokens: u64,
    /// Tokens written.
    pub output_tokens: u64,
    /// Requests to the model.
    pub requests: u64,
    /// Tool calls.
    pub tool_calls: u64,
}

/// An error of this API.
#[skip_serializing_none]
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Detail {
    /// The problem, for people.
    pub detail: String,
    /// The id of the HTTP request, as in the header `x-request-id` and in the server's log.
    pub request: Option<String>,
}
