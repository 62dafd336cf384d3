//! The load generator against a server: its figures are others each time, so it is what they are of that is compared.

use serde_json::{Value, json};

use crate::processes::{Process, start};
use crate::{command, handback};

/// A server in memory that lets models make so many calls of a client in a minute.
fn serve(calls_per_minute: &str) -> (Process, String) {
    let mut serve = command(&["serve", "--listen", "127.0.0.1:0", "--log", "off", "--ephemeral"]);
    serve.env("HANDBACK_LIMITS_CALLS_PER_MINUTE", calls_per_minute);
    start(serve)
}

fn keys(value: &Value) -> Vec<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

#[test]
fn turns_are_run_and_counted_as_calls_are() {
    let (_server, url) = serve("0");
    let arguments = ["bench", "--url", &url, "--clients", "3", "--concurrency", "4", "--warmup", "0", "--turns"];
    let report = |duration| -> Value {
        let ran = handback(&[&arguments[..], &["--json", "--duration", duration]].concat());
        assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
        serde_json::from_str(&ran.stdout).unwrap()
    };
    // More turns than each worker's first session has.
    let is_enough = |report: &Value| report["load"]["turns"].as_u64().unwrap() > 80;
    let report = ["1", "4", "16"].into_iter().map(report).find(is_enough).expect("some turns a second");
    assert_eq!([&report["errors"], &report["load"]["active"]], [&json!({}), &json!(3)]);
    let mut expected = vec!["active", "concurrency", "seconds", "turns", "turnsPerSecond", "latencyMs"];
    if cfg!(target_os = "linux") {
        expected.extend(["serverCpuUsPerTurn", "generatorCpuUsPerTurn", "generatorCores"]);
    }
    expected.sort_unstable();
    assert_eq!(keys(&report["load"]), expected);

    let ran = handback(&[&arguments[..], &["--duration", "1"]].concat());
    assert_eq!(ran.code, Some(0));
    let lines: Vec<&str> = ran.stdout.lines().collect();
    assert_eq!(lines[0], "3 clients over SSE, 3 called, 4 turns at a time");
    assert!(lines[2].starts_with("  turns/s     ") && lines[2].contains(" turns in "), "{}", ran.stdout);
}

#[test]
fn sessions_wait_and_their_memory_is_told() {
    for transport in [&["--json"][..], &["--json", "--websocket"]] {
        let (_server, url) = serve("0");
        let ran = handback(&[&["bench", "--url", &url, "--waiting", "120"][..], transport].concat());
        assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
        let report: Value = serde_json::from_str(&ran.stdout).unwrap();
        let waiting = &report["waiting"];
        assert_eq!(
            [&report["errors"], &waiting["sessions"], &waiting["waiting"]],
            [&json!({}), &json!(120), &json!(120)]
        );
        if cfg!(target_os = "linux") {
            let memory = &waiting["memory"];
            let [before, then] = ["before", "waiting"].map(|moment| memory[moment].as_f64().unwrap());
            assert!(then > before, "{report}");
            let each = memory["perSession"].as_f64().unwrap();
            assert!((each * 120.0 - (then - before)).abs() < 1.0, "{report}");
        }
    }
}

