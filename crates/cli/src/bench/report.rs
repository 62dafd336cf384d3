//! The figures of a run, for people and for scripts.

use std::collections::BTreeMap;
use std::fmt;

use anyhow::ensure;
use hdrhistogram::Histogram;
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use super::clients::Transport;
use super::growing::{Growing, Stretch};
use super::load::{Load, Work};
use super::metrics::ProcessMetrics;
use super::waiting::Waiting;
use super::{BenchArgs, list};

/// With fewer clients or sessions than this, memory for each says more of the server's start than of them.
const ENOUGH: usize = 100;

/// Everything that a run found out; `--json` prints it as it is.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Report {
    transport: &'static str,
    /// How many were asked for.
    clients: u32,
    /// How many connected.
    connected: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    memory: Option<Memory>,
    #[serde(skip_serializing_if = "Option::is_none")]
    load: Option<LoadReport>,
    #[serde(skip_serializing_if = "Option::is_none")]
    readers: Option<ReadersReport>,
    #[serde(skip_serializing_if = "Option::is_none")]
    waiting: Option<WaitingReport>,
    #[serde(skip_serializing_if = "Option::is_none")]
    growing: Option<GrowingReport>,
    /// How often each failure came.
    errors: BTreeMap<String, u64>,
}

/// The server's resident memory, in bytes.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Memory {
    before: f64,
    connected: f64,
    per_client: f64,
}

/// The part of the report that only a run with calls or turns has.
#[derive(Debug)]
struct LoadReport {
    work: Work,
    active: usize,
    concurrency: u32,
    seconds: f64,
    /// How many calls or turns succeeded.
    count: u64,
    per_second: f64,
    latency_ms: Latency,
    /// In microseconds for each.
    server_cpu: Option<f64>,
    generator_cpu: Option<f64>,
    /// How much of one core the load generator used.
    generator_cores: Option<f64>,
}

/// Who read events during the calls or turns.
#[derive(Debug, Serialize)]
struct ReadersReport {
    count: u32,
    reading: &'static str,
    /// How many bytes all of them got.
    bytes: u64,
}

/// The part of the report that only a run with growing sessions has.
#[derive(Debug, Serialize)]
struct GrowingReport {
    sessions: u32,
    early: StretchReport,
    late: StretchReport,
}

/// Some turns of every session.
#[derive(Debug, Serialize)]
struct StretchReport {
    /// The first and the last, from 1.
    turns: (u32, u32),
    #[serde(rename = "latencyMs")]
    latency_ms: Latency,
    #[serde(rename = "serverCpuUsPerTurn", skip_serializing_if = "Option::is_none")]
    server_cpu: Option<f64>,
}

/// The part of the report that only a run with waiting sessions has; memory in bytes.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct WaitingReport {
    /// How many were asked for.
    sessions: u32,
    /// How many waited, all at the same time.
    waiting: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    memory: Option<WaitingMemory>,
}

/// The server's resident memory, in bytes.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct WaitingMemory {
    before: f64,
    waiting: f64,
    per_session: f64,
}

#[derive(Debug, Serialize)]
struct Latency {
    p50: f64,
    p90: f64,
    p99: f64,
    max: f64,
}

/// What was done with the clients.
pub(super) enum Measured {
    /// Nothing.
    Idle,
    /// So many of them were called, and readers of events got so many bytes meanwhile.
    Load { active: usize, load: Load, bytes_read: Option<u64> },
    /// Sessions of theirs grew.
    Growing(Growing),
    /// So many sessions of the only one were to wait.
    Waiting(u32, Waiting),
}

