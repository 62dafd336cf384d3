//! The JSON of core types that have no serde form. Existing databases have it: fields may be added with a default, and
//! renaming or removing one needs a migration.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use handback_core::clock::Time;
use handback_core::id::{
    CallId, ClientId, ConnectionName, InvalidId, MessageId, PermissionId, RequestId, SessionId, ToolName,
};
use handback_core::store::{
    Ack, Attachment, CallHead, Cancellation, Effect, Executor, FinishedCall, JournaledCall, Origin, Outcome, Phases,
    Success, Tool,
};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tokio::time::Instant;

/// The JSON of `call.head`: the request, without what has a column of its own.
#[derive(Serialize, Deserialize)]
pub(super) struct HeadForm {
    pub(super) message: MessageId,
    pub(super) call: CallId,
    pub(super) tool: ToolName,
    #[serde(with = "ExecutorForm", default)]
    pub(super) executor: Executor,
    pub(super) effect: Effect,
    /// The tool's version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) version: Option<String>,
    #[serde(with = "OriginForm", default, skip_serializing_if = "is_model")]
    pub(super) origin: Origin,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) connection: Option<ConnectionName>,
    pub(super) timeout: Duration,
    pub(super) created: SystemTime,
    pub(super) deadline: SystemTime,
}

impl From<&CallHead> for HeadForm {
    fn from(head: &CallHead) -> Self {
        Self {
            message: head.message.clone(),
            call: head.call.clone(),
            tool: head.tool.spec.name.clone(),
            executor: head.tool.executor,
            effect: head.tool.spec.effect,
            version: head.tool.spec.version.clone(),
            origin: head.origin,
            connection: head.connection.clone(),
            timeout: head.timeout,
            created: head.created,
            deadline: head.deadline,
        }
    }
}

impl HeadForm {
    /// The request, with what has columns of its own.
    pub(super) fn into_head(
        self,
        request: RequestId,
        session: SessionId,
        client: &str,
        input: Box<RawValue>,
    ) -> Result<CallHead, InvalidId> {
        let client = match ClientId::from(&session) {
            of_session if of_session.as_str() == client => of_session,
            _ => ClientId::parse(client)?,
        };
        let mut tool = Tool::remembered(client, self.executor, self.tool, self.effect);
        tool.spec.version = self.version;
        Ok(CallHead {
            request,
            session,
            message: self.message,
            call: self.call,
            origin: self.origin,
            connection: self.connection,
            tool: Arc::new(tool),
            input,
            timeout: self.timeout,
            created: self.created,
            deadline: self.deadline,
            // A finished call does not expire, and an open one has its deadline.
            expires: Instant::now(),
        })
    }
}

fn is_model(origin: &Origin) -> bool {
    *origin == Origin::Model
}

/// The JSON of `call.state`.
#[derive(Default, Serialize, Deserialize)]
pub(super) struct StateForm {
    pub(super) ask: Option<(PermissionId, Time)>,
    pub(super) claimant: Option<Box<str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) denied: Option<Box<str>>,
}

impl StateForm {
    /// The state of an open call; `None` if there is nothing to say, as for most calls.
    pub(super) fn of(call: &JournaledCall) -> Option<Self> {
        let JournaledCall { head: _, offered: _, ask, claimant, denied } = call;
        let is_plain = ask.is_none() && claimant.is_none() && denied.is_none();
        (!is_plain).then(|| Self { ask: ask.clone(), claimant: claimant.clone(), denied: denied.clone() })
    }
}

/// The JSON of `call.ending` for writing.
#[derive(Serialize)]
pub(super) struct EndingRef<'a> {
    pub(super) attempt: u32,
    pub(super) may_have_run: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) ask: Option<&'a PermissionId>,
    #[serde(with = "PhasesForm")]
    pub(super) phases: Phases,
    #[serde(with = "OutcomeForm")]
    pub(super) outcome: &'a Outcome,
}

impl<'a> From<&'a FinishedCall> for EndingRef<'a> {
    fn from(call: &'a FinishedCall) -> Self {
        let FinishedCall { head: _, attempt, may_have_run, ask, phases, outcome, claimant: _, late: _ } = call;
        Self { attempt: *attempt, may_have_run: *may_have_run, ask: ask.as_ref(), phases: *phases, outcome }
    }
}

/// The JSON of `call.ending` for reading.
#[derive(Deserialize)]
pub(super) struct Ending {
    pub(super) attempt: u32,
    /// Earlier versions did not say. Then it may.
    #[serde(default = "unknown")]
    pub(super) may_have_run: bool,
    #[serde(default)]
    pub(super) ask: Option<PermissionId>,
    #[serde(with = "PhasesForm")]
    pub(super) phases: Phases,
    #[serde(with = "OutcomeForm")]
    pub(super) outcome: Outcome,
}

/// The JSON of `call.late` for writing.
#[derive(Serialize)]
pub(super) struct LateRef<'a>(#[serde(with = "OutcomeForm")] pub(super) &'a Outcome);

/// The JSON of `call.late` for reading.
#[derive(Deserialize)]
pub(super) struct LateForm(#[serde(with = "OutcomeForm")] pub(super) Outcome);

fn unknown() -> bool {
    true
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Origin")]
enum OriginForm {
    Model,
    Application,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Executor")]
enum ExecutorForm {
    Client,
    Frontend,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Phases")]
struct PhasesForm {
    approval: Duration,
    queue: Duration,
    execute: Duration,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Outcome")]
enum OutcomeForm {
    Success(#[serde(with = "SuccessForm")] Success),
    Error(String),
    Acknowledged(Ack),
    Timeout(Duration),
    Cancelled(#[serde(with = "CancellationForm")] Cancellation),
    Denied(String),
    Disconnected,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Success")]
struct SuccessForm {
    title: String,
    output: String,
    metadata: Option<Box<RawValue>>,
    attachments: Option<Vec<Attachment>>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Cancellation")]
enum CancellationForm {
    Requested(String),
    CallerGone,
    TurnStopped,
    ShuttingDown,
}
