//! Readers of events: streams that stay open during the load. What they get is counted and thrown away, so that they cost
//! the machine as little as readers can.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::Context;
use clap::ValueEnum;
use indicatif::ProgressBar;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use super::http::{Connection, Failure, Target, open_events, read_once, within};
use super::sessions::{Session, creation};
use super::{Errors, PATIENCE};

/// How much is read at a time: a reader of everything on a busy server gets much at once.
const AT_ONCE: usize = 64 << 10;

/// What readers read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Reading {
    /// All that happens (GET /event).
    Everything,
    /// Each reads a session of its own in which nothing happens (GET /session/{id}/event).
    Others,
}

impl Reading {
    /// As in the option and in the report.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Everything => "everything",
            Self::Others => "others",
        }
    }
}

/// The open streams. They are closed when this is dropped.
pub(super) struct Readers {
    received: Arc<AtomicU64>,
    pub(super) _reading: JoinSet<()>,
}

impl Readers {
    /// How many bytes all of them have got.
    pub(super) fn bytes(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }
}

/// Opens all of them, or fails. One that is cut off later is counted as an error.
pub(super) async fn open(
    target: &Arc<Target>,
    reading: Reading,
    count: u32,
    clients: &[String],
    errors: &Arc<Errors>,
    bar: &ProgressBar,
) -> anyhow::Result<Readers> {
    let mut readers = Readers { received: Arc::default(), _reading: JoinSet::new() };
    let mut connection = Connection::default();
    for (number, client_id) in (1..=count).zip(clients.iter().cycle()) {
        let opening = open_one(&mut connection, target, reading, client_id);
        let (stream, begun) = within(PATIENCE, opening)
            .await
            .with_context(|| format!("reader {number} of {count} cannot open its stream"))?;
        readers.received.fetch_add(begun, Ordering::Relaxed);
        readers._reading.spawn(read(stream, readers.received.clone(), errors.clone()));
        bar.inc(1);
    }
    Ok(readers)
}

/// Returns the stream, and how much of it was read already.
async fn open_one(
    connection: &mut Connection,
    target: &Target,
    reading: Reading,
    client_id: &str,
) -> Result<(TcpStream, u64), Failure> {
    let endpoint = match reading {
        Reading::Everything => "/event".to_owned(),
        Reading::Others => {
            let session = Session::make(connection, target, &creation(target, client_id)).await?;
            format!("{}/event", session.path())
        }
    };
    match open_events(target, &endpoint).await {
        Ok((stream, _, begun)) => Ok((stream, begun.len() as u64)),
        // The session is there: it was just made.
        Err(Failure::Status { status: 404, .. }) => Err(Failure::NoSuchStream(endpoint)),
        Err(failure) => Err(failure),
    }
}

/// Reads to the end, which should not come.
async fn read(mut stream: TcpStream, received: Arc<AtomicU64>, errors: Arc<Errors>) {
    let failure = loop {
        let reading = read_once::<AT_ONCE, _>(&mut stream, |bytes| Ok(bytes.len() as u64));
        match reading.await {
            Ok(bytes) => received.fetch_add(bytes, Ordering::Relaxed),
            Err(failure) => break failure,
        };
    };
    errors.count("reader", &failure);
}
