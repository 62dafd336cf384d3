//! Measurements: the server's own metrics, the CPU time of this process, and the latencies of calls and turns.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

use hdrhistogram::Histogram;
use tokio::time::{Instant, sleep};

use super::http::{Connection, Failure, Target};
use super::run::Run;

/// The interval at which the memory is read until it is steady, and the longest wait.
const SETTLING: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(10));

/// The standard process metrics of a server.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct ProcessMetrics {
    pub(super) cpu_seconds: f64,
    pub(super) resident_bytes: f64,
}

impl ProcessMetrics {
    /// Fetches the metrics; `None` if the server has none. Fails only if the server cannot be reached.
    pub(super) async fn fetch(target: &Arc<Target>) -> Result<Option<Self>, Failure> {
        match Connection::new(target).get("/metrics").await {
            Ok(body) => Ok(Self::parse(&String::from_utf8_lossy(body))),
            Err(Failure::Status { .. }) => Ok(None),
            Err(failure) => Err(failure),
        }
    }

    /// Fetches the metrics until the memory is steady: within 1 % for three readings.
    pub(super) async fn settled(target: &Arc<Target>) -> Result<Option<Self>, Failure> {
        let (interval, limit) = SETTLING;
        let began = Instant::now();
        let (mut last, mut steady) = (Self::fetch(target).await?, 0);
        while let Some(before) = last.filter(|_| steady < 3 && began.elapsed() < limit) {
            sleep(interval).await;
            last = Self::fetch(target).await?;
            let change = last.map_or(0.0, |now| (now.resident_bytes - before.resident_bytes).abs());
            steady = if change <= before.resident_bytes / 100.0 { steady + 1 } else { 0 };
        }
        Ok(last)
    }

    pub(super) fn parse(text: &str) -> Option<Self> {
        let value = |name: &str| {
            text.lines().find_map(|line| {
                let rest = line.strip_prefix(name)?;
                let rest = if rest.starts_with('{') { rest.split_once('}')?.1 } else { rest };
                rest.strip_prefix(' ')?.split_whitespace().next()?.parse().ok()
            })
        };
        Some(Self {
            cpu_seconds: value("process_cpu_seconds_total")?,
            resident_bytes: value("process_resident_memory_bytes")?,
        })
    }
}

/// The CPU time of this process, which is known only on Linux.
fn own_cpu_seconds() -> Option<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // User and system time are the 12th and 13th fields after the program's name, in ticks of 1/100 s.
    let mut fields = stat.rsplit(')').next()?.split_whitespace().skip(11);
    let ticks = fields.next()?.parse::<f64>().ok()? + fields.next()?.parse::<f64>().ok()?;
    Some(ticks / 100.0)
}

/// The cost of some work, in seconds: its duration, the CPU time of the server, and the CPU time of this process.
pub(super) struct Cost {
    pub(super) seconds: f64,
    pub(super) server_cpu: Option<f64>,
    pub(super) own_cpu: Option<f64>,
}

impl Cost {
    /// Waits for the work and measures its cost. If the server cannot be asked, that is counted as an error.
    pub(super) async fn of<T>(run: &Run, work: impl Future<Output = T>) -> (T, Self) {
        let server_cpu_seconds = async || {
            let fetched = ProcessMetrics::fetch(&run.target).await;
            fetched.inspect_err(|failure| run.count("metrics", failure)).ok()?.map(|metrics| metrics.cpu_seconds)
        };
        let before = (server_cpu_seconds().await, own_cpu_seconds());
        let began = Instant::now();
        let done = work.await;
        let seconds = began.elapsed().as_secs_f64();
        let after = (own_cpu_seconds(), server_cpu_seconds().await);
        let spent = |before: Option<f64>, after| before.zip(after).map(|(before, after): (_, f64)| after - before);
        (done, Self { seconds, server_cpu: spent(before.0, after.1), own_cpu: spent(before.1, after.0) })
    }
}

/// The CPU time for each of `count` calls or turns, in microseconds.
pub(super) fn each(cpu_seconds: Option<f64>, count: u64) -> Option<f64> {
    cpu_seconds.filter(|_| count > 0).map(|seconds| seconds * 1e6 / count as f64)
}

/// The latencies of calls or turns, in nanoseconds.
pub(super) struct Latencies(RefCell<Histogram<u64>>);

impl Latencies {
    /// Covers latencies from a microsecond to two minutes.
    pub(super) fn new() -> anyhow::Result<Self> {
        Ok(Self(RefCell::new(Histogram::new_with_bounds(1_000, 120_000_000_000, 3)?)))
    }

    /// Adds a latency that ends now.
    pub(super) fn record(&self, began: Instant) {
        self.0.borrow_mut().saturating_record(began.elapsed().as_nanos() as u64);
    }

    pub(super) fn count(&self) -> u64 {
        self.0.borrow().len()
    }

    /// The quantiles in milliseconds, with their names.
    pub(super) fn quantiles(&self) -> [(&'static str, f64); 4] {
        let latencies = self.0.borrow();
        [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("max", 1.0)]
            .map(|(name, quantile)| (name, latencies.value_at_quantile(quantile) as f64 / 1e6))
    }
}

/// The quantiles in one line.
pub(super) fn in_words(quantiles: &[(&str, f64)]) -> String {
    let named: Vec<String> = quantiles.iter().map(|(name, latency)| format!("{name} {latency:.2} ms")).collect();
    named.join("   ")
}
