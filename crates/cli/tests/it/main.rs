//! The command line, as a shell sees it: output, errors, exit codes.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

#[cfg(unix)]
mod agui;
mod answers;
#[cfg(unix)]
mod bench;
#[cfg(unix)]
mod chaos;
#[cfg(unix)]
mod chat;
#[cfg(unix)]
mod doctor;
mod documentation;
#[cfg(unix)]
mod following;
#[cfg(unix)]
mod impostor;
#[cfg(unix)]
mod local;
mod markdown;
#[cfg(unix)]
mod metrics;
#[cfg(unix)]
mod packages;
mod page;
#[cfg(unix)]
mod postgres;
#[cfg(unix)]
mod processes;
mod readme;
#[cfg(unix)]
mod sessions;
#[cfg(unix)]
mod terminal;
#[cfg(unix)]
mod trail;
#[cfg(unix)]
mod upkeep;
mod usage;

use std::process::{Command, Output};

/// What a command printed, and its exit code.
#[derive(Debug, PartialEq)]
struct Ran {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

/// Runs `handback` with these arguments, away from the settings of whoever runs the tests.
fn handback(arguments: &[&str]) -> Ran {
    run(command(arguments))
}

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_handback"));
    command.args(arguments).current_dir(env!("CARGO_TARGET_TMPDIR")).stdin(std::process::Stdio::null());
    for (name, _) in std::env::vars_os() {
        if ["HANDBACK_", "OPENAI_", "ANTHROPIC_"].iter().any(|start| name.to_string_lossy().starts_with(start)) {
            command.env_remove(name);
        }
    }
    for directory in ["XDG_CONFIG_HOME", "XDG_DATA_HOME"] {
        command.env(directory, env!("CARGO_TARGET_TMPDIR"));
    }
    command
}

fn run(mut command: Command) -> Ran {
    let Output { status, stdout, stderr } = command.output().unwrap();
    let [stdout, stderr] = [stdout, stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    Ran { code: status.code(), stdout, stderr }
}
