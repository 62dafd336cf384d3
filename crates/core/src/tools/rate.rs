//! How many calls a client may be asked for in a minute.

use std::num::NonZeroU32;
use std::time::Duration;

use governor::clock::Clock as GovernorClock;
use governor::middleware::NoOpMiddleware;
use governor::state::keyed::HashMapStateStore;
use governor::{Quota, RateLimiter};
use tokio::time::Instant;

use crate::id::ClientId;

/// A limit per client; off when it is 0.
#[derive(Debug)]
pub struct Rate {
    limiter: Option<RateLimiter<ClientId, HashMapStateStore<ClientId>, TokioClock, NoOpMiddleware<Duration>>>,
    clock: TokioClock,
}

impl Rate {
    /// So many calls per client and minute; 0 is no limit.
    pub fn per_minute(calls: u32) -> Self {
        let clock = TokioClock { start: Instant::now() };
        let limiter = NonZeroU32::new(calls).map(|calls| {
            RateLimiter::new(Quota::per_minute(calls), HashMapStateStore::<ClientId>::default(), clock.clone())
        });
        Self { limiter, clock }
    }

    /// Counts one call, or says after how long it may be tried again.
    pub fn check(&self, client: &ClientId) -> Result<(), Duration> {
        let Some(limiter) = &self.limiter else { return Ok(()) };
        limiter.check_key(client).map_err(|refused| refused.wait_time_from(self.clock.now()))
    }

    /// Forgets clients that have made no use of the limit lately.
    pub fn forget_idle(&self) {
        if let Some(limiter) = &self.limiter {
            limiter.retain_recent();
        }
    }
}

/// Tokio's time as governor reads it, so that tests can pause it.
#[derive(Debug, Clone)]
struct TokioClock {
    start: Instant,
}

impl GovernorClock for TokioClock {
    type Instant = Duration;

    fn now(&self) -> Duration {
        self.start.elapsed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_hundred_and_first_call_of_a_minute_is_refused_and_says_when_to_come_back() {
        let rate = Rate::per_minute(100);
        let (one, other) = (ClientId::parse("one").unwrap(), ClientId::parse("other").unwrap());
        for _ in 0..100 {
            rate.check(&one).unwrap();
        }
        let wait = rate.check(&one).unwrap_err();
        assert!(wait > Duration::ZERO && wait <= Duration::from_millis(600), "{wait:?}");
        rate.check(&other).unwrap();
        tokio::time::advance(wait).await;
        rate.check(&one).unwrap();
        rate.check(&one).unwrap_err();
    }

    #[tokio::test]
    async fn zero_is_no_limit() {
        let rate = Rate::per_minute(0);
        let client = ClientId::parse("one").unwrap();
        for _ in 0..10_000 {
            rate.check(&client).unwrap();
        }
    }
}
