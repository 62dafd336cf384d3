//! The tables of the comparison, for the terminal and for the documentation.

use crate::figures::{CONCURRENCY, CROWD, Comparison, Row, SIZES, Scenario, WAITING, median};
use crate::hostile::{self, Outcome};
use crate::machine::{Machine, QUIET};

const HEADINGS: [&str; 6] = ["", "Handback", "floor", "ratio", "goal", ""];

/// The table for the terminal, its columns aligned.
pub(crate) fn terminal(rows: &[Row], comparison: &Comparison) -> String {
    let mut cells = vec![HEADINGS.map(str::to_owned)];
    cells.extend(rows.iter().map(Row::cells));
    let widths: [usize; 6] =
        std::array::from_fn(|column| cells.iter().map(|row| row[column].chars().count()).max().unwrap_or_default());
    let mut text = String::new();
    for row in &cells {
        let [what, handback, floor, ratio, goal, verdict] = row;
        let line = format!(
            "{what:<w0$}  {handback:>w1$}  {floor:>w2$}  {ratio:>w3$}  {goal:<w4$}  {verdict}",
            w0 = widths[0],
            w1 = widths[1],
            w2 = widths[2],
            w3 = widths[3],
            w4 = widths[4],
        );
        text.push_str(line.trim_end());
        text.push('\n');
    }
    for line in comparison.errors() {
        text.push_str(&format!("error: {line}\n"));
    }
    text.push_str(&noise(comparison));
    text
}

/// The page for the documentation.
pub(crate) fn markdown(rows: &[Row], comparison: &Comparison, machine: &Machine) -> anyhow::Result<String> {
    let Machine { cpu, cores, memory, kernel, rustc, date } = machine;
    let mut table = String::from("| | Handback | floor | ratio | goal | |\n| --- | ---: | ---: | ---: | --- | --- |\n");
    for row in rows {
        table.push_str(&format!("| {} |\n", row.cells().join(" | ")));
    }
    let errors = match comparison.errors() {
        lines if lines.is_empty() => "No call failed in any run.".to_owned(),
        lines => format!("These went wrong:\n\n- {}", lines.join("\n- ")),
    };
    let (runs, seconds, version) = (comparison.runs, comparison.seconds, env!("CARGO_PKG_VERSION"));
    let (noise, spread) = (noise(comparison), spread(comparison)?);
    let [crowd, waiting] = [CROWD, WAITING].map(|count| thousands(f64::from(count)));
    Ok(format!(
        "\
# Benchmarks

How fast Handback {version} delegates calls, and how much of that its guarantees cost. It is compared with the **floor**:
the least code that still delegates a call, on the same HTTP stack and the same allocator
([`floor.rs`](../benches/src/bin/floor.rs)). The floor checks no input, keeps no journal and knows neither deadlines nor permissions.
The floor runs on tokio's default of one thread for each core, Handback on its own default of half of them.
What a hostile client can do to the others is on [a page of its own](hostile.md).

![Calls per second and p99 latency over the number of connected clients](benchmarks.svg)

{table}
{errors} kB are 1000 bytes. Medians of {runs} runs of {seconds} s each.

## What is measured

- A **call** is `POST /client-tools/execute` from the request until its answer: the server checks the call, hands it to
  the client over its SSE stream, the client posts the result, and the caller gets it. That is two HTTP requests and one event.
- {CONCURRENCY} callers make one call after the other, on connections that are kept. Each client has one tool, one stream
  and one connection for its results, which it sends one at a time; with a single client that is what limits the rate.
- The rows with {sizes} clients call all of them in turn. \"{crowd} clients, one called\" is what the idle connections
  around a client cost it; it should cost nothing.
- **CPU** is what the server process used, from its own `/metrics`, divided by the calls. It depends less on what else
  the machine does than the rate.
- **Memory** is the server's resident memory with {crowd} idle clients, each with its tool, less what it had before they
  connected, divided by {crowd}.
- A **turn** is `POST /session/…/message` from the request until its answer, with the built-in model `demo/scripted`: the
  server keeps the prompt, the model asks for a call of the client's tool, the call goes to the client and back as above, and
  the model answers with what it gave. That is one call, two steps of the model and three messages that are kept; nobody listens to events.
  {CONCURRENCY} sessions run one turn after the other, and each is replaced by a fresh one after 20; making it is not in the turn's time,
  but in the CPU. The floor has no sessions: turns are compared with Handback's own bare calls, which take turns with them.
- **Waiting** sessions are {waiting} sessions of one client, each in a turn whose call the client has got and does not answer: the server's
  resident memory then, less what it had before they were made, divided by {waiting}.
- Server and load generator share the machine, over loopback, without TLS. Handback runs with `--ephemeral`: its journal is in memory.
  Its limit of the calls of models is off. Each run has a fresh server; the two take turns.
- The load is closed: a caller waits for its answer before it calls again, so the latencies are those at the full rate.

## Every scenario

{spread}
## The machine

{cores} cores of {cpu}, {memory} of memory, {kernel}, {rustc}, {date}. {noise}
## Run it yourself

```
make bench
```

That builds everything and takes some minutes; it writes this page anew. `cargo run --release -p handback-benches --bin compare -- --help`
has the options. To measure a server of your own, use `handback bench --url http://… --clients 1000`; for `--turns` and
`--waiting` it must not limit the calls of models: start it with `HANDBACK_LIMITS_CALLS_PER_MINUTE=0`.
",
        sizes = list(&SIZES.map(|size| thousands(f64::from(size)))),
    ))
}

