//! The tables of the comparison, for the terminal and for the documentation.

use crate::figures::Comparison;
use crate::histories::{self, Case};
use crate::hostile;
use crate::machine::{Machine, QUIET};
use crate::numbers::{median, thousands};
use crate::recovery;
use crate::rows::{PostgresRow, Row};
use crate::scenario::{CONCURRENCY, CROWD, GROWN, Peer, Readers, SIZES, Scenario, Store, USUAL, WAITING};

/// Of the columns; figures have one for each server.
const HEADINGS: [&str; 7] = ["", Peer::ALL[0].name(), Peer::ALL[1].name(), Peer::ALL[2].name(), "ratio", "goal", ""];

/// The same of the rows about PostgreSQL.
const POSTGRES_HEADINGS: [&str; 6] =
    ["", Peer::Handback(Store::Postgres).name(), Peer::Handback(Store::Sqlite).name(), "ratio", "goal", ""];

/// The table for the terminal, its columns aligned.
pub(crate) fn terminal(rows: &[Row], comparison: &Comparison) -> String {
    let mut text = aligned(HEADINGS, rows.iter().map(Row::cells), 4);
    for line in comparison.errors() {
        text.push_str(&format!("error: {line}\n"));
    }
    text.push_str(&noise(comparison));
    text
}

/// The table about PostgreSQL for the terminal, and what it was.
pub(crate) fn postgres_terminal(rows: &[PostgresRow], comparison: &Comparison) -> String {
    let table = aligned(POSTGRES_HEADINGS, rows.iter().map(PostgresRow::cells), 3);
    table + &postgres(comparison)
}

/// A table whose columns are aligned: after the first, so many have figures.
fn aligned<const N: usize>(headings: [&str; N], rows: impl Iterator<Item = [String; N]>, figures: usize) -> String {
    let mut cells = vec![headings.map(str::to_owned)];
    cells.extend(rows);
    let widths: [usize; N] =
        std::array::from_fn(|column| cells.iter().map(|row| row[column].chars().count()).max().unwrap_or_default());
    let mut text = String::new();
    for row in &cells {
        let cells = row.iter().zip(widths).enumerate().map(|(column, (cell, width))| {
            // Figures are aligned at their end, words at their beginning.
            if (1..=figures).contains(&column) { format!("{cell:>width$}") } else { format!("{cell:<width$}") }
        });
        text.push_str(cells.collect::<Vec<_>>().join("  ").trim_end());
        text.push('\n');
    }
    text
}

/// The same for the documentation.
fn table<const N: usize>(headings: [&str; N], rows: impl Iterator<Item = [String; N]>, figures: usize) -> String {
    let rules = (0..N).map(|column| if (1..=figures).contains(&column) { "---:" } else { "---" });
    let mut text = format!("| {} |\n| {} |\n", headings.join(" | "), rules.collect::<Vec<_>>().join(" | "));
    for row in rows {
        text.push_str(&format!("| {} |\n", row.join(" | ")));
    }
    text
}

