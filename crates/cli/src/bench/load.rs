//! The load: workers that make one call, or run one turn, after the other, and the clock that times them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use indicatif::ProgressBar;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};

use super::clients::TOOL;
use super::http::{self, Connection, Failure};
use super::metrics::{Latencies, Latency, ProcessMetrics, cpu_each, own_cpu_seconds};
use super::run::Run;
use super::sessions::{Session, creation};

/// After a failure a worker waits this long: a server that is gone is not hammered.
const AFTER_FAILURE: Duration = Duration::from_millis(100);

/// A turn's cost grows with the messages before it; a fresh session after so many keeps it that of a usual one.
const TURNS: u32 = 20;

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
}

/// How the load is made.
#[derive(Debug, Clone, Args)]
pub(super) struct Plan {
    /// How many calls (with --turns: turns) are under way at any time; with --growing, how many sessions grow.
    #[arg(long, value_name = "M", default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(super) concurrency: u32,
    /// How long to measure, in seconds.
    #[arg(long, value_name = "SECONDS", default_value = "5", value_parser = seconds)]
    pub(super) duration: Duration,
    /// How long to call before that, in seconds.
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = seconds)]
    pub(super) warmup: Duration,
}

fn seconds(text: &str) -> Result<Duration, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.0..=86_400.0).contains(&seconds) => Ok(Duration::from_secs_f64(seconds)),
        _ => Err("expected seconds, at most 86400".to_owned()),
    }
}

/// What was measured between the warm-up and the end.
pub(super) struct Load {
    pub(super) work: Work,
    /// How many clients were called.
    pub(super) active: usize,
    pub(super) concurrency: u32,
    pub(super) seconds: f64,
    /// How many calls or turns succeeded.
    pub(super) count: u64,
    pub(super) per_second: f64,
    pub(super) latency: Latency,
    /// In microseconds for each call or turn, where the server tells.
    pub(super) server_cpu: Option<f64>,
    pub(super) generator_cpu: Option<f64>,
    /// How much of one core the load generator used.
    pub(super) generator_cores: Option<f64>,
}

/// The names say what was counted: `calls`, `callsPerSecond`, `serverCpuUsPerCall`, or the same of turns.
impl Serialize for Load {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (many, each) = match self.work {
            Work::Calls => ("calls", "Call"),
            Work::Turns => ("turns", "Turn"),
        };
        let entries = [
            ("active".to_owned(), json!(self.active)),
            ("concurrency".to_owned(), json!(self.concurrency)),
            ("seconds".to_owned(), json!(self.seconds)),
            (many.to_owned(), json!(self.count)),
            (format!("{many}PerSecond"), json!(self.per_second)),
            ("latencyMs".to_owned(), json!(self.latency)),
            (format!("serverCpuUsPer{each}"), json!(self.server_cpu)),
            (format!("generatorCpuUsPer{each}"), json!(self.generator_cpu)),
            ("generatorCores".to_owned(), json!(self.generator_cores)),
        ];
        serializer.collect_map(entries.iter().filter(|(_, value)| !value.is_null()).map(|(name, value)| (name, value)))
    }
}

/// What the workers share.
struct Shared {
    run: Arc<Run>,
    work: Work,
    /// One ready request for each client: it makes a call, or a session whose turns do.
    requests: Vec<Vec<u8>>,
    next: AtomicUsize,
    is_measuring: AtomicBool,
    is_stopping: AtomicBool,
    latencies: Latencies,
}

