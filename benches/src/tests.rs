//! The comparison, fed with samples instead of servers.

use std::time::Duration;

use anyhow::Context;

use crate::chart;
use crate::earlier;
use crate::figures::Comparison;
use crate::histories::{self, Case};
use crate::hostile;
use crate::machine::Machine;
use crate::numbers::median;
use crate::page;
use crate::process::{Growing, HubLoad, Latency, Load, Memory, Sample, Stretch, Waiting, WaitingMemory};
use crate::scenario::{Peer, Readers, SIZES, Scenario, Store, Threads};

/// A run in which nothing was measured.
fn nothing() -> Sample {
    Sample { memory: None, load: None, waiting: None, growing: None, hub: None, errors: Default::default() }
}

/// A run with this rate and CPU; its p99 is 100 s divided by the rate.
fn load(per_second: f64, server_cpu: f64) -> Sample {
    let latency_ms = Latency { p50: 1.0, p99: 1e5 / per_second };
    let load = Load { per_second, latency_ms, server_cpu, generator_cpu: 20.0 };
    Sample { load: Some(load), ..nothing() }
}

fn memory(kilobytes: f64) -> Option<Memory> {
    Some(Memory { before: 30e6, per_client: kilobytes * 1e3 })
}

fn growing(early: f64, late: f64) -> Sample {
    let stretch = |turns, server_cpu| Stretch { turns, server_cpu };
    let growing = Growing { early: stretch((11, 50), early), late: stretch((961, 1_000), late) };
    Sample { growing: Some(growing), ..nothing() }
}

/// A run in the middle of the others. The floor makes 30,000 calls/s, Handback 27,000 with one client and less with more, and
/// with SQLite about half of that.
fn sample(peer: Peer, scenario: Scenario) -> Sample {
    let pick = |in_memory: f64, in_sqlite: f64| match peer {
        Peer::Handback(Store::Sqlite) => in_sqlite,
        _ => in_memory,
    };
    match peer {
        Peer::Floor => return Sample { memory: memory(22.0), ..load(30_000.0, 30.0) },
        Peer::Handback(Store::Postgres) => return on_postgres(scenario),
        Peer::Handback(_) => {}
    }
    match scenario {
        Scenario::Busy(1) => load(pick(27_000.0, 13_500.0), pick(30.0, 60.0)),
        Scenario::Busy(100) => load(pick(25_500.0, 12_500.0), pick(30.0, 60.0)),
        Scenario::OnDisk => load(3_100.0, 60.0),
        Scenario::Logged => load(9_000.0, pick(60.0, 90.0)),
        Scenario::Busy(_) => {
            let refused = Some(("execute: HTTP 503 UNAVAILABLE".to_owned(), 1_000));
            let errors = refused.filter(|_| peer == Peer::Handback(Store::Memory)).into_iter().collect();
            Sample { errors, ..load(pick(18_000.0, 9_000.0), pick(30.0, 60.0)) }
        }
        Scenario::OneOfMany => Sample { memory: memory(pick(20.5, 21.5)), ..load(pick(24_300.0, 12_150.0), 30.0) },
        Scenario::IdleSockets => Sample { memory: memory(pick(10.5, 9.5)), ..nothing() },
        Scenario::Workers(1) => load(20_000.0, pick(40.0, 50.0)),
        Scenario::Workers(_) => load(20_000.0, pick(46.0, 60.0)),
        Scenario::Hub(threads) => {
            let calls_per_second = match threads {
                Threads::One => 200_000.0,
                Threads::Two => 340_000.0,
                Threads::Apart => 400_000.0,
            };
            Sample { hub: Some(HubLoad { calls_per_second }), ..nothing() }
        }
        Scenario::Turns(1) => load(pick(9_000.0, 3_600.0), 90.0),
        Scenario::Turns(_) => load(pick(9_000.0, 3_500.0), pick(90.1, 120.0)),
        Scenario::Read(Readers::Others) => load(8_000.0, pick(108.1, 132.0)),
        Scenario::Read(Readers::Everything) => load(400.0, pick(2_300.0, 2_400.0)),
        Scenario::Growing => growing(pick(90.0, 200.0), pick(180.0, 260.0)),
        Scenario::Waiting => {
            let memory = WaitingMemory { per_session: pick(32.0, 33.0) * 1e3 };
            Sample { waiting: Some(Waiting { memory }), ..nothing() }
        }
    }
}

