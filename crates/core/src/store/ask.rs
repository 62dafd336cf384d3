//! An ask: a call that waits until somebody allows it, and what can be answered.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use smol_str::SmolStr;

use crate::clock::Time;
use crate::id::{CallId, PermissionId};
use crate::store::call::CallHead;

/// A question to whoever may allow a call.
#[derive(Debug)]
#[non_exhaustive]
pub struct Ask {
    /// Its id.
    pub id: PermissionId,
    /// The call, as the model wants it.
    pub call: Arc<CallHead>,
    /// When it was asked.
    pub created: Time,
}

/// What whoever shows a turn is told of an ask.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[non_exhaustive]
pub struct AskSummary {
    /// Its id.
    pub id: PermissionId,
    /// The call, as its session knows it.
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

/// An answer to an ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reply {
    /// This call may be made.
    Once,
    /// This call and all others of the tool in this session may be made.
    Always,
    /// It may not.
    Reject,
}

/// A reply, with what may come with it.
#[derive(Debug, Clone)]
pub struct Answer {
    /// The reply.
    pub reply: Reply,
    /// The input to use in place of the model's.
    pub input: Option<Box<RawValue>>,
    /// Why it is rejected, for the model.
    pub message: Option<String>,
}
