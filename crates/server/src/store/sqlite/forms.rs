//! The JSON of core types that have no serde form. Existing files have it: fields may be added with a default, and
//! renaming or removing one needs a migration.

use std::time::{Duration, SystemTime};

use handback_core::clock::Time;
use handback_core::id::{CallId, ConnectionName, MessageId, PermissionId, ToolName};
use handback_core::store::{Ack, Attachment, Cancellation, Effect, Executor, Origin, Outcome, Phases, Success};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

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
