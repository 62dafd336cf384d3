//! Errors between the SDK and the server.

use std::time::Duration;

use handback_wire::error::{ErrorBody, ErrorCode};
use handback_wire::session::MessageWithParts;

/// A request that failed or had an unexpected answer.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The base URL cannot be that of a Handback server.
    #[error("\"{url}\" is not the URL of a server: {reason}")]
    InvalidUrl {
        /// The URL as it was given.
        url: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The token cannot be sent in a header.
    #[error("the token has characters that a header cannot carry")]
    InvalidToken,
    /// The input of a call cannot be written as JSON.
    #[error("the input is not JSON: {reason}")]
    InvalidInput {
        /// What is wrong with it.
        reason: String,
    },
    /// No connection to the server.
    #[error("no Handback server can be reached at {url}: {reason}")]
    Unreachable {
        /// The server's base URL.
        url: String,
        /// What happened, down to its first cause.
        reason: String,
    },
    /// The connection broke, or the answer did not come in time. Whether the request took effect is unknown.
    #[error("the connection to {url} was lost: {reason}")]
    Interrupted {
        /// The server's base URL.
        url: String,
        /// What happened, down to its first cause.
        reason: String,
    },
    /// The server answered with a failure.
    #[error("{}", .0.message)]
    Refused(Box<Refusal>),
    /// The connection is closed for good: this client was disconnected, or the server refuses it.
    #[error("not connected to {url}: {reason}")]
    Closed {
        /// The server's base URL.
        url: String,
        /// Why.
        reason: String,
    },
    /// A newer connection superseded this one.
    #[error("a newer connection to {url} took over from this one")]
    Superseded {
        /// The server's base URL.
        url: String,
    },
    /// The answer is not from a Handback server: something else listens there.
    #[error("the answer from {url} is not one of a Handback server: {reason}")]
    Unexpected {
        /// The server's base URL.
        url: String,
        /// What is wrong with the answer.
        reason: String,
    },
    /// The server's binary could not be started.
    #[error("{binary} could not be started: {reason}")]
    NotStarted {
        /// The binary.
        binary: String,
        /// What happened, and its standard error.
        reason: String,
    },
    /// A turn ended with an error, or stopped before its end. `info.error` of its last message says why, if known.
    #[error("{}", .0.info.error.as_ref().map_or("the turn has stopped before its end", |error| error.reason()))]
    TurnFailed(Box<MessageWithParts>),
    /// A turn is over without an answer.
    #[error("{reason}")]
    NoAnswer {
        /// Why.
        reason: String,
    },
    /// The server could not be reached for too long. The request may have been carried out, or still be under way.
    #[error("{reason}; given up after {} s", .after.as_secs())]
    GivenUp {
        /// The last failure.
        reason: String,
        /// How long it was retried.
        after: Duration,
    },
}

/// A failure, as the server reports it.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Refusal {
    /// The HTTP status.
    pub status: u16,
    /// The code, for programs; `None` if the body has no code, as in the session API, or is not from Handback.
    pub code: Option<ErrorCode>,
    /// The message, for people.
    pub message: String,
    /// The whole error body of the client-tools API.
    pub body: Option<ErrorBody>,
    /// How long the server asks to wait before the next try.
    pub retry_after: Option<Duration>,
    /// Whether it has a shape in which Handback refuses.
    pub(crate) is_ours: bool,
}

impl Error {
    fn refusal(&self) -> Option<&Refusal> {
        match self {
            Self::Refused(refusal) => Some(refusal),
            _ => None,
        }
    }

    /// The HTTP status of a failure that the server reported.
    pub fn status(&self) -> Option<u16> {
        self.refusal().map(|refusal| refusal.status)
    }

    /// The code of a failure that the server reported.
    pub fn code(&self) -> Option<ErrorCode> {
        self.refusal()?.code
    }

    /// How long the server asks to wait before the next try.
    pub(crate) fn retry_after(&self) -> Option<Duration> {
        self.refusal()?.retry_after
    }

    /// Whether something on the way has answered in the server's place, as a proxy does whose server is being restarted.
    /// 400, 401, 403 and 413 count as the server's own, whoever sends them: they say what is wrong with the request or
    /// its credentials, and no retry mends that.
    pub(crate) fn is_of_a_proxy(&self) -> bool {
        match self {
            Self::Unexpected { .. } => true,
            Self::Refused(refusal) => !refusal.is_ours && !matches!(refusal.status, 400 | 401 | 403 | 413),
            _ => false,
        }
    }

    /// Whether a Handback server has sent it.
    pub(crate) fn is_of_the_server(&self) -> bool {
        self.refusal().is_some_and(|refusal| refusal.is_ours)
    }

    /// Whether the server may have carried out the request all the same. A proxy may answer after it has passed the
    /// request on; a refusal of the server itself is final, unless something failed in the server.
    pub(crate) fn may_have_taken_effect(&self) -> bool {
        match self {
            Self::Interrupted { .. } | Self::Unexpected { .. } => true,
            Self::Refused(refusal) => !refusal.is_ours || refusal.status >= 500,
            _ => false,
        }
    }

    /// Whether the same request may succeed later, if the server was there before.
    pub(crate) fn may_pass(&self) -> bool {
        self.is_transient() || self.is_of_a_proxy()
    }

    /// Whether the same request may succeed later.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::Interrupted { .. } | Self::Superseded { .. } => true,
            Self::Refused(refusal) => matches!(refusal.status, 408 | 425 | 429 | 500..=506 | 508..),
            _ => false,
        }
    }
}
