//! Sessions that wait: each has a turn whose call the client got and does not answer.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde::Serialize;
use serde::de::IgnoredAny;
use tokio::time::{Instant, sleep};

use super::http::{Connection, json};
use super::metrics::ProcessMetrics;
use super::run::Run;
use super::sessions::{Session, creation};

/// When the client got no call for this long, the calls that are missing do not come.
const LULL: Duration = Duration::from_secs(2);

/// How often it is looked at.
const LOOK: Duration = Duration::from_millis(20);

/// How many calls the server lists at most.
const LISTED: usize = 1_000;

/// What was measured while all of them waited, as it is in the report.
#[derive(Serialize)]
pub(super) struct Waiting {
    /// How many were asked for.
    pub(super) sessions: u32,
    /// How many waited, all at the same time.
    pub(super) waiting: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) memory: Option<WaitingMemory>,
}

/// The server's resident memory, in bytes.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct WaitingMemory {
    before: f64,
    pub(super) waiting: f64,
    pub(super) per_session: f64,
}

/// Has `count` sessions of a client wait, and measures. Whatever keeps one from it is counted as an error.
pub(super) async fn run(
    run: &Run,
    client_id: &str,
    count: u32,
    received: &AtomicUsize,
    before: Option<ProcessMetrics>,
) -> anyhow::Result<Waiting> {
    let bar = run.progress("prompting", count, "{pos}/{len} sessions");
    let mut connection = Connection::new(&run.target);
    let creation = creation(&run.target, client_id);
    let mut sessions = Vec::new();
    for _ in 0..count {
        let begun = async {
            let session = Session::make(&mut connection, &creation).await?;
            session.begin(&mut connection).await.map(|()| session)
        };
        match begun.await {
            Ok(session) => sessions.push(session),
            Err(failure) => run.count("prompt", &failure),
        }
        bar.inc(1);
    }
    let all = count as usize;
    let waiting = all_received(received, sessions.len()).await;
    if waiting < all {
        for session in &sessions {
            if let Err(failure) = session.verdict(&mut connection).await {
                run.count("turn", &failure);
            }
        }
        return Ok(Waiting { sessions: count, waiting, memory: None });
    }
    let after = ProcessMetrics::settled(&run.target).await?;
    // The calls that the client still has not answered, as the server sees it: the sessions waited until the end, too.
    let calls = format!("/client-tools/calls?state=offered&clientID={client_id}");
    let calls = connection.exchange(&run.target.get(&calls, "Accept: application/json")).await?;
    let offered = json::<Vec<IgnoredAny>>(calls, "a list of calls that is none")?.len();
    let waiting = if offered < all.min(LISTED) { offered } else { all };
    let memory = before.zip(after).map(|(before, after)| WaitingMemory {
        before: before.resident_bytes,
        waiting: after.resident_bytes,
        per_session: (after.resident_bytes - before.resident_bytes) / waiting as f64,
    });
    Ok(Waiting { sessions: count, waiting, memory })
}

/// Waits until the client has got so many calls, or until no more come; returns how many it got.
async fn all_received(received: &AtomicUsize, count: usize) -> usize {
    let mut last = (received.load(Ordering::Relaxed), Instant::now());
    while last.0 < count && last.1.elapsed() < LULL {
        sleep(LOOK).await;
        let now = received.load(Ordering::Relaxed);
        if now > last.0 {
            last = (now, Instant::now());
        }
    }
    last.0
}
