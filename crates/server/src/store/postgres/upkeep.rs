//! What is done beside the writes: changes of usage are added up, and the oldest calls are deleted when there is time.

use std::time::Duration;

use tokio::time::Instant;

use super::Bounds;
use super::fault::Fault;
use super::lane::Lane;
use super::{calls, usage};

/// How often the oldest calls are deleted.
const INTERVAL: Duration = Duration::from_secs(30);
/// How long that waits for a moment without writes.
const OVERDUE: Duration = Duration::from_secs(40);
/// After how many writes usage is added up: whoever asks for it reads what each of them has changed since.
const ADDED_UP_AFTER: usize = 256;

/// What is to be done.
pub(super) struct Upkeep {
    /// When the oldest calls were last deleted.
    last: Instant,
    has_more: bool,
    /// How many writes there were since usage was added up.
    writes: usize,
}

impl Upkeep {
    pub(super) fn new() -> Self {
        Self { last: Instant::now(), has_more: false, writes: 0 }
    }

    /// How long to wait for writes until there is something to do.
    pub(super) fn patience(&self) -> Duration {
        if self.has_more { Duration::ZERO } else { INTERVAL.saturating_sub(self.last.elapsed()) }
    }

    /// Takes note of writes. Returns whether something is to be done that waits for no quiet moment.
    pub(super) fn wrote(&mut self, writes: usize) -> bool {
        self.writes += writes;
        self.writes >= ADDED_UP_AFTER || self.last.elapsed() > OVERDUE
    }

    /// Does what is to be done. In a quiet moment that is everything.
    pub(super) async fn run(&mut self, lane: &Lane, bounds: &Bounds, is_quiet: bool) -> Result<(), Fault> {
        self.writes = 0;
        usage::add_up(lane).await?;
        if is_quiet || self.last.elapsed() > OVERDUE {
            self.last = Instant::now();
            self.has_more = calls::prune(lane, bounds).await?;
        }
        Ok(())
    }
}