/// The page for the documentation.
pub(crate) fn markdown(
    rows: &[Row],
    on_postgres: &[PostgresRow],
    comparison: &Comparison,
    machine: &Machine,
) -> anyhow::Result<String> {
    let Machine { cpu, cores, memory, kernel, rustc, date, on_disk } = machine;
    let figures = table(HEADINGS, rows.iter().map(Row::cells), 4);
    let postgres_figures = table(POSTGRES_HEADINGS, on_postgres.iter().map(PostgresRow::cells), 3);
    let errors = match comparison.errors() {
        lines if lines.is_empty() => "No call failed in any run.".to_owned(),
        lines => format!("These went wrong:\n\n- {}", lines.join("\n- ")),
    };
    let (runs, seconds, version) = (comparison.runs, comparison.seconds, env!("CARGO_PKG_VERSION"));
    let (noise, spread, postgres) = (noise(comparison), spread(comparison)?, postgres(comparison));
    let [crowd, waiting, grown] = [CROWD, WAITING, GROWN].map(|count| thousands(f64::from(count)));
    let (others, everything) = (Readers::Others.count(), Readers::Everything.count());
    Ok(format!(
        "\
# Benchmarks

How fast Handback {version} delegates calls, and how much of that its guarantees cost. It is compared with the **floor**:
the least code that still delegates a call, on the same HTTP stack and the same allocator
([`floor.rs`](../benches/src/bin/floor.rs)). The floor checks no input, keeps no journal and knows neither deadlines nor permissions.
Both run on one thread for each core, and SQLite's on top of that.
Handback is measured with either store: in memory (`--ephemeral`), and in a file by SQLite, as by default. With PostgreSQL it is
measured [further down](#with-postgresql).
What one client can do to the others is on [a page of its own](hostile.md), and what the last large change did to these figures [on
another](earlier.md).

![Calls per second and p99 latency over the number of connected clients](benchmarks.svg)

{figures}
{errors} kB are 1000 bytes. Medians of {runs} rounds of {seconds} s each. A ratio is formed within each round, and the median
of those counts. The ratio is that of the memory store to the floor, and goals
are for the memory store where they do not name another; \"the same\" is the row above, as a part of something else.

## What is measured

- A **call** is `POST /client-tools/execute` from the request until its answer: the server checks the call, hands it to
  the client over its SSE stream, the client posts the result, and the caller gets it. That is two HTTP requests and one event.
- {CONCURRENCY} callers make one call after the other, on connections that are kept. Each client has one tool, one stream
  and one connection for its results, which it sends one at a time; with a single client that is what limits the rate.
- The rows with {sizes} clients call all of them in turn. \"{crowd} clients, one called\" is what the idle connections
  around a client cost it; it should cost nothing.
- **CPU** is what the server process used, from its own `/metrics`, divided by the calls. It depends less on what else
  the machine does than the rate.
- **durability** `\"power\"` waits for the disk before a write is answered; writes that come at the same time wait once, together. `\"process\"` is
  the default. What it costs is above all what the disk takes for one such wait: here {on_disk}.
- **log** `\"info\"`, the default, writes a line for each request and each stage of a call, here five for each call, to a file. Everywhere
  else the servers log at `\"warn\"`.
- **Memory** is the server's resident memory with {crowd} idle clients, each with its tool, less what it had before they
  connected, divided by {crowd}. That of an idle server is what it had before.
- A **turn** is `POST /session/…/message` from the request until its answer, with the built-in model `demo/scripted`: the
  server keeps the prompt, the model asks for a call of the client's tool, the call goes to the client and back as above, and
  the model answers with what it gave. That is one call, two steps of the model and three messages that are kept; nobody reads events.
  {CONCURRENCY} sessions run one turn after the other, and each is replaced by a fresh one after 20; making it is not in the turn's time,
  but in the CPU. The floor has no sessions: turns are compared with Handback's own bare calls, which take turns with them.
- **Readers** of other sessions are {others} streams of `GET /session/…/event`, each of a session in which nothing happens; readers
  of everything are {everything} streams of `GET /event` that are read as fast as they can be. Both are open while turns of {usual}
  clients run, and take turns with runs without any.
- **Turns of a session** by their number are those of {CONCURRENCY} sessions that run {grown} turns each, all at the same pace.
- **Workers** are the server's threads (`--workers`). **The hub alone** is the part of Handback that takes a call to its client and the
  result back ([`hub.rs`](../benches/src/bin/hub.rs)): 64 clients, each with a caller of its own, without sockets and without a server. Each
  thread has a runtime and a part of the clients. Two threads with a hub each share nothing: that is what the machine gives.
- **Waiting** sessions are {waiting} sessions of one client, each in a turn whose call the client has got and does not answer: the server's
  resident memory then, less what it had before they were made, divided by {waiting}.
- Server and load generator share the machine, over loopback, without TLS. Handback's limit of the calls of models is off. Each run
  has a fresh server, and SQLite a fresh file; the servers take turns.
- The load is closed: a caller waits for its answer before it calls again, so the latencies are those at the full rate.

## With PostgreSQL

{postgres_figures}
{postgres}
## Every scenario

{spread}
## The machine

{cores} cores of {cpu}, {memory} of memory, {kernel}, {rustc}, {date}. {noise}
## Run it yourself

```
make bench
```

That builds everything and takes about half an hour; it writes this page anew. `cargo run --release -p handback-benches --bin compare -- --help`
has the options. To measure a server of your own, use `handback bench --url http://… --clients 1000`. Add `--turns` for whole turns, and
`--readers 400 --reading others` (or `--reading everything`) to have events read meanwhile; `--growing 1000` compares early and late
turns, `--waiting 1000` is for waiting sessions. Turns are calls of models, which the server must not limit: start it with
`HANDBACK_LIMITS_CALLS_PER_MINUTE=0`.
",
        sizes = list(&SIZES.map(|size| thousands(f64::from(size)))),
        usual = USUAL,
    ))
}

/// The page about what one client can do to the others.
pub(crate) fn hostile(attacks: &str, histories: &str, machine: &Machine) -> String {
    let Machine { cpu, cores, memory, kernel, rustc, date, .. } = machine;
    let (longest, most, rounds) = (hostile::LONGEST.as_millis(), hostile::MEMORY >> 20, hostile::ROUNDS);
    let (readings, messages) = (histories::ROUNDS, thousands(histories::MESSAGES as f64));
    let version = env!("CARGO_PKG_VERSION");
    format!(
        "\
# What one client can do to the others

Whatever a client sends, a thread that serves others spends at most {longest} ms on it, and all of it together takes at most
{most} MiB. Here one client sends Handback {version} what is made to be expensive, again and again, and somebody else asks for `/healthz` all
the time. On two cores one thread serves everybody, so that what stops the thread stops them all. All of it is done to a server that
keeps everything in memory, and to one that keeps it in a file by SQLite.

{attacks}
The wait is the longest of somebody else, the median of {rounds} rounds; the memory is the most that the server had since it
started, less what it began with. A server that ends, or does not answer, would be an error here.

## While long histories are read

Here nobody is hostile: a session of {messages} messages is read (`GET /session/…/message`) as fast as the server gives it. Meanwhile a
client is called every few milliseconds and answers, and looks at a session of its own.

{histories}
\"Read\" is what all readers together got. The waits are medians of {readings} rounds: the 99th percentile of `POST /client-tools/result`,
and the longest of any request of the client, or of a call on its way to it. The readers share the machine with the server.

Measured on {cores} cores of {cpu}, {memory} of memory, {kernel}, {rustc}, {date}. `make bench` writes this page anew;
`cargo run --release -p handback-benches --bin compare -- --hostile` does nothing else.
"
    )
}

/// What came of the attacks on a server with either store.
pub(crate) fn attacks(in_memory: &[hostile::Outcome], in_sqlite: &[hostile::Outcome]) -> String {
    let mut table = String::from(
        "| one client sends | answers | others wait, ms | with SQLite | memory, MiB | with SQLite | |\n\
         | --- | --- | ---: | ---: | ---: | ---: | --- |\n",
    );
    for (memory, sqlite) in in_memory.iter().zip(in_sqlite) {
        let both = [memory, sqlite];
        let mut answers =
            both.map(|outcome| outcome.statuses.iter().map(u16::to_string).collect::<Vec<_>>().join(", ")).to_vec();
        answers.dedup();
        let [waits, memories] = [
            both.map(|outcome| format!("{:.1}", outcome.wait().as_secs_f64() * 1e3)),
            both.map(|outcome| format!("{:.0}", outcome.memory as f64 / f64::from(1 << 20))),
        ];
        let is_met =
            |outcome: &hostile::Outcome| outcome.wait() <= hostile::LONGEST && outcome.memory <= hostile::MEMORY;
        table.push_str(&format!(
            "| {} | {} | {} | {} | {} |\n",
            memory.what,
            answers.join("; with SQLite "),
            waits.join(" | "),
            memories.join(" | "),
            verdict(both.into_iter().all(is_met)),
        ));
    }
    table
}

/// How long others waited while histories were read.
pub(crate) fn histories(outcomes: &[histories::Outcome]) -> anyhow::Result<String> {
    let mut table = String::from(
        "| meanwhile | store | read, MB/s | somebody waits | ms | goal | |\n\
         | --- | --- | ---: | --- | ---: | --- | --- |\n",
    );
    for outcome in outcomes {
        let megabytes = outcome.case.megabytes();
        let (meanwhile, whom) = match outcome.case {
            Case::Listed => (format!("{megabytes} MB are listed over and over"), "for a result to be taken, p99"),
            Case::ReadAtOnce => (
                format!("{megabytes} MB are read {} times at once", outcome.case.readers()),
                "for anything, the longest",
            ),
        };
        let wait = median(outcome.waits.iter().map(|wait| wait.as_secs_f64() * 1e3));
        let goal = outcome.case.goal().as_millis();
        table.push_str(&format!(
            "| {meanwhile} | {} | {} | {whom} | {wait:.1} | ≤ {goal} | {} |\n",
            outcome.store.name(),
            thousands(median(outcome.rates.iter().map(|rate| rate / 1e6))),
            verdict(wait <= goal as f64),
        ));
    }
    Ok(table)
}

/// How long starts took.
pub(crate) fn starts(outcomes: &[recovery::Outcome]) -> String {
    let mut table = String::from("| messages stored | ready after, ms | goal | |\n| ---: | ---: | --- | --- |\n");
    for outcome in outcomes {
        let start = median(outcome.starts.iter().map(|start| start.as_secs_f64() * 1e3));
        let (messages, goal) = (thousands((outcome.messages * recovery::SESSIONS) as f64), recovery::GOAL.as_millis());
        let goal_text = thousands(goal as f64);
        table.push_str(&format!("| {messages} | {start:.0} | ≤ {goal_text} | {} |\n", verdict(start <= goal as f64)));
    }
    table
}

/// The page about starts after a crash.
pub(crate) fn recovery(starts: &str, machine: &Machine) -> String {
    let Machine { cpu, cores, memory, kernel, rustc, date, .. } = machine;
    let (sessions, turns, rounds) = (thousands(recovery::SESSIONS as f64), recovery::TURNS, recovery::ROUNDS);
    let version = env!("CARGO_PKG_VERSION");
    format!(
        "\
# How long a start takes after a crash

Handback {version} with {sessions} sessions in its database is killed (`kill -9`) while {turns} turns wait for a client, and started
again. It is ready (`GET /readyz`) when every turn and every call that was under way is open again.

{starts}
From the start of the process, the median of {rounds} rounds. What counts is what was under way, not how much is stored: sessions are
read when they are used, and what they take is counted anew afterwards.

Measured on {cores} cores of {cpu}, {memory} of memory, {kernel}, {rustc}, {date}. `make bench` writes this page anew;
`cargo run --release -p handback-benches --bin compare -- --recovery` does nothing else.
"
    )
}

fn verdict(is_met: bool) -> &'static str {
    if is_met { "met" } else { "short" }
}

