//! What `GET /event` streams: `{"type": …, "properties": …}`.

use serde::{Deserialize, Serialize};

use crate::client_tools::ToolRequest;

/// One event.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(tag = "type", content = "properties")]
pub enum Event {
    /// The stream is open; always the first.
    #[serde(rename = "server.connected")]
    Connected {},
    /// A call was made.
    #[serde(rename = "client-tool.request")]
    Request {
        /// The client that is to run it.
        #[serde(rename = "clientID")]
        client_id: String,
        /// The call.
        request: ToolRequest,
    },
    /// Tools were registered.
    #[serde(rename = "client-tool.registered")]
    Registered(ToolsChanged),
    /// Tools are gone.
    #[serde(rename = "client-tool.unregistered")]
    Unregistered(ToolsChanged),
    /// A call is on its way to its client.
    #[serde(rename = "client-tool.executing")]
    Executing(CallRef),
    /// A call succeeded.
    #[serde(rename = "client-tool.completed")]
    Completed {
        /// The call.
        #[serde(flatten)]
        call: CallRef,
        /// Always true.
        success: bool,
    },
    /// A call ended in any other way.
    #[serde(rename = "client-tool.failed")]
    Failed {
        /// The call.
        #[serde(flatten)]
        call: CallRef,
        /// What happened.
        error: String,
    },
}

/// Tools of one client that came or went.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ToolsChanged {
    /// The client.
    #[serde(rename = "clientID")]
    pub client_id: String,
    /// The full ids of the tools.
    #[serde(rename = "toolIDs")]
    pub tool_ids: Vec<String>,
}

/// Which call an event is about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CallRef {
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
}
