//! Counts of calls, for Prometheus. Each shard has its own; a reader adds them up.

use std::collections::BTreeMap;
use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;
use smol_str::SmolStr;

use crate::metrics::{Labels, Times, add, counters, histograms};
use crate::store::{FinishedCall, OutcomeKind};

const PHASES: [&str; 3] = ["approval", "queue", "execute"];

/// A count for each outcome.
type Outcomes = [u64; OutcomeKind::ALL.len()];

/// Counts of calls that were made and ended, and how long they took.
#[derive(Debug, Clone, Default)]
pub struct Metrics {
    started: u64,
    over: Outcomes,
    phases: [Times; PHASES.len()],
    /// The calls that are over, by the name of the tool.
    tools: BTreeMap<SmolStr, Outcomes>,
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
    pub(crate) fn finished(&mut self, call: &FinishedCall, names: &Labels) {
        let outcome = call.outcome.kind() as usize;
        self.over[outcome] += 1;
        let name = call.head.tool.spec.name.as_str();
        match self.tools.get_mut(name) {
            Some(outcomes) => outcomes[outcome] += 1,
            None => self.tools.entry(names.admit(name)).or_default()[outcome] += 1,
        }
        let spent = [call.phases.approval, call.phases.queue, call.phases.execute];
        self.phases.iter_mut().zip(spent).for_each(|(times, time)| times.count(time));
    }

    /// Adds the counts of another shard.
    pub(crate) fn add(&mut self, other: &Self) {
        self.started += other.started;
        add(&mut self.over, &other.over);
        self.phases.iter_mut().zip(&other.phases).for_each(|(sum, more)| sum.add(more));
        for (tool, outcomes) in &other.tools {
            add(self.tools.entry(tool.clone()).or_default(), outcomes);
        }
    }
}

impl Collector for Metrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        encoder
            .encode_descriptor("calls_started", "Calls that were made", None, MetricType::Counter)?
            .encode_counter::<NoLabelSet, _, f64>(&self.started, None)?;
        let outcomes = || OutcomeKind::ALL.map(OutcomeKind::as_str).into_iter();
        let over = outcomes().zip(self.over).map(|(outcome, count)| ([("outcome", outcome)], count));
        counters(&mut encoder, "calls", "Calls that are over, by outcome", over)?;
        let of_tools = self.tools.iter().flat_map(|(tool, counts)| {
            outcomes().zip(*counts).map(|(outcome, count)| ([("tool", tool.as_str()), ("outcome", outcome)], count))
        });
        let of_tools = of_tools.filter(|(_, count)| *count > 0);
        counters(&mut encoder, "tool_calls", "Calls that are over, by the name of the tool and by outcome", of_tools)?;
        let phases = PHASES.iter().zip(&self.phases).map(|(phase, times)| ([("phase", *phase)], times));
        histograms(&mut encoder, "call_phase_seconds", "Time that calls spent in each phase", phases)
    }
}
