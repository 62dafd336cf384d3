//! The figures of a run, for people and for scripts.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::Ordering;

use anyhow::ensure;
use indicatif::HumanCount;
use serde::Serialize;

use super::clients::Transport;
use super::growing::{Growing, Stretch};
use super::load::Load;
use super::metrics::{Latency, ProcessMetrics};
use super::readers::{Readers, Reading};
use super::run::list;
use super::waiting::{Waiting, WaitingMemory};

/// With fewer clients or sessions than this, memory for each says more of the server's start than of them.
const ENOUGH: usize = 100;

/// Everything that a run found out; `--json` prints it as it is.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Report {
    pub(super) transport: Transport,
    /// How many were asked for.
    pub(super) clients: u32,
    /// How many connected.
    pub(super) connected: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) memory: Option<Memory>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) load: Option<Load>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) readers: Option<Readers>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) waiting: Option<Waiting>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) growing: Option<Growing>,
    /// How often each failure came.
    pub(super) errors: BTreeMap<String, u64>,
}

/// The server's resident memory, in bytes.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Memory {
    before: f64,
    connected: f64,
    per_client: f64,
}

impl Memory {
    pub(super) fn new(before: ProcessMetrics, connected: ProcessMetrics, clients: usize) -> Self {
        let [before, connected] = [before, connected].map(|metrics| metrics.resident_bytes);
        Self { before, connected, per_client: (connected - before) / clients as f64 }
    }
}

impl Report {
    /// Whether the run measured anything at all.
    pub(super) fn verdict(&self) -> anyhow::Result<()> {
        let errors = list(&self.errors);
        if let Some(Waiting { sessions, waiting, .. }) = &self.waiting {
            ensure!(*waiting == *sessions as usize, "only {waiting} of {sessions} sessions wait: {errors}");
        }
        if let Some(load) = &self.load {
            ensure!(load.count > 0, "not one {} succeeded: {errors}", load.work.noun());
        } else {
            let missing = self.clients as usize - self.connected;
            ensure!(missing == 0, "{missing} of {} clients could not connect: {errors}", self.clients);
        }
        Ok(())
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let transport = match self.transport {
            Transport::Sse => "SSE",
            Transport::WebSocket => "WebSocket",
        };
        write!(f, "{} over {transport}", counted(self.connected, "client"))?;
        if let Some(Load { active, concurrency, work, .. }) = &self.load {
            write!(f, ", {} called, {concurrency} {}s at a time", HumanCount(*active as u64), work.noun())?;
        }
        if let Some(Readers { count, reading, .. }) = &self.readers {
            let what = match reading {
                Reading::Everything => "everything",
                Reading::Others => "other sessions",
            };
            write!(f, ", {} of {what}", counted(*count as usize, "reader"))?;
        }
        if let Some(Growing { sessions, late, .. }) = &self.growing {
            write!(f, ", {} of {} turns", counted(*sessions as usize, "session"), late.turns.1)?;
        }
        if let Some(Waiting { waiting, .. }) = &self.waiting {
            write!(f, ", {} waiting for it", counted(*waiting, "session"))?;
        }
        writeln!(f, "\n")?;
        if let Some(load) = &self.load {
            load.fmt(f)?;
        }
        if let Some(readers) = &self.readers {
            let megabytes = readers.bytes.load(Ordering::Relaxed) as f64 / 1e6;
            writeln!(f, "  readers     got {megabytes:.1} MB, all together")?;
        }
        if let Some(Growing { early, late, .. }) = &self.growing {
            writeln!(f, "  early       {early}\n  late        {late}")?;
        }
        self.write_memory(f)?;
        if self.errors.is_empty() {
            return writeln!(f, "  errors      none");
        }
        for (kind, count) in &self.errors {
            writeln!(f, "  error       {kind}: {}", HumanCount(*count))?;
        }
        Ok(())
    }
}

impl Report {
    fn write_memory(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(Memory { before, connected, per_client }) = &self.memory else {
            return writeln!(f, "  memory      unknown: the server does not tell at /metrics");
        };
        write!(f, "  memory      {:.1} MB before, {:.1} MB connected", before / 1e6, connected / 1e6)?;
        if self.connected >= ENOUGH {
            write!(f, ": {:.1} kB per client", per_client / 1e3)?;
        }
        if let Some(Waiting { waiting: count, memory: Some(memory), .. }) = &self.waiting {
            let WaitingMemory { waiting, per_session, .. } = memory;
            write!(f, ", {:.1} MB waiting", waiting / 1e6)?;
            if *count >= ENOUGH {
                write!(f, ": {:.1} kB per session", per_session / 1e3)?;
            }
        }
        writeln!(f)
    }
}

impl fmt::Display for Load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (rate, count) = (HumanCount(self.per_second.round() as u64), HumanCount(self.count));
        let (noun, Latency { p50, p90, p99, max }) = (self.work.noun(), &self.latency);
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

impl fmt::Display for Stretch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ((first, last), Latency { p50, p99, .. }) = (self.turns, &self.latency);
        write!(f, "turns {first} to {last}: p50 {p50:.2} ms   p99 {p99:.2} ms")?;
        match self.server_cpu {
            Some(cpu) => write!(f, "   server CPU {cpu:.1} µs per turn"),
            None => Ok(()),
        }
    }
}

/// So many of something, in words.
fn counted(count: usize, noun: &str) -> String {
    format!("{} {noun}{}", HumanCount(count as u64), if count == 1 { "" } else { "s" })
}
