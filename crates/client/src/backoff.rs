//! How long to wait before the next try.

use std::time::Duration;

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

    /// Starts over, after a success.
    pub(crate) fn reset(&mut self) {
        self.next = self.first;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_up_to_the_longest_and_start_over() {
        let mut backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(30));
        let delays: Vec<u64> = (0..7).map(|_| backoff.next(1.0).as_secs()).collect();
        assert_eq!(delays, [1, 2, 4, 8, 16, 30, 30]);
        backoff.reset();
        assert_eq!(backoff.next(1.0), Duration::from_secs(1));
    }

    #[test]
    fn chance_takes_at_most_half_of_a_delay() {
        let mut backoff = Backoff::new(Duration::from_secs(4), Duration::from_secs(4));
        assert_eq!(backoff.next(0.0), Duration::from_secs(2));
        assert_eq!(backoff.next(0.5), Duration::from_secs(3));
        assert_eq!(backoff.next(9.0), Duration::from_secs(4));
    }
}
