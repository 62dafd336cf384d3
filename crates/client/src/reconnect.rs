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
}

impl Reconnect {
    pub(crate) fn new(backoff: Backoff) -> Self {
        Self { backoff, connected_at: None, ever_connected: false }
    }

    /// The connection is open.
    pub(crate) fn connected(&mut self) {
        self.connected_at = Some(Instant::now());
        self.ever_connected = true;
    }

    /// The delay before the next try; `None` if no try mends it: the server does not accept the credentials, or has
    /// refused the very first connection.
    pub(crate) fn delay_after(&mut self, error: &Error) -> Option<Duration> {
        if self.connected_at.take().is_some_and(|connected_at| connected_at.elapsed() >= STEADY) {
            self.backoff.reset();
        }
        if error.is_denied() || !(error.is_transient() || self.ever_connected) {
            return None;
        }
        let patience = error.retry_after().unwrap_or_default().min(LONGEST_RETRY_AFTER);
        Some(self.backoff.next(fastrand::f64()).max(patience))
    }
}
