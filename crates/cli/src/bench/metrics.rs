//! What the server says of itself at `/metrics`, and what the kernel says of this process.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::PATIENCE;
use super::http::{Connection, Failure, Target, within};

/// How often the memory is read until it stands still, and for how long at most.
const SETTLING: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(10));

/// The standard process metrics of a server.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct ProcessMetrics {
    pub(super) cpu_seconds: f64,
    pub(super) resident_bytes: f64,
}

impl ProcessMetrics {
    /// Asks the server. `None` if it does not tell; an error only if it cannot be reached.
    pub(super) async fn fetch(target: &Target) -> Result<Option<Self>, Failure> {
        let mut connection = Connection::default();
        let request = target.get("/metrics", "text/plain");
        let (status, body) = within(PATIENCE, connection.exchange(target, &request)).await?;
        Ok((status == 200).then(|| Self::parse(&String::from_utf8_lossy(body))).flatten())
    }

    /// Asks until the memory stands still: within 1 % for three readings.
    pub(super) async fn settled(target: &Target) -> Result<Option<Self>, Failure> {
        let (interval, limit) = SETTLING;
        let began = Instant::now();
        let mut steady = 0;
        let Some(mut last) = Self::fetch(target).await? else { return Ok(None) };
        while steady < 3 && began.elapsed() < limit {
            sleep(interval).await;
            let Some(now) = Self::fetch(target).await? else { return Ok(None) };
            let change = (now.resident_bytes - last.resident_bytes).abs();
            steady = if change <= last.resident_bytes / 100.0 { steady + 1 } else { 0 };
            last = now;
        }
        Ok(Some(last))
    }

    pub(super) fn parse(text: &str) -> Option<Self> {
        let value = |name: &str| {
            text.lines().find_map(|line| {
                let rest = line.strip_prefix(name)?;
                let rest = match rest.strip_prefix('{') {
                    Some(labelled) => labelled.split_once('}')?.1,
                    None => rest,
                };
                rest.strip_prefix(' ')?.split_whitespace().next()?.parse().ok()
            })
        };
        Some(Self {
            cpu_seconds: value("process_cpu_seconds_total")?,
            resident_bytes: value("process_resident_memory_bytes")?,
        })
    }
}

/// How much CPU this process has used, where the kernel says so (Linux).
pub(super) fn own_cpu_seconds() -> Option<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // User and system time are the 12th and 13th fields after the program's name, in ticks of 1/100 s.
    let mut fields = stat.rsplit(')').next()?.split_whitespace().skip(11);
    let ticks = fields.next()?.parse::<f64>().ok()? + fields.next()?.parse::<f64>().ok()?;
    Some(ticks / 100.0)
}
