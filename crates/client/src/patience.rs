//! Trying again, for a while, what failed for reasons that pass.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::backoff::Backoff;
use crate::error::Error;

/// A server that is gone for this long is given up.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// The delays between tries: they double from the first to the second.
const DELAYS: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(5));

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
        let asked_for = error.retry_after().unwrap_or_default().min(PATIENCE);
        sleep(self.backoff.next(fastrand::f64()).max(asked_for)).await;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
