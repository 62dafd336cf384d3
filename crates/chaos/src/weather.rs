//! Whether there is a storm, what chance decides in it, and what was done.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use fastrand::Rng;
use tokio::sync::watch;
use tokio::time::timeout;

use crate::plan::{Plan, Range};

/// A direction on a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// From the client to the server.
    Up,
    /// From the server to the client.
    Down,
}

/// Something that was done to a connection or to what is sent on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
#[expect(missing_docs, reason = "the names say it; see `Fault::name`")]
pub enum Fault {
    ResetUp,
    ResetDown,
    CloseUp,
    CloseDown,
    StallUp,
    StallDown,
    ThrottledUp,
    ThrottledDown,
    RequestDelayed,
    RequestRepeated,
    AnswerLost,
    FrameDelayed,
    FrameRepeated,
    MessageDelayedUp,
    MessageDelayedDown,
    MessageRepeatedUp,
    MessageRepeatedDown,
}

impl Fault {
    /// All there are.
    pub const ALL: [Self; 17] = [
        Self::ResetUp,
        Self::ResetDown,
        Self::CloseUp,
        Self::CloseDown,
        Self::StallUp,
        Self::StallDown,
        Self::ThrottledUp,
        Self::ThrottledDown,
        Self::RequestDelayed,
        Self::RequestRepeated,
        Self::AnswerLost,
        Self::FrameDelayed,
        Self::FrameRepeated,
        Self::MessageDelayedUp,
        Self::MessageDelayedDown,
        Self::MessageRepeatedUp,
        Self::MessageRepeatedDown,
    ];

    /// What it is called in a report.
    pub fn name(self) -> &'static str {
        match self {
            Self::ResetUp => "resetUp",
            Self::ResetDown => "resetDown",
            Self::CloseUp => "closeUp",
            Self::CloseDown => "closeDown",
            Self::StallUp => "stallUp",
            Self::StallDown => "stallDown",
            Self::ThrottledUp => "throttledUp",
            Self::ThrottledDown => "throttledDown",
            Self::RequestDelayed => "requestDelayed",
            Self::RequestRepeated => "requestRepeated",
            Self::AnswerLost => "answerLost",
            Self::FrameDelayed => "frameDelayed",
            Self::FrameRepeated => "frameRepeated",
            Self::MessageDelayedUp => "messageDelayedUp",
            Self::MessageDelayedDown => "messageDelayedDown",
            Self::MessageRepeatedUp => "messageRepeatedUp",
            Self::MessageRepeatedDown => "messageRepeatedDown",
        }
    }
}

/// How often each fault was done, by its name.
pub type Report = BTreeMap<&'static str, u64>;

/// What both layers share.
pub(crate) struct Weather {
    pub(crate) plan: Plan,
    stormy: watch::Sender<bool>,
    seeds: Mutex<Rng>,
    done: [AtomicU64; Fault::ALL.len()],
}

impl Weather {
    pub(crate) fn new(plan: Plan) -> Self {
        Self {
            stormy: watch::Sender::new(true),
            seeds: Mutex::new(Rng::with_seed(plan.seed)),
            plan,
            done: Default::default(),
        }
    }

    pub(crate) fn turn(&self, stormy: bool) {
        self.stormy.send_replace(stormy);
    }

    pub(crate) fn is_stormy(&self) -> bool {
        *self.stormy.borrow()
    }

    /// Chance for one connection or request.
    pub(crate) fn chance(&self) -> Chance {
        Chance(self.seeds.lock().unwrap_or_else(PoisonError::into_inner).fork())
    }

    /// Takes note of what was done.
    pub(crate) fn note(&self, fault: Fault) {
        self.done[fault as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn report(&self) -> Report {
        Fault::ALL.map(|fault| (fault.name(), self.done[fault as usize].load(Ordering::Relaxed))).into()
    }

    /// Waits so long, or until it is calm.
    pub(crate) async fn pass_time(&self, longest: Duration) {
        let mut stormy = self.stormy.subscribe();
        // The sender lives as long as `self`; either end of the wait is fine.
        _ = timeout(longest, stormy.wait_for(|stormy| !stormy)).await;
    }
}

/// A sequence of decisions that depends on the seed alone.
pub(crate) struct Chance(Rng);

impl Chance {
    pub(crate) fn happens(&mut self, chance: f64) -> bool {
        self.0.f64() < chance
    }

    pub(crate) fn even(&mut self) -> bool {
        self.0.bool()
    }

    /// A number in the range, each order of magnitude as likely as the others.
    pub(crate) fn number(&mut self, Range(least, most): Range) -> u64 {
        let (low, high) = (least as f64 + 1.0, most as f64 + 1.0);
        let number = (low.ln() + self.0.f64() * (high.ln() - low.ln())).exp() - 1.0;
        (number.round() as u64).clamp(least, most)
    }

    pub(crate) fn time(&mut self, milliseconds: Range) -> Duration {
        Duration::from_millis(self.number(milliseconds))
    }

    /// How many bytes pass before the next fault.
    pub(crate) fn distance(&mut self, plan: &Plan) -> u64 {
        if self.happens(plan.soon_chance) {
            // Evenly: every byte of a head or a handshake is as good as any other.
            self.0.u64(RangeInclusive::from(plan.soon))
        } else {
            self.number(plan.later)
        }
    }
}
