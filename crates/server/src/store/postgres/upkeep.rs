//! What is done beside the writes, when there is time: the oldest calls are deleted, and changes of usage are added up.

use std::time::Duration;

use tokio::time::Instant;

use super::Bounds;
use super::fault::Fault;
use super::lane::Lane;
use super::{calls, usage};

/// How often usage is added up, and the oldest calls are deleted.
const INTERVAL: Duration = Duration::from_secs(30);
/// How long upkeep waits for a moment without writes.
const OVERDUE: Duration = Duration::from_secs(40);

/// When it was last done.
pub(super) struct Upkeep {
    last: Instant,
    has_more: bool,
}

impl Upkeep {
    pub(super) fn new() -> Self {
        Self { last: Instant::now(), has_more: false }
    }

    /// How long to wait for writes until there is something to do.
    pub(super) fn patience(&self) -> Duration {
        if self.has_more { Duration::ZERO } else { INTERVAL.saturating_sub(self.last.elapsed()) }
    }

    pub(super) fn is_overdue(&self) -> bool {
        self.last.elapsed() > OVERDUE
    }

    pub(super) async fn run(&mut self, lane: &Lane, bounds: &Bounds) -> Result<(), Fault> {
        self.last = Instant::now();
        usage::add_up(lane).await?;
        self.has_more = calls::prune(lane, bounds).await?;
        Ok(())
    }
}
