//! Whether and when to try again after a connection was lost.

use std::time::Duration;

use tokio::time::Instant;

use crate::backoff::Backoff;
use crate::error::Error;

/// A connection that held for this long was a good one, and the delays start over.
const STEADY: Duration = Duration::from_secs(10);
/// At most this long a server that asks for patience is left alone.
const LONGEST_RETRY_AFTER: Duration = Duration::from_secs(60);

/// The connections to one stream, one after the other.
#[derive(Debug)]
pub(crate) struct Reconnect {
    backoff: Backoff,
    connected_at: Option<Instant>,
    ever_connected: bool,
    /// How many tries may fail in a row.
    most: Option<u32>,
    failed: u32,
}

impl Reconnect {
    /// `most`: how many tries may fail in a row; without it, any number.
    pub(crate) fn new(backoff: Backoff, most: Option<u32>) -> Self {
        Self { backoff, connected_at: None, ever_connected: false, most, failed: 0 }
    }

    /// The connection is open.
    pub(crate) fn connected(&mut self) {
        self.connected_at = Some(Instant::now());
        self.ever_connected = true;
        self.failed = 0;
    }

    /// The delay before the next try; `None` if no try mends it (the server does not accept the credentials, has refused
    /// the very first connection, or has closed for good), or too many have failed.
    pub(crate) fn delay_after(&mut self, error: &Error) -> Option<Duration> {
        if self.connected_at.take().is_some_and(|connected_at| connected_at.elapsed() >= STEADY) {
            self.backoff.reset();
        }
        let is_final = error.is_denied() || matches!(error, Error::Closed { .. });
        if is_final || !(error.is_transient() || self.ever_connected) || self.most == Some(self.failed) {
            return None;
        }
        self.failed += 1;
        let patience = error.retry_after().unwrap_or_default().min(LONGEST_RETRY_AFTER);
        Some(self.backoff.next(fastrand::f64()).max(patience))
    }
}
