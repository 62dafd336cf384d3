//! Compares Handback with the floor, the least code that still delegates a call, and writes down what came out.
//!
//! - `process`: starts the servers and runs the load generator against them.
//! - `hostile`: what one client can do to the others.
//! - `figures`: medians, ratios and goals. `machine`: where it was measured.
//! - `page`: the tables, for the terminal and for the documentation. `chart`: the drawing beside them.

mod chart;
mod figures;
mod hostile;
mod machine;
mod page;
mod process;
#[cfg(test)]
mod tests;

use std::path::PathBuf;

use anyhow::{Context, bail, ensure};
use clap::Parser;

use crate::figures::{Comparison, Scenario};
use crate::machine::{Machine, Watch};
use crate::process::{Binaries, Peer, Sample};

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
    /// Measure only what a hostile client can do, and write only `hostile.md`.
    #[arg(long)]
    hostile: bool,
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    if cfg!(debug_assertions) {
        bail!("this measures release builds: cargo run --release -p handback-benches --bin compare");
    }
    let limit = rlimit::increase_nofile_limit(OPEN_FILES).context("cannot read the limit of open files")?;
    ensure!(limit >= OPEN_FILES, "{OPEN_FILES} open files are needed and {limit} are allowed; see `ulimit -n`");
    let binaries = Binaries::beside_this()?;
    let machine = Machine::describe();
    std::fs::create_dir_all(&arguments.out)?;
    let write = |name: &str, text: String| {
        let path = arguments.out.join(name);
        std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
    };

    let attacks = hostile::measure(&binaries)?;
    println!("{}", page::attacks(&attacks));
    write("hostile.md", page::hostile(&attacks, &machine))?;
    if arguments.hostile {
        return Ok(());
    }

    let mut comparison = Comparison::new(arguments.runs, arguments.seconds);
    let total = Scenario::all().map(|scenario| scenario.peers().len() as u32 * arguments.runs).sum::<u32>();
    let mut done = 0;
    for group in Scenario::GROUPS {
        for round in 0..arguments.runs {
            let runs = group.iter().flat_map(|scenario| scenario.peers().iter().map(|peer| (*scenario, *peer)));
            let mut runs: Vec<(Scenario, Peer)> = runs.collect();
            // Whoever goes first changes, so that a machine that warms up or gets busy does not favour one of them.
            if round % 2 == 1 {
                runs.reverse();
            }
            for (scenario, peer) in runs {
                done += 1;
                let label = format!("[{done:>3}/{total}] {:<8}  {scenario}", peer.name());
                let (sample, noise) =
                    undisturbed(&arguments, &label, || binaries.measure(peer, scenario, arguments.seconds))?;
                comparison.noise.push(noise);
                comparison.add(peer, scenario, sample);
            }
        }
    }

    let rows = comparison.rows()?;
    println!("\n{}", page::terminal(&rows, &comparison));
    write("benchmarks.md", page::markdown(&rows, &comparison, &machine)?)?;
    write("benchmarks.svg", chart::draw(&comparison)?)?;
    println!("Written to {}.", arguments.out.join("benchmarks.md").display());
    Ok(())
}

/// Measures; if something else kept the machine busy meanwhile, measures again, up to [`ATTEMPTS`] times.
/// Returns the last sample with how many cores the others used.
fn undisturbed(
    arguments: &Arguments,
    label: &str,
    measure: impl Fn() -> anyhow::Result<Sample>,
) -> anyhow::Result<(Sample, f64)> {
    let mut attempt = 1;
    loop {
        machine::wait_until_quiet(arguments.patience)?;
        let watch = Watch::start()?;
        let sample = measure()?;
        let noise = watch.cores()?;
        if noise < machine::QUIET || attempt == ATTEMPTS {
            eprintln!("{label}: {}", summary(&sample));
            return Ok((sample, noise));
        }
        eprintln!("{label}: others kept {noise:.2} cores busy, once more");
        attempt += 1;
    }
}

fn summary(sample: &Sample) -> String {
    let mut text = match (&sample.load, &sample.waiting) {
        (Some(load), _) => {
            let (rate, p99, cpu) = (page::thousands(load.per_second), load.latency_ms.p99, load.server_cpu);
            format!("{rate}/s, p99 {p99:.2} ms, CPU {cpu:.1} µs")
        }
        (None, Some(waiting)) => format!("{:.1} kB per session", waiting.memory.per_session / 1e3),
        (None, None) => format!("{:.1} kB per client", sample.memory.per_client / 1e3),
    };
    for (kind, count) in &sample.errors {
        text.push_str(&format!("; {kind}: {count}"));
    }
    text
}
