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

/// A figure as each round measured it. There is at least one.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Rounds(Vec<f64>);

impl Rounds {
    pub(crate) fn median(&self) -> f64 {
        median(self.0.iter().copied())
    }

    /// The values between which half of the rounds are.
    pub(crate) fn middle_half(&self) -> (f64, f64) {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        let quarter = (sorted.len() - 1) / 4;
        (sorted[quarter], sorted[sorted.len() - 1 - quarter])
    }

    /// As a part of another, round by round: the machine changes its speed, but less within a round than between rounds.
    pub(crate) fn of(&self, other: &Self) -> Self {
        Self(self.0.iter().zip(&other.0).map(|(part, whole)| part / whole).collect())
    }
}

/// A figure of Handback with either store.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Stores {
    pub(crate) memory: Rounds,
    pub(crate) sqlite: Rounds,
}

impl Stores {
    /// Each as a part of another.
    pub(crate) fn of(&self, other: &Self) -> Self {
        Self { memory: self.memory.of(&other.memory), sqlite: self.sqlite.of(&other.sqlite) }
    }
}

/// All samples of a comparison.
#[derive(Debug)]
pub(crate) struct Comparison {
    pub(crate) runs: u32,
    pub(crate) seconds: u32,
    /// The version of PostgreSQL, or why it was not measured.
    pub(crate) postgres: Result<String, String>,
    /// How many cores something else kept busy, in each run.
    pub(crate) noise: Vec<f64>,
    samples: BTreeMap<(Scenario, Peer), Vec<Sample>>,
}

impl Comparison {
    pub(crate) fn new(runs: u32, seconds: u32, postgres: Result<String, String>) -> Self {
        Self { runs, seconds, postgres, noise: Vec::new(), samples: BTreeMap::new() }
    }

    /// The servers that are measured in a scenario: those on PostgreSQL only if that is there.
    pub(crate) fn peers(&self, scenario: Scenario) -> impl Iterator<Item = Peer> {
        scenario.peers().filter(|peer| self.postgres.is_ok() || *peer != Peer::Handback(Store::Postgres))
    }

    pub(crate) fn add(&mut self, peer: Peer, scenario: Scenario, sample: Sample) {
        self.samples.entry((scenario, peer)).or_default().push(sample);
    }

    /// The medians of a scenario with calls or turns.
    pub(crate) fn medians(&self, peer: Peer, scenario: Scenario) -> anyhow::Result<Medians> {
        let of = |figure: fn(&Load) -> f64| {
            self.rounds(peer, scenario, |sample| sample.load.as_ref().map(figure)).map(|rounds| rounds.median())
        };
        let Rounds(rates) = self.rounds(peer, scenario, |sample| Some(sample.load.as_ref()?.per_second))?;
        Ok(Medians {
            rate: of(|load| load.per_second)?,
            rates: (rates.iter().copied().fold(f64::INFINITY, f64::min), rates.iter().copied().fold(0.0, f64::max)),
            p50: of(|load| load.latency_ms.p50)?,
            p99: of(|load| load.latency_ms.p99)?,
            server_cpu: of(|load| load.server_cpu)?,
            generator_cpu: of(|load| load.generator_cpu)?,
        })
    }

    /// A figure that the runs of a server in a scenario have.
    pub(crate) fn rounds(
        &self,
        peer: Peer,
        scenario: Scenario,
        figure: impl Fn(&Sample) -> Option<f64>,
    ) -> anyhow::Result<Rounds> {
        let rounds: Option<Vec<f64>> = self.of(peer, scenario)?.iter().map(figure).collect();
        rounds.map(Rounds).with_context(|| format!("{}, {scenario}: a run lacks a figure", peer.name()))
    }

    /// The same with either store.
    pub(crate) fn stores(&self, scenario: Scenario, figure: impl Fn(&Sample) -> Option<f64>) -> anyhow::Result<Stores> {
        let of = |store| self.rounds(Peer::Handback(store), scenario, &figure);
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