/// The same on PostgreSQL, where each call takes 4 times as long.
fn on_postgres(scenario: Scenario) -> Sample {
    let mut sample = match scenario {
        Scenario::Busy(1) => load(2_700.0, 90.0),
        Scenario::Busy(_) => load(3_125.0, 90.0),
        _ => load(700.0, 180.0),
    };
    if let Some(load) = &mut sample.load {
        load.latency_ms.p50 = 4.0;
    }
    sample
}

/// Three runs of everything: one in the middle, one with faster and one with slower calls and turns.
fn comparison() -> Comparison {
    comparison_with(Ok("15.18".to_owned()))
}

fn comparison_with(postgres: Result<String, String>) -> Comparison {
    let mut comparison = Comparison::new(3, 5, postgres);
    for scenario in Scenario::all() {
        for peer in comparison.peers(scenario).collect::<Vec<_>>() {
            for spread in [1.02, 1.0, 0.9] {
                let mut sample = sample(peer, scenario);
                if let Some(load) = &mut sample.load {
                    load.per_second *= spread;
                    load.latency_ms.p99 /= spread;
                    load.server_cpu *= spread;
                }
                comparison.add(peer, scenario, sample);
            }
        }
    }
    comparison
}

fn markdown(comparison: &Comparison) -> anyhow::Result<String> {
    page::markdown(&comparison.rows()?, &comparison.postgres_rows()?, comparison, &Machine::describe())
}