impl Row {
    fn cells(&self) -> [String; 7] {
        let verdict = self.met.map_or("", verdict);
        let Self { what, memory, sqlite, floor, ratio, goal, .. } = self.clone();
        [what, memory, sqlite, floor, ratio, goal, verdict.to_owned()]
    }
}

impl PostgresRow {
    fn cells(&self) -> [String; 6] {
        let verdict = self.met.map_or("", verdict);
        let Self { what, postgres, sqlite, ratio, goal, .. } = self.clone();
        [what, postgres, sqlite, ratio, goal, verdict.to_owned()]
    }
}

/// How PostgreSQL was set up, or why it was not measured.
fn postgres(comparison: &Comparison) -> String {
    match &comparison.postgres {
        Ok(version) => format!(
            "\
PostgreSQL {version} ran on the same machine, over loopback, as it is by default (`fsync` and `synchronous_commit` on) but for 64 MB of
shared buffers and 400 connections, and each run had a fresh database. Its own CPU and memory are in none of the figures.
"
        ),
        Err(cause) => format!("PostgreSQL was not measured: {cause}.\n"),
    }
}

/// The medians of every scenario with calls or turns, and how far the runs were apart.
fn spread(comparison: &Comparison) -> anyhow::Result<String> {
    let mut table = String::from(
        "| | | calls or turns/s | slowest – fastest run | p50 ms | p99 ms | server CPU µs for each | load generator CPU µs |\n\
         | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |\n",
    );
    for scenario in Scenario::all().filter(|scenario| scenario.has_load()) {
        for peer in comparison.peers(scenario) {
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
    let (cores, all) = (median(comparison.noise.iter().copied()), comparison.noise.len());
    let disturbed = comparison.noise.iter().filter(|cores| **cores >= QUIET).count();
    format!(
        "During the runs, everything else on the machine kept {cores:.2} cores busy (median); \
         {disturbed} of {all} runs were disturbed by more than {QUIET} cores.\n"
    )
}

fn list(items: &[String]) -> String {
    match items {
        [first @ .., last] if !first.is_empty() => format!("{} and {last}", first.join(", ")),
        _ => items.concat(),
    }
}
