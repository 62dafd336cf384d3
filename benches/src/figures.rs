//! The figures: all samples of a comparison, and the medians of their runs.

use std::collections::BTreeMap;

use anyhow::Context;

use crate::numbers::{median, thousands};
use crate::process::{Load, Sample};
use crate::scenario::{Peer, Scenario, Store};

/// The medians of one server in one scenario.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Medians {
    pub(crate) rate: f64,
    /// The slowest and the fastest run.
    pub(crate) rates: (f64, f64),
    pub(crate) p50: f64,
    pub(crate) p99: f64,
    pub(crate) server_cpu: f64,
    pub(crate) generator_cpu: f64,
}

/// A figure of Handback with either store.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Stores {
    pub(crate) memory: f64,
    pub(crate) sqlite: f64,
}

impl Stores {
    /// Each as a part of another.
    pub(crate) fn of(self, other: Self) -> Self {
        Self { memory: self.memory / other.memory, sqlite: self.sqlite / other.sqlite }
    }
}

/// All samples of a comparison.
#[derive(Debug)]
pub(crate) struct Comparison {
    pub(crate) runs: u32,
    pub(crate) seconds: u32,
    /// How many cores something else kept busy, in each run.
    pub(crate) noise: Vec<f64>,
    samples: BTreeMap<(Scenario, Peer), Vec<Sample>>,
}

impl Comparison {
    pub(crate) fn new(runs: u32, seconds: u32) -> Self {
        Self { runs, seconds, noise: Vec::new(), samples: BTreeMap::new() }
    }

    pub(crate) fn add(&mut self, peer: Peer, scenario: Scenario, sample: Sample) {
        self.samples.entry((scenario, peer)).or_default().push(sample);
    }

    /// The medians of a scenario with calls or turns.
    pub(crate) fn medians(&self, peer: Peer, scenario: Scenario) -> anyhow::Result<Medians> {
        let loads: Vec<&Load> = self.of(peer, scenario)?.iter().filter_map(|sample| sample.load.as_ref()).collect();
        let of = |figure: fn(&Load) -> f64| median(loads.iter().map(|load| figure(load)));
        let rates = || loads.iter().map(|load| load.per_second);
        Ok(Medians {
            rate: of(|load| load.per_second)?,
            rates: (rates().fold(f64::INFINITY, f64::min), rates().fold(0.0, f64::max)),
            p50: of(|load| load.latency_ms.p50)?,
            p99: of(|load| load.latency_ms.p99)?,
            server_cpu: of(|load| load.server_cpu)?,
            generator_cpu: of(|load| load.generator_cpu)?,
        })
    }

    /// The median of a figure that the runs of a server in a scenario have.
    pub(crate) fn median(
        &self,
        peer: Peer,
        scenario: Scenario,
        figure: impl Fn(&Sample) -> Option<f64>,
    ) -> anyhow::Result<f64> {
        let found = median(self.of(peer, scenario)?.iter().filter_map(figure));
        found.with_context(|| format!("{}, {scenario}", peer.name()))
    }

    /// The same with either store.
    pub(crate) fn stores(&self, scenario: Scenario, figure: impl Fn(&Sample) -> Option<f64>) -> anyhow::Result<Stores> {
        let of = |store| self.median(Peer::Handback(store), scenario, &figure);
        Ok(Stores { memory: of(Store::Memory)?, sqlite: of(Store::Sqlite)? })
    }

    /// Every failure of every run, by server, scenario and name.
    pub(crate) fn errors(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for ((scenario, peer), samples) in &self.samples {
            let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
            for (kind, count) in samples.iter().flat_map(|sample| &sample.errors) {
                *counts.entry(kind).or_default() += count;
            }
            lines.extend(counts.iter().map(|(kind, count)| {
                format!("{}, {scenario}: {kind}, {} times", peer.name(), thousands(*count as f64))
            }));
        }
        lines
    }

    /// Every run of a server in a scenario.
    pub(crate) fn of(&self, peer: Peer, scenario: Scenario) -> anyhow::Result<&[Sample]> {
        let samples = self.samples.get(&(scenario, peer));
        samples.map(Vec::as_slice).with_context(|| format!("{}, {scenario}: not measured", peer.name()))
    }
}
