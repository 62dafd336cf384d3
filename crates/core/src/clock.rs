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
        const ALPHABET: &[u8; 64] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_-";
        let random = self.random();
        // With the letter in front, so that no shell takes it for an option, it just fits where no memory is needed.
        let mut text = [b'r'; 23];
        let (low, high) = text[1..].split_at_mut(11);
        for (half, mut bits) in [(low, random as u64), (high, (random >> 64) as u64)] {
            for place in half {
                *place = ALPHABET[(bits & 63) as usize];
                bits >>= 6;
            }
        }
        RequestId::random(text)
    }

    /// A name for one run of the server.
    pub fn epoch(&self) -> Arc<str> {
        format!("{:012x}", self.random() & 0xffff_ffff_ffff).into()
    }

    #[expect(clippy::disallowed_methods, reason = "the one place that makes ids")]
    fn random(&self) -> u128 {
        match &self.0 {
            Source::System => uuid::Uuid::new_v4().as_u128(),
            Source::Counting(next) => next.fetch_add(1, Ordering::Relaxed).into(),
        }
    }
}
