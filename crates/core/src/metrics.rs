//! What happened, counted, in the form that Prometheus reads.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

use crate::call::{FinishedCall, OutcomeKind};

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OutcomeLabel {
    outcome: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PhaseLabel {
    phase: &'static str,
}

/// The counters of a hub. Each is looked up once, here, and never again on the way of a call.
#[derive(Debug)]
pub struct Metrics {
    started: Counter,
    calls: Family<OutcomeLabel, Counter>,
    by_outcome: [Counter; 6],
    phases: Family<PhaseLabel, Histogram>,
    approval: Histogram,
    queue: Histogram,
    execute: Histogram,
}

const OUTCOMES: [(OutcomeKind, &str); 6] = [
    (OutcomeKind::Success, "success"),
    (OutcomeKind::Error, "error"),
    (OutcomeKind::Timeout, "timeout"),
    (OutcomeKind::Cancelled, "cancelled"),
    (OutcomeKind::Denied, "denied"),
    (OutcomeKind::Disconnected, "disconnected"),
];

impl Default for Metrics {
    fn default() -> Self {
        let calls = Family::<OutcomeLabel, Counter>::default();
        // From 0.1 ms to about 7 minutes.
        let phases = Family::<PhaseLabel, Histogram>::new_with_constructor(|| {
            Histogram::new(exponential_buckets(0.0001, 4.0, 12))
        });
        let phase = |phase| phases.get_or_create_owned(&PhaseLabel { phase });
        Self {
            started: Counter::default(),
            by_outcome: OUTCOMES.map(|(_, outcome)| calls.get_or_create_owned(&OutcomeLabel { outcome })),
            approval: phase("approval"),
            queue: phase("queue"),
            execute: phase("execute"),
            calls,
            phases,
        }
    }
}

impl Metrics {
    /// Adds these metrics to what is exported.
    pub fn register(&self, registry: &mut Registry) {
        registry.register("calls_started", "Calls that were made", self.started.clone());
        registry.register("calls", "Calls that are over, by outcome", self.calls.clone());
        registry.register("call_phase_seconds", "Time that calls spent in each phase", self.phases.clone());
    }

    /// A call is made.
    pub(crate) fn started(&self) {
        self.started.inc();
    }

    /// Calls that were made and are not over, with those whose beginning or end waits for the journal.
    pub fn under_way(&self) -> usize {
        // The ends first: a call that begins and ends meanwhile must not make it less than nothing.
        let over: u64 = self.by_outcome.iter().map(Counter::get).sum();
        usize::try_from(self.started.get().saturating_sub(over)).unwrap_or(usize::MAX)
    }

    /// A call is over, and its end is journaled if it could be.
    pub(crate) fn finished(&self, call: &FinishedCall) {
        let kind = call.outcome.kind();
        for ((known, _), counter) in OUTCOMES.iter().zip(&self.by_outcome) {
            if *known == kind {
                counter.inc();
            }
        }
        self.approval.observe(call.phases.approval.as_secs_f64());
        self.queue.observe(call.phases.queue.as_secs_f64());
        self.execute.observe(call.phases.execute.as_secs_f64());
    }
}
