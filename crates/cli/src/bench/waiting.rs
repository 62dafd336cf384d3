//! Waiting sessions: each has a turn whose call the client holds.

use std::sync::atomic::Ordering;
use std::time::Duration;

use serde::de::IgnoredAny;
use serde_json::json;
use tokio::time::{Instant, sleep};

use super::http::{self, Connection};
use super::metrics::ProcessMetrics;
use super::report::{Report, counted};
use super::run::Run;
use super::sessions::Session;

/// After this long without a new call, the missing calls are given up.
const LULL: Duration = Duration::from_secs(2);

/// How often the number of calls is checked.
const LOOK: Duration = Duration::from_millis(20);

/// The most calls that the server lists.
const LISTED: usize = 1_000;

/// Makes `count` sessions of a client wait, and measures the memory. A session that does not wait is counted as an error.
pub(super) async fn run(
    run: &Run,
    client_id: &str,
    count: u32,
    before: Option<ProcessMetrics>,
) -> anyhow::Result<Report> {
    let bar = run.progress("prompting", count.into(), "{pos}/{len} sessions");
    let mut connection = Connection::new(&run.target);
    let mut sessions = Vec::new();
    for _ in 0..count {
        let begun = async {
            let session = Session::create(&mut connection, client_id).await?;
            session.begin(&mut connection).await.map(|()| session)
        };
        match begun.await {
            Ok(session) => sessions.push(session),
            Err(failure) => run.count("prompt", &failure),
        }
        bar.inc(1);
    }
    let mut waiting = all_held(run, sessions.len()).await;
    if waiting < count {
        for session in &sessions {
            if let Err(failure) = session.verdict(&mut connection).await {
                run.count("turn", &failure);
            }
        }
        return Ok(report(count, waiting, None));
    }
    let after = ProcessMetrics::settled(&run.target).await?;
    // The server must still have all the calls, or else not all sessions waited until the end.
    let calls = format!("/client-tools/calls?state=offered&clientID={client_id}");
    let calls = http::json::<Vec<IgnoredAny>>(connection.get(&calls).await?, "a list of calls that is none")?;
    let offered = calls.len();
    if offered < LISTED.min(count as usize) {
        waiting = offered as u32;
    }
    Ok(report(count, waiting, before.zip(after)))
}

fn report(count: u32, waiting: u32, metrics: Option<(ProcessMetrics, ProcessMetrics)>) -> Report {
    let json = json!({ "sessions": count, "waiting": waiting });
    let mut report = Report::new(json, format!(", {} waiting for it", counted(waiting, "session")));
    if let Some((before, after)) = metrics {
        report.memory.push_str(", ");
        report.add_memory(before, after, waiting, "waiting", "session");
    }
    report.failure = (waiting < count).then(|| format!("only {waiting} of {count} sessions wait"));
    report
}

/// Waits until the client holds `count` calls, or until no more come. Returns how many it holds.
async fn all_held(run: &Run, count: usize) -> u32 {
    let held = || run.held.as_ref().map_or(0, |held| held.load(Ordering::Relaxed));
    let (mut last, mut since) = (held(), Instant::now());
    while last < count as u32 && since.elapsed() < LULL {
        sleep(LOOK).await;
        if held() > last {
            (last, since) = (held(), Instant::now());
        }
    }
    last
}
