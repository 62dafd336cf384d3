//! The client-tools API: bodies of the endpoints, SSE data, listings.
//!
//! Inputs and metadata stay raw JSON: they are passed on as they came.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_with_macros::skip_serializing_none;

/// What running a tool does to the world, and so whether it may be run again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum Effect {
    /// Changes nothing.
    Read,
    /// Changes something; twice is the same as once.
    Idempotent,
    /// Changes something each time.
    #[default]
    Write,
}

/// A tool, as a client registers it (`id` is the tool's own name) and as it is listed (`id` is `client_{clientID}_{name}`).
#[skip_serializing_none]
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Tool {
    /// The tool's name.
    pub id: String,
    /// What the tool does, for the model.
    #[serde(default, deserialize_with = "or_default")]
    pub description: String,
    /// JSON Schema of the input; absent: any object.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Object>))]
    pub parameters: Option<Box<RawValue>>,
    /// How long a call may take, in milliseconds.
    pub timeout: Option<f64>,
    /// What running it does; absent: `write`.
    pub effect: Option<Effect>,
    /// A version to show and pass on.
    pub version: Option<String>,
}

/// `POST /client-tools/register`.
#[skip_serializing_none]
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RegisterRequest {
    /// The client that runs the tools.
    #[serde(rename = "clientID")]
    pub client_id: String,
    /// Offer the tools in this session only.
    #[serde(rename = "sessionID")]
    pub session_id: Option<String>,
    /// The tools; all of them are registered, or none.
    pub tools: Vec<Tool>,
}

/// The answer to [`RegisterRequest`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Registered {
    /// The full ids of the tools.
    pub registered: Vec<String>,
}

/// `DELETE` or `POST /client-tools/unregister`.
#[skip_serializing_none]
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct UnregisterRequest {
    /// The client whose tools they are.
    #[serde(rename = "clientID")]
    pub client_id: String,
    /// Take the tools out of this session only.
    #[serde(rename = "sessionID")]
    pub session_id: Option<String>,
    /// Names or full ids; absent: all of the client's tools.
    #[serde(rename = "toolIDs")]
    pub tool_ids: Option<Vec<String>>,
}

/// The answer to [`UnregisterRequest`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Unregistered {
    /// Always true.
    pub success: bool,
    /// The full ids of the tools that are gone.
    pub unregistered: Vec<String>,
}

/// `POST /client-tools/disconnect`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DisconnectRequest {
    /// The client whose connection it is.
    #[serde(rename = "clientID")]
    pub client_id: String,
    /// The connection's name, as it was given when it was opened.
    pub connection: String,
}

/// `POST /client-tools/execute`.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ExecuteRequest {
    /// The full id of the tool.
    #[serde(rename = "toolID")]
    pub tool_id: String,
    /// A name for the call; made by the server when absent.
    #[serde(rename = "requestID")]
    pub request_id: Option<String>,
    /// The session that the call belongs to.
    #[serde(rename = "sessionID")]
    pub session_id: Option<String>,
    /// The message that the call belongs to.
    #[serde(rename = "messageID")]
    pub message_id: Option<String>,
    /// The caller's own id of the call.
    #[serde(rename = "callID")]
    pub call_id: Option<String>,
    /// The tool's input, an object that fits its schema; absent: `{}`.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Object>))]
    pub input: Option<Box<RawValue>>,
    /// How long the call may take, in milliseconds.
    pub timeout: Option<f64>,
    /// False: answer 202 at once and let the caller fetch the outcome.
    pub wait: Option<bool>,
}

/// The answer to an [`ExecuteRequest`] with `wait: false`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Accepted {
    /// The call's id; its outcome is at `GET /client-tools/calls/{requestID}`.
    #[serde(rename = "requestID")]
    pub request_id: String,
}

/// What a client sends back for a call, and what the caller gets.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(tag = "status", rename_all = "lowercase", try_from = "Flat")]
pub enum ToolResult {
    /// The tool ran.
    Success(Success),
    /// The tool failed.
    Error {
        /// Why.
        error: String,
    },
}

