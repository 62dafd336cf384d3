//! Wall time and new ids, as a value that is passed in. Monotonic time is tokio's.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use crate::id::{CallId, HttpRequestId, Made, MessageId, PartId, PermissionId, RequestId, RunId, SessionId};

/// A moment, in milliseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Time(pub u64);

impl From<SystemTime> for Time {
    fn from(time: SystemTime) -> Self {
        Self(time.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis().try_into().unwrap_or(u64::MAX))
    }
}

impl From<Time> for SystemTime {
    fn from(Time(milliseconds): Time) -> Self {
        UNIX_EPOCH + Duration::from_millis(milliseconds)
    }
}

/// A duration in milliseconds, to the microsecond.
pub fn milliseconds(time: Duration) -> f64 {
    time.as_micros() as f64 / 1000.0
}

/// The source of wall time and new ids.
#[derive(Debug, Clone)]
pub struct Clock {
    source: Source,
    /// The last sortable id, so that the next one is greater.
    last: Arc<AtomicU64>,
}

#[derive(Debug, Clone)]
enum Source {
    /// The machine's time, and how many microseconds it is behind.
    System(Arc<AtomicI64>),
    Counting(Arc<Counting>),
}

/// What a clock for tests counts.
#[derive(Debug)]
struct Counting {
    /// The next id.
    next: AtomicU64,
    /// Since when the wall time goes on; it stands still when `None`.
    began: Option<Instant>,
    /// How far the wall time was moved, in milliseconds.
    moved: AtomicI64,
}

/// When the wall time of tests begins, in seconds since 1970: 2026-01-01.
const TESTS_BEGIN: u64 = 1_767_225_600;

impl Clock {
    /// A clock with the machine's time and random ids.
    pub fn system() -> Self {
        Self { source: Source::System(Arc::default()), last: Arc::default() }
    }

    /// A clock for tests: it is always 2026-01-01, and ids count up from 1.
    pub fn counting() -> Self {
        Self::counting_since(None)
    }

    /// A clock for tests: it is 2026-01-01 now, time goes on as tokio's does, and ids count up from 1.
    pub fn running() -> Self {
        Self::counting_since(Some(Instant::now()))
    }

    fn counting_since(began: Option<Instant>) -> Self {
        let counting = Counting { next: AtomicU64::new(1), began, moved: AtomicI64::default() };
        Self { source: Source::Counting(Arc::new(counting)), last: Arc::default() }
    }

    /// The clock of the next process: the same time, and new ids, but it does not know the last one.
    pub fn of_next_process(&self) -> Self {
        Self { source: self.source.clone(), last: Arc::default() }
    }

    /// Sets a clock for tests forward or back.
    pub fn jump(&self, milliseconds: i64) {
        if let Source::Counting(counting) = &self.source {
            counting.moved.fetch_add(milliseconds, Ordering::Relaxed);
        }
    }

    /// Sets the clock to what another one shows, whatever the machine's shows. A clock for tests stays as it is.
    pub fn set(&self, now: SystemTime) {
        if let Source::System(behind) = &self.source {
            let microseconds = |time: Duration| i64::try_from(time.as_micros()).unwrap_or(i64::MAX);
            let by = match now.duration_since(machine_time()) {
                Ok(ahead) => microseconds(ahead),
                Err(earlier) => -microseconds(earlier.duration()),
            };
            behind.store(by, Ordering::Relaxed);
        }
    }

    /// The wall time.
    pub fn now(&self) -> SystemTime {
        match &self.source {
            Source::System(behind) => moved(machine_time(), behind.load(Ordering::Relaxed)),
            Source::Counting(counting) => {
                let passed = counting.began.map_or(Duration::ZERO, |began| began.elapsed());
                let now = Duration::from_secs(TESTS_BEGIN) + passed;
                let moved = counting.moved.load(Ordering::Relaxed);
                let by = Duration::from_millis(moved.unsigned_abs());
                UNIX_EPOCH + if moved < 0 { now.saturating_sub(by) } else { now + by }
            }
        }
    }

    /// The wall time, to the millisecond.
    pub fn time(&self) -> Time {
        self.now().into()
    }

