//! Compares Handback with the floor, the least code that still delegates a call, and writes down what came out.
//!
//! - `scenario`: what is measured, and of which servers. `process`: starts the servers and runs the load generator against them.
//!   `postgres`: the PostgreSQL that some of them use.
//! - `earlier`: an earlier build beside this one. `hostile`, `histories`: what one client can do to the others, by `http`.
//! - `recovery`: how long a start takes after a crash.
//! - `figures`: samples and their medians. `rows`: what is shown of them, and the goals. `machine`: where it was measured.
//! - `page`: the tables, for the terminal and for the documentation. `chart`: the drawing beside them. `numbers`: how numbers are shown.

mod chart;
mod earlier;
mod figures;
mod histories;
mod hostile;
mod http;
mod machine;
mod numbers;
mod page;
mod postgres;
mod process;
mod recovery;
mod rows;
mod scenario;
#[cfg(test)]
mod tests;

use std::path::PathBuf;

use anyhow::{Context, bail, ensure};
use clap::Parser;

use crate::figures::Comparison;
use crate::histories::Case;
use crate::machine::{Machine, Watch};
use crate::process::{Binaries, Sample};
use crate::scenario::{Peer, Scenario, Store};

/// Open files that a server with 5,000 clients needs, with room to spare.
const OPEN_FILES: u64 = 6_000;

/// How often a run is made until nothing disturbs it; the last one counts in any case.
const ATTEMPTS: u32 = 4;

/// Compares Handback with the least code that still delegates a call.
#[derive(Parser)]
struct Arguments {
    /// How often each server is measured in each scenario; the medians count.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=99))]
    runs: u32,
    /// How long each run measures, in seconds.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=600))]
    seconds: u32,
    /// How long to wait before each run for the machine to be quiet, in seconds.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(0..=600))]
    patience: u32,
    /// Where `benchmarks.md`, `benchmarks.svg` and `hostile.md` go.
    #[arg(long, value_name = "FOLDER", default_value = "docs")]
    out: PathBuf,
    /// Measure only what one client can do to the others, and write only `hostile.md`.
    #[arg(long)]
    hostile: bool,
    /// Measure only the scenarios that have this in their name, and write nothing.
    #[arg(long, value_name = "TEXT", conflicts_with = "hostile")]
    only: Option<String>,
    /// Measure only what PostgreSQL reaches beside SQLite, and write nothing.
    #[arg(long, conflicts_with_all = ["hostile", "only"])]
    postgres: bool,
    /// Measure only how long a start takes after a crash, and write only `recovery.md`.
    #[arg(long, conflicts_with_all = ["hostile", "only", "postgres"])]
    recovery: bool,
    /// Compare with an earlier build of `handback` instead, and write only `earlier.md`.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["hostile", "only", "postgres", "recovery"])]
    earlier: Option<PathBuf>,
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    if cfg!(debug_assertions) {
        bail!("this measures release builds: cargo run --release -p handback-benches --bin compare");
    }
    let limit = rlimit::increase_nofile_limit(OPEN_FILES).context("cannot read the limit of open files")?;
    ensure!(limit >= OPEN_FILES, "{OPEN_FILES} open files are needed and {limit} are allowed; see `ulimit -n`");
    let mut binaries = Binaries::beside_this()?;
    let machine = Machine::describe();
    std::fs::create_dir_all(&arguments.out)?;
    let write = |name: &str, text: String| {
        let path = arguments.out.join(name);
        std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
    };