/// The fields of a successful result.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Success {
    /// A short heading for people.
    #[serde(default, deserialize_with = "or_default")]
    pub title: String,
    /// The output, for the model.
    #[serde(default, deserialize_with = "or_default")]
    pub output: String,
    /// Whatever else the client wants to pass on, an object.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Object>))]
    pub metadata: Option<Box<RawValue>>,
    /// Files that belong to the output.
    pub attachments: Option<Vec<Attachment>>,
}

impl From<String> for Success {
    fn from(output: String) -> Self {
        Self { output, ..Self::default() }
    }
}

impl From<&str> for Success {
    fn from(output: &str) -> Self {
        output.to_owned().into()
    }
}

/// A file that belongs to an output.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Attachment {
    /// Its media type.
    pub mime: String,
    /// Its name.
    pub filename: Option<String>,
    /// Where it is; may be a data URL.
    pub url: String,
}

/// `POST /client-tools/result`, as it is written. Reading also takes the fields of the result beside `requestID`.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ResultRequest {
    /// The call that is answered.
    #[serde(rename = "requestID")]
    pub request_id: String,
    /// The result.
    pub result: ToolResult,
}

/// The answer to a result or a cancel.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Done {
    /// Always true.
    pub success: bool,
    /// True when the same result had been taken before.
    pub ignored: Option<bool>,
}

/// `POST /client-tools/cancel`.
#[skip_serializing_none]
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CancelRequest {
    /// The call to cancel.
    #[serde(rename = "requestID")]
    pub request_id: String,
    /// Why; the client and the caller are told.
    pub reason: Option<String>,
}

/// A call, as a client gets it.
#[skip_serializing_none]
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ToolRequest {
    /// Always `client-tool-request`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The call's id, to answer with.
    #[serde(rename = "requestID")]
    pub request_id: String,
    /// The session that the call belongs to, or "".
    #[serde(rename = "sessionID")]
    pub session_id: String,
    /// The message that the call belongs to, or "".
    #[serde(rename = "messageID")]
    pub message_id: String,
    /// The caller's own id of the call, or "".
    #[serde(rename = "callID")]
    pub call_id: String,
    /// The full id of the tool.
    pub tool: String,
    /// The input; it fits the tool's schema.
    #[cfg_attr(feature = "openapi", schema(value_type = Object))]
    pub input: Box<RawValue>,
    /// When the call expires, RFC 3339.
    #[serde(default)]
    pub deadline: String,
    /// What running the tool does.
    #[serde(default)]
    pub effect: Effect,
    /// Which time this call is offered, from 1.
    #[serde(default = "first")]
    pub attempt: u32,
    /// Said of a call that a frontend runs.
    #[serde(rename = "executionMode")]
    pub execution_mode: Option<ExecutionMode>,
}

/// Who runs a call, where it is not a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum ExecutionMode {
    /// Whatever shows the session: the call is acknowledged.
    Frontend,
}

/// A call that is over for the client, whatever it still does (`event: tool-cancel`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ToolCancel {
    /// The call.
    #[serde(rename = "requestID")]
    pub request_id: String,
    /// Why.
    pub reason: String,
}

/// A row of `GET /client-tools/clients`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Client {
    /// The client's id.
    pub id: String,
    /// How many connections it holds.
    pub connections: usize,
    /// How many tools it has registered.
    pub tools: usize,
    /// How many calls are under way.
    pub calls: usize,
    /// Since when it is known, RFC 3339.
    pub since: String,
}

/// Where a call stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum CallState {
    /// Somebody has to allow it first.
    AwaitingApproval,
    /// Waiting for a connection of its client.
    Queued,
    /// Given to one connection.
    Offered,
    /// Over; see its outcome.
    Done,
}

