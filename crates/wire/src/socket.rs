//! The messages of the client-tools WebSocket, as the server writes them and clients read them.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_with_macros::skip_serializing_none;

use crate::client_tools::{Tool, ToolRequest, ToolResult};
use crate::error::ErrorCode;

/// Server to client, without the `ref` that an answer echoes.
#[skip_serializing_none]
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase", try_from = "Flat")]
#[non_exhaustive]
pub enum ServerMessage {
    /// Answers `register`.
    Registered {
        /// The full ids of the tools.
        #[serde(rename = "toolIDs")]
        tool_ids: Vec<String>,
    },
    /// Answers `unregister`.
    Unregistered {
        /// The full ids of the tools that are gone.
        #[serde(rename = "toolIDs")]
        tool_ids: Vec<String>,
    },
    /// A call to run.
    Request {
        /// The call.
        request: ToolRequest,
    },
    /// A call that is over, whatever the client still does.
    Cancel {
        /// The call.
        #[serde(rename = "requestID")]
        request_id: String,
        /// Why.
        reason: String,
    },
    /// Answers `result`.
    Result {
        /// The call.
        #[serde(rename = "requestID")]
        request_id: String,
        /// Whether the result counts (also true when the same one was taken before).
        accepted: bool,
        /// True when the same result had been taken before.
        ignored: Option<bool>,
        /// Why it does not count.
        code: Option<ErrorCode>,
    },
    /// Answers `ping`.
    Pong,
    /// A message that could not be taken; the connection stays.
    Error {
        /// What was wrong, for people.
        error: String,
        /// What was wrong, for programs.
        code: ErrorCode,
    },
}

/// Every field of a [`ServerMessage`]: raw JSON cannot be read through a tagged enum.
#[derive(Deserialize)]
struct Flat {
    #[serde(rename = "type")]
    kind: String,
    #[serde(rename = "toolIDs", default)]
    tool_ids: Vec<String>,
    #[serde(rename = "requestID", default)]
    request_id: String,
    request: Option<ToolRequest>,
    #[serde(default)]
    reason: String,
    #[serde(default)]
    accepted: bool,
    ignored: Option<bool>,
    code: Option<String>,
    #[serde(default)]
    error: String,
}

impl TryFrom<Flat> for ServerMessage {
    type Error = String;

    fn try_from(flat: Flat) -> Result<Self, String> {
        let Flat { tool_ids, request_id, reason, accepted, ignored, error, .. } = flat;
        // One of a later version says nothing here, but is no reason not to read the message.
        let code = flat.code.and_then(|code| serde_json::from_value(code.into()).ok());
        Ok(match flat.kind.as_str() {
            "registered" => Self::Registered { tool_ids },
            "unregistered" => Self::Unregistered { tool_ids },
            "request" => Self::Request { request: flat.request.ok_or("a request without `request`")? },
            "cancel" => Self::Cancel { request_id, reason },
            "result" => Self::Result { request_id, accepted, ignored, code },
            "pong" => Self::Pong,
            "error" => Self::Error { error, code: code.unwrap_or(ErrorCode::InternalError) },
            other => return Err(format!("\"{other}\" is not a message of this protocol")),
        })
    }
}

/// A [`ServerMessage`] with the `ref` of the message that it answers.
#[skip_serializing_none]
#[derive(Debug, Clone, Serialize)]
pub struct Answer<'a> {
    /// The message.
    #[serde(flatten)]
    pub message: ServerMessage,
    /// What the client had put there.
    #[serde(rename = "ref")]
    pub reference: Option<&'a RawValue>,
}

/// Client to server.
#[skip_serializing_none]
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(tag = "type", rename_all = "lowercase")]
#[non_exhaustive]
pub enum ClientMessage<'a> {
    /// Registers tools; all of them or none.
    Register {
        /// The tools.
        tools: &'a [Tool],
        /// Offer them in this session only.
        #[serde(rename = "sessionID")]
        session_id: Option<&'a str>,
    },
    /// Takes tools back.
    Unregister {
        /// Names or full ids; absent: all of the client's tools.
        #[serde(rename = "toolIDs")]
        tool_ids: Option<&'a [String]>,
        /// Take them out of this session only.
        #[serde(rename = "sessionID")]
        session_id: Option<&'a str>,
    },
    /// Answers a call.
    Result {
        /// The call.
        #[serde(rename = "requestID")]
        request_id: &'a str,
        /// The result.
        result: &'a ToolResult,
    },
}

/// A [`ClientMessage`] with a `ref` by which its answer is known.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Numbered<'a> {
    /// The message.
    #[serde(flatten)]
    pub message: ClientMessage<'a>,
    /// The answer has the same.
    #[serde(rename = "ref")]
    pub reference: u64,
}

/// Why the server closed a WebSocket, and whether to come back.
pub mod close {
    /// The server goes away; come back.
    pub const GOING_AWAY: u16 = 1001;
    /// Not allowed (any more); do not come back with the same credentials.
    pub const POLICY: u16 = 1008;
    /// A message was larger than the limit.
    pub const TOO_BIG: u16 = 1009;
    /// Nothing could be written for too long; come back.
    pub const TOO_SLOW: u16 = 4008;
    /// A newer connection of the same name took over; do not come back.
    pub const SUPERSEDED: u16 = 4009;
}
