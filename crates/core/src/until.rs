//! Waits for a condition that changes are notified of.

use tokio::sync::Notify;

/// Waits until `look` finds something. It looks at once, and again after each notification.
pub(crate) async fn until<T>(changed: &Notify, mut look: impl FnMut() -> Option<T>) -> T {
    loop {
        let notified = changed.notified();
        tokio::pin!(notified);
        // Listen before looking, so that no change in between is missed.
        notified.as_mut().enable();
        if let Some(found) = look() {
            return found;
        }
        notified.await;
    }
}