    /// A new call id, which nobody can guess. Two of its letters name the shard of the call.
    pub(crate) fn request_id(&self, shard: u16) -> RequestId {
        // With a letter in front, no shell takes it for an option.
        let mut text = [b'r'; 23];
        let random = self.random();
        spell(shard.into(), &mut text[SHARD_LETTERS]);
        spell(random as u64, &mut text[3..12]);
        spell((random >> 64) as u64, &mut text[12..]);
        RequestId::made(text)
    }

    /// A new id for an HTTP request, `req_…`.
    pub fn http_request_id(&self) -> HttpRequestId {
        self.sortable(b"req_")
    }

    /// A new session id, `ses_…`; later ids sort after earlier ones.
    pub fn session_id(&self) -> SessionId {
        self.sortable(b"ses_")
    }

    /// A new message id, `msg_…`.
    pub fn message_id(&self) -> MessageId {
        self.sortable(b"msg_")
    }

    /// A new part id, `prt_…`.
    pub fn part_id(&self) -> PartId {
        self.sortable(b"prt_")
    }

    /// A new permission id, `per_…`.
    pub fn permission_id(&self) -> PermissionId {
        self.sortable(b"per_")
    }

    /// A new id for a model's call, `cal_…`.
    pub fn call_id(&self) -> CallId {
        self.sortable(b"cal_")
    }

    /// A new run id, `run_…`.
    pub fn run_id(&self) -> RunId {
        self.sortable(b"run_")
    }

    /// A new id that sorts by time: 60 bits of time and count, 54 random bits.
    fn sortable<T: Made>(&self, prefix: &[u8; 4]) -> T {
        let now = self.time().0 << 12;
        let after = |last: u64| Some(now.max(last + 1));
        let last = self.last.fetch_update(Ordering::Relaxed, Ordering::Relaxed, after).unwrap_or_default();
        let mut text = [0; 23];
        text[..4].copy_from_slice(prefix);
        spell(now.max(last + 1), &mut text[4..14]);
        spell(self.random() as u64, &mut text[14..]);
        T::made(text)
    }

    /// A new name for one process of the server.
    pub fn epoch(&self) -> Arc<str> {
        format!("{:012x}", self.random() & 0xffff_ffff_ffff).into()
    }

    /// A number from 0 to 1, by chance.
    pub(crate) fn fraction(&self) -> f64 {
        // Numbers that follow each other, as tests count them, are far apart too.
        let scattered = (self.random() as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        f64::from((scattered >> 32) as u32) / f64::from(u32::MAX)
    }

    #[expect(clippy::disallowed_methods, reason = "the one place that makes ids")]
    fn random(&self) -> u128 {
        match &self.source {
            Source::System(_) => uuid::Uuid::new_v4().as_u128(),
            Source::Counting(counting) => counting.next.fetch_add(1, Ordering::Relaxed).into(),
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "the one place that reads the machine's clock")]
fn machine_time() -> SystemTime {
    SystemTime::now()
}

/// A time that is moved by so many microseconds.
fn moved(time: SystemTime, microseconds: i64) -> SystemTime {
    let by = Duration::from_micros(microseconds.unsigned_abs());
    let moved = if microseconds < 0 { time.checked_sub(by) } else { time.checked_add(by) };
    moved.unwrap_or(time)
}

/// The letters of a call id that name its shard.
const SHARD_LETTERS: Range<usize> = 1..3;

/// The number of shards: enough that threads seldom collide in one. An id can name 4,096.
pub(crate) const SHARDS: u16 = 256;

/// The shard that a call id names, if the server made it or it looks so.
pub(crate) fn named_by(request: &RequestId) -> Option<u16> {
    let letters = request.as_str().as_bytes().get(SHARD_LETTERS)?;
    let shard = letters.iter().try_fold(0, |bits, letter| Some(bits << 6 | digit(*letter)?))?;
    (shard < SHARDS).then_some(shard)
}

/// Letters of six bits each, which sort as their bits do.
const ALPHABET: &[u8; 64] = b"-0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz";

/// The six bits of a letter.
fn digit(letter: u8) -> Option<u16> {
    ALPHABET.binary_search(&letter).ok().and_then(|place| u16::try_from(place).ok())
}

/// Writes six bits per letter, the highest first.
fn spell(mut bits: u64, places: &mut [u8]) {
    for place in places.iter_mut().rev() {
        *place = ALPHABET[(bits & 63) as usize];
        bits >>= 6;
    }
}

#[cfg(test)]
mod tests;
