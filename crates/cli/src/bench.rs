//! `handback bench`: drives a server with many clients and says how fast it was.
//!
//! - `http`: HTTP/1.1 as far as this needs it, cheap enough to share the machine with the server.
//! - `events`: one client's SSE stream. `socket`: one client's WebSocket.
//! - `clients`: connects them all and answers the calls. `load`: makes the calls or runs the turns, and times them.
//! - `sessions`: turns of the built-in model. `waiting`: sessions whose turns stand still. `growing`: sessions with many turns.
//! - `readers`: streams of events that are read meanwhile.
//! - `metrics`: what the server says of itself. `report`: the figures, for people and for scripts.

mod clients;
mod events;
mod growing;
mod http;
mod load;
mod metrics;
mod readers;
mod report;
mod sessions;
mod socket;
#[cfg(test)]
mod tests;
mod waiting;

use std::collections::BTreeMap;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use clap::Args;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use tokio::sync::oneshot;

use self::clients::{Crowd, Manner, Transport};
use self::http::Target;
use self::load::Work;
use self::metrics::ProcessMetrics;
use self::readers::Reading;
use self::report::{Measured, Report};

/// No answer for this long is an error, whatever was asked.
const PATIENCE: Duration = Duration::from_secs(30);

/// Files that the process needs beside one or two sockets per client.
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
    /// The server.
    #[arg(long, env = "HANDBACK_URL", default_value = "http://127.0.0.1:4096")]
    url: String,
    /// An application key, where the server asks for one.
    #[arg(long, env = "HANDBACK_TOKEN", hide_env_values = true)]
    token: Option<String>,
    /// How many clients connect, each with one tool.
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    clients: u32,
    /// How many calls (with --turns: turns) are under way at any time; with --growing, how many sessions grow.
    #[arg(long, value_name = "M", default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    concurrency: u32,
    /// How long to measure, in seconds.
    #[arg(long, value_name = "SECONDS", default_value = "5", value_parser = seconds)]
    duration: Duration,
    /// How long to call before that, in seconds.
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = seconds)]
    warmup: Duration,
    /// Call only so many of the clients; the others stay connected and idle.
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u32).range(1..))]
    active: Option<u32>,
    /// Connect the clients by WebSocket and answer over it, instead of SSE and POST.
    #[arg(long)]
    websocket: bool,
    /// Make no calls: connect, and report the memory per client. Start the server afresh: a used one has memory to spare.
    #[arg(long)]
    idle: bool,
    /// Run whole turns of sessions with the built-in model, each with one call, instead of bare calls.
    #[arg(long, conflicts_with = "idle")]
    turns: bool,
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

/// Every failure of a run, by name, with how often it came.
#[derive(Default)]
struct Errors(Mutex<BTreeMap<String, u64>>);

impl Errors {
    fn count(&self, during: &str, failure: &http::Failure) {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *counts.entry(format!("{during}: {failure}")).or_default() += 1;
    }

    fn take(&self) -> BTreeMap<String, u64> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Runs the bench and prints its report. Fails when not one call or turn got through; with `--idle` and `--waiting`,
/// when not every client and session did.
pub(crate) async fn run(mut args: BenchArgs) -> anyhow::Result<()> {
    if args.waiting.is_some() {
        args.clients = 1;
    }
    // A thread and a runtime of its own: the tasks of one thread need not wake another, and leave the cores to the server.
    let (sender, receiver) = oneshot::channel();
    std::thread::Builder::new().name("bench".to_owned()).spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let outcome = runtime.context("cannot start").and_then(|runtime| runtime.block_on(drive(&args)));
        // Nobody receives it only when the process is already on its way out.
        let _ = sender.send(outcome);
    })?;
    receiver.await.context("the bench thread died")?
}

