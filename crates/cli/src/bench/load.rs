//! The load: workers that call one tool after the other, and the clock that times them.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Context;
use hdrhistogram::Histogram;
use indicatif::ProgressBar;
use serde::Deserialize;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};

use super::http::{Connection, Failure, Target, within};
use super::metrics::{ProcessMetrics, own_cpu_seconds};
use super::{Errors, PATIENCE};

/// After a failure a worker waits this long: a server that is gone is not hammered.
const AFTER_FAILURE: Duration = Duration::from_millis(100);

/// How the load is made.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) concurrency: u32,
    pub(super) warmup: Duration,
    pub(super) duration: Duration,
}

/// What was measured between the warm-up and the end.
pub(super) struct Load {
    pub(super) elapsed: Duration,
    /// Of the calls that succeeded, in nanoseconds.
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
    /// One ready request for each tool that is called.
    requests: Vec<Vec<u8>>,
    next: AtomicUsize,
    measuring: AtomicBool,
    stopping: AtomicBool,
    latencies: Mutex<Histogram<u64>>,
}

/// Calls the tools in turn for as long as the plan says, and lets the calls under way finish.
pub(super) async fn run(
    target: &Arc<Target>,
    tools: &[String],
    plan: &Plan,
    errors: &Arc<Errors>,
    bar: &ProgressBar,
) -> anyhow::Result<Load> {
    let request = |tool: &String| {
        let body = format!(r#"{{"toolID":"{tool}","input":{{"path":"src/main.rs"}}}}"#);
        target.post("/client-tools/execute", &body)
    };
    let shared = Arc::new(Shared {
        target: target.clone(),
        errors: errors.clone(),
        requests: tools.iter().map(request).collect(),
        next: AtomicUsize::new(0),
        measuring: AtomicBool::new(false),
        stopping: AtomicBool::new(false),
        latencies: Mutex::new(Histogram::new_with_bounds(1_000, 120_000_000_000, 3)?),
    });
    let mut workers: JoinSet<()> = (0..plan.concurrency).map(|_| work(shared.clone())).collect();

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
        let calls = shared.latencies.lock().unwrap_or_else(PoisonError::into_inner).len();
        bar.set_message(format!(
            "{:.0} of {:.0} s, {calls} calls",
            began.elapsed().as_secs_f64(),
            duration.as_secs_f64()
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

/// Calls until it is told to stop, each call when the one before it is answered.
async fn work(shared: Arc<Shared>) {
    let mut connection = Connection::default();
    while !shared.stopping.load(Ordering::Relaxed) {
        let index = shared.next.fetch_add(1, Ordering::Relaxed) % shared.requests.len();
        let began = Instant::now();
        match within(PATIENCE, call(&mut connection, &shared.target, &shared.requests[index])).await {
            Ok(()) if shared.measuring.load(Ordering::Relaxed) => {
                let nanoseconds = began.elapsed().as_nanos() as u64;
                shared.latencies.lock().unwrap_or_else(PoisonError::into_inner).saturating_record(nanoseconds);
            }
            Ok(()) => {}
            Err(failure) => {
                shared.errors.count("execute", &failure);
                sleep(AFTER_FAILURE).await;
            }
        }
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
