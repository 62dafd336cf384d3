//! The machine that it was measured on, and how busy it was with other things.

use std::process::Command;
use std::time::{Duration, SystemTime};

use anyhow::Context;
use tokio::time::Instant;

/// What the figures depend on.
pub(crate) struct Machine {
    pub(crate) cpu: String,
    pub(crate) cores: usize,
    pub(crate) memory: String,
    pub(crate) kernel: String,
    pub(crate) rustc: String,
    /// The day of the comparison.
    pub(crate) date: String,
}

impl Machine {
    /// Asks the system; what it does not say is "unknown".
    #[expect(clippy::disallowed_methods, reason = "the one place that needs the date")]
    pub(crate) fn describe() -> Self {
        let now = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
        let unknown = || "unknown".to_owned();
        let kilobytes =
            field("/proc/meminfo", "MemTotal").and_then(|text| text.strip_suffix(" kB")?.parse::<f64>().ok());
        let rustc = Command::new("rustc").arg("--version").output().ok();
        Self {
            cpu: field("/proc/cpuinfo", "model name").unwrap_or_else(unknown),
            date: now.split('T').next().unwrap_or_default().to_owned(),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            memory: kilobytes.map_or_else(unknown, |kilobytes| format!("{:.0} GB", kilobytes * 1024.0 / 1e9)),
            kernel: std::fs::read_to_string("/proc/version")
                .map(|version| version.split_whitespace().take(3).collect::<Vec<_>>().join(" "))
                .unwrap_or_else(|_| unknown())
                .replace(" version", ""),
            rustc: rustc.map_or_else(unknown, |output| String::from_utf8_lossy(&output.stdout).trim().to_owned()),
        }
    }
}

/// The value of the first line `name : value` of a file.
fn field(path: &str, name: &str) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then(|| value.trim().to_owned())
    })
}

/// Waits until others keep less than a quarter of a core busy, but not longer than that many seconds.
/// Returns how much they do then; nothing of this comparison may be running.
pub(crate) fn wait_until_quiet(patience: u32) -> anyhow::Result<f64> {
    let began = Instant::now();
    loop {
        let busy = busy_cores()?;
        if busy < 0.25 || began.elapsed() > Duration::from_secs(patience.into()) {
            return Ok(busy);
        }
    }
}

fn busy_cores() -> anyhow::Result<f64> {
    let (before, began) = (busy_seconds()?, Instant::now());
    std::thread::sleep(Duration::from_millis(300));
    Ok(((busy_seconds()? - before) / began.elapsed().as_secs_f64()).max(0.0))
}

/// What all processors together have worked since the start, in seconds.
fn busy_seconds() -> anyhow::Result<f64> {
    let stat = std::fs::read_to_string("/proc/stat").context("cannot read /proc/stat")?;
    let times: Vec<f64> =
        stat.lines().next().unwrap_or_default().split_whitespace().filter_map(|field| field.parse().ok()).collect();
    // user, nice, system, idle, iowait, irq, softirq, steal; the rest is counted among these.
    let busy = times.iter().take(8).enumerate().filter(|(index, _)| !matches!(index, 3 | 4)).map(|(_, time)| time);
    Ok(busy.sum::<f64>() / 100.0)
}
