//! `handback bench`: drives a server with many clients and reports how fast it is.
//!
//! | module | responsibility |
//! | --- | --- |
//! | `http` | a small HTTP client that leaves the CPU to the server |
//! | `run` | what all parts of a run share |
//! | `metrics` | measurements |
//! | `report` | the figures, for people and for scripts |
//! | `clients` | connects the clients over SSE or WebSockets, and answers their calls |
//! | `load` | makes the calls or runs the turns, and times them |
//! | `readers` | reads streams of events during the load |
//! | `sessions` | sessions with the built-in model |
//! | `waiting` | sessions whose turns wait for the client |
//! | `growing` | sessions with many turns |

mod clients;
mod growing;
mod http;
mod load;
mod metrics;
mod readers;
mod report;
mod run;
mod sessions;
#[cfg(test)]
mod tests;
mod waiting;

use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Mutex};

use anyhow::{Context, bail, ensure};
use clap::Args;
use handback_client::Transport;
use serde_json::json;

use self::http::Target;
use self::load::Plan;
use self::metrics::ProcessMetrics;
use self::readers::Reading;
use self::report::{Report, counted};
use self::run::{Run, list};
use crate::connection::ServerArgs;

/// How many files the process needs besides the sockets.
const SPARE_FILES: u64 = 160;

/// Drives a server with many clients and says how fast it was.
#[derive(Debug, Clone, Args)]
#[command(after_help = "Examples:\n  handback bench --clients 100 --concurrency 32 --duration 5\n  \
                        handback bench --clients 5000 --idle --websocket\n\n\
                        What readers of events cost: compare a turn's CPU with and without them:\n  \
                        handback bench --turns --readers 400 --reading others\n\n\
                        Turns, waiting and growing sessions are model calls; start the server without their limit:\n  \
                        HANDBACK_LIMITS_CALLS_PER_MINUTE=0 handback serve --ephemeral\n  \
                        handback bench --turns --clients 100\n  \
                        handback bench --waiting 1000\n  \
                        handback bench --growing 1000")]
pub(crate) struct BenchArgs {
    #[command(flatten)]
    server: ServerArgs,
    /// How many clients connect, each with one tool.
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    clients: u32,
    #[command(flatten)]
    plan: Plan,
    /// Call only so many of the clients; the others stay connected and idle.
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u32).range(1..))]
    active: Option<u32>,
    /// Connect the clients by WebSocket and answer over it, instead of SSE and POST.
    #[arg(long)]
    websocket: bool,
    /// Make no calls: connect, and report the memory per client. Start the server afresh: a used one has memory to spare.
    #[arg(long)]
    idle: bool,
    /// Have so many sessions of one client wait for it, and report the memory per session. Start the server afresh.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000),
        conflicts_with_all = ["clients", "active", "idle", "turns"])]
    waiting: Option<u32>,
    /// Let sessions grow to so many turns, and report what a turn costs early and late in them.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(i64::from(growing::FEWEST)..=100_000),
        conflicts_with_all = ["idle", "turns", "waiting"])]
    growing: Option<u32>,
    /// Have so many readers of events while the calls or turns are measured.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000),
        conflicts_with_all = ["idle", "waiting", "growing"])]
    readers: Option<u32>,
    /// What the readers read.
    #[arg(long, value_name = "WHAT", value_enum, default_value_t = Reading::Everything, requires = "readers")]
    reading: Reading,
    /// Print one JSON object instead of text.
    #[arg(long)]
    json: bool,
}

/// Runs the bench and prints its report. Fails if no call or turn succeeds; with `--idle` and `--waiting`, if any client or
/// session is missing.
pub(crate) async fn run(mut args: BenchArgs) -> anyhow::Result<()> {
    if args.waiting.is_some() {
        args.clients = 1;
    }
    // The bench has a single thread: its tasks need not wake other threads, and it leaves the other cores to the server.
    let thread = tokio::task::spawn_blocking(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("cannot start")?;
        runtime.block_on(drive(&args))
    });
    thread.await.context("the bench thread died")?
}

async fn drive(args: &BenchArgs) -> anyhow::Result<()> {
    let transport = if args.websocket { Transport::WebSocket } else { Transport::Sse };
    let active = args.active.unwrap_or(args.clients);
    ensure!(active <= args.clients, "{active} of {} clients cannot be active", args.clients);
    raise_file_limit(args, transport, active)?;
    let run = Arc::new(Run {
        target: Arc::new(Target::resolve(args.server.url(), args.server.token())?),
        held: args.waiting.map(|_| AtomicU32::new(0)),
        shows_progress: !args.json,
        errors: Mutex::default(),
    });

    let before =
        ProcessMetrics::settled(&run.target).await.with_context(|| format!("cannot reach {}", args.server.url()))?;
    let (clients, _serving) = clients::connect(&run, transport, args.clients).await;
    let connected = clients.len() as u32;
    if connected == 0 {
        bail!("not one of {} clients could connect: {}", args.clients, list(&run.take_errors()));
    }
    let name = if args.websocket { "WebSocket" } else { "SSE" };
    let json = json!({ "transport": name.to_lowercase(), "clients": args.clients, "connected": connected });
    let mut report = Report::new(json, format!("{} over {name}", counted(connected, "client")));
    let metrics = ProcessMetrics::settled(&run.target).await?;
    match before.zip(metrics) {
        Some((before, metrics)) => {
            report.memory = format!("{:.1} MB before, ", before.resident_bytes / 1e6);
            report.add_memory(before, metrics, connected, "connected", "client");
        }
        None => report.memory.push_str("unknown: the server does not tell at /metrics"),
    }

    let called = &clients[..connected.min(active) as usize];
    if let Some(count) = args.waiting {
        report.add("waiting", waiting::run(&run, &called[0], count, metrics).await?);
    } else if let Some(turns) = args.growing {
        report.add("growing", growing::run(&run, called, args.plan.concurrency, turns).await?);
    } else if !args.idle {
        let readers = readers::open(&run, args.reading, args.readers.unwrap_or(0), &clients).await?;
        report.add("load", load::run(&run, called, &args.plan).await?);
        if args.readers.is_some() {
            report.add("readers", readers.report(args.reading));
        }
    }
    let missing = args.clients - connected;
    if missing > 0 && report.json.get("load").is_none() {
        let failure = || format!("{missing} of {} clients could not connect", args.clients);
        report.failure.get_or_insert_with(failure);
    }
    let errors = run.take_errors();
    report.add_errors(&errors);
    if args.json {
        println!("{}", report.json);
    } else {
        print!("{report}");
    }
    match report.failure {
        Some(failure) => bail!("{failure}: {}", list(&errors)),
        None => Ok(()),
    }
}

/// Raises the limit of open files to what the run needs, or fails.
fn raise_file_limit(args: &BenchArgs, transport: Transport, active: u32) -> anyhow::Result<()> {
    let posting = if args.idle || transport == Transport::WebSocket { 0 } else { active };
    let sockets = [args.clients, posting, args.plan.concurrency, args.readers.unwrap_or(0)];
    let needed = sockets.into_iter().map(u64::from).sum::<u64>() + SPARE_FILES;
    let limit = rlimit::increase_nofile_limit(needed).context("cannot read the limit of open files")?;
    ensure!(limit >= needed, "{needed} open files are needed and {limit} are allowed; see `ulimit -n`");
    Ok(())
}
