//! The comparison, fed with samples instead of servers.

use anyhow::Context;

use crate::chart;
use crate::figures::{Comparison, Row, Scenario, median};
use crate::machine::Machine;
use crate::page;
use crate::process::{Latency, Load, Memory, Peer, Sample, Waiting, WaitingMemory};

/// A run with this rate; its p99 is 100 s divided by the rate.
fn sample(rate: f64, kilobytes: f64) -> Sample {
    Sample {
        memory: Memory { per_client: kilobytes * 1e3 },
        load: Some(Load {
            per_second: rate,
            latency_ms: Latency { p50: 1.0, p99: 1e5 / rate },
            server_cpu: 30.0,
            generator_cpu: 20.0,
        }),
        waiting: None,
        errors: [("execute: HTTP 503 UNAVAILABLE".to_owned(), 1_000)].into_iter().filter(|_| rate < 20_000.0).collect(),
    }
}

/// A run of turns that cost so much CPU.
fn turns(cpu: f64) -> Sample {
    let sample = sample(9_000.0, 0.0);
    let load = sample.load.map(|load| Load { server_cpu: cpu, ..load });
    Sample { load, errors: Default::default(), ..sample }
}

/// A run of sessions that waited and took so much memory.
fn waiting(kilobytes: f64) -> Sample {
    let waiting = Waiting { memory: WaitingMemory { per_session: kilobytes * 1e3 } };
    Sample { load: None, waiting: Some(waiting), ..sample(27_000.0, 0.0) }
}

/// Three runs of everything: Handback at 27,000 calls/s with one client and less with more, the floor at 30,000.
fn comparison() -> Comparison {
    let mut comparison = Comparison::new(3, 5);
    for scenario in Scenario::all() {
        let (rate, kilobytes) = match scenario {
            Scenario::Busy(1) => (27_000.0, 0.0),
            Scenario::Busy(100) => (25_500.0, 0.0),
            Scenario::Busy(_) => (18_000.0, 0.0),
            Scenario::OneOfMany => (24_300.0, 20.5),
            Scenario::IdleSockets => (27_000.0, 10.5),
            Scenario::Turns(_) => (9_000.0, 0.0),
            Scenario::Waiting => (0.0, 32.0),
        };
        for spread in [1.02, 1.0, 0.9] {
            let run = match scenario {
                Scenario::Turns(1) => turns(90.0 * spread),
                Scenario::Turns(_) => turns(90.1 * spread),
                Scenario::Waiting => waiting(kilobytes * spread),
                _ => sample(rate * spread, kilobytes),
            };
            comparison.add(Peer::Handback, scenario, run);
            if scenario.peers().contains(&Peer::Floor) {
                comparison.add(Peer::Floor, scenario, sample(30_000.0 * spread, 22.0));
            }
        }
    }
    comparison
}

#[test]
fn goals_are_judged_by_the_medians() -> anyhow::Result<()> {
    let rows = comparison().rows()?;
    let judged: Vec<(&str, &str, Option<bool>)> =
        rows.iter().map(|row| (row.what.as_str(), row.ratio.as_str(), row.met)).collect();
    assert_eq!(
        judged,
        [
            ("calls/s, 1 client", "0.90", Some(true)),
            ("calls/s, 100 clients", "0.85", Some(true)),
            ("calls/s, 1,000 clients", "0.60", Some(false)),
            ("calls/s, 5,000 clients, one called", "0.81", None),
            ("the same, of the rate with 1 client", "", Some(true)),
            ("p99 ms, 1 client", "1.11", Some(true)),
            ("p99 ms, 100 clients", "1.18", Some(true)),
            ("p99 ms, 1,000 clients", "1.67", Some(false)),
            ("CPU µs/call, 1 client", "1.00", None),
            ("CPU µs/call, 100 clients", "1.00", None),
            ("CPU µs/call, 1,000 clients", "1.00", None),
            ("kB per idle client, SSE", "0.93", Some(true)),
            ("kB per idle client, WebSocket", "", Some(false)),
            ("turns/s, 1 client", "", None),
            ("turns/s, 100 clients", "", None),
            ("CPU µs/turn, 1 client", "", None),
            ("the same, of the CPU of a call", "", Some(true)),
            ("CPU µs/turn, 100 clients", "", None),
            ("the same, of the CPU of a call", "", Some(false)),
            ("kB per waiting session", "", Some(true)),
        ]
    );
    let first = Row {
        what: "calls/s, 1 client".to_owned(),
        handback: "27,000".to_owned(),
        floor: "30,000".to_owned(),
        ratio: "0.90".to_owned(),
        goal: "≥ 0.85 × floor".to_owned(),
        met: Some(true),
    };
    assert_eq!(rows.first(), Some(&first));
    let turn = Row {
        what: "the same, of the CPU of a call".to_owned(),
        handback: "3.00".to_owned(),
        floor: "–".to_owned(),
        ratio: String::new(),
        goal: "≤ 3.00".to_owned(),
        met: Some(true),
    };
    assert_eq!(rows.get(16), Some(&turn));
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
    assert_eq!(lines[1], "calls/s, 1 client                      27,000  30,000   0.90  ≥ 0.85 × floor  met");
    assert_eq!(lines[5], "the same, of the rate with 1 client      0.90    1.00         ≥ 0.90          met");
    Ok(())
}

#[test]
fn a_comparison_without_a_run_is_an_error() {
    assert!(Comparison::new(1, 1).rows().is_err());
}

#[test]
fn the_median_is_in_the_middle() -> anyhow::Result<()> {
    assert_eq!(median([3.0, 1.0, 2.0].into_iter())?, 2.0);
    assert_eq!(median([4.0, 1.0, 2.0, 3.0].into_iter())?, 2.5);
    assert!(median(std::iter::empty()).is_err());
    Ok(())
}

#[test]
fn the_grid_has_round_numbers() {
    assert_eq!([34_000.0, 2.1, 0.9, 5.0].map(chart::step), [10_000.0, 0.5, 0.2, 1.0]);
}

#[test]
fn the_chart_draws_every_point() -> anyhow::Result<()> {
    let svg = chart::draw(&comparison())?;
    let points = svg.matches("<title>").count();
    assert_eq!(points, 2 * 2 * 4, "two panels, two servers, four points");
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
    Ok(())
}

#[test]
fn the_page_has_every_row_and_every_scenario_with_calls() -> anyhow::Result<()> {
    let comparison = comparison();
    let page = page::markdown(&comparison.rows()?, &comparison, &Machine::describe())?;
    for line in [
        "| CPU µs/turn, 100 clients | 90.1 | – |  |  |  |",
        "| the same, of the CPU of a call | 3.00 | – |  | ≤ 3.00 | short |",
        "| kB per waiting session | 32.0 | – |  | ≤ 32 | met |",
        "| turns, 1 client | Handback | 9,000 | 9,000 – 9,000 | 1.00 | 11.11 | 90.0 | 20.0 |",
    ] {
        assert!(page.lines().any(|found| found == line), "{line} is not in:\n{page}");
    }
    Ok(())
}
