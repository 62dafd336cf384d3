//! The npm package `handback` does what the binary does.

use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::time::Instant;

use super::Machine;
use crate::processes::{Process, serve, start};
use crate::terminal::{PATIENCE, Terminal};
use crate::{Ran, handback};

const LAUNCHER: &str = "node_modules/.bin/handback";
const SERVE: [&str; 6] = ["serve", "--listen", "127.0.0.1:0", "--ephemeral", "--log", "off"];

/// What a command does with this input.
fn run(mut command: Command, input: &str) -> Ran {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let [stdout, stderr] = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    Ran { code: output.status.code(), stdout, stderr }
}

/// The process of the binary that a launcher has started.
fn binary_of(launcher: &Process) -> Pid {
    only_child(Pid::from_child(&launcher.0))
}

fn only_child(process: Pid) -> Pid {
    let id = process.as_raw_nonzero();
    let children = std::fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap();
    Pid::from_raw(children.trim().parse().unwrap()).unwrap()
}

/// The launcher, which is this process or was started by way of it.
fn launcher_of(process: Pid) -> Pid {
    let child = only_child(process);
    let program = std::fs::read_link(format!("/proc/{}/exe", child.as_raw_nonzero())).unwrap();
    if program.ends_with("handback") { process } else { launcher_of(child) }
}

fn is_there(process: Pid) -> bool {
    // A process that has ended and that nobody has asked about yet has no command line any more.
    std::fs::read(format!("/proc/{}/cmdline", process.as_raw_nonzero())).is_ok_and(|line| !line.is_empty())
}

/// One test, because installing takes longer than all of it.
#[test]
#[ignore = "`make packages` runs it"]
fn the_launcher_does_what_the_binary_does_and_says_what_to_do_where_there_is_none() {
    let machine = Machine::new("launcher");
    machine.install_from_npm();
    arguments_streams_and_the_exit_code_are_those_of_the_binary(&machine);
    signals_reach_the_binary(&machine);
    one_ctrl_c_is_one_signal(&machine);
    a_machine_without_a_package_is_told_what_to_do(&machine);
}

fn arguments_streams_and_the_exit_code_are_those_of_the_binary(machine: &Machine) {
    let (_server, url) = serve("127.0.0.1:0");
    let both = |arguments: &[&str], input: &str| {
        let ran = [LAUNCHER, env!("CARGO_BIN_EXE_handback")].map(|program| {
            let mut command = machine.command(program);
            command.args(arguments);
            run(command, input)
        });
        assert_eq!(ran[0], ran[1], "{arguments:?}");
        ran[0].code
    };
    assert_eq!(both(&["--version"], ""), Some(0));
    assert_eq!(both(&["no such command", "", "*", "a\"b'c"], ""), Some(2));
    assert_eq!(both(&["call", "no_such_tool", "{}", "--url", &url], ""), Some(1));
    assert_eq!(both(&["chat", "--url", &url], "hello\n"), Some(0));
}

fn signals_reach_the_binary(machine: &Machine) {
    // In a terminal, SIGINT would be left to it.
    for signal in [Signal::TERM, Signal::INT] {
        let mut command = machine.command("setsid");
        command.arg(LAUNCHER).args(SERVE).stdin(Stdio::null()).stderr(Stdio::null());
        let (mut launcher, _) = start(command);
        let binary = binary_of(&launcher);
        launcher.signal(signal);
        assert_eq!(launcher.end().code(), Some(0), "{signal:?}");
        assert!(!is_there(binary), "{signal:?}");
    }
    let mut command = machine.command(LAUNCHER);
    command.args(SERVE).stdin(Stdio::null()).stderr(Stdio::null());
    let (mut launcher, _) = start(command);
    kill_process(binary_of(&launcher), Signal::KILL).unwrap();
    assert_eq!(launcher.end().signal(), Some(9), "the launcher ends as the binary does");
}

/// Runs what follows it, in a terminal but with its standard streams elsewhere, and shows at the end what it wrote.
const ELSEWHERE: &str = "trap : INT; \"$@\" </dev/null >written 2>&1; code=$?; cat written; exit $code";

/// A terminal sends Ctrl-C to all that run in it. A second signal means "at once", so the launcher must not add one.
fn one_ctrl_c_is_one_signal(machine: &Machine) {
    let (_server, url) = serve("127.0.0.1:0");
    let mut codes = Vec::new();
    for program in [&["npx", "handback"][..], &[LAUNCHER], &["sh", "-c", ELSEWHERE, "sh", LAUNCHER]] {
        let [started, stopping, may_end] = ["started", "stopping", "may-end"]
            .map(|file| machine.folder.join(format!("{}-{file}", codes.len())).to_str().unwrap().to_owned());
        // The shell says that its `sleep` was terminated, and attach has closed its standard error by then.
        let script = format!(
            "exec 2>&-; trap 'touch {stopping}' TERM; touch {started}; until test -e {may_end}; do sleep 0.02; done"
        );
        let mut command = machine.command("setsid");
        command
            .arg("--ctty")
            .args(program)
            .args(["attach", "--client", "laptop", "--url", &url, "--tool", "stay", "--", "sh", "-c", &script]);
        let mut terminal = Terminal::run(command);
        wait_until("the tool is there", || handback(&["tools", "--url", &url]).stdout.contains("stay"));
        assert_eq!(handback(&["call", "stay", "--no-wait", "--url", &url]).code, Some(0));
        wait_until("the call has begun", || Path::new(&started).exists());
        // The launcher is late, because two signals that come at once are one.
        let launcher = launcher_of(Pid::from_child(&terminal.process.0));
        kill_process(launcher, Signal::STOP).unwrap();
        terminal.type_in("\x03");
        wait_until("the call is stopped", || Path::new(&stopping).exists());
        kill_process(launcher, Signal::CONT).unwrap();
        // A second signal would come while this runs.
        assert_eq!(handback(&["clients", "--url", &url]).code, Some(0));
        std::fs::write(may_end, "").unwrap();
        let (shown, code) = terminal.wait_for_end();
        assert!(shown.contains("connected to ") && !shown.contains("stopped at once"), "{program:?}: {shown}");
        codes.push(code);
    }
    // How npx ends is its own affair.
    assert_eq!(codes[1..], [Some(0), Some(0)]);
}

fn wait_until(what: &str, condition: impl Fn() -> bool) {
    let began = Instant::now();
    while !condition() {
        assert!(began.elapsed() < PATIENCE, "it did not come true in time: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn a_machine_without_a_package_is_told_what_to_do(machine: &Machine) {
    std::fs::remove_dir_all(machine.folder.join("node_modules/@handback")).unwrap();
    let ran = run(machine.command(LAUNCHER), "");
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), ""));
    assert!(ran.stderr.contains("the package @handback/linux-") && ran.stderr.contains("Install"), "{}", ran.stderr);
    // As on a machine that no package is for.
    let description = machine.folder.join("node_modules/handback/package.json");
    let text = std::fs::read_to_string(&description).unwrap().replace("@handback/linux-", "@handback/plan9-");
    std::fs::write(description, text).unwrap();
    let ran = run(machine.command(LAUNCHER), "");
    assert!(ran.stderr.contains("packages for plan9-") && ran.stderr.contains("cargo install"), "{}", ran.stderr);
}
