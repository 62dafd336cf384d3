//! Wall time and new ids, as a value that is passed in. Monotonic time is tokio's.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::id::RequestId;

/// Where wall time and new ids come from.
#[derive(Debug, Clone)]
pub struct Clock(Source);

#[derive(Debug, Clone)]
enum Source {
    System,
    Counting(Arc<AtomicU64>),
}

impl Clock {
    /// The machine's clock and random ids.
    pub fn system() -> Self {
        Self(Source::System)
    }

    /// For tests: it is always 2026-01-01, and ids count up from 1.
    pub fn counting() -> Self {
        Self(Source::Counting(Arc::new(AtomicU64::new(1))))
    }

    /// The wall time.
    #[expect(clippy::disallowed_methods, reason = "the one place that reads the machine's clock")]
    pub fn now(&self) -> SystemTime {
        match &self.0 {
            Source::System => SystemTime::now(),
            Source::Counting(_) => UNIX_EPOCH + Duration::from_secs(1_767_225_600),
        }
    }

    /// A new call id; nobody can guess it.
    pub fn request_id(&self) -> RequestId {
        let text = format!("req_{}", self.random());
        // Always valid by construction; the fallback can not be reached and is not worth a panic.
        RequestId::parse(&text).unwrap_or_else(|_| self.request_id())
    }

    /// A name for one run of the server.
    pub fn epoch(&self) -> Arc<str> {
        self.random()[..12].into()
    }

    #[expect(clippy::disallowed_methods, reason = "the one place that makes ids")]
    fn random(&self) -> String {
        match &self.0 {
            Source::System => uuid::Uuid::new_v4().simple().to_string(),
            Source::Counting(next) => format!("{:032}", next.fetch_add(1, Ordering::Relaxed)),
        }
    }
}
