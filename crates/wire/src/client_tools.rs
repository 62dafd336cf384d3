//! The client-tools API: bodies of the endpoints, SSE data, listings.
//!
//! Inputs and metadata stay raw JSON and are passed on unchanged.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_with_macros::skip_serializing_none;

/// Whether a tool changes something, and so whether a call may be run again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum Effect {
    /// Changes nothing.
    Read,
    /// Changes something; running it twice has the same effect as once.
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
    /// Whether it changes something; absent: `write`.
    pub effect: Option<Effect>,
    /// A version for people and programs to read.
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
    /// Offers the tools in this session only.
    #[serde(rename = "sessionID")]
    pub session_id: Option<String>,
    /// The tools; either all or none are registered.
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
    /// The client that owns the tools.
    #[serde(rename = "clientID")]
    pub client_id: String,
    /// Removes the tools from this session only.
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
    /// The full ids of the removed tools.
    pub unregistered: Vec<String>,
}

/// `POST /client-tools/disconnect`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DisconnectRequest {
    /// The client of the connection.
    #[serde(rename = "clientID")]
    pub client_id: String,
    /// The name that the connection was opened with.
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
    /// The call's id, created by the server when absent. It makes the call safe to repeat: the same id with the same tool and
    /// input is the same call, and gets its outcome.
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
    /// The tool's input, an object that matches its schema; absent: `{}`.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Object>))]
    pub input: Option<Box<RawValue>>,
    /// How long the call may take, in milliseconds.
    pub timeout: Option<f64>,
    /// False answers 202 at once; the caller fetches the outcome later.
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

/// A client's result of a call, which the caller receives.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(tag = "status", rename_all = "lowercase", try_from = "Flat")]
pub enum ToolResult {
    /// The tool ran.
    Success(Success),
    /// The tool failed.
    Error {
        /// The reason.
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
    /// More data of the client, an object.
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
    /// Its URL; may be a data URL.
    pub url: String,
}

/// `POST /client-tools/result`, as it is written. Reading also accepts the fields of the result beside `requestID`.
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
    /// True if the same result was accepted before.
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
    /// The reason, for the client and the caller.
    pub reason: Option<String>,
}

/// A call, as its client receives it.
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
    /// The input, which matches the tool's schema.
    #[cfg_attr(feature = "openapi", schema(value_type = Object))]
    pub input: Box<RawValue>,
    /// When the call expires, RFC 3339.
    #[serde(default)]
    pub deadline: String,
    /// Whether the tool changes something.
    #[serde(default)]
    pub effect: Effect,
    /// The number of this offer, from 1.
    #[serde(default = "first")]
    pub attempt: u32,
    /// Present if a frontend runs the call.
    #[serde(rename = "executionMode")]
    pub execution_mode: Option<ExecutionMode>,
}

/// Who runs a call, if not a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum ExecutionMode {
    /// The frontend that shows the session, which acknowledges the call.
    Frontend,
}

/// A call that is over for the client, even if it still runs (`event: tool-cancel`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ToolCancel {
    /// The call.
    #[serde(rename = "requestID")]
    pub request_id: String,
    /// The reason.
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
    /// When it was first seen, RFC 3339.
    pub since: String,
}

/// The state of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum CallState {
    /// The call waits until somebody allows it.
    AwaitingApproval,
    /// The call waits for a connection of its client.
    Queued,
    /// The call is given to one connection.
    Offered,
    /// The call is over; see its outcome.
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
        /// The reason.
        error: String,
    },
    /// The client did not answer in time.
    Timeout {
        /// The reason.
        error: String,
    },
    /// Somebody cancelled the call.
    Cancelled {
        /// The reason.
        error: String,
    },
    /// The call was not allowed.
    Denied {
        /// The reason.
        error: String,
    },
    /// The client went away.
    Disconnected {
        /// The reason.
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
    /// Present if a frontend runs the call.
    #[serde(rename = "executionMode")]
    pub execution_mode: Option<ExecutionMode>,
    /// Whether the tool changes something.
    pub effect: Effect,
    /// Its state.
    pub state: CallState,
    /// The number of the latest offer, from 1.
    pub attempt: u32,
    /// When it was created, RFC 3339.
    pub created: String,
    /// When it expires, RFC 3339; absent while the call waits for approval, because its time begins after that.
    pub deadline: Option<String>,
    /// How long it spent in each phase so far.
    pub times: Phases,
    /// The input; only in the answer about one call.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Object>))]
    pub input: Option<Box<RawValue>>,
    /// How it ended, once it is done.
    pub outcome: Option<Outcome>,
    /// Whether the tool may have run, once the call has ended without a result.
    #[serde(rename = "mayHaveRun")]
    pub may_have_run: Option<bool>,
    /// The first result that came too late; only in the answer about one call.
    #[serde(rename = "lateResult")]
    pub late_result: Option<Outcome>,
}

/// All fields of a result or an outcome besides its status, because raw JSON cannot be read through a tagged enum.
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

/// Reads a field, or null as the default.
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
