//! The figures of a run, for people and for scripts.

use std::collections::BTreeMap;
use std::fmt;

use anyhow::ensure;
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use super::clients::Transport;
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
    waiting: Option<WaitingReport>,
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
    /// So many of them were called.
    Load(usize, Load),
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
        let (load, waiting) = match measured {
            Measured::Idle => (None, None),
            Measured::Load(active, load) => (Some(LoadReport::new(active, args.concurrency, &load)), None),
            Measured::Waiting(sessions, waiting) => {
                let connected = memory.map(|(_, connected)| connected);
                (None, Some(WaitingReport::new(sessions, &waiting, connected)))
            }
        };
        Self {
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
            load,
            waiting,
            errors,
        }
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
        let quantile = |quantile| load.latencies.value_at_quantile(quantile) as f64 / 1e6;
        Self {
            work: load.work,
            active,
            concurrency,
            seconds,
            count,
            per_second: count as f64 / seconds,
            latency_ms: Latency {
                p50: quantile(0.5),
                p90: quantile(0.9),
                p99: quantile(0.99),
                max: load.latencies.max() as f64 / 1e6,
            },
            server_cpu: each(load.server_cpu_seconds),
            generator_cpu: each(load.own_cpu_seconds),
            generator_cores: load.own_cpu_seconds.map(|cpu| cpu / seconds),
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
        if let Some(waiting) = &self.waiting {
            write!(f, ", {} sessions waiting for it", thousands(waiting.waiting as f64))?;
        }
        writeln!(f, "\n")?;
        if let Some(load) = &self.load {
            load.fmt(f)?;
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
