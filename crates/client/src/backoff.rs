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
mod tests;
