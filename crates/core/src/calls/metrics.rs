//! Counters in the form of Prometheus. Each shard has its own; a reader adds them up.

use std::fmt;
use std::time::Duration;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;

use crate::store::{FinishedCall, OutcomeKind};

const OUTCOMES: [(OutcomeKind, &str); 6] = [
    (OutcomeKind::Success, "success"),
    (OutcomeKind::Error, "error"),
    (OutcomeKind::Timeout, "timeout"),
    (OutcomeKind::Cancelled, "cancelled"),
    (OutcomeKind::Denied, "denied"),
    (OutcomeKind::Disconnected, "disconnected"),
];

const PHASES: [&str; 3] = ["approval", "queue", "execute"];

/// The first histogram bucket, the factor between buckets, and their number. The last bucket takes the rest. The bounds
/// go from 0.1 ms to about 7 minutes.
const NARROWEST: Duration = Duration::from_micros(100);
const WIDER: u32 = 4;
const BUCKETS: usize = 13;

/// Counts of calls that were made and ended, and how long they took.
#[derive(Debug, Clone, Default)]
pub struct Metrics {
    started: u64,
    over: [u64; OUTCOMES.len()],
    phases: [Times; PHASES.len()],
}

/// A histogram of durations.
#[derive(Debug, Clone, Copy, Default)]
struct Times {
    total: Duration,
    buckets: [u64; BUCKETS],
}

impl Times {
    fn count(&mut self, time: Duration) {
        self.total += time;
        self.buckets[bounds().position(|bound| time <= bound).unwrap_or(BUCKETS - 1)] += 1;
    }

    fn add(&mut self, other: &Self) {
        self.total += other.total;
        add(&mut self.buckets, &other.buckets);
    }
}

/// The upper bounds of all buckets but the last.
fn bounds() -> impl Iterator<Item = Duration> {
    std::iter::successors(Some(NARROWEST), |bound| Some(*bound * WIDER)).take(BUCKETS - 1)
}

fn add<const N: usize>(sums: &mut [u64; N], more: &[u64; N]) {
    sums.iter_mut().zip(more).for_each(|(sum, more)| *sum += more);
}

impl Metrics {
    /// Adds these metrics to the exported ones.
    pub fn register(self, registry: &mut Registry) {
        registry.register_collector(Box::new(self));
    }

    /// Calls that are not over, including those whose beginning or end is being journaled.
    pub fn under_way(&self) -> usize {
        let over: u64 = self.over.iter().sum();
        usize::try_from(self.started.saturating_sub(over)).unwrap_or(usize::MAX)
    }

    /// Counts a call that is made.
    pub(crate) fn started(&mut self) {
        self.started += 1;
    }

    /// Takes a call back that was not made after all.
    pub(crate) fn withdrawn(&mut self) {
        self.started -= 1;
    }

    /// Counts a call that is over. Its end is journaled, unless the journal failed.
    pub(crate) fn finished(&mut self, call: &FinishedCall) {
        let kind = call.outcome.kind();
        for ((known, _), count) in OUTCOMES.iter().zip(&mut self.over) {
            *count += u64::from(*known == kind);
        }
        let spent = [call.phases.approval, call.phases.queue, call.phases.execute];
        self.phases.iter_mut().zip(spent).for_each(|(times, time)| times.count(time));
    }

    /// Adds the counts of another shard.
    pub(crate) fn add(&mut self, other: &Self) {
        self.started += other.started;
        add(&mut self.over, &other.over);
        self.phases.iter_mut().zip(&other.phases).for_each(|(sum, more)| sum.add(more));
    }
}

impl Collector for Metrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let counter = MetricType::Counter;
        encoder
            .encode_descriptor("calls_started", "Calls that were made", None, counter)?
            .encode_counter::<NoLabelSet, _, f64>(&self.started, None)?;
        let mut calls = encoder.encode_descriptor("calls", "Calls that are over, by outcome", None, counter)?;
        for ((_, outcome), count) in OUTCOMES.iter().zip(&self.over) {
            calls.encode_family(&[("outcome", *outcome)])?.encode_counter::<NoLabelSet, _, f64>(count, None)?;
        }
        let help = "Time that calls spent in each phase";
        let mut phases = encoder.encode_descriptor("call_phase_seconds", help, None, MetricType::Histogram)?;
        for (phase, times) in PHASES.iter().zip(&self.phases) {
            let bounds = bounds().map(|bound| bound.as_secs_f64()).chain([f64::INFINITY]);
            let buckets: Vec<(f64, u64)> = bounds.zip(times.buckets).collect();
            let (total, count) = (times.total.as_secs_f64(), times.buckets.iter().sum());
            phases.encode_family(&[("phase", *phase)])?.encode_histogram::<NoLabelSet>(total, count, &buckets, None)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
