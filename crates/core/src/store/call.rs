//! A call: what was asked for, and how it ended.

mod answer;

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use tokio::time::Instant;

use crate::clock::Time;
use crate::id::{CallId, ClientId, ConnectionName, MessageId, PermissionId, RequestId, SessionId};
use crate::store::tool::Tool;

/// What a call asks for. It changes once at most: an allowed call gets a new deadline, and perhaps another input.
#[derive(Debug, Clone)]
pub struct CallHead {
    /// The call's id.
    pub request: RequestId,
    /// The session that the call belongs to.
    pub session: SessionId,
    /// The message that the call belongs to.
    pub message: MessageId,
    /// The caller's own id of the call.
    pub call: CallId,
    /// Who asks for the call.
    pub origin: Origin,
    /// The preferred connection: only it is offered the call, as long as it is connected.
    pub connection: Option<ConnectionName>,
    /// The tool as it was when the call was made.
    pub tool: Arc<Tool>,
    /// The input on one line. It fits the tool's schema.
    pub input: Box<RawValue>,
    /// How long the call may take.
    pub timeout: Duration,
    /// When the call was made.
    pub created: SystemTime,
    /// When the call expires, in wall time.
    pub deadline: SystemTime,
    /// When the call expires, in monotonic time, which decides.
    pub expires: Instant,
}

impl CallHead {
    /// The client that runs the tool.
    pub fn client(&self) -> &ClientId {
        &self.tool.client
    }
}

/// Who asks for a call. Each has its own rate limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Origin {
    /// A model.
    #[default]
    Model,
    /// The application itself.
    Application,
}

/// An open call in the journal: what it asks for, and what another process needs to know to go on with it.
#[derive(Debug, Clone)]
pub struct JournaledCall {
    /// What the call asks for.
    pub head: Arc<CallHead>,
    /// The number of the last offer that a client may have seen; 0 if none did. A frontend may have seen the first one.
    pub offered: u32,
    /// The ask that the call waits for: its id, and when it was asked.
    pub ask: Option<(PermissionId, Time)>,
    /// The frontend that has claimed the call.
    pub claimant: Option<Box<str>>,
    /// Why the call is denied. It is never offered, and a process that finds it open ends it.
    pub denied: Option<Box<str>>,
}

impl JournaledCall {
    /// A call that nobody has seen, asked about, claimed or denied.
    pub fn new(head: Arc<CallHead>) -> Self {
        Self { head, offered: 0, ask: None, claimant: None, denied: None }
    }
}

/// What the journal knows of a call that begins.
#[derive(Debug)]
pub enum Begun {
    /// Nothing: the call is new, or was only changed.
    New,
    /// A call with this id is over.
    Before(Arc<FinishedCall>),
    /// A call with this id is over, and how it ended is no longer stored.
    Gone,
}

/// What the journal knows of a call that ends.
#[derive(Debug)]
pub enum Ended {
    /// This end counts.
    First,
    /// The call had ended before, and that end counts.
    Before(Arc<FinishedCall>),
    /// The call had ended before, and how it ended is no longer stored.
    Gone,
}

/// How a call ended. Every end is one of these, and each can be reported to a model.
#[derive(Debug, Clone)]
pub enum Outcome {
    /// The tool ran.
    Success(Success),
    /// The client reports that the tool failed.
    Error(String),
    /// A frontend reports how the call went.
    Acknowledged(Ack),
    /// The client did not answer in time.
    Timeout(Duration),
    /// The call was cancelled.
    Cancelled(Cancellation),
    /// The call was not allowed.
    Denied(String),
    /// The client went away.
    Disconnected,
}

/// The result of a tool that ran.
#[derive(Debug, Clone, Default)]
pub struct Success {
    /// A short title for people.
    pub title: String,
    /// The output, for the model.
    pub output: String,
    /// A JSON object with whatever else the client sent.
    pub metadata: Option<Box<RawValue>>,
    /// Files that belong to the output.
    pub attachments: Option<Vec<Attachment>>,
}

/// A frontend's report of a call.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Ack {
    /// How the call went.
    pub status: AckStatus,
    /// The result, any JSON. An explicit null counts as a result.
    #[serde(default, deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    pub output: Option<Box<RawValue>>,
    /// What went wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_text: Option<String>,
    /// When the frontend began with the call, in the frontend's own format.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requested_at: Option<String>,
}

fn given<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Box<RawValue>>, D::Error> {
    Box::<RawValue>::deserialize(deserializer).map(Some)
}

/// How a call went, according to a frontend.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AckStatus {
    /// The call was done.
    Success,
    /// The call could not be done.
    Failed,
    /// The call was not done in time.
    Timeout,
}

impl Ack {
    /// An ack for a call that was not done in time.
    pub fn timeout() -> Self {
        Self { status: AckStatus::Timeout, output: None, error_text: None, requested_at: None }
    }

    /// The ack as JSON, for models and listeners.
    pub fn payload(&self) -> Box<RawValue> {
        // This cannot fail: all fields have a JSON form.
        serde_json::value::to_raw_value(self).unwrap_or_default()
    }

    /// The error text; `None` for a success.
    pub fn failure(&self) -> Option<String> {
        let said = self.error_text.clone().filter(|text| !text.trim().is_empty());
        match self.status {
            AckStatus::Success => None,
            AckStatus::Failed => Some(said.unwrap_or_else(|| "The frontend failed and does not say why".to_owned())),
            AckStatus::Timeout => Some(said.unwrap_or_else(|| "The frontend did not do it in time".to_owned())),
        }
    }
}

