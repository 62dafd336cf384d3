//! Agents: whoever can be asked for a run.

mod endpoint;
mod http;
mod reader;
mod thread;

use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use handback_wire::agui::{Event, RunAgentInput};

pub use http::HttpAgent;
pub use thread::ThreadAgent;

/// The events of a run, as they come. An error is the last item.
pub type EventStream = BoxStream<'static, Result<Incoming, AgentError>>;

/// Something that came in the stream of a run.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Incoming {
    /// An event.
    Event(Event),
    /// An event that cannot be read. The run goes on.
    Undecodable {
        /// What type of event it says that it is; empty if it does not say it.
        kind: String,
        /// What is wrong with it.
        reason: String,
    },
}

/// Who can be asked for a run: a server, or something in its place.
///
/// The future asks, and the stream is what is answered; dropping either of them ends it. Nothing is asked before the
/// future is polled.
pub trait Agent: Send + Sync + 'static {
    /// Asks for a run. An empty `thread_id` stands for a thread that is not there yet: the agent makes one up, and the
    /// events tell which. An agent may have ids of its own for runs, too.
    fn run(&self, input: RunAgentInput) -> BoxFuture<'static, Result<EventStream, AgentError>>;
}

/// Why a run was not given, or not to its end.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AgentError {
    /// The URL, a header or the token cannot be used.
    #[error("{reason}")]
    Invalid {
        /// What is wrong.
        reason: String,
    },
    /// The credentials are not, or no longer, accepted.
    #[error("not authorized: {message}")]
    AuthExpired {
        /// 401 or 403.
        status: u16,
        /// What the server says.
        message: String,
    },
    /// The server wants to be left alone for a while.
    #[error("too many requests: {message}")]
    RateLimited {
        /// What the server says.
        message: String,
        /// For how long, if it says so.
        retry_after: Option<Duration>,
    },
    /// The server answered with a failure.
    #[error("{message}")]
    Refused {
        /// The HTTP status.
        status: u16,
        /// What the server says.
        message: String,
    },
    /// There is no connection, or it was lost before the run was over. What was asked for may go on.
    #[error("the connection to the agent was lost: {reason}")]
    NetworkLost {
        /// What happened.
        reason: String,
    },
    /// The answer is not one of AG-UI.
    #[error("the answer is not one of an AG-UI server: {reason}")]
    Unexpected {
        /// What is wrong with it.
        reason: String,
    },
}

#[cfg(test)]
mod tests;
