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
mod tests {
    use super::*;
    use crate::error::Refusal;

    fn refused(status: u16, retry_after: Option<Duration>) -> Error {
        let message = format!("refused with {status}");
        Error::Refused(Box::new(Refusal { status, code: None, message, body: None, retry_after }))
    }

    #[tokio::test(start_paused = true)]
    async fn what_passes_is_tried_again_for_a_minute() {
        let began = Instant::now();
        let mut patience = Patience::new();
        let given_up = loop {
            if let Err(error) = patience.after(refused(503, None)).await {
                break error;
            }
        };
        assert_eq!(given_up.to_string(), "refused with 503; given up after 60 s");
        assert!((60..=65).contains(&began.elapsed().as_secs()), "{:?}", began.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn what_does_not_pass_is_not() {
        let began = Instant::now();
        let Err(refusal) = Patience::new().after(refused(404, None)).await else { panic!("it is final") };
        assert_eq!((refusal.status(), began.elapsed()), (Some(404), Duration::ZERO));
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_asks_for_time_gets_it() {
        let began = Instant::now();
        Patience::new().after(refused(429, Some(Duration::from_secs(20)))).await.unwrap();
        assert_eq!(began.elapsed().as_secs(), 20);
    }
}
