//! `handback doctor`, and `handback key`, whose key it shows.

use std::fs::{self, OpenOptions};
use std::io::{Seek, SeekFrom, Write};
use std::net::TcpListener;
use std::process::Command;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::processes::{Process, serve_with, start};
use crate::upkeep::Directory;
use crate::{Ran, command, handback, run};

/// What the doctor says, by the names of the checks: each with its health.
fn checks(ran: &Ran) -> Vec<(String, String)> {
    let report: Value = serde_json::from_str(&ran.stdout).unwrap();
    let word = |value: &Value| value.as_str().unwrap().to_owned();
    let checks = report["checks"].as_array().unwrap().iter();
    checks.map(|check| (word(&check["check"]), word(&check["health"]))).collect()
}

fn doctor(arguments: &[&str]) -> Ran {
    handback(&[&["doctor", "--json"], arguments].concat())
}

/// All checks with this health, in their order.
fn with(ran: &Ran, health: &str) -> Vec<String> {
    checks(ran).into_iter().filter(|(_, other)| other == health).map(|(check, _)| check).collect()
}

/// A server with a key that `handback key` made: its configuration is what that prints.
struct Keyed {
    directory: Directory,
    process: Process,
    url: String,
    key: String,
}

impl Keyed {
    fn start(name: &str) -> Self {
        let directory = Directory::new(name);
        fs::create_dir_all(directory.path()).unwrap();
        let made = handback(&["key"]).stdout;
        let (_, config) = made.split_once("    [auth]\n").unwrap();
        let config: Vec<&str> = config.lines().take_while(|line| !line.is_empty()).collect();
        fs::write(directory.join("handback.toml"), format!("[auth]\n{}\n", config.join("\n"))).unwrap();
        let key = made.lines().find_map(|line| line.trim().strip_prefix("Authorization: Bearer ")).unwrap();
        let (config, data) = (directory.join("handback.toml"), directory.join("data"));
        let (process, url) =
            serve_with(&["serve", "--listen", "127.0.0.1:0", "--log", "off", "--config", &config, "--data", &data]);
        Self { directory, process, url, key: key.to_owned() }
    }

    fn doctor(&self, arguments: &[&str]) -> Ran {
        let (config, data) = (self.directory.join("handback.toml"), self.directory.join("data"));
        doctor(&[&["--url", &self.url, "--config", &config, "--data", &data], arguments].concat())
    }
}

#[test]
fn a_server_that_is_well_passes_and_tells_the_application_more() {
    let server = Keyed::start("doctor-well");
    let token = handback(&["token", "--client", "laptop", "--config", &server.directory.join("handback.toml")]).stdout;
    let all = [
        "command",
        "configuration",
        "data",
        "database",
        "server",
        "ready",
        "key",
        "clock",
        "version",
        "uptime",
        "model",
        "counts",
        "limits",
        "open files",
    ];
    let ran = server.doctor(&["--token", &server.key]);
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{}", ran.stdout);
    let mentioned: Vec<String> = checks(&ran).into_iter().map(|(check, _)| check).collect();
    assert_eq!(mentioned, all);
    assert_eq!(with(&ran, "problem"), [""; 0]);
    assert!(!ran.stdout.contains(&server.key), "{}", ran.stdout);

    // Without a key, or with a client's token, less is seen, and that is no problem.
    for arguments in [&[][..], &["--token", token.trim()]] {
        let ran = server.doctor(arguments);
        assert_eq!((ran.code, with(&ran, "warning")), (Some(0), vec!["key".to_owned()]), "{}", ran.stdout);
    }
    let ran = server.doctor(&["--token", "wrong"]);
    assert_eq!((ran.code, with(&ran, "problem")), (Some(1), vec!["key".to_owned()]), "{}", ran.stdout);
    assert_eq!(ran.stderr, "error: there is a problem\n");

    // The text says the same, and what to do.
    let text = handback(&["doctor", "--url", &server.url, "--token", "wrong"]).stdout;
    assert!(text.contains("\nproblem  key            it is refused: "), "{text}");
    assert!(text.contains(" → set --token or HANDBACK_TOKEN to an application key"), "{text}");
}

#[test]
fn a_server_that_is_silent_or_gone_is_a_problem_and_is_not_waited_for() {
    let server = Keyed::start("doctor-silent");
    server.process.signal(Signal::STOP);
    let mut patient = Command::new("timeout");
    patient.args(["5", env!("CARGO_BIN_EXE_handback"), "doctor", "--json", "--url", &server.url]);
    let ran = run(patient);
    assert_eq!((ran.code, with(&ran, "problem")), (Some(1), vec!["server".to_owned()]), "{ran:?}");
    assert!(ran.stdout.contains("does not answer"), "{}", ran.stdout);

    let nobody = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = nobody.local_addr().unwrap().to_string();
    drop(nobody);
    // The address is that of the settings if no other is named.
    let ran = doctor(&["--listen", &address, "--ephemeral"]);
    assert_eq!((ran.code, with(&ran, "problem")), (Some(1), vec!["server".to_owned()]), "{ran:?}");
    assert!(ran.stdout.contains(&format!("http://{address}")) && ran.stdout.contains("`handback serve`"), "{ran:?}");
}

#[test]
fn whether_a_server_is_ready_is_asked_of_nobody_else() {
    let mut server = Keyed::start("doctor-ready");
    let ready = |url: &str, config: &str| {
        let mut ready = command(&["doctor", "--ready", "--json", "--url", url, "--config", config]);
        // Without --ready this is a problem.
        ready.env("OPENAI_BASE_URL", "https://api.openai.com/v1").env("HANDBACK_MODEL", "openai/gpt-5");
        run(ready)
    };
    let config = server.directory.join("handback.toml");
    let ran = ready(&server.url, &config);
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{}", ran.stdout);
    let all = ["server", "ready"].map(|check| (check.to_owned(), "ok".to_owned()));
    assert_eq!(checks(&ran), all);
    assert_eq!(ready(&server.url, "/none.toml").code, Some(0));
    server.process.signal(Signal::TERM);
    server.process.end();
    let ran = ready(&server.url, &config);
    assert_eq!((ran.code, with(&ran, "problem")), (Some(1), vec!["server".to_owned()]), "{ran:?}");
}