#[test]
fn goals_are_judged_by_the_medians() -> anyhow::Result<()> {
    let comparison = comparison();
    let page = markdown(&comparison)?;
    let table: Vec<&str> =
        page.lines().skip_while(|line| !line.starts_with('|')).take_while(|line| !line.is_empty()).collect();
    assert_eq!(
        table,
        [
            "|  | Handback | Handback, SQLite | floor | ratio | goal |  |",
            "| --- | ---: | ---: | ---: | ---: | --- | --- |",
            "| calls/s, 1 client | 27,000 | 13,500 | 30,000 | 0.90 | ≥ 0.85 × floor | met |",
            "| the same, of memory |  | 0.50 |  |  | ≥ 0.50 × memory | met |",
            "| calls/s, 100 clients | 25,500 | 12,500 | 30,000 | 0.85 | ≥ 0.85 × floor | met |",
            "| the same, of memory |  | 0.49 |  |  | ≥ 0.50 × memory | short |",
            "| calls/s, 100 clients, durability \"power\" |  | 3,100 |  |  |  |  |",
            "| the same, of \"process\" |  | 0.25 |  |  | ≥ 0.25 | short |",
            "| calls/s, 1,000 clients | 18,000 | 9,000 | 30,000 | 0.60 | ≥ 0.85 × floor | short |",
            "| calls/s, 5,000 clients, one called | 24,300 | 12,150 | 30,000 | 0.81 |  |  |",
            "| the same, of the rate with 1 client | 0.90 | 0.90 | 1.00 |  | ≥ 0.90 | met |",
            "| p99 ms, 1 client | 3.70 | 7.41 | 3.33 | 1.11 | ≤ 1.30 × floor | met |",
            "| p99 ms, 100 clients | 3.92 | 8.00 | 3.33 | 1.18 | ≤ 1.30 × floor | met |",
            "| p99 ms, 1,000 clients | 5.56 | 11.11 | 3.33 | 1.67 | ≤ 1.30 × floor | short |",
            "| CPU µs/call, 1 client | 30.0 | 60.0 | 30.0 | 1.00 |  |  |",
            "| CPU µs/call, 100 clients | 30.0 | 60.0 | 30.0 | 1.00 |  |  |",
            "| CPU µs/call, 1,000 clients | 30.0 | 60.0 | 30.0 | 1.00 |  |  |",
            "| CPU µs/call, 100 clients, log \"info\" | 60.0 | 90.0 | – |  |  |  |",
            "| the same, of \"warn\" | 2.00 | 1.50 | – |  | ≤ 1.50 | short |",
            "| CPU µs/call, 100 clients, 1 worker | 40.0 | 50.0 | 30.0 | 1.33 |  |  |",
            "| CPU µs/call, 100 clients, 2 workers | 46.0 | 60.0 | 30.0 | 1.53 |  |  |",
            "| the same, of 1 worker | 1.15 | 1.20 | 1.00 |  | ≤ 1.15 | met |",
            "| calls/s, the hub alone, 1 thread | 200,000 | – | – |  |  |  |",
            "| calls/s, the hub alone, 2 threads | 340,000 | – | – |  |  |  |",
            "| the same, of 1 thread | 1.70 | – | – |  | ≥ 1.70 | met |",
            "| calls/s, the hub alone, 2 threads with a hub each | 400,000 | – | – |  |  |  |",
            "| the same, of 1 thread | 2.00 | – | – |  |  |  |",
            "| MB of an idle server | 30.0 | 30.0 | 30.0 | 1.00 | ≤ 30 with SQLite | met |",
            "| kB per idle client, SSE | 20.5 | 21.5 | 22.0 | 0.93 | ≤ 21 | met |",
            "| kB per idle client, WebSocket | 10.5 | 9.5 | – |  | ≤ 10 | short |",
            "| turns/s, 1 client | 9,000 | 3,600 | – |  |  |  |",
            "| the same, of memory |  | 0.40 |  |  | ≥ 0.40 × memory | met |",
            "| turns/s, 100 clients | 9,000 | 3,500 | – |  |  |  |",
            "| the same, of memory |  | 0.39 |  |  | ≥ 0.40 × memory | short |",
            "| CPU µs/turn, 1 client | 90.0 | 90.0 | – |  |  |  |",
            "| the same, of the CPU of a call | 3.00 | 1.50 | – |  | ≤ 3.00 | met |",
            "| CPU µs/turn, 100 clients | 90.1 | 120.0 | – |  |  |  |",
            "| the same, of the CPU of a call | 3.00 | 2.00 | – |  | ≤ 3.00 | short |",
            "| CPU µs/turn, 400 readers of other sessions | 108.1 | 132.0 | – |  |  |  |",
            "| the same, of a turn without readers | 1.20 | 1.10 | – |  | ≤ 1.20 | met |",
            "| CPU µs/turn, 100 readers of everything | 2300.0 | 2400.0 | – |  |  |  |",
            "| the same, of a turn without readers | 25.53 | 20.00 | – |  | ≤ 25 | short |",
            "| CPU µs/turn, turns 11 to 50 of a session | 90.0 | 200.0 | – |  |  |  |",
            "| CPU µs/turn, turns 961 to 1,000 of a session | 180.0 | 260.0 | – |  |  |  |",
            "| the same, of the early ones | 2.00 | 1.30 | – |  | ≤ 1.30 with SQLite | met |",
            "| kB per waiting session | 32.0 | 33.0 | – |  | ≤ 32 | met |",
        ]
    );
    Ok(())
}

/// The part of the page about PostgreSQL.
fn about_postgres(comparison: &Comparison) -> anyhow::Result<Vec<String>> {
    let page = markdown(comparison)?;
    let lines = page.lines().skip_while(|line| *line != "## With PostgreSQL").skip(2);
    Ok(lines.take_while(|line| *line != "## Every scenario").map(str::to_owned).collect())
}

