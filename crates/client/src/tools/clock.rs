//! When a call expires, on this machine's clock.

use std::time::{Duration, SystemTime};

use tokio::time::Instant;

/// For a call without a deadline that can be read: the longest that Handback lets a call take.
pub(super) const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);

/// What the server's clock shows. Deadlines are the server's, and a laptop's clock may be minutes off.
#[derive(Debug, Clone, Copy)]
pub(super) struct ServerClock {
    shown: Option<SystemTime>,
    read: Instant,
}

impl ServerClock {
    /// The clock that `date`, the header of an answer that just came, was read from.
    ///
    /// The header has whole seconds, so the clock is up to a second slow: a deadline is taken a little too late, and
    /// the server has the last word.
    pub(super) fn new(date: Option<&str>) -> Self {
        Self { shown: date.and_then(|date| httpdate::parse_http_date(date).ok()), read: Instant::now() }
    }

    /// When the RFC 3339 `deadline` is; `None` if it is past. It is taken as far away when it cannot be read, or not
    /// be placed: the server says when the call is over, too.
    pub(super) fn deadline(&self, deadline: &str) -> Option<Instant> {
        let (Some(shown), Ok(deadline)) = (self.shown, humantime::parse_rfc3339(deadline)) else {
            return Some(Instant::now() + LONGEST);
        };
        let remaining = deadline.duration_since(shown).ok()?.checked_sub(self.read.elapsed())?;
        Some(Instant::now() + remaining.min(LONGEST)).filter(|_| !remaining.is_zero())
    }
}

#[cfg(test)]
mod tests;
