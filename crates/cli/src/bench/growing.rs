//! Growing sessions: compares the cost of a turn early in a session with the cost after many turns.

use anyhow::Context;
use futures_util::future::try_join_all;
use indicatif::ProgressBar;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::http::Connection;
use super::metrics::{Cost, Latencies, each, in_words};
use super::report::{Report, counted};
use super::run::Run;
use super::sessions::Session;

/// How many early turns, and how many late ones, are measured in each session.
const MEASURED: u32 = 40;

/// How many first turns are not measured, because they fill caches.
const SKIPPED: u32 = 10;

/// The fewest turns of a session; with fewer there are no late ones.
pub(super) const FEWEST: u32 = SKIPPED + 2 * MEASURED;

/// Lets `count` sessions grow to so many turns. A failed turn ends the run, since the sessions would no longer be alike.
pub(super) async fn run(run: &Run, clients: &[String], count: u32, turns: u32) -> anyhow::Result<Report> {
    let bar = run.progress("growing", u64::from(turns) * u64::from(count), "{pos}/{len} turns");
    let mut sessions = Vec::new();
    for client_id in clients.iter().cycle().take(count as usize) {
        let mut connection = Connection::new(&run.target);
        let session = Session::create(&mut connection, client_id).await.context("cannot make a session")?;
        sessions.push((connection, session));
    }
    let headline = format!(", {} of {turns} turns", counted(count, "session"));
    let mut report = Report::new(json!({ "sessions": count }), headline);
    let (early, late) = (SKIPPED + MEASURED, turns - MEASURED);
    let stretches = [("", 1, SKIPPED), ("early", SKIPPED + 1, early), ("", early + 1, late), ("late", late + 1, turns)];
    for (name, first, last) in stretches {
        let stretch = stretch(run, &mut sessions, first, last, &bar).await?;
        if !name.is_empty() {
            report.row(name, stretch.headline.clone());
            report.json[name] = stretch.json;
        }
    }
    Ok(report)
}

/// Runs turns of all sessions at the same time, one after the other in each. Turns are counted from 1.
async fn stretch(
    run: &Run,
    sessions: &mut [(Connection, Session)],
    first: u32,
    last: u32,
    bar: &ProgressBar,
) -> anyhow::Result<Report> {
    let latencies = Latencies::new()?;
    let all = sessions.iter_mut().map(async |(connection, session)| {
        for number in first..=last {
            let began = Instant::now();
            session.turn(connection).await.with_context(|| format!("turn {number} of a session failed"))?;
            latencies.record(began);
            bar.inc(1);
        }
        anyhow::Ok(())
    });
    let (done, cost) = Cost::of(run, try_join_all(all)).await;
    done?;
    let (latency, cpu) = (latencies.quantiles(), each(cost.server_cpu, latencies.count()));
    let [p50, _, p99, _] = latency;
    let mut text = format!("turns {first} to {last}: {}", in_words(&[p50, p99]));
    if let Some(cpu) = cpu {
        text.push_str(&format!("   server CPU {cpu:.1} µs per turn"));
    }
    Ok(Report::new(
        json!({ "turns": [first, last], "latencyMs": Value::from_iter(latency), "serverCpuUsPerTurn": cpu }),
        text,
    ))
}
