use std::net::TcpListener;

use crate::{command, handback, run};

/// The commands that a command has.
fn commands(path: &[&str]) -> Vec<String> {
    let help = handback(&[path, &["--help"]].concat());
    assert_eq!((help.code, help.stderr.as_str()), (Some(0), ""));
    let listed = help.stdout.split_once("\nCommands:\n").map(|(_, listed)| listed).unwrap_or_default();
    let lines = listed.lines().take_while(|line| !line.is_empty());
    let names = lines.filter_map(|line| line.split(' ').find(|word| !word.is_empty()));
    names.filter(|name| *name != "help").map(str::to_owned).collect()
}

#[test]
fn every_command_has_an_example_and_a_row_in_the_readme() {
    let root = commands(&[]);
    assert!(root.len() > 16, "{root:?}");
    for name in root {
        let inner = commands(&[&name]);
        for path in inner.iter().map(|inner| format!("{name} {inner}")).chain([name.clone()]) {
            let help = handback(&[path.split(' ').collect(), vec!["--help"]].concat());
            assert!(help.stdout.contains("Example"), "{}", help.stdout);
            assert!(include_str!("../../README.md").contains(&format!("`{path}`")), "{path} is not in the README");
        }
    }
}

#[test]
fn help_does_not_show_the_token_of_the_environment() {
    let mut help = command(&["clients", "--help"]);
    help.env("HANDBACK_TOKEN", "very-secret").env("HANDBACK_URL", "http://secret-host");
    let help = run(help);
    assert!(help.stdout.contains("HANDBACK_TOKEN"), "{}", help.stdout);
    assert!(!help.stdout.contains("secret"), "{}", help.stdout);
}

#[test]
fn completions_are_printed_for_each_shell() {
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let script = handback(&["completions", shell]);
        assert_eq!(script.code, Some(0));
        assert!(script.stdout.contains("attach"), "{shell}");
    }
    assert_eq!(handback(&["completions", "cobol"]).code, Some(2));
}

#[test]
fn bad_usage_is_exit_code_2_and_says_what_is_wrong() {
    let cases: [(&[&str], &str); 26] = [
        (&["no-such-command"], "unrecognized subcommand"),
        (&["call"], "<TOOL>"),
        (&["call", "tool", "[]"], "must be a JSON object"),
        (&["call", "tool", "{\"a\":}"], "the input is not JSON"),
        (&["call", "tool", "--timeout", "0"], "0 is not in 1.."),
        (&["attach", "--client", "a", "--tool", "b"], "<COMMAND>"),
        (&["attach", "--client", "a", "--tool", "b", "--schema", "{", "--", "true"], "the schema is not JSON"),
        (&["attach", "--client", "a", "--tool", "b", "--effect", "none", "--", "true"], "idempotent"),
        (&["calls", "--state", "lost"], "awaiting_approval"),
        (&["calls", "id", "--watch"], "cannot be used with"),
        (&["events", "--follow", "--type", "nonsense"], "client-tool.failed"),
        (&["chat", "--attach", "nonsense", "hello"], "it must be NAME=COMMAND"),
        (&["chat", "--model", "nonsense", "hello"], "it must be PROVIDER/MODEL"),
        (&["chat", "--session", "a", "--continue", "hello"], "'--session <ID>' cannot be used with '--continue'"),
        (&["chat"], "there is nothing to say"),
        (
            &["chat", "--agui", "http://a", "--session", "s", "hello"],
            "'--agui <URL>' cannot be used with '--session <ID>'",
        ),
        (&["chat", "--agui", "http://a", "--model", "a/b", "hello"], "cannot be used with '--model <PROVIDER/MODEL>'"),
        (&["chat", "--also", "hello", "hello"], "--agui <URL>"),
        (&["chat", "--agui", "http://a", "hello", "--also", " "], "there is nothing to say"),
        (&["chat", "--agui", "nonsense", "hello"], "\"nonsense\" is not the URL of an AG-UI server"),
        (&["chat", "--agui", "http://a", "--forward", "nonsense", "hello"], "it must be NAME=VALUE"),
        (&["sessions", "--limit", "0"], "0 is not in 1..=1000"),
        (&["clients", "--url", "nonsense"], "\"nonsense\" is not the URL of a server"),
        (&["serve", "--listen", "nonsense"], "listen"),
        (&["serve", "--data", "db", "--ephemeral"], "'--data <DIR>' cannot be used with '--ephemeral'"),
        (&["--ephemeral", "--data", "db"], "'--ephemeral' cannot be used with '--data <DIR>'"),
    ];
    for (arguments, expected) in cases {
        let ran = handback(arguments);
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""), "{arguments:?}: {}", ran.stderr);
        assert!(ran.stderr.contains(expected), "{arguments:?}: {}", ran.stderr);
    }
}

