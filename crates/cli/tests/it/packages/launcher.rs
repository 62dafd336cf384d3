//! The npm package `handback` does what the binary does.

use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use super::Machine;
use crate::processes::{Process, serve, start};
use crate::terminal::Terminal;
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
    let id = launcher.0.id();
    let children = std::fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap();
    Pid::from_raw(children.trim().parse().unwrap()).unwrap()
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
    for signal in [Signal::TERM, Signal::INT] {
        let mut command = machine.command(LAUNCHER);
        command.args(SERVE).stdin(Stdio::null()).stderr(Stdio::null());
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

/// A terminal sends Ctrl-C to all that run in it. A second signal means "at once", so the launcher must not add one.
fn one_ctrl_c_is_one_signal(machine: &Machine) {
    let (_server, url) = serve("127.0.0.1:0");
    let mut codes = Vec::new();
    for program in [&["npx", "handback"][..], &[LAUNCHER]] {
        let may_end = machine.folder.join(format!("{}-may-end", codes.len()));
        let script = format!("trap '' INT TERM; until test -e {}; do sleep 0.02; done", may_end.display());
        let mut command = machine.command("setsid");
        command
            .arg("--ctty")
            .args(program)
            .args(["attach", "--client", "laptop", "--url", &url, "--tool", "stay", "--", "sh", "-c", &script]);
        let mut terminal = Terminal::run(command);
        terminal.wait_for("connected to ");
        assert_eq!(handback(&["call", "stay", "--no-wait", "--url", &url]).code, Some(0));
        terminal.wait_for("call ");
        terminal.type_in("\x03");
        terminal.wait_for("stopping; once more to stop at once");
        // A second signal would come while this runs.
        assert_eq!(handback(&["clients", "--url", &url]).code, Some(0));
        std::fs::write(may_end, "").unwrap();
        let (shown, code) = terminal.wait_for_end();
        assert!(!shown.contains("stopped at once"), "{program:?}: {shown}");
        codes.push(code);
    }
    // How npx ends is its own affair.
    assert_eq!(codes[1], Some(0));
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