async fn drive(args: &BenchArgs) -> anyhow::Result<()> {
    let transport = if args.websocket { Transport::WebSocket } else { Transport::Sse };
    let active = args.active.unwrap_or(args.clients);
    ensure!(active <= args.clients, "{active} of {} clients cannot be active", args.clients);
    let received = Arc::new(AtomicUsize::new(0));
    let manner = if args.waiting.is_some() { Manner::Hold(received.clone()) } else { Manner::Answer };
    make_room(args, transport)?;
    let target = Arc::new(Target::resolve(&args.url, args.token.as_deref()).await?);
    let errors = Arc::new(Errors::default());

    let before = ProcessMetrics::settled(&target).await.with_context(|| format!("cannot reach {}", args.url))?;
    let bar = progress(args, u64::from(args.clients), "{prefix:>10} [{bar:30}] {pos}/{len} clients");
    bar.set_prefix("connecting");
    let crowd = clients::connect(&target, transport, &manner, args.clients, &errors, &bar).await;
    bar.finish_and_clear();
    if crowd.clients.is_empty() {
        bail!("not one of {} clients could connect: {}", args.clients, list(&errors.take()));
    }
    let connected = ProcessMetrics::settled(&target).await?;

    let measured = match (args.waiting, args.growing) {
        (Some(count), _) => {
            let bar = progress(args, u64::from(count), "{prefix:>10} [{bar:30}] {pos}/{len} sessions");
            bar.set_prefix("prompting");
            let client_id = &crowd.clients[0];
            let waiting = waiting::run(&target, client_id, count as usize, &received, &errors, &bar).await?;
            bar.finish_and_clear();
            Measured::Waiting(count, waiting)
        }
        (None, Some(turns)) => {
            let steps = u64::from(turns) * u64::from(args.concurrency);
            let bar = progress(args, steps, "{prefix:>10} [{bar:30}] {pos}/{len} turns");
            bar.set_prefix("growing");
            let clients = &crowd.clients[..crowd.clients.len().min(active as usize)];
            let growing = growing::run(&target, clients, args.concurrency, turns, &bar).await?;
            bar.finish_and_clear();
            Measured::Growing(growing)
        }
        (None, None) if args.idle => Measured::Idle,
        (None, None) => put_under_load(args, &target, &crowd, active as usize, &errors).await?,
    };

    let report = Report::new(args, transport, crowd.clients.len(), before.zip(connected), measured, errors.take());
    if args.json {
        println!("{}", serde_json::to_string(&report)?);
    } else {
        print!("{report}");
    }
    report.verdict()
}

async fn put_under_load(
    args: &BenchArgs,
    target: &Arc<Target>,
    crowd: &Crowd,
    active: usize,
    errors: &Arc<Errors>,
) -> anyhow::Result<Measured> {
    let active = active.min(crowd.clients.len());
    let plan = load::Plan {
        work: if args.turns { Work::Turns } else { Work::Calls },
        concurrency: args.concurrency,
        warmup: args.warmup,
        duration: args.duration,
    };
    let mut readers = None;
    if let Some(count) = args.readers {
        let bar = progress(args, u64::from(count), "{prefix:>10} [{bar:30}] {pos}/{len} readers");
        bar.set_prefix("opening");
        readers = Some(readers::open(target, args.reading, count, &crowd.clients, errors, &bar).await?);
        bar.finish_and_clear();
    }
    let bar = progress(args, 0, "{prefix:>10} [{bar:30}] {msg}");
    let load = load::run(target, &crowd.clients[..active], &plan, errors, &bar).await?;
    bar.finish_and_clear();
    Ok(Measured::Load { active, load, bytes_read: readers.map(|readers| readers.bytes()) })
}

/// Raises the limit of open files to what the run needs, or says that it cannot.
fn make_room(args: &BenchArgs, transport: Transport) -> anyhow::Result<()> {
    let active = if args.idle { 0 } else { args.active.unwrap_or(args.clients) };
    let sockets = match transport {
        Transport::Sse => u64::from(args.clients) + u64::from(active),
        Transport::WebSocket => u64::from(args.clients),
    };
    let needed = sockets + u64::from(args.concurrency) + u64::from(args.readers.unwrap_or(0)) + SPARE_FILES;
    let limit = rlimit::increase_nofile_limit(needed).context("cannot read the limit of open files")?;
    ensure!(limit >= needed, "{needed} open files are needed and {limit} are allowed; see `ulimit -n`");
    Ok(())
}

/// A bar on standard error; it shows nothing where that is no terminal.
fn progress(args: &BenchArgs, length: u64, template: &str) -> ProgressBar {
    let target = if args.json { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() };
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::with_draw_target(Some(length), target).with_style(style.progress_chars("=> "))
}

fn list(errors: &BTreeMap<String, u64>) -> String {
    let named: Vec<String> = errors.iter().map(|(kind, count)| format!("{kind} ({count}×)")).collect();
    named.join(", ")
}

fn seconds(text: &str) -> Result<Duration, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.0..=86_400.0).contains(&seconds) => Ok(Duration::from_secs_f64(seconds)),
        _ => Err("expected seconds, at most 86400".to_owned()),
    }
}
