//! A call: what was asked, and how it ended.

mod answer;

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use tokio::time::Instant;

use crate::id::{CallId, ClientId, MessageId, RequestId, SessionId};
use crate::store::tool::Tool;

/// What was asked. It may change once, when whoever allows the call changes its input; then its time starts as well.
#[derive(Debug, Clone)]
pub struct CallHead {
    /// The call's id.
    pub request: RequestId,
    /// The session that it belongs to.
    pub session: SessionId,
    /// The message that it belongs to.
    pub message: MessageId,
    /// The caller's own id of it.
    pub call: CallId,
    /// The tool as it was when the call was made.
    pub tool: Arc<Tool>,
    /// The input, on one line; it fits the tool's schema.
    pub input: Box<RawValue>,
    /// How long it may take.
    pub timeout: Duration,
    /// When it was made.
    pub created: SystemTime,
    /// When it expires.
    pub deadline: SystemTime,
    /// When it expires, on the clock that decides.
    pub expires: Instant,
}

impl CallHead {
    /// The client that runs the tool.
    pub fn client(&self) -> &ClientId {
        &self.tool.client
    }
}

/// How a call ended. Every end is one of these, and each can be told to a model.
#[derive(Debug)]
pub enum Outcome {
    /// The tool ran.
    Success(Success),
    /// The tool failed, as the client says.
    Error(String),
    /// A frontend says how it went.
    Acknowledged(Ack),
    /// The client did not answer in time.
    Timeout(Duration),
    /// Somebody cancelled it.
    Cancelled(Cancellation),
    /// It was not allowed.
    Denied(String),
    /// The client went away.
    Disconnected,
}

/// What a tool gave.
#[derive(Debug, Default)]
pub struct Success {
    /// A short heading for people.
    pub title: String,
    /// The output, for the model.
    pub output: String,
    /// Whatever else the client passed on, an object.
    pub metadata: Option<Box<RawValue>>,
    /// Files that belong to the output.
    pub attachments: Option<Vec<Attachment>>,
}

/// What a frontend says of a call: an answer of its own kind.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Ack {
    /// How it went.
    pub status: AckStatus,
    /// What came of it, any JSON; null is JSON too.
    #[serde(default, deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    pub output: Option<Box<RawValue>>,
    /// What went wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_text: Option<String>,
    /// When the frontend began with it, as it wrote the time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requested_at: Option<String>,
}

fn given<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Box<RawValue>>, D::Error> {
    Box::<RawValue>::deserialize(deserializer).map(Some)
}

/// How a call went, as a frontend says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AckStatus {
    /// It was done.
    Success,
    /// It could not be done.
    Failed,
    /// It was not done in time.
    Timeout,
}

impl Ack {
    /// Nobody did it in time, as the frontend or the server says.
    pub fn timeout() -> Self {
        Self { status: AckStatus::Timeout, output: None, error_text: None, requested_at: None }
    }

    /// What models and listeners get of it.
    pub fn payload(&self) -> Box<RawValue> {
        // It always serialises: what is in it is JSON.
        serde_json::value::to_raw_value(self).unwrap_or_default()
    }

    /// What went wrong, in words; `None` if it was done.
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
    /// Its media type.
    pub mime: String,
    /// Its name.
    pub filename: Option<String>,
    /// Where it is; may be a data URL.
    pub url: String,
}

/// Why a call was cancelled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cancellation {
    /// Somebody asked for it, with this reason.
    Requested(String),
    /// Whoever waited for the outcome went away.
    CallerGone,
    /// The turn that it belongs to was stopped.
    TurnStopped,
    /// The server stops.
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

/// The kind of an outcome, as metrics and listings name it.
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

impl Outcome {
    /// Its kind.
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

    /// What happened, in words; `None` for a success.
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

    /// Whether it is what a client or a frontend answered.
    pub(crate) fn is_answer(&self) -> bool {
        matches!(self, Self::Success(_) | Self::Error(_) | Self::Acknowledged(_))
    }

    /// A hash of what a client answered, the same for answers that are equal as parsed, on any machine and in any version;
    /// `None` if it was no client's answer.
    pub(crate) fn answer_hash(&self) -> Option<u64> {
        answer::hash(self)
    }
}

/// How long a call spent in each phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Phases {
    /// Waiting for approval.
    pub approval: Duration,
    /// Waiting for a connection.
    pub queue: Duration,
    /// With a client.
    pub execute: Duration,
}

/// Where a call stands, as it is listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CallState {
    /// Somebody has to allow it first.
    AwaitingApproval,
    /// Waiting for a connection of its client.
    Queued,
    /// Given to one connection.
    Offered,
    /// Over.
    Done,
}

/// A call that is over.
#[derive(Debug)]
pub struct FinishedCall {
    /// What was asked.
    pub head: Arc<CallHead>,
    /// Which offer it ended with.
    pub attempt: u32,
    /// How long it took.
    pub phases: Phases,
    /// How it ended.
    pub outcome: Outcome,
}

#[cfg(test)]
mod tests;
