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
}