/// Works with the clients in turn for as long as the plan says, and lets what is under way finish.
pub(super) async fn run(run: &Arc<Run>, clients: &[String], work: Work, plan: &Plan) -> anyhow::Result<Load> {
    let request = |client_id: &String| match work {
        Work::Calls => {
            let body = format!(r#"{{"toolID":"client_{client_id}_{TOOL}","input":{{"path":"src/main.rs"}}}}"#);
            run.target.post("/client-tools/execute", &body)
        }
        Work::Turns => creation(&run.target, client_id),
    };
    let shared = Arc::new(Shared {
        run: run.clone(),
        work,
        requests: clients.iter().map(request).collect(),
        next: AtomicUsize::new(0),
        is_measuring: AtomicBool::new(false),
        is_stopping: AtomicBool::new(false),
        latencies: Latencies::new()?,
    });
    let mut workers: JoinSet<()> = (0..plan.concurrency).map(|_| shared.clone().work()).collect();

    let bar = run.progress("warming up", 0, "{msg}");
    shared.wait(plan.warmup, &bar).await;
    let server_before = server_cpu_seconds(run).await;
    let own_before = own_cpu_seconds();
    shared.is_measuring.store(true, Ordering::Relaxed);
    let began = Instant::now();

    bar.set_prefix("measuring");
    shared.wait(plan.duration, &bar).await;
    shared.is_measuring.store(false, Ordering::Relaxed);
    shared.is_stopping.store(true, Ordering::Relaxed);
    let seconds = began.elapsed().as_secs_f64();
    let own_after = own_cpu_seconds();
    let server_after = server_cpu_seconds(run).await;

    while let Some(ended) = workers.join_next().await {
        ended.context("a worker of the bench died")?;
    }
    let count = shared.latencies.count();
    Ok(Load {
        work,
        active: clients.len(),
        concurrency: plan.concurrency,
        seconds,
        count,
        per_second: count as f64 / seconds,
        latency: shared.latencies.summary(),
        server_cpu: cpu_each(server_before, server_after, count),
        generator_cpu: cpu_each(own_before, own_after, count),
        generator_cores: own_before.zip(own_after).map(|(before, after)| (after - before) / seconds),
    })
}

async fn server_cpu_seconds(run: &Run) -> Option<f64> {
    let fetched = ProcessMetrics::fetch(&run.target).await;
    fetched.inspect_err(|failure| run.count("metrics", failure)).ok()?.map(|metrics| metrics.cpu_seconds)
}

impl Shared {
    /// Lets the time pass and shows it.
    async fn wait(&self, duration: Duration, bar: &ProgressBar) {
        let began = Instant::now();
        bar.set_length(duration.as_millis() as u64);
        while began.elapsed() < duration {
            sleep_until((began + duration).min(Instant::now() + Duration::from_millis(200))).await;
            bar.set_position(began.elapsed().as_millis() as u64);
            let (passed, all) = (began.elapsed().as_secs_f64(), duration.as_secs_f64());
            let (done, noun) = (self.latencies.count(), self.work.noun());
            bar.set_message(format!("{passed:.0} of {all:.0} s, {done} {noun}s"));
        }
    }

    /// Works until it is told to stop, each time when the one before it is answered, over a connection of its own.
    async fn work(self: Arc<Self>) {
        let mut connection = Connection::new(&self.run.target);
        let mut session = None;
        while !self.is_stopping.load(Ordering::Relaxed) {
            let (during, done) = match self.work {
                Work::Calls => ("execute", self.call(&mut connection).await),
                Work::Turns => ("turn", self.turn(&mut connection, &mut session).await),
            };
            if let Err(failure) = done {
                self.run.count(during, &failure);
                sleep(AFTER_FAILURE).await;
            }
        }
    }

    async fn call(&self, connection: &mut Connection) -> Result<(), Failure> {
        #[derive(Deserialize)]
        struct Outcome<'a> {
            status: &'a str,
        }
        let began = Instant::now();
        let body = connection.exchange(self.next_request()).await?;
        match http::json(body, "an answer without a status")? {
            Outcome { status: "success" } => self.record(began),
            Outcome { .. } => return Err(Failure::Refused("the call ended without success".to_owned())),
        }
        Ok(())
    }

    /// Runs a turn in the session, or in a fresh one when that is used up.
    async fn turn(&self, connection: &mut Connection, kept: &mut Option<Session>) -> Result<(), Failure> {
        // The session is kept only if its turn succeeds: the next turn shall not wait for whatever is under way in it.
        let mut session = match kept.take().filter(|session| session.turns < TURNS) {
            Some(session) => session,
            None => Session::make(connection, self.next_request()).await?,
        };
        let began = Instant::now();
        session.turn(connection).await?;
        self.record(began);
        *kept = Some(session);
        Ok(())
    }

    /// The request of the client whose turn it is.
    fn next_request(&self) -> &[u8] {
        let index = self.next.fetch_add(1, Ordering::Relaxed) % self.requests.len();
        &self.requests[index]
    }

    /// Records a call or a turn that succeeded, if it counts.
    fn record(&self, began: Instant) {
        if self.is_measuring.load(Ordering::Relaxed) {
            self.latencies.record(began);
        }
    }
}
