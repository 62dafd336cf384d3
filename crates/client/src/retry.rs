//! Whether and when to retry.

use std::future::Future;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::error::Error;

/// How long a request is retried, and the longest `Retry-After` that is heeded.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// The delays between the tries of one request: they double from the first to the second.
const DELAYS: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(5));

/// Delays that double from a first to a longest one, each shortened at random so that clients do not all retry at once.
#[derive(Debug, Clone)]
pub(crate) struct Backoff {
    first: Duration,
    longest: Duration,
    /// How many tries have failed in a row.
    failed: u32,
}

impl Backoff {
    pub(crate) fn new((first, longest): (Duration, Duration)) -> Self {
        Self { first, longest, failed: 0 }
    }

    /// The next delay: between half of the full one (`chance` 0) and all of it (`chance` 1).
    pub(crate) fn next(&mut self, chance: f64) -> Duration {
        let full = self.first.saturating_mul(2_u32.saturating_pow(self.failed)).min(self.longest);
        self.failed += 1;
        full.div_f64(2.0) + full.div_f64(2.0).mul_f64(chance.clamp(0.0, 1.0))
    }

    /// The delay after an error: at least as long as the server asks for.
    pub(crate) fn after(&mut self, error: &Error) -> Duration {
        self.next(fastrand::f64()).max(error.retry_after().unwrap_or_default().min(PATIENCE))
    }

    /// The delay after an error, for a try before `deadline`; `None` if there is no time for one. A delay that would take
    /// too long is shortened to half of what is left, even if the server asks for more.
    pub(crate) fn before(&mut self, deadline: Instant, error: &Error) -> Option<Duration> {
        let left = deadline.saturating_duration_since(Instant::now());
        let delay = self.after(error);
        let delay = if delay + self.first <= left { delay } else { left / 2 };
        (left >= self.first).then_some(delay)
    }

    /// Starts over, after a success.
    pub(crate) fn reset(&mut self) {
        self.failed = 0;
    }
}

/// Makes a request of a server that was there before, and repeats it while it fails with an error that may pass.
///
/// # Errors
/// An error that a retry does not fix; [`Error::GivenUp`] after [`PATIENCE`].
pub(crate) async fn with_retries<T, F>(request: impl FnMut() -> F) -> Result<T, Error>
where
    F: Future<Output = Result<T, Error>>,
{
    let limit = Instant::now() + PATIENCE;
    retry_until(|error| error.may_pass().then_some(limit), request).await
}

/// Makes a request, and repeats it while it fails with an error that may pass. `limit` says until when such an error is
/// waited out; `None` is an error that does not pass.
///
/// # Errors
/// An error that does not pass; [`Error::GivenUp`] at its limit, or shortly after it.
pub(crate) async fn retry_until<T, F>(
    mut limit: impl FnMut(&Error) -> Option<Instant>,
    mut request: impl FnMut() -> F,
) -> Result<T, Error>
where
    F: Future<Output = Result<T, Error>>,
{
    let (began, mut backoff) = (Instant::now(), Backoff::new(DELAYS));
    loop {
        let error = match request().await {
            Err(error) => error,
            succeeded => return succeeded,
        };
        let Some(limit) = limit(&error) else { return Err(error) };
        if Instant::now() >= limit {
            return Err(Error::GivenUp { reason: error.to_string(), after: limit.duration_since(began) });
        }
        tracing::debug!(%error, "trying again");
        sleep(backoff.after(&error)).await;
    }
}

/// Decides when to reconnect to a stream.
#[derive(Debug)]
pub(crate) struct Reconnect {
    backoff: Backoff,
    ever_connected: bool,
    max_tries: Option<u32>,
}

impl Reconnect {
    /// `max_tries` may fail in a row; `None` is any number.
    pub(crate) fn new(backoff: Backoff, max_tries: Option<u32>) -> Self {
        Self { backoff, ever_connected: false, max_tries }
    }

    /// Notes that the server has sent something on a connection: the delays and the count of failures start over.
    pub(crate) fn connected(&mut self) {
        self.backoff.reset();
        self.ever_connected = true;
    }

    /// The delay before the next try. `None` if too many tries have failed or a retry would not help: the server does
    /// not accept the credentials, has refused the first connection, or has closed for good.
    pub(crate) fn delay_after(&mut self, error: &Error) -> Option<Duration> {
        let is_denied = matches!(error.status(), Some(401 | 403));
        let is_final = is_denied || matches!(error, Error::Closed { .. });
        if is_final || !(error.is_transient() || self.ever_connected) || self.max_tries == Some(self.backoff.failed) {
            return None;
        }
        Some(self.backoff.after(error))
    }
}

#[cfg(test)]
mod tests;
