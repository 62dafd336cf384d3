//! The state of the connection, and its events.

use std::sync::Arc;
use std::time::Duration;

use crate::error::Error;

/// A function that is called with everything that happens. It must not block.
pub type Observer = Arc<dyn Fn(Status) + Send + Sync>;

/// The state of the connection.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum State {
    /// The connection is being opened for the first time.
    Connecting,
    /// The connection is open, and the tools are registered.
    Open,
    /// The connection is lost or could not be opened, and is retried.
    Retrying,
    /// There is no connection, because nobody asked for one, or because of `disconnect` or this error.
    Closed(Option<Error>),
}

impl State {
    /// Whether the connection is open.
    pub fn is_open(&self) -> bool {
        matches!(self, Self::Open)
    }
}

/// Something that happened, for a log or a status line.
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
        /// The delay before the next try.
        retry_in: Duration,
    },
    /// A handler was started.
    Started {
        /// The call.
        request_id: String,
        /// The full id of its tool.
        tool: String,
        /// How many times the call was offered, from 1.
        attempt: u32,
    },
    /// A handler is done; its result is on the way to the server.
    Finished {
        /// The call.
        request_id: String,
        /// How long the handler took.
        elapsed: Duration,
        /// The tool's error, if it failed.
        error: Option<String>,
    },
    /// A call was over before its handler was done.
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
