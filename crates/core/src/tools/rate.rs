//! The rate limit: how many calls a client gets in a minute.

use std::num::NonZeroU32;
use std::time::Duration;

use governor::clock::Clock as GovernorClock;
use governor::middleware::NoOpMiddleware;
use governor::state::keyed::HashMapStateStore;
use governor::{Quota, RateLimiter};
use tokio::time::Instant;

use crate::id::ClientId;

/// A limit per client. It is off when it is 0.
#[derive(Debug)]
pub struct Rate {
    limiter: Option<RateLimiter<ClientId, HashMapStateStore<ClientId>, TokioClock, NoOpMiddleware<Duration>>>,
    clock: TokioClock,
}

impl Rate {
    /// Allows this many calls per client and minute; 0 is no limit.
    pub fn per_minute(calls: u32) -> Self {
        let clock = TokioClock { start: Instant::now() };
        let limiter = NonZeroU32::new(calls).map(|calls| {
            RateLimiter::new(Quota::per_minute(calls), HashMapStateStore::<ClientId>::default(), clock.clone())
        });
        Self { limiter, clock }
    }

    /// Counts a call, or returns how long to wait before a retry.
    pub fn check(&self, client: &ClientId) -> Result<(), Duration> {
        let Some(limiter) = &self.limiter else { return Ok(()) };
        limiter.check_key(client).map_err(|refused| refused.wait_time_from(self.clock.now()))
    }

    /// Forgets the counters of clients that have been idle.
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
mod tests;
