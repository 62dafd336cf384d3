//! What readers of long histories do to the others: how long somebody else waits meanwhile, with either store.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, ensure};
use serde::Deserialize;
use serde_json::json;
use tokio::time::Instant;

use crate::http::{self, Events, Line};
use crate::process::Binaries;
use crate::scenario::{Peer, Store};

/// How many messages a history has; one that is longer has longer ones.
pub(crate) const MESSAGES: usize = 2_000;

/// How often each is measured; the medians count.
pub(crate) const ROUNDS: usize = 3;

/// How long a history is listed over and over.
const LISTING: Duration = Duration::from_secs(5);

/// Between two calls of the one who waits: few enough to leave the machine to the others.
const PULSE: Duration = Duration::from_millis(5);

/// How a history is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Case {
    /// A long one, over and over.
    Listed,
    /// A very long one, by several at the same time.
    ReadAtOnce,
}

impl Case {
    pub(crate) const ALL: [Self; 2] = [Self::Listed, Self::ReadAtOnce];

    /// How much text the history has.
    pub(crate) fn megabytes(self) -> usize {
        match self {
            Self::Listed => 20,
            Self::ReadAtOnce => 200,
        }
    }

    pub(crate) fn readers(self) -> usize {
        match self {
            Self::Listed => 1,
            Self::ReadAtOnce => 8,
        }
    }

    /// How long others may wait.
    pub(crate) fn goal(self) -> Duration {
        match self {
            Self::Listed => Duration::from_millis(5),
            Self::ReadAtOnce => Duration::from_millis(100),
        }
    }

    /// What of the waits counts.
    fn wait(self, waits: &mut Waits) -> Duration {
        match self {
            Self::Listed => {
                waits.results.sort();
                waits.results.get(waits.results.len() * 99 / 100).copied().unwrap_or_default()
            }
            Self::ReadAtOnce => waits.longest,
        }
    }
}

/// What came of a case with a store.
#[derive(Debug, Clone)]
pub(crate) struct Outcome {
    pub(crate) case: Case,
    pub(crate) store: Store,
    /// The wait that counts, in each round.
    pub(crate) waits: Vec<Duration>,
    /// How fast the readers read, all together, in bytes a second, in each round.
    pub(crate) rates: Vec<f64>,
}

/// How long somebody waited.
#[derive(Default)]
struct Waits {
    /// For each result to be taken.
    results: Vec<Duration>,
    /// For whatever took longest.
    longest: Duration,
}

/// Fills a fresh server with a history, and has it read while somebody else makes calls.
pub(crate) fn measure(binaries: &Binaries, case: Case, store: Store) -> anyhow::Result<Outcome> {
    let server = binaries.start(Peer::Handback(store))?;
    let address = server.url.trim_start_matches("http://");
    let mut line = Line::open(address)?;
    let history = make_session(&mut line)?;
    let size = case.megabytes() * 1_000_000;
    let text = "x".repeat(size / MESSAGES);
    let note = json!({ "noReply": true, "parts": [{ "type": "text", "text": text }] }).to_string();
    for _ in 0..MESSAGES {
        line.ask(&format!("POST /session/{history}/message"), &note)?;
    }
    let mut other = Other::arrive(address)?;
    // Once to warm up.
    read(address, &history, size)?;
    let mut outcome = Outcome { case, store, waits: Vec::new(), rates: Vec::new() };
    for _ in 0..ROUNDS {
        let (mut waits, rate) = disturb(address, &history, size, case, &mut other)?;
        outcome.waits.push(case.wait(&mut waits));
        outcome.rates.push(rate);
    }
    Ok(outcome)
}

/// Reads the history while somebody else makes calls; returns how long they waited, and the rate of the readers.
fn disturb(address: &str, history: &str, size: usize, case: Case, other: &mut Other) -> anyhow::Result<(Waits, f64)> {
    let (is_over, began) = (AtomicBool::new(false), Instant::now());
    let read_all = || {
        let mut total = 0;
        loop {
            total += read(address, history, size)?;
            if case == Case::ReadAtOnce || began.elapsed() > LISTING {
                return anyhow::Ok(total);
            }
        }
    };
    std::thread::scope(|scope| {
        let calls = scope.spawn(|| other.call_until(&is_over));
        let readers: Vec<_> = (0..case.readers()).map(|_| scope.spawn(read_all)).collect();
        let total: anyhow::Result<u64> = readers.into_iter().map(|reader| joined(reader.join())?).sum();
        let elapsed = began.elapsed().as_secs_f64();
        is_over.store(true, Ordering::Relaxed);
        let waits = joined(calls.join())??;
        Ok((waits, total? as f64 / elapsed))
    })
}

fn joined<T>(ended: std::thread::Result<T>) -> anyhow::Result<T> {
    ended.map_err(|_| anyhow::anyhow!("a thread has failed"))
}

/// Reads all of a history once.
fn read(address: &str, history: &str, size: usize) -> anyhow::Result<u64> {
    let read = http::discard(address, &format!("/session/{history}/message"))?;
    ensure!(read > size as u64, "{read} bytes of a history of {size} were read");
    Ok(read)
}

pub(crate) fn make_session(line: &mut Line) -> anyhow::Result<String> {
    #[derive(Deserialize)]
    struct Made {
        id: String,
    }
    let made: Made = serde_json::from_slice(&line.ask("POST /session", "{}")?)?;
    Ok(made.id)
}

/// Somebody else: a client that is called and answers, and has a session of its own.
struct Other {
    line: Line,
    events: Events,
    session: String,
}

impl Other {
    fn arrive(address: &str) -> anyhow::Result<Self> {
        let mut line = Line::open(address)?;
        let events = Line::open(address)?.into_events("/client-tools/pending/other")?;
        let tools = json!({ "clientID": "other", "tools": [{ "id": "go", "parameters": { "type": "object" } }] });
        line.ask("POST /client-tools/register", &tools.to_string())?;
        let session = make_session(&mut line)?;
        Ok(Self { line, events, session })
    }

    fn call_until(&mut self, is_over: &AtomicBool) -> anyhow::Result<Waits> {
        let mut waits = Waits::default();
        while !is_over.load(Ordering::Relaxed) {
            self.call(&mut waits)?;
            std::thread::sleep(PULSE);
        }
        Ok(waits)
    }

    /// A call is made, offered and answered, and a session is looked at; each is waited for.
    fn call(&mut self, waits: &mut Waits) -> anyhow::Result<()> {
        #[derive(Deserialize)]
        struct Begun {
            #[serde(rename = "requestID")]
            request_id: String,
        }
        let mut began = Instant::now();
        let mut waited = || {
            let wait = began.elapsed();
            waits.longest = waits.longest.max(wait);
            began = Instant::now();
            wait
        };
        let call = r#"{"toolID":"client_other_go","input":{},"wait":false}"#;
        let begun = self.line.ask("POST /client-tools/execute", call)?;
        waited();
        let Begun { request_id } = serde_json::from_slice(&begun).context("a call without an id")?;
        self.events.wait_for(&request_id)?;
        waited();
        let answer =
            format!(r#"{{"requestID":"{request_id}","result":{{"status":"success","title":"","output":"gone"}}}}"#);
        self.line.ask("POST /client-tools/result", &answer)?;
        let result = waited();
        self.line.ask(&format!("GET /session/{}", self.session), "")?;
        waited();
        waits.results.push(result);
        Ok(())
    }
}
