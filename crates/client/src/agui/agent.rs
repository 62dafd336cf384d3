//! Agents, which execute runs.

mod http;
mod reader;

use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use handback_wire::agui::{Event, RunAgentInput};

use crate::error::Error;

pub(crate) use reader::decode;

pub use http::{HttpAgent, OneUrl, Room, ServerAgent, ThreadAgent};

/// The events of a run, as they come. An error is the last item.
pub type EventStream = BoxStream<'static, Result<Incoming, AgentError>>;

/// One item of the stream of a run.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Incoming {
    /// An event.
    Event(Event),
    /// An event that cannot be read. The run goes on.
    Undecodable {
        /// The type that the event names; empty if it names none.
        kind: String,
        /// What is wrong with it.
        reason: String,
    },
}

/// An agent that can execute runs, such as a server.
///
/// The future sends the request when it is polled, and the stream is the answer. Dropping either ends the request.
pub trait Agent: Send + Sync + 'static {
    /// Requests a run. If `thread_id` is empty, the agent creates a thread, which the events name. An agent may also
    /// give the run an id of its own.
    fn run(&self, input: RunAgentInput) -> BoxFuture<'static, Result<EventStream, AgentError>>;
}

/// Why an agent did not start a run, or did not finish it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AgentError {
    /// The URL, a header or the token is invalid.
    #[error("{reason}")]
    Invalid {
        /// What is wrong.
        reason: String,
    },
    /// The server does not accept the credentials, or no longer does.
    #[error("not authorized: {message}")]
    AuthExpired {
        /// 401 or 403.
        status: u16,
        /// The server's message.
        message: String,
    },
    /// The server has received too many requests.
    #[error("too many requests: {message}")]
    RateLimited {
        /// The server's message.
        message: String,
        /// When to try again, if the server says so.
        retry_after: Option<Duration>,
    },
    /// The server answered with a failure.
    #[error("{message}")]
    Refused {
        /// The HTTP status.
        status: u16,
        /// The server's message.
        message: String,
    },
    /// There is no connection, or it was lost before the run was over. The run may go on at the server.
    #[error("the connection to the agent was lost: {reason}")]
    NetworkLost {
        /// What happened.
        reason: String,
    },
    /// The answer does not follow AG-UI.
    #[error("the answer is not one of an AG-UI server: {reason}")]
    Unexpected {
        /// What is wrong with it.
        reason: String,
    },
}

impl From<Error> for AgentError {
    fn from(error: Error) -> Self {
        match error {
            Error::InvalidUrl { url, reason } => {
                Self::Invalid { reason: format!("\"{url}\" cannot be asked: {reason}") }
            }
            Error::InvalidToken => Self::Invalid { reason: error.to_string() },
            Error::Unexpected { reason, .. } => Self::Unexpected { reason },
            Error::Refused(refusal) => {
                let (status, message) = (refusal.status, refusal.message);
                match status {
                    401 | 403 => Self::AuthExpired { status, message },
                    429 => Self::RateLimited { message, retry_after: refusal.retry_after },
                    _ => Self::Refused { status, message },
                }
            }
            Error::Unreachable { reason, .. } | Error::Interrupted { reason, .. } => Self::NetworkLost { reason },
            other => Self::NetworkLost { reason: other.to_string() },
        }
    }
}

#[cfg(test)]
mod tests;
