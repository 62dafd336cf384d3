//! The load: workers that make one call or run one turn after the other, and the clock that times them.

use std::cell::Cell;
use std::time::Duration;

use clap::Args;
use futures_util::{StreamExt, stream};
use indicatif::HumanCount;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, sleep_until};

use super::clients::TOOL;
use super::http::{self, Connection, Failure};
use super::metrics::{Cost, Latencies, each, in_words};
use super::report::{Report, capitalized};
use super::run::Run;
use super::sessions::Session;

/// How long a worker waits after a failure, so that a server that is down is not flooded.
const AFTER_FAILURE: Duration = Duration::from_millis(100);

/// How many turns a session has before it is replaced. The cost of a turn grows with the messages before it.
const TURNS: u32 = 20;

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
    /// Run whole turns of sessions with the built-in model, each with one call, instead of bare calls.
    #[arg(long, conflicts_with = "idle")]
    pub(super) turns: bool,
}

fn seconds(text: &str) -> Result<Duration, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.0..=86_400.0).contains(&seconds) => Ok(Duration::from_secs_f64(seconds)),
        _ => Err("expected seconds, at most 86400".to_owned()),
    }
}

/// The phase of a run.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    WarmUp,
    Measurement,
    /// The workers finish what they have begun, and it does not count.
    End,
}

/// Works with the clients in turn for as long as the plan says. Reports what was measured between the warm-up and the end.
pub(super) async fn run(run: &Run, clients: &[String], plan: &Plan) -> anyhow::Result<Report> {
    let phase = Cell::new(Phase::WarmUp);
    let latencies = Latencies::new()?;
    let next = Cell::new(0);
    let next_client = || {
        let index = next.replace(next.get() + 1);
        clients[index % clients.len()].as_str()
    };
    let worker = async |_| {
        let mut connection = Connection::new(&run.target);
        let mut session = None;
        while phase.get() != Phase::End {
            let (during, done) = if plan.turns {
                ("turn", turn(&mut connection, &mut session, next_client).await)
            } else {
                ("execute", call(&mut connection, next_client()).await)
            };
            match done {
                Ok(began) if phase.get() == Phase::Measurement => latencies.record(began),
                Ok(_) => {}
                Err(failure) => {
                    run.count(during, &failure);
                    sleep(AFTER_FAILURE).await;
                }
            }
        }
    };
    let clock = async {
        wait(run, "warming up", plan.warmup, &latencies).await;
        let measurement = async {
            phase.set(Phase::Measurement);
            wait(run, "measuring", plan.duration, &latencies).await;
            phase.set(Phase::End);
        };
        Cost::of(run, measurement).await.1
    };
    let workers = stream::iter(0..plan.concurrency).for_each_concurrent(None, worker);
    let (cost, ()) = tokio::join!(clock, workers);
    Ok(report(clients.len(), plan, &latencies, &cost))
}

/// Waits, and shows the progress.
async fn wait(run: &Run, prefix: &'static str, duration: Duration, latencies: &Latencies) {
    let began = Instant::now();
    let bar = run.progress(prefix, duration.as_millis() as u64, "{msg}");
    while began.elapsed() < duration {
        sleep_until((began + duration).min(Instant::now() + Duration::from_millis(200))).await;
        bar.set_position(began.elapsed().as_millis() as u64);
        let (passed, all) = (began.elapsed().as_secs_f64(), duration.as_secs_f64());
        bar.set_message(format!("{passed:.0} of {all:.0} s, {} done", latencies.count()));
    }
}

/// Makes a call, and returns when it began.
async fn call(connection: &mut Connection, client_id: &str) -> Result<Instant, Failure> {
    #[derive(Deserialize)]
    struct Outcome<'a> {
        status: &'a str,
    }
    let body = format!(r#"{{"toolID":"client_{client_id}_{TOOL}","input":{{"path":"src/main.rs"}}}}"#);
    let began = Instant::now();
    match http::json(connection.post("/client-tools/execute", &body).await?, "an answer without a status")? {
        Outcome { status: "success" } => Ok(began),
        Outcome { .. } => Err(Failure::Refused("the call ended without success".to_owned())),
    }
}

/// Runs a turn in the kept session, or in a new one of the next client if it is used up. Returns when it began.
async fn turn<'a>(
    connection: &mut Connection,
    kept: &mut Option<Session>,
    next_client: impl Fn() -> &'a str,
) -> Result<Instant, Failure> {
    // The session is kept only if its turn succeeds: a failed one may still be busy, and the next turn would wait.
    let mut session = match kept.take().filter(|session| session.turns < TURNS) {
        Some(session) => session,
        None => Session::create(connection, next_client()).await?,
    };
    let began = Instant::now();
    session.turn(connection).await?;
    *kept = Some(session);
    Ok(began)
}

fn report(active: usize, plan: &Plan, latencies: &Latencies, cost: &Cost) -> Report {
    // The names of the figures contain the noun: `callsPerSecond`, `serverCpuUsPerTurn`.
    let noun = if plan.turns { "turn" } else { "call" };
    let name = capitalized(noun);
    let Cost { seconds, server_cpu, own_cpu } = *cost;
    let (count, latency) = (latencies.count(), latencies.quantiles());
    let per_second = count as f64 / seconds;
    let [server_cpu, generator_cpu] = [server_cpu, own_cpu].map(|cpu| each(cpu, count));
    let cores = own_cpu.map(|cpu| cpu / seconds);
    let json = json!({
        "active": active,
        "concurrency": plan.concurrency,
        "seconds": seconds,
        (format!("{noun}s")): count,
        (format!("{noun}sPerSecond")): per_second,
        "latencyMs": Value::from_iter(latency),
        (format!("serverCpuUsPer{name}")): server_cpu,
        (format!("generatorCpuUsPer{name}")): generator_cpu,
        "generatorCores": cores,
    });
    let called = HumanCount(active as u64);
    let mut report = Report::new(json, format!(", {called} called, {} {noun}s at a time", plan.concurrency));
    let rate = HumanCount(per_second.round() as u64);
    report.row(&format!("{noun}s/s"), format!("{rate} ({} {noun}s in {seconds:.1} s)", HumanCount(count)));
    report.row("latency", in_words(&latency));
    if let Some(cpu) = server_cpu {
        report.row("server CPU", format!("{cpu:.1} µs per {noun}"));
    }
    if let Some((cpu, cores)) = generator_cpu.zip(cores) {
        report.row("own CPU", format!("{cpu:.1} µs per {noun} ({cores:.2} of a core)"));
    }
    report.failure = (count == 0).then(|| format!("not one {noun} succeeded"));
    report
}
