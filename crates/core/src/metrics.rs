//! The parts that metrics are made of: histograms of durations, and labels of a bounded number.

use std::collections::HashSet;
use std::fmt;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use smol_str::SmolStr;

/// The first histogram bucket, the factor between buckets, and their number. The last bucket takes the rest. The bounds
/// go from 0.1 ms to about 7 minutes.
const NARROWEST: Duration = Duration::from_micros(100);
const WIDER: u32 = 4;
const BUCKETS: usize = 13;

/// How many values a label may have. Each is a time series of whoever reads the metrics.
pub(crate) const MOST_VALUES: usize = 100;
/// The value of a label in place of those beyond the limit.
pub(crate) const OTHER: SmolStr = SmolStr::new_static("other");

/// A histogram of durations.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Times {
    total: Duration,
    buckets: [u64; BUCKETS],
}

impl Times {
    pub(crate) fn count(&mut self, time: Duration) {
        self.total += time;
        self.buckets[bounds().position(|bound| time <= bound).unwrap_or(BUCKETS - 1)] += 1;
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.total += other.total;
        add(&mut self.buckets, &other.buckets);
    }

    /// Writes the histogram as a metric in seconds.
    pub(crate) fn encode(&self, mut encoder: MetricEncoder<'_>) -> fmt::Result {
        let bounds = bounds().map(|bound| bound.as_secs_f64()).chain([f64::INFINITY]);
        let buckets: Vec<(f64, u64)> = bounds.zip(self.buckets).collect();
        let (total, count) = (self.total.as_secs_f64(), self.buckets.iter().sum());
        encoder.encode_histogram::<NoLabelSet>(total, count, &buckets, None)
    }
}

/// The upper bounds of all buckets but the last.
fn bounds() -> impl Iterator<Item = Duration> {
    std::iter::successors(Some(NARROWEST), |bound| Some(*bound * WIDER)).take(BUCKETS - 1)
}

/// Adds counts to sums.
pub(crate) fn add<const N: usize>(sums: &mut [u64; N], more: &[u64; N]) {
    sums.iter_mut().zip(more).for_each(|(sum, more)| *sum += more);
}

/// Writes a family of counters.
pub(crate) fn counters<L: EncodeLabelSet>(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    counts: impl IntoIterator<Item = (L, u64)>,
) -> fmt::Result {
    let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
    counts.into_iter().try_for_each(|(labels, count)| {
        family.encode_family(&labels)?.encode_counter::<NoLabelSet, _, f64>(&count, None)
    })
}

/// Writes a family of histograms.
pub(crate) fn histograms<'a, L: EncodeLabelSet>(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    times: impl IntoIterator<Item = (L, &'a Times)>,
) -> fmt::Result {
    let mut family = encoder.encode_descriptor(name, help, None, MetricType::Histogram)?;
    times.into_iter().try_for_each(|(labels, times)| times.encode(family.encode_family(&labels)?))
}

/// The values of a label that others choose. The first ones are shown, and all later ones count as one.
#[derive(Debug, Default)]
pub(crate) struct Labels {
    known: Mutex<HashSet<SmolStr>>,
    /// All that are ever known. From then on nothing is locked.
    full: OnceLock<HashSet<SmolStr>>,
}

impl Labels {
    /// The value to count under.
    pub(crate) fn admit(&self, value: &str) -> SmolStr {
        if let Some(full) = self.full.get() {
            return full.get(value).cloned().unwrap_or(OTHER);
        }
        // A panic while a value is inserted leaves the set valid.
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        match known.get(value) {
            Some(value) => value.clone(),
            None if known.len() < MOST_VALUES => {
                let value = SmolStr::new(value);
                known.insert(value.clone());
                if known.len() == MOST_VALUES {
                    self.full.get_or_init(|| known.clone());
                }
                value
            }
            None => OTHER,
        }
    }
}

#[cfg(test)]
mod tests;