#[test]
fn a_server_that_is_named_is_asked_also_where_it_is_the_default() {
    for named in [&["--url", "http://127.0.0.1:4096"][..], &[]] {
        let mut doctor = command(&[&["doctor", "--json", "--listen", "127.0.0.1:9", "--ephemeral"], named].concat());
        if named.is_empty() {
            doctor.env("HANDBACK_URL", "http://127.0.0.1:4096");
        }
        let ran = run(doctor);
        assert!(ran.stdout.contains("http://127.0.0.1:4096"), "{ran:?}");
        assert!(!ran.stdout.contains("http://127.0.0.1:9"), "{ran:?}");
    }
}

#[test]
fn settings_and_data_that_cannot_be_used_are_problems() {
    let mut server = Keyed::start("doctor-broken");
    let said = handback(&["chat", "--url", &server.url, "--token", &server.key, "hello"]);
    assert_eq!(said.code, Some(0), "{said:?}");
    server.process.signal(Signal::TERM);
    server.process.end();
    let file = server.directory.join("data/handback.db");
    let text = fs::read(&file).unwrap().windows(13).position(|bytes| bytes == b"\"wants_reply\"").unwrap() as u64;
    let mut opened = OpenOptions::new().write(true).open(&file).unwrap();
    opened.seek(SeekFrom::Start(text / 4_096 * 4_096)).unwrap();
    opened.write_all(&[0xee; 4_096]).unwrap();
    let ran = server.doctor(&[]);
    assert_eq!(with(&ran, "problem"), ["database", "server"], "{}", ran.stdout);
    fs::write(&file, "not a database, but long enough to be read as one".repeat(100)).unwrap();
    assert!(server.doctor(&[]).stdout.contains("is not a database"));

    fs::write(server.directory.join("handback.toml"), "listne = 1\n").unwrap();
    let ran = server.doctor(&[]);
    assert_eq!(with(&ran, "problem"), ["configuration", "server"], "{}", ran.stdout);
    assert!(ran.stdout.contains("listne"), "{}", ran.stdout);

    let mut unkeyed = command(&["doctor", "--json", "--ephemeral"]);
    unkeyed.env("OPENAI_BASE_URL", "https://api.openai.com/v1").env("HANDBACK_MODEL", "openai/gpt-5");
    let ran = run(unkeyed);
    assert!(with(&ran, "problem").contains(&"model".to_owned()), "{ran:?}");
}

#[test]
fn a_key_is_made_anew_each_time_with_its_hash() {
    let made: Vec<Value> =
        (0..2).map(|_| serde_json::from_str(&handback(&["key", "--json"]).stdout).unwrap()).collect();
    for name in ["key", "hash", "tokenSecret"] {
        let values = [&made[0][name], &made[1][name]].map(|value| value.as_str().unwrap());
        assert_ne!(values[0], values[1]);
        assert!(values.iter().all(|value| value.len() == 64 && value.bytes().all(|byte| byte.is_ascii_hexdigit())));
    }
    let mut hashing = Command::new("sh");
    hashing.args(["-c", &format!("printf %s {} | sha256sum", made[0]["key"].as_str().unwrap())]);
    assert_eq!(json!(run(hashing).stdout.split(' ').next().unwrap()), made[0]["hash"]);
}

#[test]
fn the_lines_for_the_environment_are_settings_of_a_server() {
    let made = handback(&["key"]).stdout;
    let lines = made.lines().filter_map(|line| line.trim().strip_prefix("HANDBACK_AUTH_")?.split_once('='));
    let lines: Vec<_> = lines.map(|(name, value)| (format!("HANDBACK_AUTH_{name}"), value)).collect();
    assert_eq!(lines.len(), 2, "{made}");
    let mut serving = command(&["serve", "--listen", "127.0.0.1:0", "--log", "off", "--ephemeral"]);
    serving.envs(lines.clone());
    let (_server, url) = start(serving);
    let key = made.lines().find_map(|line| line.trim().strip_prefix("export HANDBACK_TOKEN=")).unwrap();
    let mut minting = command(&["token", "--client", "laptop"]);
    minting.envs(lines);
    let token = run(minting).stdout;
    let tools = |token: &str| handback(&["tools", "--url", &url, "--token", token]).code;
    assert_eq!([tools(key), tools(token.trim()), tools("wrong")], [Some(0), Some(0), Some(1)]);
}

#[test]
fn each_command_has_a_manual_page() {
    let directory = Directory::new("man");
    let pages = directory.join("man1");
    let ran = handback(&["man", &pages]);
    assert_eq!(ran, Ran { code: Some(0), stdout: String::new(), stderr: String::new() });
    let help = handback(&["--help"]).stdout;
    for name in ["", "-serve", "-sessions", "-sessions-show", "-doctor"] {
        let page = fs::read_to_string(format!("{pages}/handback{name}.1")).unwrap();
        assert!(page.contains(".SH NAME") && !page.contains("HANDBACK_TOKEN="), "{page}");
    }
    let count = fs::read_dir(&pages).unwrap().count();
    assert!(count > 20 && help.contains("man"), "{count} pages");
    let refused = handback(&["man", "/proc/none"]);
    assert_eq!((refused.code, refused.stderr.contains("/proc/none")), (Some(1), true), "{refused:?}");
}
