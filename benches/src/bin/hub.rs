//! The hub alone, without sockets: how many calls a second it takes to clients and back, on so many threads.
//!
//! Each client and its caller are one task: a call wakes no other thread, so that what the threads wait for is the hub.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Parser;
use handback_core::Hub;
use handback_core::calls::{Actor, Callee, Connection, Delivery, NewCall, Opening};
use handback_core::clock::Clock;
use handback_core::id::{CallId, ClientId, MessageId, SessionId, ToolName};
use handback_core::limits::Limits;
use handback_core::schema::Schema;
use handback_core::store::{Effect, MemoryStore, Origin, Outcome, Success, ToolSpec};
use handback_core::tools::{Permission, Placement};
use serde_json::value::RawValue;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};
use tokio_util::task::TaskTracker;

/// How long calls are made before they count.
const WARMUP: Duration = Duration::from_millis(500);

/// Measures the hub without a server around it, and prints one JSON object.
#[derive(Parser)]
struct Arguments {
    /// How many threads make calls.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: u16,
    /// Give each thread a hub of its own: what the machine gives when nothing is shared.
    #[arg(long)]
    apart: bool,
    /// How many clients there are, each with a caller of its own.
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..))]
    clients: u16,
    /// How long to measure, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=600))]
    duration: u32,
}

/// Calls that were answered, alone on its cache lines: counting shares nothing between threads.
#[derive(Default)]
#[repr(align(128))]
struct Count(AtomicU64);

fn main() -> anyhow::Result<()> {
    let Arguments { threads, apart, clients, duration } = Arguments::parse();
    let is_over = Arc::new(AtomicBool::new(false));
    let counts: Vec<Arc<Count>> = (0..clients).map(|_| Arc::default()).collect();
    let mut running = Vec::new();
    let mut shared = None;
    for thread in 0..usize::from(threads) {
        // Each thread has a runtime of its own, so that what the threads share is the hub.
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .context("cannot start a runtime")?;
        let context = runtime.enter();
        let hub = shared.take().unwrap_or_else(new_hub);
        if !apart {
            shared = Some(hub.clone());
        }
        let own = counts.iter().enumerate().skip(thread).step_by(threads.into());
        let pairs = start(&hub, own, &is_over)?;
        drop(context);
        running.push((runtime, pairs));
    }
    let (first, _) = running.first().context("no thread")?;
    let (calls, elapsed, cpu) = first.block_on(async {
        sleep(WARMUP).await;
        let (began, before, cpu) = (Instant::now(), total(&counts), cpu_seconds()?);
        sleep(Duration::from_secs(duration.into())).await;
        anyhow::Ok((total(&counts) - before, began.elapsed().as_secs_f64(), cpu_seconds()? - cpu))
    })?;
    is_over.store(true, Ordering::Relaxed);
    for (runtime, mut pairs) in running {
        runtime.block_on(async {
            while let Some(ended) = pairs.join_next().await {
                ended??;
            }
            anyhow::Ok(())
        })?;
    }
    let (rate, each) = (calls as f64 / elapsed, cpu * 1e6 / calls as f64);
    println!(r#"{{"hub":{{"threads":{threads},"callsPerSecond":{rate:.0},"cpuUsPerCall":{each:.3}}}}}"#);
    Ok(())
}

fn total(counts: &[Arc<Count>]) -> u64 {
    counts.iter().map(|count| count.0.load(Ordering::Relaxed)).sum()
}

/// What this process has used, in ticks of 1/100 s.
fn cpu_seconds() -> anyhow::Result<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat").context("cannot read /proc/self/stat")?;
    // The program's name, in brackets, may hold anything; user and system time are the 12th and 13th fields after it.
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace().skip(11).take(2);
    Ok(fields.filter_map(|field| field.parse::<f64>().ok()).sum::<f64>() / 100.0)
}

fn new_hub() -> Hub {
    Hub::new(Limits::default(), Clock::system(), Arc::new(MemoryStore::default()), TaskTracker::new())
}

/// Starts for each count a client with its caller.
fn start<'a>(
    hub: &Hub,
    counts: impl Iterator<Item = (usize, &'a Arc<Count>)>,
    is_over: &Arc<AtomicBool>,
) -> anyhow::Result<JoinSet<anyhow::Result<()>>> {
    let mut pairs = JoinSet::new();
    for (number, count) in counts {
        let client = ClientId::parse(&format!("client-{number}"))?;
        let pair = Pair {
            tool: register(hub, &client)?,
            connection: connect(hub, client)?,
            hub: hub.clone(),
            input: RawValue::from_string(r#"{"path":"src/main.rs"}"#.to_owned())?,
        };
        pairs.spawn(pair.run(count.clone(), is_over.clone()));
    }
    Ok(pairs)
}

fn register(hub: &Hub, client: &ClientId) -> anyhow::Result<String> {
    let spec = ToolSpec {
        name: ToolName::parse("read_file")?,
        description: String::new(),
        schema: Arc::new(Schema::any_object()),
        timeout: None,
        effect: Effect::Write,
        version: None,
    };
    let tools = hub.register(client, &Placement::Everywhere, vec![spec])?;
    Ok(tools.ids().first().context("no tool was registered")?.to_string())
}

fn connect(hub: &Hub, client: ClientId) -> anyhow::Result<Connection> {
    let opening = Opening { client, name: None, grace: Duration::ZERO, session: None, last_seen: None };
    Ok(hub.connect(opening)?)
}

/// A client and the only one who calls it.
struct Pair {
    hub: Hub,
    connection: Connection,
    tool: String,
    input: Box<RawValue>,
}

impl Pair {
    /// Makes one call after the other until it is over.
    async fn run(mut self, count: Arc<Count>, is_over: Arc<AtomicBool>) -> anyhow::Result<()> {
        while !is_over.load(Ordering::Relaxed) {
            let new = self.new_call()?;
            let calling = async { anyhow::Ok(self.hub.open(new).await?.outcome().await?) };
            let (call, answer) = tokio::join!(calling, answer(&self.hub, &mut self.connection));
            answer?;
            let outcome = &call?.outcome;
            if !matches!(outcome, Outcome::Success(_)) {
                bail!("a call ended with {outcome:?}");
            }
            count.0.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }

    fn new_call(&self) -> anyhow::Result<NewCall> {
        Ok(NewCall {
            callee: Callee::Registered { tool: self.tool.clone(), client: None },
            request: None,
            session: SessionId::parse("")?,
            message: MessageId::parse("")?,
            call: CallId::parse("")?,
            input: self.input.clone(),
            timeout: None,
            origin: Origin::Application,
            permission: Permission::Allow,
            connection: None,
        })
    }
}

/// What the client does with its next call.
async fn answer(hub: &Hub, connection: &mut Connection) -> anyhow::Result<()> {
    match connection.next().await {
        Delivery::Request { head, .. } => {
            let outcome = Outcome::Success(Success { output: "fn main() {}".to_owned(), ..Success::default() });
            hub.complete(&head.request, &Actor::Trusted, outcome).await?;
            Ok(())
        }
        other => bail!("a client was given {other:?}"),
    }
}
