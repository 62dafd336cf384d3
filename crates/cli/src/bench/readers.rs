//! Readers of events: streams that stay open during the load. Their bytes are counted and discarded, so that they cost the
//! machine as little as possible.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::Context;
use clap::ValueEnum;
use serde::Serialize;
use serde_json::json;
use tokio::io::AsyncReadExt;
use tokio::task::JoinSet;

use super::http::{Connection, Failure, Stream, within_patience};
use super::report::{Report, counted};
use super::run::Run;
use super::sessions::Session;

/// How much is read at a time, in bytes: a reader of everything on a busy server gets much at once.
const AT_ONCE: usize = 64 << 10;

/// Which events the readers read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Reading {
    /// All that happens (GET /event).
    Everything,
    /// Each reads a session of its own in which nothing happens (GET /session/{id}/event).
    Others,
}

/// The open streams. They are closed when this is dropped.
#[derive(Default)]
pub(super) struct Readers {
    /// How many bytes all of them have read.
    pub(super) bytes: Arc<AtomicU64>,
    pub(super) streams: JoinSet<()>,
}

impl Readers {
    pub(super) fn report(&self, reading: Reading) -> Report {
        let (count, bytes) = (self.streams.len() as u32, self.bytes.load(Ordering::Relaxed));
        let what = match reading {
            Reading::Everything => "everything",
            Reading::Others => "other sessions",
        };
        let json = json!({ "count": count, "reading": reading, "bytes": bytes });
        let mut report = Report::new(json, format!(", {} of {what}", counted(count, "reader")));
        report.row("readers", format!("got {:.1} MB, all together", bytes as f64 / 1e6));
        report
    }
}

/// Opens all streams, or fails. A stream that ends later is counted as an error.
pub(super) async fn open(run: &Arc<Run>, reading: Reading, count: u32, clients: &[String]) -> anyhow::Result<Readers> {
    let bar = run.progress("opening", count.into(), "{pos}/{len} readers");
    let mut readers = Readers::default();
    let mut connection = Connection::new(&run.target);
    for (number, client_id) in (1..=count).zip(clients.iter().cycle()) {
        let opening = async {
            let endpoint = match reading {
                Reading::Everything => "/event".to_owned(),
                Reading::Others => format!("{}/event", Session::create(&mut connection, client_id).await?.path),
            };
            match Stream::events(&run.target, &endpoint).await {
                // The session exists, since it was just created, so the server does not know the path.
                Err(Failure::Status { status: 404, .. }) => {
                    Err(Failure::Other(format!("the server has no GET {endpoint}")))
                }
                opened => opened,
            }
        };
        let opened = within_patience(opening).await;
        let stream = opened.with_context(|| format!("reader {number} of {count} cannot open its stream"))?;
        readers.streams.spawn(read(stream, readers.bytes.clone(), run.clone()));
        bar.inc(1);
    }
    Ok(readers)
}

/// Reads until the server closes the stream, which is an error.
async fn read(mut stream: Stream, bytes: Arc<AtomicU64>, run: Arc<Run>) {
    let failure = loop {
        // A buffer is made only when there is something to read, so that thousands of idle readers hold none.
        let read = match stream.reader.get_ref().readable().await {
            Ok(()) => stream.reader.read_buf(&mut Vec::with_capacity(AT_ONCE)).await,
            Err(error) => Err(error),
        };
        match read {
            Ok(0) => break Failure::Closed,
            Ok(count) => _ = bytes.fetch_add(count as u64, Ordering::Relaxed),
            Err(error) => break error.into(),
        }
    };
    run.count("reader", &failure);
}
