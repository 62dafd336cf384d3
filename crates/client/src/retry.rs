//! Whether and when to try again what failed.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::error::Error;

/// A server that is gone for this long is given up; one that asks for patience is left alone for this long at most.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// The delays between the tries of one request: they double from the first to the second.
const DELAYS: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(5));

/// Delays that double from a first to a longest one, each shortened by chance to spread clients that lost the same server.
#[derive(Debug, Clone)]
pub(crate) struct Backoff {
    first: Duration,
    longest: Duration,
    next: Duration,
}

impl Backoff {
    pub(crate) fn new(first: Duration, longest: Duration) -> Self {
        Self { first, longest, next: first }
    }

    /// The delay before the next try: between half of the full delay (`chance` 0) and all of it (`chance` 1).
    pub(crate) fn next(&mut self, chance: f64) -> Duration {
        let full = self.next;
        self.next = full.saturating_mul(2).min(self.longest);
        full.div_f64(2.0) + full.div_f64(2.0).mul_f64(chance.clamp(0.0, 1.0))
    }

    /// The delay after this error: at least as long as the server asks for.
    pub(crate) fn after(&mut self, error: &Error) -> Duration {
        self.next(fastrand::f64()).max(error.retry_after().unwrap_or_default().min(PATIENCE))
    }

    /// Starts over, after a success.
    pub(crate) fn reset(&mut self) {
        self.next = self.first;
    }
}

/// The tries of one request.
pub(crate) struct Patience {
    since: Instant,
    backoff: Backoff,
}

impl Patience {
    pub(crate) fn new() -> Self {
        Self { since: Instant::now(), backoff: Backoff::new(DELAYS.0, DELAYS.1) }
    }

    /// Waits until the next try after one that failed.
    ///
    /// # Errors
    /// That failure, if no other try mends it; [`Error::GivenUp`] if there have been enough.
    pub(crate) async fn after(&mut self, error: Error) -> Result<(), Error> {
        if !error.is_transient() {
            return Err(error);
        }
        if self.since.elapsed() >= PATIENCE {
            return Err(Error::GivenUp { reason: error.to_string(), after: PATIENCE });
        }
        tracing::debug!(%error, "trying again");
        sleep(self.backoff.after(&error)).await;
        Ok(())
    }
}

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
        let is_denied = matches!(error.status(), Some(401 | 403));
        let is_final = is_denied || matches!(error, Error::Closed { .. });
        if is_final || !(error.is_transient() || self.ever_connected) || self.most == Some(self.failed) {
            return None;
        }
        self.failed += 1;
        Some(self.backoff.after(error))
    }
}

#[cfg(test)]
mod tests;
