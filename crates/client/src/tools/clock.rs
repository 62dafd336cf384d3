//! The deadlines of calls, on this machine's clock.

use std::time::{Duration, SystemTime};

use tokio::time::Instant;

/// The longest time that Handback allows a call, used while a deadline is not known.
pub(crate) const LONGEST_CALL: Duration = Duration::from_secs(24 * 60 * 60);
/// How much later than the server this machine sees a deadline, at most: the clock is read in whole seconds.
pub(super) const CLOCK_RESOLUTION: Duration = Duration::from_secs(1);

/// The server's clock. Deadlines are in the server's time, and the clock of this machine may be minutes off.
#[derive(Debug, Clone, Copy)]
pub(super) struct ServerClock {
    shown: Option<SystemTime>,
    read: Instant,
}

impl ServerClock {
    /// Reads the clock from `date`, a header of an answer that just arrived. The header has whole seconds, so a
    /// deadline comes up to a second late.
    pub(super) fn new(date: Option<&str>) -> Self {
        Self { shown: date.and_then(|date| httpdate::parse_http_date(date).ok()), read: Instant::now() }
    }

    /// The time of an RFC 3339 `deadline`; `None` if it is past. An unreadable deadline is as late as possible, because
    /// the server ends the call in any case.
    pub(super) fn deadline(&self, deadline: &str) -> Option<Instant> {
        let (Some(shown), Ok(deadline)) = (self.shown, humantime::parse_rfc3339(deadline)) else {
            return Some(Instant::now() + LONGEST_CALL);
        };
        let remaining = deadline.duration_since(shown).ok()?.checked_sub(self.read.elapsed())?;
        Some(Instant::now() + remaining.min(LONGEST_CALL)).filter(|_| !remaining.is_zero())
    }
}

#[cfg(test)]
mod tests;
