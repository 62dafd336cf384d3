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
        /// The full ids of the removed tools.
        #[serde(rename = "toolIDs")]
        tool_ids: Vec<String>,
    },
    /// A call to run.
    Request {
        /// The call.
        request: ToolRequest,
    },
    /// A call that is over, even if the client still runs it.
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
        /// Whether the result is accepted (also true if the same result was accepted before).
        accepted: bool,
        /// True if the same result was accepted before.
        ignored: Option<bool>,
        /// Why the result is not accepted.
        code: Option<ErrorCode>,
    },
    /// Answers `ping`.
    Pong,
    /// A message that is not accepted; the connection stays open.
    Error {
        /// The problem, for people.
        error: String,
        /// The problem, for programs.
        code: ErrorCode,
    },
}

/// All fields of a [`ServerMessage`], because raw JSON cannot be read through a tagged enum.
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
        // An unknown code of a later version is dropped, and the message is still read.
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
    /// The reference that the client sent.
    #[serde(rename = "ref")]
    pub reference: Option<&'a RawValue>,
}

/// Client to server.
#[skip_serializing_none]
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(tag = "type", rename_all = "lowercase")]
#[non_exhaustive]
pub enum ClientMessage<'a> {
    /// Registers all of the tools or none.
    Register {
        /// The tools.
        tools: &'a [Tool],
        /// Offers the tools in this session only.
        #[serde(rename = "sessionID")]
        session_id: Option<&'a str>,
    },
    /// Unregisters tools.
    Unregister {
        /// Names or full ids; absent: all of the client's tools.
        #[serde(rename = "toolIDs")]
        tool_ids: Option<&'a [String]>,
        /// Removes the tools from this session only.
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

/// A [`ClientMessage`] with a `ref` that identifies its answer.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Numbered<'a> {
    /// The message.
    #[serde(flatten)]
    pub message: ClientMessage<'a>,
    /// The reference that the answer repeats.
    #[serde(rename = "ref")]
    pub reference: u64,
}

/// Close codes of the server, and whether to reconnect.
pub mod close {
    /// The server is shutting down; reconnect.
    pub const GOING_AWAY: u16 = 1001;
    /// The client is not allowed, or no longer; do not reconnect with the same credentials.
    pub const POLICY: u16 = 1008;
    /// A message was larger than the limit.
    pub const TOO_BIG: u16 = 1009;
    /// Writes stalled for too long; reconnect.
    pub const TOO_SLOW: u16 = 4008;
    /// A newer connection of the same name superseded this one; do not reconnect.
    pub const SUPERSEDED: u16 = 4009;
}
