//! Counts of turns and of models' answers, for Prometheus.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;
use smol_str::SmolStr;

use crate::metrics::{MOST_VALUES, OTHER, Times, counters, histograms};
use crate::store::Usage;

/// Counts of turns and of models' answers since the start.
#[derive(Debug, Clone, Default)]
pub struct Metrics(Arc<Mutex<Counts>>);

#[derive(Debug, Clone, Default)]
struct Counts {
    /// Turns that are over, and how long they took.
    turns: BTreeMap<&'static str, u64>,
    took: Times,
    models: BTreeMap<SmolStr, Answers>,
}

/// The answers of one model.
#[derive(Debug, Clone, Default)]
struct Answers {
    outcomes: BTreeMap<&'static str, u64>,
    usage: Usage,
    /// How long the first piece of an answer took.
    first: Times,
    /// How long complete answers took.
    whole: Times,
}

impl Metrics {
    /// Adds these metrics to the exported ones.
    pub fn register(self, registry: &mut Registry) {
        registry.register_collector(Box::new(self));
    }

    /// Counts a turn that is over, and how long it took if it had begun.
    pub(super) fn turn(&self, outcome: &'static str, took: Option<Duration>) {
        let mut counts = self.counts();
        *counts.turns.entry(outcome).or_default() += 1;
        took.into_iter().for_each(|took| counts.took.count(took));
    }

    /// Counts an answer of a model; `whole` is how long a complete one took. Callers name any model, so one counts by its
    /// name once it has answered.
    pub(super) fn answer(
        &self,
        model: &str,
        outcome: &'static str,
        first: Option<Duration>,
        whole: Option<Duration>,
        usage: &Usage,
    ) {
        let mut counts = self.counts();
        let is_new = whole.is_some() && counts.models.len() < MOST_VALUES;
        let is_shown = is_new || counts.models.contains_key(model);
        let answers = counts.models.entry(if is_shown { SmolStr::new(model) } else { OTHER }).or_default();
        *answers.outcomes.entry(outcome).or_default() += 1;
        answers.usage = answers.usage.plus(usage);
        first.into_iter().for_each(|first| answers.first.count(first));
        whole.into_iter().for_each(|whole| answers.whole.count(whole));
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        // A panic while something is counted leaves the counts usable.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Collector for Metrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let encoder = &mut encoder;
        // Copied, so that no turn waits for whoever reads the metrics.
        let counts = self.counts().clone();
        let turns = counts.turns.iter().map(|(outcome, count)| ([("outcome", *outcome)], *count));
        counters(encoder, "turns", "Turns that are over, by outcome", turns)?;
        let took = encoder.encode_descriptor("turn_seconds", "Time that turns took", None, MetricType::Histogram)?;
        counts.took.encode(took)?;
        let models = || counts.models.iter().map(|(model, answers)| (("model", model.as_str()), answers));
        let steps = models().flat_map(|(model, answers)| {
            answers.outcomes.iter().map(move |(outcome, count)| ([model, ("outcome", *outcome)], *count))
        });
        counters(encoder, "steps", "Answers of models, by outcome", steps)?;
        let tokens = models().flat_map(|(model, answers)| {
            let Usage { input, output, reasoning, cache_read, cache_write } = answers.usage;
            let kinds = [
                ("input", Some(input)),
                ("output", Some(output)),
                ("reasoning", reasoning),
                ("cache_read", cache_read),
                ("cache_write", cache_write),
            ];
            kinds.into_iter().filter_map(move |(kind, count)| Some(([model, ("kind", kind)], count?)))
        });
        counters(encoder, "tokens", "Tokens that models read and wrote", tokens)?;
        let first = models().map(|(model, answers)| ([model], &answers.first));
        histograms(encoder, "model_first_piece_seconds", "Time until the first piece of a model's answer", first)?;
        let whole = models().map(|(model, answers)| ([model], &answers.whole));
        histograms(encoder, "model_answer_seconds", "Time until a model's answer was complete", whole)
    }
}
