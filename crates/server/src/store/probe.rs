//! Whether a store can be written at the moment.

use std::time::Duration;

use handback_core::store::{StoreError, StoreFuture};
use tokio::sync::Mutex;
use tokio::time::Instant;

/// How long a result holds. Anybody may ask, and every try writes something.
const HOLDS: Duration = Duration::from_secs(1);

/// How long a try to write may take before it counts as failed.
const PATIENCE: Duration = Duration::from_secs(2);

/// Whether the last try to write succeeded, and when that was. It is locked during a try, so that whoever asks meanwhile waits
/// for the result.
#[derive(Debug, Default)]
pub(super) struct Probe(Mutex<Option<(Instant, bool)>>);

impl Probe {
    /// Tries whether something can be written. Those who ask at about the same time share one try.
    pub(super) async fn is_writable(&self, write: impl FnOnce() -> StoreFuture<()>) -> bool {
        let mut last = self.0.lock().await;
        if let Some((at, is_writable)) = *last
            && at.elapsed() < HOLDS
        {
            return is_writable;
        }
        let written = tokio::time::timeout(PATIENCE, write()).await;
        let written = written.unwrap_or_else(|_| {
            let cause = format!("nothing was written within {} s", PATIENCE.as_secs());
            Err(StoreError::Unavailable(cause))
        });
        if let Err(error) = &written {
            tracing::error!(%error, "nothing can be written");
        }
        *last = Some((Instant::now(), written.is_ok()));
        written.is_ok()
    }
}