#[test]
fn events_are_read_meanwhile() {
    let (_server, url) = serve("0");
    let arguments = ["bench", "--url", &url, "--clients", "2", "--concurrency", "2", "--duration", "1", "--turns"];
    // The bytes of a reader for each turn: who reads everything is told of each turn in more than one event, who reads another
    // session is told nothing after the first event.
    for (reading, bytes) in [("everything", 1_000.0..f64::INFINITY), ("others", 0.0..10.0)] {
        let ran = handback(&[&arguments[..], &["--json", "--readers", "3", "--reading", reading]].concat());
        assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
        let report: Value = serde_json::from_str(&ran.stdout).unwrap();
        let readers = &report["readers"];
        let expected = [&json!({}), &json!(3), &json!(reading)];
        assert_eq!([&report["errors"], &readers["count"], &readers["reading"]], expected);
        let turns = report["load"]["turns"].as_f64().unwrap();
        assert!(bytes.contains(&(readers["bytes"].as_f64().unwrap() / 3.0 / turns)), "{report}");
    }
    let ran = handback(&[&arguments[..], &["--readers", "1"]].concat());
    let lines: Vec<&str> = ran.stdout.lines().collect();
    assert_eq!(lines[0], "2 clients over SSE, 2 called, 2 turns at a time, 1 reader of everything");
    assert!(lines.iter().any(|line| line.starts_with("  readers     got ")), "{}", ran.stdout);
}

#[test]
fn readers_and_growing_sessions_are_options_of_their_own() {
    let cases: [(&[&str], &str); 4] = [
        (&["--turns", "--reading", "others"], "--readers <N>"),
        (&["--idle", "--readers", "3"], "'--idle' cannot be used with '--readers <N>'"),
        (&["--turns", "--readers", "3", "--reading", "nothing"], "[possible values: everything, others]"),
        (&["--growing", "89"], "89 is not in 90..=100000"),
    ];
    for (arguments, expected) in cases {
        let ran = handback(&[&["bench"], arguments].concat());
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""), "{arguments:?}: {}", ran.stderr);
        assert!(ran.stderr.contains(expected), "{arguments:?}: {}", ran.stderr);
    }
}

#[test]
fn sessions_grow_and_their_early_and_late_turns_are_compared() {
    let (_server, url) = serve("0");
    let arguments = ["bench", "--url", &url, "--clients", "1", "--concurrency", "2", "--growing", "90"];
    let ran = handback(&[&arguments[..], &["--json"]].concat());
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
    let report: Value = serde_json::from_str(&ran.stdout).unwrap();
    let growing = &report["growing"];
    assert_eq!([&report["errors"], &growing["sessions"]], [&json!({}), &json!(2)]);
    assert_eq!([&growing["early"]["turns"], &growing["late"]["turns"]], [&json!([11, 50]), &json!([51, 90])]);
    let mut expected = vec!["latencyMs", "turns"];
    if cfg!(target_os = "linux") {
        expected.insert(1, "serverCpuUsPerTurn");
    }
    assert_eq!(keys(&growing["late"]), expected);
    // All of them were turns of two sessions.
    let ran = handback(&["sessions", "--url", &url]);
    assert_eq!(ran.stdout.matches("ses_").count(), 2, "{}", ran.stdout);
}

#[test]
fn a_limit_that_is_in_the_way_is_named_with_what_to_do() {
    let (_server, url) = serve("7");
    let ran = handback(&["bench", "--url", &url, "--waiting", "9"]);
    let limit =
        "turn: the server refuses calls beyond limits.callsPerMinute; start it with HANDBACK_LIMITS_CALLS_PER_MINUTE=0";
    let stderr = format!("error: only 7 of 9 sessions wait: {limit} (2×)\n");
    assert_eq!((ran.code, ran.stderr), (Some(1), stderr));
    let line = format!("  error       {limit}: 2");
    assert!(ran.stdout.lines().any(|found| found == line), "{}", ran.stdout);

    let ran = handback(&["bench", "--url", &url, "--turns", "--clients", "1", "--warmup", "0", "--duration", "1"]);
    assert_eq!(ran.code, Some(0), "seven of them succeed: {}", ran.stderr);
    assert!(ran.stdout.contains(limit), "{}", ran.stdout);

    let ran = handback(&["bench", "--url", &url, "--growing", "90", "--clients", "1", "--concurrency", "1"]);
    let limit = limit.trim_start_matches("turn: ");
    assert_eq!((ran.code, ran.stderr), (Some(1), format!("error: turn 8 of a session failed: {limit}\n")));
}