impl Report {
    pub(super) fn new(
        args: &BenchArgs,
        transport: Transport,
        connected: usize,
        memory: Option<(ProcessMetrics, ProcessMetrics)>,
        measured: Measured,
        errors: BTreeMap<String, u64>,
    ) -> Self {
        let mut report = Self {
            transport: match transport {
                Transport::Sse => "sse",
                Transport::WebSocket => "websocket",
            },
            clients: args.clients,
            connected,
            memory: memory.map(|(before, after)| Memory {
                before: before.resident_bytes,
                connected: after.resident_bytes,
                per_client: (after.resident_bytes - before.resident_bytes) / connected as f64,
            }),
            load: None,
            readers: None,
            waiting: None,
            growing: None,
            errors,
        };
        match measured {
            Measured::Idle => {}
            Measured::Load { active, load, bytes_read } => {
                report.load = Some(LoadReport::new(active, args.concurrency, &load));
                let readers = |(count, bytes)| ReadersReport { count, reading: args.reading.name(), bytes };
                report.readers = args.readers.zip(bytes_read).map(readers);
            }
            Measured::Waiting(sessions, waiting) => {
                let connected = memory.map(|(_, connected)| connected);
                report.waiting = Some(WaitingReport::new(sessions, &waiting, connected));
            }
            Measured::Growing(growing) => {
                let Growing { sessions, early, late } = growing;
                let [early, late] = [early, late].map(StretchReport::from);
                report.growing = Some(GrowingReport { sessions, early, late });
            }
        }
        report
    }

    /// Whether the run measured anything at all.
    pub(super) fn verdict(&self) -> anyhow::Result<()> {
        if let Some(WaitingReport { sessions, waiting, .. }) = &self.waiting {
            ensure!(
                *waiting == *sessions as usize,
                "only {waiting} of {sessions} sessions wait: {}",
                list(&self.errors)
            );
        }
        match &self.load {
            Some(load) => {
                ensure!(load.count > 0, "not one {} succeeded: {}", load.work.noun(), list(&self.errors));
            }
            None => ensure!(
                self.connected == self.clients as usize,
                "{} of {} clients could not connect: {}",
                self.clients as usize - self.connected,
                self.clients,
                list(&self.errors)
            ),
        }
        Ok(())
    }
}

impl LoadReport {
    fn new(active: usize, concurrency: u32, load: &Load) -> Self {
        let count = load.latencies.len();
        let seconds = load.elapsed.as_secs_f64();
        let each = |cpu: Option<f64>| cpu.filter(|_| count > 0).map(|cpu| cpu * 1e6 / count as f64);
        Self {
            work: load.work,
            active,
            concurrency,
            seconds,
            count,
            per_second: count as f64 / seconds,
            latency_ms: Latency::from(&load.latencies),
            server_cpu: each(load.server_cpu_seconds),
            generator_cpu: each(load.own_cpu_seconds),
            generator_cores: load.own_cpu_seconds.map(|cpu| cpu / seconds),
        }
    }
}

impl From<&Histogram<u64>> for Latency {
    fn from(latencies: &Histogram<u64>) -> Self {
        let quantile = |quantile| latencies.value_at_quantile(quantile) as f64 / 1e6;
        Self { p50: quantile(0.5), p90: quantile(0.9), p99: quantile(0.99), max: latencies.max() as f64 / 1e6 }
    }
}

impl From<Stretch> for StretchReport {
    fn from(stretch: Stretch) -> Self {
        Self {
            turns: (*stretch.turns.start(), *stretch.turns.end()),
            latency_ms: Latency::from(&stretch.latencies),
            server_cpu: stretch.server_cpu_seconds.map(|cpu| cpu * 1e6 / stretch.latencies.len() as f64),
        }
    }
}

/// By hand, for the names say what was counted: `calls`, `callsPerSecond`, `serverCpuUsPerCall`, or the same of turns.
impl Serialize for LoadReport {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (many, each) = match self.work {
            Work::Calls => ("calls", "Call"),
            Work::Turns => ("turns", "Turn"),
        };
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("active", &self.active)?;
        map.serialize_entry("concurrency", &self.concurrency)?;
        map.serialize_entry("seconds", &self.seconds)?;
        map.serialize_entry(many, &self.count)?;
        map.serialize_entry(&format!("{many}PerSecond"), &self.per_second)?;
        map.serialize_entry("latencyMs", &self.latency_ms)?;
        if let Some(cpu) = self.server_cpu {
            map.serialize_entry(&format!("serverCpuUsPer{each}"), &cpu)?;
        }
        if let Some(cpu) = self.generator_cpu {
            map.serialize_entry(&format!("generatorCpuUsPer{each}"), &cpu)?;
        }
        if let Some(cores) = self.generator_cores {
            map.serialize_entry("generatorCores", &cores)?;
        }
        map.end()
    }
}

