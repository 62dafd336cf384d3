//! An ask, which is the question whether a call may be made, and its answers.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use smol_str::SmolStr;

use crate::clock::Time;
use crate::id::{CallId, PermissionId};
use crate::store::call::CallHead;

/// The question whether a call may be made.
#[derive(Debug)]
#[non_exhaustive]
pub struct Ask {
    /// The ask's id.
    pub id: PermissionId,
    /// The call, as the model wants it.
    pub call: Arc<CallHead>,
    /// When it was asked.
    pub created: Time,
}

/// An ask, for readers that show a turn.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[non_exhaustive]
pub struct AskSummary {
    /// The ask's id.
    pub id: PermissionId,
    /// The session's own id of the call.
    pub call: CallId,
    /// The tool's full id.
    pub tool: SmolStr,
    /// The input, as the model wants it.
    pub input: Box<RawValue>,
    /// When it was asked.
    pub created: Time,
}

impl From<&Ask> for AskSummary {
    fn from(ask: &Ask) -> Self {
        let (call, tool, input) = (ask.call.call.clone(), ask.call.tool.id.as_str().into(), ask.call.input.clone());
        Self { id: ask.id.clone(), call, tool, input, created: ask.created }
    }
}

/// The reply to an ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reply {
    /// This call may be made.
    Once,
    /// This call and all others of the tool in this session may be made.
    Always,
    /// This call may not be made.
    Reject,
}

/// An answer to an ask.
#[derive(Debug, Clone)]
pub struct Answer {
    /// The reply.
    pub reply: Reply,
    /// The input to use in place of the model's.
    pub input: Option<Box<RawValue>>,
    /// Why the call is rejected, for the model.
    pub message: Option<String>,
}
