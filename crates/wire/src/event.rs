//! The events of `GET /event`: `{"type": …, "properties": …}`.

use serde::{Deserialize, Serialize};
use serde_with_macros::skip_serializing_none;

use crate::client_tools::ToolRequest;
use crate::session::{Message, Part, Permission, Reply, Session, Status, TurnError};

/// One event.
#[skip_serializing_none]
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(tag = "type", content = "properties")]
pub enum Event {
    /// The stream is open; always the first event.
    #[serde(rename = "server.connected")]
    Connected {},
    /// A call was made.
    #[serde(rename = "client-tool.request")]
    Request {
        /// The client that runs it.
        #[serde(rename = "clientID")]
        client_id: String,
        /// The call.
        request: ToolRequest,
    },
    /// Tools were registered.
    #[serde(rename = "client-tool.registered")]
    Registered(ToolsChanged),
    /// Tools were removed.
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
        /// The reason.
        error: String,
        /// Whether the tool may have run, if it gave no result.
        #[serde(rename = "mayHaveRun")]
        may_have_run: Option<bool>,
    },
    /// A result of a call came too late, and is kept.
    #[serde(rename = "client-tool.late")]
    Late {
        /// The call's id.
        #[serde(rename = "requestID")]
        request_id: String,
        /// The call.
        #[serde(flatten)]
        call: CallRef,
        /// How the call had ended.
        error: String,
        /// Whether the tool may have run: always true.
        #[serde(rename = "mayHaveRun")]
        may_have_run: Option<bool>,
    },
    /// A session was created.
    #[serde(rename = "session.created")]
    SessionCreated(SessionInfo),
    /// Something about a session changed.
    #[serde(rename = "session.updated")]
    SessionUpdated(SessionInfo),
    /// A session was deleted.
    #[serde(rename = "session.deleted")]
    SessionDeleted(SessionInfo),
    /// A turn began, or all turns are over.
    #[serde(rename = "session.status")]
    SessionStatus {
        /// The session.
        #[serde(rename = "sessionID")]
        session_id: String,
        /// The current status.
        status: Status,
    },
    /// All turns of a session are over.
    #[serde(rename = "session.idle")]
    SessionIdle {
        /// The session.
        #[serde(rename = "sessionID")]
        session_id: String,
    },
    /// A turn ended early.
    #[serde(rename = "session.error")]
    SessionError {
        /// The session.
        #[serde(rename = "sessionID")]
        session_id: String,
        /// The reason.
        error: TurnError,
    },
    /// A message was created or changed.
    #[serde(rename = "message.updated")]
    MessageUpdated {
        /// The session.
        #[serde(rename = "sessionID")]
        session_id: String,
        /// The message.
        info: Message,
    },
    /// A part was created or changed.
    #[serde(rename = "message.part.updated")]
    PartUpdated {
        /// The session.
        #[serde(rename = "sessionID")]
        session_id: String,
        /// The current part.
        part: Part,
        /// The text that was added since the last event of this type.
        delta: Option<String>,
    },
    /// A part was removed, because its provider began the answer again.
    #[serde(rename = "message.part.removed")]
    PartRemoved {
        /// The session.
        #[serde(rename = "sessionID")]
        session_id: String,
        /// The message that it belonged to.
        #[serde(rename = "messageID")]
        message_id: String,
        /// The part.
        #[serde(rename = "partID")]
        part_id: String,
    },
    /// The text of a part has grown. `message.part.updated` has it too, but is not sent for every piece of a long text.
    #[serde(rename = "message.part.delta")]
    PartDelta {
        /// The session.
        #[serde(rename = "sessionID")]
        session_id: String,
        /// The message.
        #[serde(rename = "messageID")]
        message_id: String,
        /// The part.
        #[serde(rename = "partID")]
        part_id: String,
        /// The field that has grown; always `text`.
        field: String,
        /// The text that was added.
        delta: String,
    },
    /// A call waits until somebody allows it.
    #[serde(rename = "permission.updated")]
    PermissionUpdated(Permission),
    /// A call waits until somebody allows it, for newer clients.
    #[serde(rename = "permission.asked")]
    PermissionAsked(Permission),
    /// An ask was answered or has expired.
    #[serde(rename = "permission.replied")]
    PermissionReplied {
        /// The session.
        #[serde(rename = "sessionID")]
        session_id: String,
        /// The ask.
        #[serde(rename = "permissionID")]
        permission_id: String,
        /// The ask, for newer clients.
        #[serde(rename = "requestID")]
        request_id: String,
        /// The answer.
        response: Reply,
        /// The answer, for newer clients.
        reply: Reply,
    },
}

/// A session that was created, changed or deleted.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SessionInfo {
    /// The session.
    #[serde(rename = "sessionID")]
    pub session_id: String,
    /// The session's data.
    pub info: Session,
}

/// Tools of one client that were registered or removed.
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

/// The call that an event is about.
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