/// A file that belongs to an output.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Attachment {
    /// The file's media type.
    pub mime: String,
    /// The file's name.
    pub filename: Option<String>,
    /// The file's address; may be a data URL.
    pub url: String,
}

/// Why a call was cancelled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cancellation {
    /// Somebody asked for it, with this reason.
    Requested(String),
    /// Nobody waits for the outcome any more.
    CallerGone,
    /// The turn that made the call was stopped.
    TurnStopped,
    /// The server is stopping.
    ShuttingDown,
}

impl fmt::Display for Cancellation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Requested(reason) => formatter.write_str(reason),
            Self::CallerGone => formatter.write_str("The caller went away"),
            Self::TurnStopped => formatter.write_str("The turn was stopped"),
            Self::ShuttingDown => formatter.write_str("The server is shutting down"),
        }
    }
}

/// The kind of an outcome, for metrics and listings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum OutcomeKind {
    /// See [`Outcome::Success`].
    Success,
    /// See [`Outcome::Error`].
    Error,
    /// See [`Outcome::Timeout`].
    Timeout,
    /// See [`Outcome::Cancelled`].
    Cancelled,
    /// See [`Outcome::Denied`].
    Denied,
    /// See [`Outcome::Disconnected`].
    Disconnected,
}

impl OutcomeKind {
    /// All kinds, in the order in which they are declared.
    pub const ALL: [Self; 6] =
        [Self::Success, Self::Error, Self::Timeout, Self::Cancelled, Self::Denied, Self::Disconnected];

    /// The kind as a word, for metrics and the log.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Error => "error",
            Self::Timeout => "timeout",
            Self::Cancelled => "cancelled",
            Self::Denied => "denied",
            Self::Disconnected => "disconnected",
        }
    }
}

impl Outcome {
    /// The outcome's kind.
    pub fn kind(&self) -> OutcomeKind {
        match self {
            Self::Success(_) => OutcomeKind::Success,
            Self::Error(_) => OutcomeKind::Error,
            Self::Acknowledged(ack) => match ack.status {
                AckStatus::Success => OutcomeKind::Success,
                AckStatus::Failed => OutcomeKind::Error,
                AckStatus::Timeout => OutcomeKind::Timeout,
            },
            Self::Timeout(_) => OutcomeKind::Timeout,
            Self::Cancelled(_) => OutcomeKind::Cancelled,
            Self::Denied(_) => OutcomeKind::Denied,
            Self::Disconnected => OutcomeKind::Disconnected,
        }
    }

    /// What went wrong, as text; `None` for a success.
    pub fn failure(&self) -> Option<String> {
        match self {
            Self::Success(_) => None,
            Self::Error(error) => Some(error.clone()),
            Self::Acknowledged(ack) => ack.failure(),
            Self::Timeout(after) => Some(format!("Client tool execution timed out after {}ms", after.as_millis())),
            Self::Cancelled(cancellation) => Some(cancellation.to_string()),
            Self::Denied(reason) => Some(reason.clone()),
            Self::Disconnected => Some("Client disconnected".to_owned()),
        }
    }

    /// Whether a client or a frontend gave this outcome as its answer.
    pub(crate) fn is_answer(&self) -> bool {
        matches!(self, Self::Success(_) | Self::Error(_) | Self::Acknowledged(_))
    }

    /// A hash of a client's answer; `None` if the outcome is no answer. Answers that are equal as parsed have the same
    /// hash, on any machine and in any version.
    pub(crate) fn answer_hash(&self) -> Option<u64> {
        answer::hash(self)
    }
}

/// How long a call spent in each phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Phases {
    /// The time for which the call waited for approval.
    pub approval: Duration,
    /// The time for which the call waited for a connection.
    pub queue: Duration,
    /// The time for which a client had the call.
    pub execute: Duration,
}

/// The state of a call in listings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CallState {
    /// The call waits for its ask.
    AwaitingApproval,
    /// The call waits for a connection of its client.
    Queued,
    /// One connection has the call.
    Offered,
    /// The call is over.
    Done,
}

/// A call that is over.
#[derive(Debug, Clone)]
pub struct FinishedCall {
    /// What the call asked for.
    pub head: Arc<CallHead>,
    /// The number of the last offer.
    pub attempt: u32,
    /// Whether the tool may have run: the call was written to a connection, or shown to a frontend.
    pub may_have_run: bool,
    /// The ask that was rejected or that nobody answered.
    pub ask: Option<PermissionId>,
    /// How long the call took in each phase.
    pub phases: Phases,
    /// How the call ended.
    pub outcome: Outcome,
    /// The frontend that had claimed the call.
    pub claimant: Option<Box<str>>,
    /// The first answer that came too late, if the tool may have run.
    pub late: Option<Outcome>,
}

impl Ended {
    /// What the journal knows of a call that ends like this and had ended before.
    pub fn after(before: Arc<FinishedCall>, end: &FinishedCall) -> Self {
        let is_same = before.attempt == end.attempt
            && before.phases == end.phases
            && before.outcome.kind() == end.outcome.kind()
            && before.outcome.answer_hash() == end.outcome.answer_hash();
        if is_same { Self::First } else { Self::Before(before) }
    }
}

impl FinishedCall {
    /// Whether the tool may have run although the call has no result; `None` if it has one.
    pub fn may_have_run_without_result(&self) -> Option<bool> {
        (!self.outcome.is_answer()).then_some(self.may_have_run)
    }
}

#[cfg(test)]
mod tests;