#[test]
fn a_server_that_is_not_there_is_exit_code_1_and_says_what_to_do() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let commands: [&[&str]; 15] = [
        &["clients"],
        &["tools"],
        &["call", "tool"],
        &["call", "client_a_tool"],
        &["calls"],
        &["cancel", "id"],
        &["sessions"],
        &["sessions", "show", "ses_1", "--follow"],
        &["approvals"],
        &["approve", "per_1"],
        &["deny", "per_1"],
        &["events", "--follow"],
        &["chat", "hello"],
        &["chat", "--session", "ses_1", "hello"],
        &["chat", "--attach", "today=date", "hello"],
    ];
    for arguments in commands {
        let ran = handback(&[arguments, &["--url", &url]].concat());
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), ""), "{arguments:?}");
        assert!(
            ran.stderr.starts_with(&format!("error: no Handback server can be reached at {url}: ")),
            "{}",
            ran.stderr
        );
        assert!(ran.stderr.contains("start it with `handback serve`, or set --url"), "{}", ran.stderr);
    }
}

#[test]
fn config_shows_each_value_and_where_it_came_from() {
    let mut config = command(&["config", "--listen", "127.0.0.1:1234", "--json"]);
    config.env("HANDBACK_LOG", "debug");
    let ran = run(config);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let rows: Vec<serde_json::Value> = serde_json::from_str(&ran.stdout).unwrap();
    let row = |key: &str| rows.iter().find(|row| row["key"] == key).unwrap().clone();
    assert_eq!(
        row("listen"),
        serde_json::json!({"key": "listen", "value": "127.0.0.1:1234", "source": "flag --listen"})
    );
    assert_eq!(row("log"), serde_json::json!({"key": "log", "value": "debug", "source": "environment HANDBACK_LOG"}));
    assert_eq!(row("logFormat")["source"], "default");
}

#[test]
fn where_data_is_kept_can_be_said_by_a_flag() {
    let kept = |arguments: &[&str]| {
        let mut config = command(&[&["config", "--json"], arguments].concat());
        config.env("HANDBACK_EPHEMERAL", "true");
        let ran = run(config);
        assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
        let rows: Vec<serde_json::Value> = serde_json::from_str(&ran.stdout).unwrap();
        rows.into_iter().filter(|row| row["key"] == "data" || row["key"] == "ephemeral").collect::<Vec<_>>()
    };
    let row = |key: &str, value: &str, source: &str| serde_json::json!({"key": key, "value": value, "source": source});
    let expected = [row("data", "", "default"), row("ephemeral", "true", "environment HANDBACK_EPHEMERAL")];
    assert_eq!(kept(&[]), expected);
    assert_eq!(kept(&["--ephemeral"]), [row("data", "", "default"), row("ephemeral", "true", "flag --ephemeral")]);
    // Who names a directory wants it used.
    let expected = [row("data", "/some/where", "flag --data"), row("ephemeral", "false", "flag --data")];
    assert_eq!(kept(&["--data", "/some/where"]), expected);
}