#[test]
fn calls_on_a_database_server_are_judged_beside_those_in_a_file() -> anyhow::Result<()> {
    assert_eq!(
        about_postgres(&comparison())?,
        [
            "|  | Handback, PostgreSQL | Handback, SQLite | ratio | goal |  |",
            "| --- | ---: | ---: | ---: | --- | --- |",
            "| calls/s, 1 client | 2,700 | 13,500 | 0.20 |  |  |",
            "| calls/s, 100 clients | 3,125 | 12,500 | 0.25 | ≥ 0.25 × SQLite | met |",
            "| turns/s, 100 clients | 700 | 3,500 | 0.20 |  |  |",
            "| p50 ms, 1 client | 4.00 | 1.00 | 4.00 |  |  |",
            "| p50 ms, 100 clients | 4.00 | 1.00 | 4.00 |  |  |",
            "| p50 ms, turns, 100 clients | 4.00 | 1.00 | 4.00 |  |  |",
            "",
            "PostgreSQL 15.18 ran on the same machine, over loopback, as it is by default (`fsync` and `synchronous_commit` on) but \
             for 64 MB of",
            "shared buffers and 400 connections, and each run had a fresh database. Its own CPU and memory are in none of the \
             figures.",
            "",
        ]
    );
    Ok(())
}

#[test]
fn without_a_database_server_all_else_is_measured() -> anyhow::Result<()> {
    let with = comparison();
    let without = comparison_with(Err("it is missing".to_owned()));
    assert_eq!(without.rows()?, with.rows()?);
    assert_eq!(
        about_postgres(&without)?,
        [
            "|  | Handback, PostgreSQL | Handback, SQLite | ratio | goal |  |",
            "| --- | ---: | ---: | ---: | --- | --- |",
            "| calls/s, 1 client | not measured | 13,500 |  |  |  |",
            "| calls/s, 100 clients | not measured | 12,500 |  | ≥ 0.25 × SQLite |  |",
            "| turns/s, 100 clients | not measured | 3,500 |  |  |  |",
            "| p50 ms, 1 client | not measured | 1.00 |  |  |  |",
            "| p50 ms, 100 clients | not measured | 1.00 |  |  |  |",
            "| p50 ms, turns, 100 clients | not measured | 1.00 |  |  |  |",
            "",
            "PostgreSQL was not measured: it is missing.",
            "",
        ]
    );
    Ok(())
}

/// A machine that is half as fast for a while slows all that is measured meanwhile, and changes no verdict.
#[test]
fn ratios_are_formed_within_a_round() -> anyhow::Result<()> {
    let mut comparison = Comparison::new(3, 5, Ok("15.18".to_owned()));
    for scenario in Scenario::all() {
        for (place, peer) in scenario.peers().enumerate() {
            // The slow while ends in the middle of the second round, between the first server and the others.
            for speed in [0.5, if place == 0 { 0.5 } else { 1.0 }, 1.0] {
                let mut sample = sample(peer, scenario);
                if let Some(load) = &mut sample.load {
                    load.per_second *= speed;
                }
                comparison.add(peer, scenario, sample);
            }
        }
    }
    let rows = comparison.rows()?;
    let first = rows.first().context("there are no rows")?;
    assert_eq!([&first.memory, &first.floor, &first.ratio], ["13,500", "30,000", "0.90"]);
    assert_eq!(first.met, Some(true));
    Ok(())
}

#[test]
fn errors_are_named_with_their_server_and_scenario() {
    let expected = "Handback, 1,000 clients: execute: HTTP 503 UNAVAILABLE, 3,000 times";
    assert_eq!(comparison().errors(), [expected]);
}

#[test]
fn the_terminal_gets_aligned_columns() -> anyhow::Result<()> {
    let comparison = comparison();
    let table = page::terminal(&comparison.rows()?, &comparison);
    let lines: Vec<&str> = table.lines().collect();
    let first = "calls/s, 1 client                                    27,000            13,500  30,000   0.90  ≥ 0.85 × floor      met";
    let second = "the same, of memory                                                      0.50                 ≥ 0.50 × memory     met";
    assert_eq!(lines[1..3], [first, second]);
    Ok(())
}