    if let Some(only) = &arguments.only {
        compare(&arguments, &mut binaries, |scenario, _| scenario.to_string().contains(only))?;
        return Ok(());
    }
    if arguments.postgres {
        let comparison = compare(&arguments, &mut binaries, |scenario, peer| {
            let is_beside = matches!(peer, Peer::Handback(Store::Sqlite | Store::Postgres));
            is_beside && Scenario::ON_POSTGRES.contains(&scenario)
        })?;
        println!("\n{}", page::postgres_terminal(&comparison.postgres_rows()?, &comparison));
        return Ok(());
    }
    if let Some(path) = &arguments.earlier {
        let name = path.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
        let (earlier, now) = compare_builds(&arguments, [&binaries.with_server(path)?, &binaries])?;
        println!("{}", earlier::table(&earlier, &now)?);
        return write("earlier.md", earlier::page(&name, &earlier, &now, &machine)?);
    }
    let starts = page::starts(&start_again(&arguments, &binaries)?);
    println!("{starts}");
    write("recovery.md", page::recovery(&starts, &machine))?;
    if arguments.recovery {
        return Ok(());
    }
    let [in_memory, in_sqlite] = Store::ALL.map(|store| hostile::measure(&binaries, store));
    let attacks = page::attacks(&in_memory?, &in_sqlite?);
    println!("{attacks}");
    let histories = page::histories(&read_histories(&arguments, &binaries)?)?;
    println!("{histories}");
    write("hostile.md", page::hostile(&attacks, &histories, &machine))?;
    if arguments.hostile {
        return Ok(());
    }
    let comparison = compare(&arguments, &mut binaries, |_, _| true)?;
    let (rows, on_postgres) = (comparison.rows()?, comparison.postgres_rows()?);
    println!("\n{}\n{}", page::terminal(&rows, &comparison), page::postgres_terminal(&on_postgres, &comparison));
    write("benchmarks.md", page::markdown(&rows, &on_postgres, &comparison, &machine)?)?;
    write("benchmarks.svg", chart::draw(&comparison)?)?;
    println!("Written to {}.", arguments.out.join("benchmarks.md").display());
    Ok(())
}

/// Measures the servers in the scenarios that are wanted, group by group.
fn compare(
    arguments: &Arguments,
    binaries: &mut Binaries,
    is_wanted: impl Fn(Scenario, Peer) -> bool,
) -> anyhow::Result<Comparison> {
    let needs_postgres = Scenario::ON_POSTGRES.iter().any(|it| is_wanted(*it, Peer::Handback(Store::Postgres)));
    let postgres = match needs_postgres {
        true => binaries.start_postgres().map_err(|error| format!("{error:#}")),
        false => Err("it was not asked for".to_owned()),
    };
    let mut comparison = Comparison::new(arguments.runs, arguments.seconds, postgres);
    let groups = Scenario::GROUPS.map(|group| {
        let all = group.iter().flat_map(|scenario| comparison.peers(*scenario).map(|peer| (*scenario, peer)));
        all.filter(|(scenario, peer)| is_wanted(*scenario, *peer)).collect::<Vec<_>>()
    });
    let total = groups.iter().map(Vec::len).sum::<usize>() * arguments.runs as usize;
    ensure!(total > 0, "there is no such scenario");
    let mut done = 0;
    for group in groups {
        for round in 0..arguments.runs {
            for (scenario, peer) in in_turn(&group, round) {
                done += 1;
                let label = format!("[{done:>3}/{total}] {:<20}  {scenario}", peer.name());
                let measure = || binaries.measure(peer, scenario, arguments.seconds);
                let (sample, noise) = undisturbed(arguments, binaries, &label, measure)?;
                eprintln!("{label}: {}", summary(&sample));
                comparison.noise.push(noise);
                comparison.add(peer, scenario, sample);
            }
        }
    }
    Ok(comparison)
}

/// The runs of a round. Whoever goes first changes, so that a machine that warms up or gets busy does not favour one of them.
fn in_turn<T: Copy>(runs: &[T], round: u32) -> Vec<T> {
    let mut runs = runs.to_vec();
    if round % 2 == 1 {
        runs.reverse();
    }
    runs
}

