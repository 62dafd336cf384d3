//! Sessions that wait: each has a turn whose call the client got and does not answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use indicatif::ProgressBar;
use serde::Deserialize;
use serde::de::IgnoredAny;
use tokio::time::{Instant, sleep};

use super::http::{Connection, Failure, Target, within};
use super::metrics::ProcessMetrics;
use super::sessions::{Session, creation};
use super::{Errors, PATIENCE};

/// When the client got no call for this long, the calls that are missing do not come.
const LULL: Duration = Duration::from_secs(2);

/// How often it is looked at.
const LOOK: Duration = Duration::from_millis(20);

/// How many calls the server lists at most.
const LISTED: usize = 1_000;

/// What was measured while all of them waited.
#[derive(Debug)]
pub(super) struct Waiting {
    /// How many wait.
    pub(super) sessions: usize,
    /// The server's memory then, where it tells.
    pub(super) metrics: Option<ProcessMetrics>,
}

/// Has `count` sessions of a client wait, and measures. Whatever keeps one from it is counted as an error.
pub(super) async fn run(
    target: &Target,
    client_id: &str,
    count: usize,
    received: &Arc<AtomicUsize>,
    errors: &Errors,
    bar: &ProgressBar,
) -> anyhow::Result<Waiting> {
    let mut connection = Connection::default();
    let creation = creation(target, client_id);
    let mut sessions = Vec::new();
    for _ in 0..count {
        match within(PATIENCE, begin(&mut connection, target, &creation)).await {
            Ok(session) => sessions.push(session),
            Err(failure) => errors.count("prompt", &failure),
        }
        bar.inc(1);
    }
    let waiting = all_received(received, sessions.len()).await;
    if waiting < count {
        for session in &sessions {
            if let Err(failure) = within(PATIENCE, session.verdict(&mut connection, target)).await {
                errors.count("turn", &failure);
            }
        }
        return Ok(Waiting { sessions: waiting, metrics: None });
    }
    let metrics = ProcessMetrics::settled(target).await?;
    // They waited until the end of it, too.
    let offered = within(PATIENCE, offered(&mut connection, target, client_id)).await?;
    let sessions = if offered < count.min(LISTED) { offered } else { count };
    Ok(Waiting { sessions, metrics })
}

async fn begin(connection: &mut Connection, target: &Target, creation: &[u8]) -> Result<Session, Failure> {
    let session = Session::make(connection, target, creation).await?;
    session.begin(connection, target).await?;
    Ok(session)
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

/// How many calls the client has and did not answer, as the server sees it.
async fn offered(connection: &mut Connection, target: &Target, client_id: &str) -> Result<usize, Failure> {
    #[derive(Deserialize)]
    struct Calls(Vec<IgnoredAny>);
    let request = target.get(&format!("/client-tools/calls?state=offered&clientID={client_id}"), "application/json");
    match connection.exchange(target, &request).await? {
        (200, body) => match serde_json::from_slice(body) {
            Ok(Calls(calls)) => Ok(calls.len()),
            Err(_) => Err(Failure::Malformed("a list of calls that is none")),
        },
        (status, body) => Err(Failure::status(status, body)),
    }
}
