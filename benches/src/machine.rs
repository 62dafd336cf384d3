//! The machine that it was measured on, and how busy it was with other things.

use std::io::Write;
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
    /// How long it takes until a small write is on the disk.
    pub(crate) on_disk: String,
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
            on_disk: on_disk().map_or_else(|_| unknown(), |took| format!("{:.2} ms", took.as_secs_f64() * 1e3)),
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

/// How long a write of a page takes until it is on the disk that the servers of a bench use: the median of some.
fn on_disk() -> anyhow::Result<Duration> {
    let folder = std::env::current_exe()?;
    let mut file = tempfile::tempfile_in(folder.parent().context("this program is in no folder")?)?;
    let mut took = Vec::new();
    for _ in 0..101 {
        let began = Instant::now();
        file.write_all(&[1; 4_096])?;
        file.sync_data()?;
        took.push(began.elapsed());
    }
    took.sort();
    Ok(took[took.len() / 2])
}

/// The value of the first line `name : value` of a file.
pub(crate) fn field(path: &str, name: &str) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then(|| value.trim().to_owned())
    })
}

/// Others keep more of a core busy than this: the machine is not quiet.
pub(crate) const QUIET: f64 = 0.25;

/// Watches how much of the machine is used by anything but this program and the processes that it has waited for.
pub(crate) struct Watch {
    began: Instant,
    others: f64,
    /// A process that belongs to this program, as its children do, although it was not started by it.
    own: Option<u32>,
}

impl Watch {
    pub(crate) fn start(own: Option<u32>) -> anyhow::Result<Self> {
        Ok(Self { others: others_seconds(own)?, began: Instant::now(), own })
    }

    /// How many cores the others kept busy since the start.
    pub(crate) fn cores(&self) -> anyhow::Result<f64> {
        Ok(((others_seconds(self.own)? - self.others) / self.began.elapsed().as_secs_f64()).max(0.0))
    }
}

/// Waits until the machine is quiet, but not longer than that many seconds.
pub(crate) fn wait_until_quiet(patience: u32) -> anyhow::Result<()> {
    let began = Instant::now();
    loop {
        let watch = Watch::start(None)?;
        std::thread::sleep(Duration::from_millis(300));
        if watch.cores()? < QUIET || began.elapsed() > Duration::from_secs(patience.into()) {
            return Ok(());
        }
    }
}

/// What the processors have worked for others since the machine started, in seconds.
fn others_seconds(own: Option<u32>) -> anyhow::Result<f64> {
    let stat = std::fs::read_to_string("/proc/stat").context("cannot read /proc/stat")?;
    // user, nice, system, idle, iowait, irq, softirq, steal; the rest is counted among these.
    let all = numbers(stat.lines().next().unwrap_or_default());
    let busy: f64 =
        all.iter().take(8).enumerate().filter(|(index, _)| !matches!(index, 3 | 4)).map(|(_, time)| time).sum();
    let mut ours = worked("self").context("cannot read /proc/self/stat")?;
    if let Some(own) = own {
        let children = std::fs::read_to_string(format!("/proc/{own}/task/{own}/children")).unwrap_or_default();
        // A child that ends meanwhile is counted as waited for the next time.
        ours += children.split_whitespace().chain([&*own.to_string()]).filter_map(worked).sum::<f64>();
    }
    Ok((busy - ours) / 100.0)
}

/// What a process and the children that it has waited for have worked, in hundredths of a second.
fn worked(process: &str) -> Option<f64> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // After the program's name and its state, a letter: user and system time of the process at 10, of its children after it.
    Some(numbers(stat.rsplit(')').next()?).iter().skip(10).take(4).sum())
}

fn numbers(line: &str) -> Vec<f64> {
    line.split_whitespace().filter_map(|field| field.parse().ok()).collect()
}
