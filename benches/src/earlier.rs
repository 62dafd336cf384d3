//! Handback beside an earlier build of it, in the same rounds: what a change made faster or slower.

use crate::figures::{Comparison, Rounds};
use crate::machine::Machine;
use crate::numbers::thousands;
use crate::process::{Load, Sample};
use crate::scenario::{Peer, SIZES, Scenario, Store, TURN_SIZES};

/// What is measured of both builds.
pub(crate) const SCENARIOS: [Scenario; 5] = [
    Scenario::Busy(SIZES[0]),
    Scenario::Busy(SIZES[1]),
    Scenario::Busy(SIZES[2]),
    Scenario::Turns(TURN_SIZES[0]),
    Scenario::Turns(TURN_SIZES[1]),
];

/// A figure of a run, its name, and how it is shown.
type Figure = (&'static str, fn(&Load) -> f64, fn(f64) -> String);

const FIGURES: [Figure; 3] = [
    ("a second", |load| load.per_second, thousands),
    ("p99 ms", |load| load.latency_ms.p99, |value| format!("{value:.2}")),
    ("CPU µs", |load| load.server_cpu, |value| format!("{value:.1}")),
];

/// The page for the documentation.
pub(crate) fn page(name: &str, earlier: &Comparison, now: &Comparison, machine: &Machine) -> anyhow::Result<String> {
    let Machine { cpu, cores, memory, kernel, rustc, date, .. } = machine;
    let (table, runs, seconds) = (table(earlier, now)?, now.runs, now.seconds);
    Ok(format!(
        "\
# Against an earlier build

What the last large change made faster or slower: Handback as it was before it (`{name}`), and as it is now.
The servers take turns, so that both have the same machine, and the load generator is the same. The ratio is that of now to
earlier within a round, the median of all rounds; half of the rounds are between the two figures behind it. What is measured
is on [the page of the benchmarks](benchmarks.md); \"of the floor\" is a part of what the floor had in the same round.

{table}
{runs} rounds of {seconds} s. Measured on {cores} cores of {cpu}, {memory} of memory, {kernel}, {rustc}, {date}.
`cargo run --release -p handback-benches --bin compare -- --earlier FILE` writes this page; the file is an earlier `handback`,
and the page shows its name.
"
    ))
}

/// A row for each figure, and one for what it is of the floor, which makes calls only and keeps nothing.
pub(crate) fn table(earlier: &Comparison, now: &Comparison) -> anyhow::Result<String> {
    let mut table =
        String::from("|  | earlier | now | ratio | half of the rounds |\n| --- | ---: | ---: | ---: | --- |\n");
    for scenario in SCENARIOS {
        for store in Store::ALL {
            for (name, figure, show) in FIGURES {
                let of = |sample: &Sample| sample.load.as_ref().map(figure);
                let peer = Peer::Handback(store);
                let both = [earlier.rounds(peer, scenario, of)?, now.rounds(peer, scenario, of)?];
                table.push_str(&row(&format!("{scenario}, {}: {name}", store.name()), &both, show));
                if store == Store::Memory && matches!(scenario, Scenario::Busy(_)) {
                    let floor = now.rounds(Peer::Floor, scenario, of)?;
                    let both = both.map(|rounds| rounds.of(&floor));
                    table.push_str(&row("the same, of the floor", &both, |value| format!("{value:.2}")));
                }
            }
        }
    }
    Ok(table)
}

fn row(name: &str, both @ [earlier, now]: &[Rounds; 2], show: fn(f64) -> String) -> String {
    let [before, after] = both.each_ref().map(|rounds| show(rounds.median()));
    let ratio = now.of(earlier);
    let (low, high) = ratio.middle_half();
    format!("| {name} | {before} | {after} | {:.2} | {low:.2} – {high:.2} |\n", ratio.median())
}
