//! The load: workers that make one call, or run one turn, after the other, and the clock that times them.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Context;
use hdrhistogram::Histogram;
use indicatif::ProgressBar;
use serde::Deserialize;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};

use super::clients::tool_id;
use super::http::{Connection, Failure, Target, within};
use super::metrics::{ProcessMetrics, own_cpu_seconds};
use super::sessions::{self, Session};
use super::{Errors, PATIENCE};

/// After a failure a worker waits this long: a server that is gone is not hammered.
const AFTER_FAILURE: Duration = Duration::from_millis(100);

/// What the workers do, over and over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Work {
    /// Bare calls, by `execute`.
    Calls,
    /// Whole turns of sessions, each with one call in it.
    Turns,
}

impl Work {
    /// What one of it is called.
    pub(super) fn noun(self) -> &'static str {
        match self {
            Self::Calls => "call",
            Self::Turns => "turn",
        }
    }

    /// What a failure of it happened during.
    fn verb(self) -> &'static str {
        match self {
            Self::Calls => "execute",
            Self::Turns => "turn",
        }
    }
}

/// How the load is made.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) work: Work,
    pub(super) concurrency: u32,
    pub(super) warmup: Duration,
    pub(super) duration: Duration,
}

/// What was measured between the warm-up and the end.
pub(super) struct Load {
    pub(super) work: Work,
    pub(super) elapsed: Duration,
    /// Of the calls or turns that succeeded, in nanoseconds.
    pub(super) latencies: Histogram<u64>,
    /// The server's CPU time, where it tells.
    pub(super) server_cpu_seconds: Option<f64>,
    /// This process's.
    pub(super) own_cpu_seconds: Option<f64>,
}

/// What the workers share.
struct Shared {
    target: Arc<Target>,
    errors: Arc<Errors>,
    work: Work,
    /// One ready request for each client: it makes a call, or a session whose turns do.
    requests: Vec<Vec<u8>>,
    next: AtomicUsize,
    measuring: AtomicBool,
    stopping: AtomicBool,
    latencies: Mutex<Histogram<u64>>,
}

/// Room for latencies from a microsecond to two minutes, in nanoseconds.
pub(super) fn latencies() -> anyhow::Result<Histogram<u64>> {
    Ok(Histogram::new_with_bounds(1_000, 120_000_000_000, 3)?)
}

/// Works with the clients in turn for as long as the plan says, and lets what is under way finish.
pub(super) async fn run(
    target: &Arc<Target>,
    clients: &[String],
    plan: &Plan,
    errors: &Arc<Errors>,
    bar: &ProgressBar,
) -> anyhow::Result<Load> {
    let request = |client_id: &String| match plan.work {
        Work::Calls => execution(target, client_id),
        Work::Turns => sessions::creation(target, client_id),
    };
    let shared = Arc::new(Shared {
        target: target.clone(),
        errors: errors.clone(),
        work: plan.work,
        requests: clients.iter().map(request).collect(),
        next: AtomicUsize::new(0),
        measuring: AtomicBool::new(false),
        stopping: AtomicBool::new(false),
        latencies: Mutex::new(latencies()?),
    });
    let mut workers: JoinSet<()> = (0..plan.concurrency).map(|_| Worker::new(shared.clone()).run()).collect();

    bar.set_prefix("warming up");
    wait(plan.warmup, &shared, bar).await;
    let server_before = cpu_seconds(target, errors).await;
    let own_before = own_cpu_seconds();
    shared.measuring.store(true, Ordering::Relaxed);
    let began = Instant::now();

    bar.set_prefix("measuring");
    wait(plan.duration, &shared, bar).await;
    shared.measuring.store(false, Ordering::Relaxed);
    shared.stopping.store(true, Ordering::Relaxed);
    let elapsed = began.elapsed();
    let own_after = own_cpu_seconds();
    let server_after = cpu_seconds(target, errors).await;

    while let Some(ended) = workers.join_next().await {
        ended.context("a worker of the bench died")?;
    }
    let latencies = shared.latencies.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let spent = |before: Option<f64>, after: Option<f64>| before.zip(after).map(|(before, after)| after - before);
    Ok(Load {
        work: plan.work,
        elapsed,
        latencies,
        server_cpu_seconds: spent(server_before, server_after),
        own_cpu_seconds: spent(own_before, own_after),
    })
}

