//! Readers of events: streams that stay open during the load. What they get is counted and thrown away, so that they cost
//! the machine as little as readers can.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::Context;
use clap::ValueEnum;
use serde::Serialize;
use tokio::task::JoinSet;

use super::http::{Connection, Failure, Stream, fill, within_patience};
use super::run::Run;
use super::sessions::{Session, creation};

/// How much is read at a time: a reader of everything on a busy server gets much at once.
const AT_ONCE: usize = 64 << 10;

/// What readers read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Reading {
    /// All that happens (GET /event).
    Everything,
    /// Each reads a session of its own in which nothing happens (GET /session/{id}/event).
    Others,
}

/// The open streams, as they are in the report. They are closed when this is dropped.
#[derive(Serialize)]
pub(super) struct Readers {
    pub(super) count: u32,
    pub(super) reading: Reading,
    /// How many bytes all of them have got.
    pub(super) bytes: Arc<AtomicU64>,
    #[serde(skip)]
    pub(super) streams: JoinSet<()>,
}

/// Opens all of them, or fails. One that is cut off later is counted as an error.
pub(super) async fn open(run: &Arc<Run>, reading: Reading, count: u32, clients: &[String]) -> anyhow::Result<Readers> {
    let bar = run.progress("opening", count, "{pos}/{len} readers");
    let mut readers = Readers { count, reading, bytes: Arc::default(), streams: JoinSet::new() };
    let mut connection = Connection::new(&run.target);
    for (number, client_id) in (1..=count).zip(clients.iter().cycle()) {
        let opened = within_patience(open_one(&mut connection, reading, client_id)).await;
        let stream = opened.with_context(|| format!("reader {number} of {count} cannot open its stream"))?;
        readers.streams.spawn(read(stream, readers.bytes.clone(), run.clone()));
        bar.inc(1);
    }
    Ok(readers)
}

async fn open_one(connection: &mut Connection, reading: Reading, client_id: &str) -> Result<Stream, Failure> {
    let endpoint = match reading {
        Reading::Everything => "/event".to_owned(),
        Reading::Others => {
            let creation = creation(&connection.target, client_id);
            format!("{}/event", Session::make(connection, &creation).await?.path)
        }
    };
    Stream::events(&connection.target, &endpoint).await.map_err(|failure| match failure {
        // The session is there: it was just made.
        Failure::Status { status: 404, .. } => Failure::Other(format!("the server has no GET {endpoint}")),
        failure => failure,
    })
}

/// Reads to the end, which should not come.
async fn read(mut events: Stream, bytes: Arc<AtomicU64>, run: Arc<Run>) {
    bytes.fetch_add(events.received.len() as u64, Ordering::Relaxed);
    loop {
        match fill(&mut events.stream, &mut Vec::new(), AT_ONCE).await {
            Ok(count) => bytes.fetch_add(count as u64, Ordering::Relaxed),
            Err(failure) => return run.count("reader", &failure),
        };
    }
}
