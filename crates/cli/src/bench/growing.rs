//! Sessions that grow: what a turn costs early in a session, and what it costs when many turns are before it.

use anyhow::Context;
use futures_util::future::try_join_all;
use indicatif::ProgressBar;
use serde::Serialize;
use tokio::time::Instant;

use super::http::Connection;
use super::metrics::{Latencies, Latency, ProcessMetrics, cpu_each};
use super::run::Run;
use super::sessions::{Session, creation};

/// How many turns of each session are measured, early and late.
const MEASURED: u32 = 40;

/// The first turns, in which caches are filled, are not.
const SKIPPED: u32 = 10;

/// Sessions with fewer turns than this have no late ones.
pub(super) const FEWEST: u32 = SKIPPED + 2 * MEASURED;

/// What was measured, as it is in the report.
#[derive(Serialize)]
pub(super) struct Growing {
    pub(super) sessions: u32,
    pub(super) early: Stretch,
    pub(super) late: Stretch,
}

/// Some turns of every session, one after the other in each, all sessions at the same time.
#[derive(Serialize)]
pub(super) struct Stretch {
    /// The first and the last, from 1.
    pub(super) turns: (u32, u32),
    #[serde(rename = "latencyMs")]
    pub(super) latency: Latency,
    /// What the server used for each turn, in microseconds, where it tells.
    #[serde(rename = "serverCpuUsPerTurn", skip_serializing_if = "Option::is_none")]
    pub(super) server_cpu: Option<f64>,
}

/// Lets so many sessions grow to so many turns. A turn that fails is an error: the sessions would no longer be alike.
pub(super) async fn run(run: &Run, clients: &[String], count: u32, turns: u32) -> anyhow::Result<Growing> {
    let bar = run.progress("growing", turns * count, "{pos}/{len} turns");
    let mut sessions = Vec::new();
    for client_id in clients.iter().cycle().take(count as usize) {
        let mut connection = Connection::new(&run.target);
        let making = Session::make(&mut connection, &creation(&run.target, client_id)).await;
        let session = making.context("cannot make a session")?;
        sessions.push((connection, session));
    }
    let (early, late) = (SKIPPED + MEASURED, turns - MEASURED);
    stretch(run, &mut sessions, (1, SKIPPED), &bar).await?;
    let early_turns = stretch(run, &mut sessions, (SKIPPED + 1, early), &bar).await?;
    stretch(run, &mut sessions, (early + 1, late), &bar).await?;
    let late_turns = stretch(run, &mut sessions, (late + 1, turns), &bar).await?;
    Ok(Growing { sessions: count, early: early_turns, late: late_turns })
}

/// Runs the turns from the first to the last of `turns`.
async fn stretch(
    run: &Run,
    sessions: &mut [(Connection, Session)],
    turns: (u32, u32),
    bar: &ProgressBar,
) -> anyhow::Result<Stretch> {
    let latencies = Latencies::new()?;
    let cpu = async || anyhow::Ok(ProcessMetrics::fetch(&run.target).await?.map(|metrics| metrics.cpu_seconds));
    let before = cpu().await?;
    let all = sessions.iter_mut().map(async |(connection, session)| {
        for number in turns.0..=turns.1 {
            let began = Instant::now();
            session.turn(connection).await.with_context(|| format!("turn {number} of a session failed"))?;
            latencies.record(began);
            bar.inc(1);
        }
        anyhow::Ok(())
    });
    try_join_all(all).await?;
    let server_cpu = cpu_each(before, cpu().await?, latencies.count());
    Ok(Stretch { turns, latency: latencies.summary(), server_cpu })
}
