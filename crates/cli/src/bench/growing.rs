//! Sessions that grow: what a turn costs early in a session, and what it costs when many turns are before it.

use std::ops::RangeInclusive;
use std::sync::{Mutex, PoisonError};

use anyhow::Context;
use futures_util::future::try_join_all;
use hdrhistogram::Histogram;
use indicatif::ProgressBar;
use tokio::time::Instant;

use super::PATIENCE;
use super::http::{Connection, Failure, Target, within};
use super::load::latencies;
use super::metrics::ProcessMetrics;
use super::sessions::{Session, creation};

/// How many turns of each session are measured, early and late.
const MEASURED: u32 = 40;

/// The first turns, in which caches are filled, are not.
const SKIPPED: u32 = 10;

/// Sessions with fewer turns than this have no late ones.
pub(super) const FEWEST: u32 = SKIPPED + 2 * MEASURED;

/// Some turns of every session, one after the other in each, all sessions at the same time.
pub(super) struct Stretch {
    /// Which, from 1.
    pub(super) turns: RangeInclusive<u32>,
    /// Of all sessions, in nanoseconds.
    pub(super) latencies: Histogram<u64>,
    /// What the server used meanwhile, where it tells.
    pub(super) server_cpu_seconds: Option<f64>,
}

/// What was measured.
pub(super) struct Growing {
    pub(super) sessions: u32,
    pub(super) early: Stretch,
    pub(super) late: Stretch,
}

/// A session with a connection of its own.
struct Grower {
    connection: Connection,
    session: Session,
}

/// Lets so many sessions grow to so many turns. A turn that fails is an error: the sessions would no longer be alike.
pub(super) async fn run(
    target: &Target,
    clients: &[String],
    sessions: u32,
    turns: u32,
    bar: &ProgressBar,
) -> anyhow::Result<Growing> {
    let mut growers = Vec::new();
    for client_id in clients.iter().cycle().take(sessions as usize) {
        let mut connection = Connection::default();
        let creation = creation(target, client_id);
        let making = Session::make(&mut connection, target, &creation);
        let session = within(PATIENCE, making).await.context("cannot make a session")?;
        growers.push(Grower { connection, session });
    }
    let late = turns - MEASURED;
    stretch(target, &mut growers, 1..=SKIPPED, bar).await?;
    let early = stretch(target, &mut growers, SKIPPED + 1..=SKIPPED + MEASURED, bar).await?;
    stretch(target, &mut growers, SKIPPED + MEASURED + 1..=late, bar).await?;
    let late = stretch(target, &mut growers, late + 1..=turns, bar).await?;
    Ok(Growing { sessions, early, late })
}

async fn stretch(
    target: &Target,
    growers: &mut [Grower],
    turns: RangeInclusive<u32>,
    bar: &ProgressBar,
) -> anyhow::Result<Stretch> {
    let latencies = Mutex::new(latencies()?);
    let before = ProcessMetrics::fetch(target).await?;
    let all = growers.iter_mut().map(|grower| grower.run(target, turns.clone(), &latencies, bar));
    try_join_all(all).await?;
    let after = ProcessMetrics::fetch(target).await?;
    Ok(Stretch {
        turns,
        latencies: latencies.into_inner().unwrap_or_else(PoisonError::into_inner),
        server_cpu_seconds: before.zip(after).map(|(before, after)| after.cpu_seconds - before.cpu_seconds),
    })
}

impl Grower {
    async fn run(
        &mut self,
        target: &Target,
        turns: RangeInclusive<u32>,
        latencies: &Mutex<Histogram<u64>>,
        bar: &ProgressBar,
    ) -> anyhow::Result<()> {
        for number in turns {
            let began = Instant::now();
            let turn = self.session.turn(&mut self.connection, target);
            let done: Result<(), Failure> = within(PATIENCE, turn).await;
            done.with_context(|| format!("turn {number} of a session failed"))?;
            let nanoseconds = began.elapsed().as_nanos() as u64;
            latencies.lock().unwrap_or_else(PoisonError::into_inner).saturating_record(nanoseconds);
            bar.inc(1);
        }
        Ok(())
    }
}