impl WaitingReport {
    fn new(sessions: u32, waiting: &Waiting, connected: Option<ProcessMetrics>) -> Self {
        let memory = connected.zip(waiting.metrics).map(|(before, then)| WaitingMemory {
            before: before.resident_bytes,
            waiting: then.resident_bytes,
            per_session: (then.resident_bytes - before.resident_bytes) / waiting.sessions as f64,
        });
        Self { sessions, waiting: waiting.sessions, memory }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let transport = if self.transport == "sse" { "SSE" } else { "WebSocket" };
        let noun = if self.connected == 1 { "client" } else { "clients" };
        write!(f, "{} {noun} over {transport}", thousands(self.connected as f64))?;
        if let Some(load) = &self.load {
            let (active, noun) = (thousands(load.active as f64), load.work.noun());
            write!(f, ", {active} called, {} {noun}s at a time", load.concurrency)?;
        }
        if let Some(readers) = &self.readers {
            let noun = if readers.count == 1 { "reader" } else { "readers" };
            let what = if readers.reading == "others" { "other sessions" } else { "everything" };
            write!(f, ", {} {noun} of {what}", thousands(f64::from(readers.count)))?;
        }
        if let Some(growing) = &self.growing {
            let sessions = if growing.sessions == 1 { "session" } else { "sessions" };
            write!(f, ", {} {sessions} of {} turns", thousands(f64::from(growing.sessions)), growing.late.turns.1)?;
        }
        if let Some(waiting) = &self.waiting {
            write!(f, ", {} sessions waiting for it", thousands(waiting.waiting as f64))?;
        }
        writeln!(f, "\n")?;
        if let Some(load) = &self.load {
            load.fmt(f)?;
        }
        if let Some(readers) = &self.readers {
            writeln!(f, "  readers     got {:.1} MB, all together", readers.bytes as f64 / 1e6)?;
        }
        if let Some(growing) = &self.growing {
            writeln!(f, "  early       {}", growing.early)?;
            writeln!(f, "  late        {}", growing.late)?;
        }
        match &self.memory {
            Some(memory) => {
                write!(
                    f,
                    "  memory      {:.1} MB before, {:.1} MB connected",
                    memory.before / 1e6,
                    memory.connected / 1e6
                )?;
                if self.connected >= ENOUGH {
                    write!(f, ": {:.1} kB per client", memory.per_client / 1e3)?;
                }
                if let Some(WaitingReport { waiting, memory: Some(memory), .. }) = &self.waiting {
                    write!(f, ", {:.1} MB waiting", memory.waiting / 1e6)?;
                    if *waiting >= ENOUGH {
                        write!(f, ": {:.1} kB per session", memory.per_session / 1e3)?;
                    }
                }
                writeln!(f)?;
            }
            None => writeln!(f, "  memory      unknown: the server does not tell at /metrics")?,
        }
        if self.errors.is_empty() {
            return writeln!(f, "  errors      none");
        }
        for (kind, count) in &self.errors {
            writeln!(f, "  error       {kind}: {}", thousands(*count as f64))?;
        }
        Ok(())
    }
}

impl fmt::Display for LoadReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (rate, count, noun) = (thousands(self.per_second), thousands(self.count as f64), self.work.noun());
        let Latency { p50, p90, p99, max } = self.latency_ms;
        writeln!(f, "  {noun}s/s     {rate} ({count} {noun}s in {:.1} s)", self.seconds)?;
        writeln!(f, "  latency     p50 {p50:.2} ms   p90 {p90:.2} ms   p99 {p99:.2} ms   max {max:.2} ms")?;
        if let Some(cpu) = self.server_cpu {
            writeln!(f, "  server CPU  {cpu:.1} µs per {noun}")?;
        }
        if let Some((cpu, cores)) = self.generator_cpu.zip(self.generator_cores) {
            writeln!(f, "  own CPU     {cpu:.1} µs per {noun} ({cores:.2} of a core)")?;
        }
        Ok(())
    }
}

impl fmt::Display for StretchReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ((first, last), Latency { p50, p99, .. }) = (self.turns, &self.latency_ms);
        write!(f, "turns {first} to {last}: p50 {p50:.2} ms   p99 {p99:.2} ms")?;
        match self.server_cpu {
            Some(cpu) => write!(f, "   server CPU {cpu:.1} µs per turn"),
            None => Ok(()),
        }
    }
}

/// A whole number, its thousands apart.
pub(super) fn thousands(number: f64) -> String {
    let digits = format!("{number:.0}");
    let mut grouped = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}