/// Lets the time pass and shows it.
async fn wait(duration: Duration, shared: &Shared, bar: &ProgressBar) {
    let began = Instant::now();
    bar.set_length(duration.as_millis() as u64);
    while began.elapsed() < duration {
        sleep_until((began + duration).min(Instant::now() + Duration::from_millis(200))).await;
        bar.set_position(began.elapsed().as_millis() as u64);
        let done = shared.latencies.lock().unwrap_or_else(PoisonError::into_inner).len();
        bar.set_message(format!(
            "{:.0} of {:.0} s, {done} {}s",
            began.elapsed().as_secs_f64(),
            duration.as_secs_f64(),
            shared.work.noun()
        ));
    }
}

async fn cpu_seconds(target: &Target, errors: &Errors) -> Option<f64> {
    match ProcessMetrics::fetch(target).await {
        Ok(metrics) => metrics.map(|metrics| metrics.cpu_seconds),
        Err(failure) => {
            errors.count("metrics", &failure);
            None
        }
    }
}

/// What makes a call of a client's tool.
fn execution(target: &Target, client_id: &str) -> Vec<u8> {
    let body = format!(r#"{{"toolID":"{}","input":{{"path":"src/main.rs"}}}}"#, tool_id(client_id));
    target.post("/client-tools/execute", &body)
}

impl Shared {
    /// The request of the client whose turn it is.
    fn next_request(&self) -> &[u8] {
        let index = self.next.fetch_add(1, Ordering::Relaxed) % self.requests.len();
        &self.requests[index]
    }

    /// Waits for an exchange, and records how long it took if it succeeds while it counts.
    async fn timed(&self, exchange: impl Future<Output = Result<(), Failure>>) -> Result<(), Failure> {
        let began = Instant::now();
        within(PATIENCE, exchange).await?;
        if self.measuring.load(Ordering::Relaxed) {
            let nanoseconds = began.elapsed().as_nanos() as u64;
            self.latencies.lock().unwrap_or_else(PoisonError::into_inner).saturating_record(nanoseconds);
        }
        Ok(())
    }
}

/// Does one thing after the other, over a connection of its own.
struct Worker {
    shared: Arc<Shared>,
    connection: Connection,
    /// Its own, too; a fresh one when this is used up.
    session: Option<Session>,
}

impl Worker {
    fn new(shared: Arc<Shared>) -> Self {
        Self { shared, connection: Connection::default(), session: None }
    }

    /// Works until it is told to stop, each time when the one before it is answered.
    async fn run(mut self) {
        while !self.shared.stopping.load(Ordering::Relaxed) {
            let done = match self.shared.work {
                Work::Calls => self.call().await,
                Work::Turns => self.turn().await,
            };
            if let Err(failure) = done {
                // Whatever is under way in it, the next turn shall not wait for.
                self.session = None;
                self.shared.errors.count(self.shared.work.verb(), &failure);
                sleep(AFTER_FAILURE).await;
            }
        }
    }

    async fn call(&mut self) -> Result<(), Failure> {
        let Self { shared, connection, .. } = self;
        shared.timed(call(connection, &shared.target, shared.next_request())).await
    }

    async fn turn(&mut self) -> Result<(), Failure> {
        let Self { shared, connection, session } = self;
        let session = match session.take_if(|session| !session.is_used_up()) {
            Some(usable) => session.insert(usable),
            None => {
                let making = Session::make(connection, &shared.target, shared.next_request());
                session.insert(within(PATIENCE, making).await?)
            }
        };
        shared.timed(session.turn(connection, &shared.target)).await
    }
}

async fn call(connection: &mut Connection, target: &Target, request: &[u8]) -> Result<(), Failure> {
    #[derive(Deserialize)]
    struct Outcome<'a> {
        status: &'a str,
    }
    match connection.exchange(target, request).await? {
        (200, body) => match serde_json::from_slice(body) {
            Ok(Outcome { status: "success" }) => Ok(()),
            Ok(_) => Err(Failure::Refused("the call ended without success".to_owned())),
            Err(_) => Err(Failure::Malformed("an answer without a status")),
        },
        (status, body) => Err(Failure::status(status, body)),
    }
}