/// The page about hostile clients.
pub(crate) fn hostile(outcomes: &[Outcome], machine: &Machine) -> String {
    let Machine { cpu, cores, memory, kernel, rustc, date } = machine;
    let (longest, most, rounds) = (hostile::LONGEST.as_millis(), hostile::MEMORY >> 20, hostile::ROUNDS);
    let (table, version) = (attacks(outcomes), env!("CARGO_PKG_VERSION"));
    format!(
        "\
# What one client can do to the others

Whatever a client sends, a thread that serves others spends at most {longest} ms on it, and all of it together takes at most
{most} MiB. Here one client sends Handback {version} what is made to be expensive, again and again, and somebody else asks for `/healthz` all
the time. On two cores one thread serves everybody, so that what stops the thread stops them all.

{table}
The wait is the longest of somebody else, the median of {rounds} rounds; the memory is the most that the server had since it
started, less what it began with. A server that ends, or does not answer, would be an error here.

Measured on {cores} cores of {cpu}, {memory} of memory, {kernel}, {rustc}, {date}. `make bench` writes this page anew;
`cargo run --release -p handback-benches --bin compare -- --hostile` does nothing else.
"
    )
}

/// What came of the attacks.
pub(crate) fn attacks(outcomes: &[Outcome]) -> String {
    let mut table = String::from(
        "| one client sends | answers | others wait, ms | memory, MiB | |\n| --- | --- | ---: | ---: | --- |\n",
    );
    for outcome in outcomes {
        let statuses: Vec<String> = outcome.statuses.iter().map(u16::to_string).collect();
        let (wait, memory) = (outcome.wait(), outcome.memory);
        let is_met = wait <= hostile::LONGEST && memory <= hostile::MEMORY;
        table.push_str(&format!(
            "| {} | {} | {:.1} | {:.0} | {} |\n",
            outcome.what,
            statuses.join(", "),
            wait.as_secs_f64() * 1e3,
            memory as f64 / f64::from(1 << 20),
            if is_met { "met" } else { "short" },
        ));
    }
    table
}

impl Row {
    fn cells(&self) -> [String; 6] {
        let verdict = match self.met {
            Some(true) => "met",
            Some(false) => "short",
            None => "",
        };
        let Self { what, handback, floor, ratio, goal, .. } = self.clone();
        [what, handback, floor, ratio, goal, verdict.to_owned()]
    }
}

/// The medians of every scenario with calls or turns, and how far the runs were apart.
fn spread(comparison: &Comparison) -> anyhow::Result<String> {
    let mut table = String::from(
        "| | | calls or turns/s | slowest – fastest run | p50 ms | p99 ms | server CPU µs for each | load generator CPU µs |\n\
         | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |\n",
    );
    for scenario in Scenario::all().filter(|scenario| scenario.has_load()) {
        for &peer in scenario.peers() {
            let medians = comparison.medians(peer, scenario)?;
            table.push_str(&format!(
                "| {scenario} | {} | {} | {} – {} | {:.2} | {:.2} | {:.1} | {:.1} |\n",
                peer.name(),
                thousands(medians.rate),
                thousands(medians.rates.0),
                thousands(medians.rates.1),
                medians.p50,
                medians.p99,
                medians.server_cpu,
                medians.generator_cpu,
            ));
        }
    }
    Ok(table)
}

fn noise(comparison: &Comparison) -> String {
    match median(comparison.noise.iter().copied()) {
        Ok(cores) => {
            let disturbed = comparison.noise.iter().filter(|cores| **cores >= QUIET).count();
            let all = comparison.noise.len();
            format!(
                "During the runs, everything else on the machine kept {cores:.2} cores busy (median); \
                 {disturbed} of {all} runs were disturbed by more than {QUIET} cores.\n"
            )
        }
        Err(_) => String::new(),
    }
}

fn list(items: &[String]) -> String {
    match items {
        [first @ .., last] if !first.is_empty() => format!("{} and {last}", first.join(", ")),
        _ => items.concat(),
    }
}

/// A whole number, its thousands apart.
pub(crate) fn thousands(number: f64) -> String {
    let digits = format!("{number:.0}");
    let mut grouped = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}
