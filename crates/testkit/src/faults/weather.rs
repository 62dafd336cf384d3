//! Whether there is a storm, what chance decides in it, and what was done.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use fastrand::Rng;
use tokio::sync::watch;
use tokio::time::timeout;

/// How bad a storm is. Chances are between 0 and 1; times and distances are spread evenly over their orders of magnitude.
#[derive(Debug, Clone)]
pub struct Severity {
    /// How many bytes pass in one direction of a connection before it is cut or stalled, when that is soon: in the head
    /// of a request, in a handshake, in the first frame.
    pub soon: RangeInclusive<u64>,
    /// The same, when it is later.
    pub later: RangeInclusive<u64>,
    /// The chance that it is soon.
    pub soon_chance: f64,
    /// The chance that a connection is stalled there, and not cut.
    pub stall_chance: f64,
    /// How long a stall takes, in milliseconds.
    pub stall: RangeInclusive<u64>,
    /// The chance that the connection is cut when a stall is over.
    pub stall_ends_in_cut: f64,
    /// The chance that an HTTP request is delivered late.
    pub request_delay: f64,
    /// The chance that an HTTP request is delivered twice.
    pub request_repeat: f64,
    /// The chance that an HTTP request is delivered, and its answer lost.
    pub answer_loss: f64,
    /// The chance that an SSE frame or a WebSocket message is delivered late.
    pub message_delay: f64,
    /// The chance that an SSE frame or a WebSocket message is delivered twice.
    pub message_repeat: f64,
    /// How long a request, frame or message is late, in milliseconds.
    pub delay: RangeInclusive<u64>,
}

impl Default for Severity {
    fn default() -> Self {
        Self {
            soon: 0..=600,
            later: 600..=600_000,
            soon_chance: 0.15,
            stall_chance: 0.25,
            stall: 5..=2_000,
            stall_ends_in_cut: 0.3,
            request_delay: 0.1,
            request_repeat: 0.1,
            answer_loss: 0.05,
            message_delay: 0.01,
            message_repeat: 0.1,
            delay: 1..=150,
        }
    }
}

impl Severity {
    /// Nothing ever happens, for tests that want one thing to.
    pub fn none() -> Self {
        Self {
            soon: u64::MAX..=u64::MAX,
            later: u64::MAX..=u64::MAX,
            soon_chance: 0.0,
            stall_chance: 0.0,
            stall: 1..=1,
            stall_ends_in_cut: 0.0,
            request_delay: 0.0,
            request_repeat: 0.0,
            answer_loss: 0.0,
            message_delay: 0.0,
            message_repeat: 0.0,
            delay: 1..=1,
        }
    }
}

/// A direction on a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
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
    pub const ALL: [Self; 15] = [
        Self::ResetUp,
        Self::ResetDown,
        Self::CloseUp,
        Self::CloseDown,
        Self::StallUp,
        Self::StallDown,
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
pub(super) struct Weather {
    pub(super) severity: Severity,
    stormy: watch::Sender<bool>,
    seeds: Mutex<Rng>,
    done: [AtomicU64; Fault::ALL.len()],
}

impl Weather {
    pub(super) fn new(severity: Severity, seed: u64) -> Self {
        Self {
            severity,
            stormy: watch::Sender::new(true),
            seeds: Mutex::new(Rng::with_seed(seed)),
            done: Default::default(),
        }
    }

    pub(super) fn turn(&self, stormy: bool) {
        self.stormy.send_replace(stormy);
    }

    pub(super) fn is_stormy(&self) -> bool {
        *self.stormy.borrow()
    }

    /// Chance for one connection or request.
    pub(super) fn chance(&self) -> Chance {
        Chance(self.seeds.lock().unwrap().fork())
    }

    /// Takes note of what was done.
    pub(super) fn note(&self, fault: Fault) {
        self.done[fault as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn report(&self) -> Report {
        Fault::ALL.map(|fault| (fault.name(), self.done[fault as usize].load(Ordering::Relaxed))).into()
    }

    /// Waits so long, or until it is calm.
    pub(super) async fn pass_time(&self, longest: Duration) {
        let mut stormy = self.stormy.subscribe();
        // The sender lives as long as `self`; either end of the wait is fine.
        _ = timeout(longest, stormy.wait_for(|stormy| !stormy)).await;
    }
}

/// A sequence of decisions that depends on the seed alone.
pub(super) struct Chance(Rng);

impl Chance {
    pub(super) fn happens(&mut self, chance: f64) -> bool {
        self.0.f64() < chance
    }

    pub(super) fn even(&mut self) -> bool {
        self.0.bool()
    }

    /// A number in the range, each order of magnitude as likely as the others.
    pub(super) fn number(&mut self, range: &RangeInclusive<u64>) -> u64 {
        let (low, high) = (*range.start() as f64 + 1.0, *range.end() as f64 + 1.0);
        let number = (low.ln() + self.0.f64() * (high.ln() - low.ln())).exp() - 1.0;
        (number.round() as u64).clamp(*range.start(), *range.end())
    }

    pub(super) fn time(&mut self, milliseconds: &RangeInclusive<u64>) -> Duration {
        Duration::from_millis(self.number(milliseconds))
    }

    /// How many bytes pass before the next fault.
    pub(super) fn distance(&mut self, severity: &Severity) -> u64 {
        if self.happens(severity.soon_chance) {
            // Evenly: every byte of a head or a handshake is as good as any other.
            self.0.u64(severity.soon.clone())
        } else {
            self.number(&severity.later)
        }
    }
}
