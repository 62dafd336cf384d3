//! Tries whether something can be written.

use std::time::Duration;

use handback_core::store::StoreFuture;
use tokio::sync::Mutex;
use tokio::time::Instant;

/// How long a result holds. Anybody may ask, and every try writes something.
const FRESH: Duration = Duration::from_secs(1);
/// How long a write may take before it counts as failed.
const PATIENCE: Duration = Duration::from_secs(2);

/// The last result, and when it was found.
#[derive(Default)]
pub(super) struct Probe {
    // Held during a try, so that whoever asks meanwhile waits for its result.
    last: Mutex<Option<(Instant, bool)>>,
}

impl Probe {
    pub(super) async fn look(&self, write: impl FnOnce() -> StoreFuture<()>) -> bool {
        let mut last = self.last.lock().await;
        if let Some((at, is_writable)) = *last
            && at.elapsed() < FRESH
        {
            return is_writable;
        }
        let is_writable = match tokio::time::timeout(PATIENCE, write()).await {
            Ok(Ok(())) => true,
            Ok(Err(error)) => {
                tracing::error!(%error, "nothing can be written");
                false
            }
            Err(_) => {
                tracing::error!("nothing was written within {} s", PATIENCE.as_secs());
                false
            }
        };
        *last = Some((Instant::now(), is_writable));
        is_writable
    }
}