#[test]
fn a_comparison_without_a_run_is_an_error() {
    let comparison = Comparison::new(1, 1, Ok("15.18".to_owned()));
    assert!(comparison.rows().is_err());
    assert!(comparison.postgres_rows().is_err());
}

#[test]
fn the_median_is_in_the_middle() {
    assert_eq!(median([3.0, 1.0, 2.0]), 2.0);
    assert_eq!(median([4.0, 1.0, 2.0, 3.0]), 2.5);
}

#[test]
fn the_grid_has_round_numbers() {
    assert_eq!([34_000.0, 2.1, 0.9, 5.0].map(chart::step), [10_000.0, 0.5, 0.2, 1.0]);
}

#[test]
fn the_chart_draws_every_point() -> anyhow::Result<()> {
    let svg = chart::draw(&comparison())?;
    let points = svg.matches("<title>").count();
    assert_eq!(points, 2 * 3 * 4, "two panels, three servers, four points");
    assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    Ok(())
}

#[test]
fn what_the_load_generator_reports_is_read() -> anyhow::Result<()> {
    let memory = r#""memory":{"before":1.0,"connected":2.0,"perClient":3.0},"errors":{}"#;
    for (many, each) in [("calls", "Call"), ("turns", "Turn")] {
        let cpu = format!(r#""serverCpuUsPer{each}":30.5,"generatorCpuUsPer{each}":20.5"#);
        let latency = r#""latencyMs":{"p50":1.5,"p90":2.0,"p99":2.5,"max":3.0}"#;
        let text = format!(r#"{{{memory},"load":{{"{many}":9,"{many}PerSecond":7.5,{latency},{cpu}}}}}"#);
        let load = serde_json::from_str::<Sample>(&text)?.load.context("no load")?;
        let read = [load.per_second, load.latency_ms.p50, load.latency_ms.p99, load.server_cpu, load.generator_cpu];
        assert_eq!(read, [7.5, 1.5, 2.5, 30.5, 20.5], "{text}");
    }
    let waiting = r#"{"sessions":9,"waiting":9,"memory":{"before":1.0,"waiting":2.0,"perSession":9500.5}}"#;
    let sample: Sample = serde_json::from_str(&format!(r#"{{{memory},"waiting":{waiting}}}"#))?;
    assert_eq!(sample.waiting.context("nothing waits")?.memory.per_session, 9_500.5);
    let stretch = |turns, cpu| format!(r#"{{"turns":{turns},"latencyMs":{{"p50":1.5}},"serverCpuUsPerTurn":{cpu}}}"#);
    let growing = format!(r#""sessions":9,"early":{},"late":{}"#, stretch("[1,2]", 3.5), stretch("[8,9]", 4.5));
    let sample: Sample = serde_json::from_str(&format!(r#"{{{memory},"growing":{{{growing}}}}}"#))?;
    let Growing { early, late } = sample.growing.context("nothing grows")?;
    assert_eq!([(early.turns, early.server_cpu), (late.turns, late.server_cpu)], [((1, 2), 3.5), ((8, 9), 4.5)]);
    let hub = r#"{"hub":{"threads":2,"callsPerSecond":345678,"cpuUsPerCall":4.5}}"#;
    assert_eq!(serde_json::from_str::<Sample>(hub)?.hub.context("no hub")?.calls_per_second, 345_678.0);
    Ok(())
}

#[test]
fn the_page_has_every_scenario_with_calls() -> anyhow::Result<()> {
    let comparison = comparison();
    let page = markdown(&comparison)?;
    for line in [
        "| turns, 1 client | Handback | 9,000 | 8,100 – 9,180 | 1.00 | 11.11 | 90.0 | 20.0 |",
        "| turns, 100 readers of everything | Handback, SQLite | 400 | 360 – 408 | 1.00 | 250.00 | 2400.0 | 20.0 |",
        "| 100 clients, 2 workers | Handback | 20,000 | 18,000 – 20,400 | 1.00 | 5.00 | 46.0 | 20.0 |",
        "| 100 clients | Handback, PostgreSQL | 3,125 | 2,812 – 3,188 | 4.00 | 32.00 | 90.0 | 20.0 |",
        "| 5,000 clients, one called | floor | 30,000 | 27,000 – 30,600 | 1.00 | 3.33 | 30.0 | 20.0 |",
    ] {
        assert!(page.lines().any(|found| found == line), "{line} is not in:\n{page}");
    }
    Ok(())
}

#[test]
fn an_attack_is_withstood_only_if_it_is_with_either_store() {
    let outcome = |wait, memory: u64, status| hostile::Outcome {
        what: "a schema",
        statuses: vec![200, status],
        waits: [900, wait, 1].map(Duration::from_millis).to_vec(),
        memory: memory << 20,
    };
    let rows = |in_memory, in_sqlite| page::attacks(&[in_memory], &[in_sqlite]).lines().skip(2).collect::<String>();
    assert_eq!(rows(outcome(20, 64, 400), outcome(3, 9, 400)), "| a schema | 200, 400 | 20.0 | 3.0 | 64 | 9 | met |");
    assert_eq!(rows(outcome(3, 9, 400), outcome(21, 9, 400)), "| a schema | 200, 400 | 3.0 | 21.0 | 9 | 9 | short |");
    assert_eq!(
        rows(outcome(3, 65, 400), outcome(3, 9, 503)),
        "| a schema | 200, 400; with SQLite 200, 503 | 3.0 | 3.0 | 65 | 9 | short |"
    );
}

#[test]
fn waits_for_readers_are_judged_by_the_median_of_their_rounds() -> anyhow::Result<()> {
    let outcome = |case, store, waits: [u64; 3]| histories::Outcome {
        case,
        store,
        waits: waits.map(Duration::from_micros).to_vec(),
        rates: vec![300e6, 100e6, 1_200e6],
    };
    let table = page::histories(&[
        outcome(Case::Listed, Store::Memory, [9_000, 5_000, 100]),
        outcome(Case::ReadAtOnce, Store::Sqlite, [1, 100_100, 200_000]),
    ])?;
    assert_eq!(
        table.lines().skip(2).collect::<Vec<_>>(),
        [
            "| 20 MB are listed over and over | memory | 300 | for a result to be taken, p99 | 5.0 | ≤ 5 | met |",
            "| 200 MB are read 8 times at once | SQLite | 300 | for anything, the longest | 100.1 | ≤ 100 | short |",
        ]
    );
    Ok(())
}

#[test]
fn an_earlier_build_is_compared_round_by_round() -> anyhow::Result<()> {
    let (mut earlier, now) = (Comparison::new(3, 5, Err("it is missing".to_owned())), comparison());
    for scenario in earlier::SCENARIOS {
        for peer in Peer::HANDBACK {
            for sample in now.of(peer, scenario)? {
                let mut sample = sample.clone();
                let load = sample.load.as_mut().context("a scenario with load")?;
                // Half as fast, at twice the cost, whatever the round was like.
                (load.per_second, load.server_cpu) = (load.per_second / 2.0, load.server_cpu * 2.0);
                earlier.add(peer, scenario, sample);
            }
        }
    }
    let table = earlier::table(&earlier, &now)?;
    let rows: Vec<&str> = table.lines().skip(2).collect();
    let mut ratio = "";
    for row in &rows {
        ratio = match row {
            row if row.contains("a second") => "| 2.00 | 2.00 – 2.00 |",
            row if row.contains("CPU") => "| 0.50 | 0.50 – 0.50 |",
            row if row.contains("p99") => "| 1.00 | 1.00 – 1.00 |",
            // The floor is the same for both, so the ratio is that of the row above.
            _ => ratio,
        };
        assert!(row.ends_with(ratio), "{row}");
    }
    assert_eq!(rows.len(), 2 * 3 * earlier::SCENARIOS.len() + 3 * SIZES.len(), "{table}");
    Ok(())
}