/// How a call ended.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(tag = "status", rename_all = "lowercase", try_from = "Flat")]
pub enum Outcome {
    /// The tool ran.
    Success(Success),
    /// The tool failed.
    Error {
        /// Why.
        error: String,
    },
    /// The client did not answer in time.
    Timeout {
        /// What happened.
        error: String,
    },
    /// Somebody cancelled the call.
    Cancelled {
        /// What happened.
        error: String,
    },
    /// The call was not allowed.
    Denied {
        /// What happened.
        error: String,
    },
    /// The client went away.
    Disconnected {
        /// What happened.
        error: String,
    },
}

/// How long a call spent in each phase, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Phases {
    /// Waiting for approval.
    pub approval: f64,
    /// Waiting for a connection.
    pub queue: f64,
    /// With the client.
    pub execute: f64,
}

/// A call, as `GET /client-tools/calls` lists it.
#[skip_serializing_none]
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Call {
    /// The call's id.
    #[serde(rename = "requestID")]
    pub request_id: String,
    /// The session that the call belongs to, or "".
    #[serde(rename = "sessionID")]
    pub session_id: String,
    /// The message that the call belongs to, or "".
    #[serde(rename = "messageID")]
    pub message_id: String,
    /// The caller's own id of the call, or "".
    #[serde(rename = "callID")]
    pub call_id: String,
    /// The full id of the tool.
    pub tool: String,
    /// The client that runs it.
    #[serde(rename = "clientID")]
    pub client_id: String,
    /// Said of a call that a frontend runs.
    #[serde(rename = "executionMode")]
    pub execution_mode: Option<ExecutionMode>,
    /// What running the tool does.
    pub effect: Effect,
    /// Where it stands.
    pub state: CallState,
    /// Which time it is offered, from 1.
    pub attempt: u32,
    /// When it was made, RFC 3339.
    pub created: String,
    /// When it expires, RFC 3339; not said while it waits to be allowed, for its time begins then.
    pub deadline: Option<String>,
    /// How long it spent in each phase so far.
    pub times: Phases,
    /// The input; only where one call is asked for.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Object>))]
    pub input: Option<Box<RawValue>>,
    /// How it ended, once it is done.
    pub outcome: Option<Outcome>,
}

/// Every field of a result or an outcome beside its status: raw JSON cannot be read through a tagged enum.
#[derive(Deserialize)]
struct Flat {
    status: String,
    #[serde(default, deserialize_with = "or_default")]
    title: String,
    #[serde(default, deserialize_with = "or_default")]
    output: String,
    #[serde(default)]
    metadata: Option<Box<RawValue>>,
    #[serde(default)]
    attachments: Option<Vec<Attachment>>,
    #[serde(default, deserialize_with = "or_default")]
    error: String,
}

impl From<Flat> for Success {
    fn from(flat: Flat) -> Self {
        Self { title: flat.title, output: flat.output, metadata: flat.metadata, attachments: flat.attachments }
    }
}

impl TryFrom<Flat> for ToolResult {
    type Error = String;

    fn try_from(flat: Flat) -> Result<Self, String> {
        match flat.status.as_str() {
            "success" => Ok(Self::Success(flat.into())),
            "error" => Ok(Self::Error { error: flat.error }),
            other => Err(format!("`status` is \"{other}\"; it must be \"success\" or \"error\"")),
        }
    }
}

impl TryFrom<Flat> for Outcome {
    type Error = String;

    fn try_from(flat: Flat) -> Result<Self, String> {
        match flat.status.as_str() {
            "success" => Ok(Self::Success(flat.into())),
            "error" => Ok(Self::Error { error: flat.error }),
            "timeout" => Ok(Self::Timeout { error: flat.error }),
            "cancelled" => Ok(Self::Cancelled { error: flat.error }),
            "denied" => Ok(Self::Denied { error: flat.error }),
            "disconnected" => Ok(Self::Disconnected { error: flat.error }),
            other => Err(format!("\"{other}\" is not an outcome")),
        }
    }
}

/// Reads a field that may be null as its default.
fn or_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: serde::Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

fn first() -> u32 {
    1
}
