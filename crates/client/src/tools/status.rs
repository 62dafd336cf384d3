//! How the connection stands, and what happens on it.

use std::sync::Arc;
use std::time::Duration;

use crate::error::Error;

/// Is called with all that happens. It must not block.
pub type Observer = Arc<dyn Fn(Status) + Send + Sync>;

/// How the connection stands.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum State {
    /// It is being opened for the first time.
    Connecting,
    /// It is open and the tools are registered.
    Open,
    /// It is lost or could not be opened, and is tried again.
    Retrying,
    /// There is none: it was not asked for, `disconnect` was, or the server refused it for good.
    Closed(Option<Error>),
}

impl State {
    /// Whether the connection is open.
    pub fn is_open(&self) -> bool {
        matches!(self, Self::Open)
    }
}

/// What happens, for a log or a status line.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Status {
    /// The connection is open and the tools are registered.
    Connected {
        /// The full ids of the tools.
        tools: Vec<String>,
    },
    /// The connection is lost or could not be opened.
    Disconnected {
        /// Why.
        reason: String,
        /// When the next try comes.
        retry_in: Duration,
    },
    /// A handler was started.
    Started {
        /// The call.
        request_id: String,
        /// The full id of its tool.
        tool: String,
        /// Which time the call is offered, from 1.
        attempt: u32,
    },
    /// A handler is done; its result is on the way to the server.
    Finished {
        /// The call.
        request_id: String,
        /// How long the handler took.
        elapsed: Duration,
        /// What the tool says went wrong.
        error: Option<String>,
    },
    /// A call is over before its handler is.
    Cancelled {
        /// The call.
        request_id: String,
        /// Why.
        reason: String,
    },
    /// The server did not take a result.
    Undelivered {
        /// The call.
        request_id: String,
        /// Why.
        reason: String,
    },
}