/// Measures an earlier build and this one, in the same rounds.
fn compare_builds(arguments: &Arguments, builds: [&Binaries; 2]) -> anyhow::Result<(Comparison, Comparison)> {
    let unmeasured = || Err("it is not compared with an earlier build".to_owned());
    let mut comparisons = builds.map(|_| Comparison::new(arguments.runs, arguments.seconds, unmeasured()));
    for scenario in earlier::SCENARIOS {
        // The floor is measured once in a round, as one of this build's.
        let servers = comparisons[1].peers(scenario).flat_map(|peer| [(0, peer), (1, peer)]);
        let servers: Vec<_> = servers.filter(|server| *server != (0, Peer::Floor)).collect();
        for round in 0..arguments.runs {
            for (build, peer) in in_turn(&servers, round) {
                let label = format!("{:<16} {}  {scenario}", peer.name(), ["earlier", "now"][build]);
                let measure = || builds[build].measure(peer, scenario, arguments.seconds);
                let (sample, _) = undisturbed(arguments, builds[build], &label, measure)?;
                eprintln!("{label}: {}", summary(&sample));
                comparisons[build].add(peer, scenario, sample);
            }
        }
    }
    Ok(comparisons.into())
}

/// Has histories read, with either store.
fn read_histories(arguments: &Arguments, binaries: &Binaries) -> anyhow::Result<Vec<histories::Outcome>> {
    let mut outcomes = Vec::new();
    for case in Case::ALL {
        for store in Store::ALL {
            let label = format!("a history of {} MB, {}", case.megabytes(), store.name());
            let measure = || histories::measure(binaries, case, store);
            outcomes.push(undisturbed(arguments, binaries, &label, measure).with_context(|| label.clone())?.0);
        }
    }
    Ok(outcomes)
}

/// Has servers killed and started again.
fn start_again(arguments: &Arguments, binaries: &Binaries) -> anyhow::Result<Vec<recovery::Outcome>> {
    let mut outcomes = Vec::new();
    for messages in recovery::MESSAGES {
        let label = format!("starts with {messages} messages in each session");
        let measure = || recovery::measure(binaries, messages);
        outcomes.push(undisturbed(arguments, binaries, &label, measure).with_context(|| label.clone())?.0);
    }
    Ok(outcomes)
}

/// Measures; if something else kept the machine busy meanwhile, measures again, up to [`ATTEMPTS`] times.
/// Returns what came out last with how many cores the others used.
fn undisturbed<T>(
    arguments: &Arguments,
    binaries: &Binaries,
    label: &str,
    measure: impl Fn() -> anyhow::Result<T>,
) -> anyhow::Result<(T, f64)> {
    let mut attempt = 1;
    loop {
        machine::wait_until_quiet(arguments.patience)?;
        let watch = Watch::start(binaries.postgres_process())?;
        let sample = measure()?;
        let noise = watch.cores()?;
        if noise < machine::QUIET || attempt == ATTEMPTS {
            return Ok((sample, noise));
        }
        eprintln!("{label}: others kept {noise:.2} cores busy, once more");
        attempt += 1;
    }
}

fn summary(sample: &Sample) -> String {
    let mut text = match sample {
        Sample { load: Some(load), .. } => {
            let (rate, p99, cpu) = (numbers::thousands(load.per_second), load.latency_ms.p99, load.server_cpu);
            format!("{rate}/s, p99 {p99:.2} ms, CPU {cpu:.1} µs")
        }
        Sample { waiting: Some(waiting), .. } => format!("{:.1} kB per session", waiting.memory.per_session / 1e3),
        Sample { growing: Some(growing), .. } => {
            format!("CPU {:.1} µs early, {:.1} µs late", growing.early.server_cpu, growing.late.server_cpu)
        }
        Sample { hub: Some(hub), .. } => format!("{}/s", numbers::thousands(hub.calls_per_second)),
        Sample { memory: Some(memory), .. } => format!("{:.1} kB per client", memory.per_client / 1e3),
        _ => "nothing".to_owned(),
    };
    for (kind, count) in &sample.errors {
        text.push_str(&format!("; {kind}: {count}"));
    }
    text
}
