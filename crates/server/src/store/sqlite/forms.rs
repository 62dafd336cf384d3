//! The JSON of core types that have no serde form. Existing files have it: fields may be added with a default, and
//! renaming or removing one needs a migration.

use std::time::{Duration, SystemTime};

use handback_core::id::{CallId, MessageId, ToolName};
use handback_core::store::{Ack, Attachment, Cancellation, Effect, Executor, Outcome, Phases, Success};
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
    #[serde(with = "EffectForm")]
    pub(super) effect: Effect,
    pub(super) timeout: Duration,
    pub(super) created: SystemTime,
    pub(super) deadline: SystemTime,
}

/// The JSON of `call.ending` for writing.
#[derive(Serialize)]
pub(super) struct EndingRef<'a> {
    pub(super) attempt: u32,
    #[serde(with = "PhasesForm")]
    pub(super) phases: Phases,
    #[serde(with = "OutcomeForm")]
    pub(super) outcome: &'a Outcome,
}

/// The JSON of `call.ending` for reading.
#[derive(Deserialize)]
pub(super) struct Ending {
    pub(super) attempt: u32,
    #[serde(with = "PhasesForm")]
    pub(super) phases: Phases,
    #[serde(with = "OutcomeForm")]
    pub(super) outcome: Outcome,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Effect")]
enum EffectForm {
    Read,
    Idempotent,
    Write,
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
