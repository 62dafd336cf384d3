//! The figures of a run, for people and for scripts.

use std::collections::BTreeMap;
use std::fmt;

use anyhow::ensure;
use serde::Serialize;

use super::clients::Transport;
use super::load::Load;
use super::metrics::ProcessMetrics;
use super::{BenchArgs, list};

/// With fewer clients than this, memory per client says more of the server's start than of its clients.
const ENOUGH_CLIENTS: usize = 100;

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

/// The part of the report that only a run with calls has.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct LoadReport {
    active: usize,
    concurrency: u32,
    seconds: f64,
    calls: u64,
    calls_per_second: f64,
    latency_ms: Latency,
    #[serde(skip_serializing_if = "Option::is_none")]
    server_cpu_us_per_call: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    generator_cpu_us_per_call: Option<f64>,
    /// How much of one core the load generator used.
    #[serde(skip_serializing_if = "Option::is_none")]
    generator_cores: Option<f64>,
}

#[derive(Debug, Serialize)]
struct Latency {
    p50: f64,
    p90: f64,
    p99: f64,
    max: f64,
}

impl Report {
    pub(super) fn new(
        args: &BenchArgs,
        transport: Transport,
        connected: usize,
        memory: Option<(ProcessMetrics, ProcessMetrics)>,
        load: Option<(usize, Load)>,
        errors: BTreeMap<String, u64>,
    ) -> Self {
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
            load: load.map(|(active, load)| LoadReport::new(active, args.concurrency, &load)),
            errors,
        }
    }

    /// Whether the run measured anything at all.
    pub(super) fn verdict(&self) -> anyhow::Result<()> {
        match &self.load {
            Some(load) => ensure!(load.calls > 0, "not one call succeeded: {}", list(&self.errors)),
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
        let calls = load.latencies.len();
        let seconds = load.elapsed.as_secs_f64();
        let per_call = |cpu: Option<f64>| cpu.filter(|_| calls > 0).map(|cpu| cpu * 1e6 / calls as f64);
        let quantile = |quantile| load.latencies.value_at_quantile(quantile) as f64 / 1e6;
        Self {
            active,
            concurrency,
            seconds,
            calls,
            calls_per_second: calls as f64 / seconds,
            latency_ms: Latency {
                p50: quantile(0.5),
                p90: quantile(0.9),
                p99: quantile(0.99),
                max: load.latencies.max() as f64 / 1e6,
            },
            server_cpu_us_per_call: per_call(load.server_cpu_seconds),
            generator_cpu_us_per_call: per_call(load.own_cpu_seconds),
            generator_cores: load.own_cpu_seconds.map(|cpu| cpu / seconds),
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let transport = if self.transport == "sse" { "SSE" } else { "WebSocket" };
        let noun = if self.connected == 1 { "client" } else { "clients" };
        write!(f, "{} {noun} over {transport}", thousands(self.connected as f64))?;
        if let Some(load) = &self.load {
            write!(f, ", {} called, {} calls at a time", thousands(load.active as f64), load.concurrency)?;
        }
        writeln!(f, "\n")?;
        if let Some(load) = &self.load {
            let (rate, calls) = (thousands(load.calls_per_second), thousands(load.calls as f64));
            let Latency { p50, p90, p99, max } = load.latency_ms;
            writeln!(f, "  calls/s     {rate} ({calls} calls in {:.1} s)", load.seconds)?;
            writeln!(f, "  latency     p50 {p50:.2} ms   p90 {p90:.2} ms   p99 {p99:.2} ms   max {max:.2} ms")?;
            if let Some(cpu) = load.server_cpu_us_per_call {
                writeln!(f, "  server CPU  {cpu:.1} µs per call")?;
            }
            if let Some((cpu, cores)) = load.generator_cpu_us_per_call.zip(load.generator_cores) {
                writeln!(f, "  own CPU     {cpu:.1} µs per call ({cores:.2} of a core)")?;
            }
        }
        match &self.memory {
            Some(memory) => {
                write!(
                    f,
                    "  memory      {:.1} MB before, {:.1} MB connected",
                    memory.before / 1e6,
                    memory.connected / 1e6
                )?;
                if self.connected >= ENOUGH_CLIENTS {
                    write!(f, ": {:.1} kB per client", memory.per_client / 1e3)?;
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
