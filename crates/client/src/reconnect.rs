//! Whether and when to try again after a connection was lost.

use std::time::Duration;

use crate::backoff::Backoff;
use crate::error::Error;

/// At most this long a server that asks for patience is left alone.
const LONGEST_RETRY_AFTER: Duration = Duration::from_secs(60);

/// The connections to one stream, one after the other.
#[derive(Debug)]
pub(crate) struct Reconnect {
    backoff: Backoff,
    ever_connected: bool,
    /// How many tries may fail in a row.
    most: Option<u32>,
    failed: u32,
}

impl Reconnect {
    /// `most`: how many tries may fail in a row; without it, any number.
    pub(crate) fn new(backoff: Backoff, most: Option<u32>) -> Self {
        Self { backoff, ever_connected: false, most, failed: 0 }
    }

    /// The connection is open, and the server has said so on it: the delays and the count of failures start over.
    pub(crate) fn connected(&mut self) {
        self.backoff.reset();
        self.ever_connected = true;
        self.failed = 0;
    }

    /// The delay before the next try; `None` if no try mends it (the server does not accept the credentials, has refused
    /// the very first connection, or has closed for good), or too many have failed.
    pub(crate) fn delay_after(&mut self, error: &Error) -> Option<Duration> {
        let is_final = error.is_denied() || matches!(error, Error::Closed { .. });
        if is_final || !(error.is_transient() || self.ever_connected) || self.most == Some(self.failed) {
            return None;
        }
        self.failed += 1;
        let patience = error.retry_after().unwrap_or_default().min(LONGEST_RETRY_AFTER);
        Some(self.backoff.next(fastrand::f64()).max(patience))
    }
}

#[cfg(test)]
mod tests;
