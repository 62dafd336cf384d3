//! The server, a client and a caller as three processes.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};

use rustix::process::{Pid, Signal, kill_process};

use crate::terminal::PATIENCE;
use crate::{Ran, command, handback};

/// A process that is killed when the test ends.
pub(crate) struct Process(pub(crate) Child);

impl Process {
    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.0), signal).unwrap();
    }

    pub(crate) fn end(&mut self) -> ExitStatus {
        self.0.wait().unwrap()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

/// The lines that a process writes until it ends. A test fails if the next one does not come in time.
pub(crate) struct Lines(Receiver<String>);

impl Lines {
    pub(crate) fn of(stream: impl Read + Send + 'static) -> Self {
        let (sender, receiver) = channel();
        std::thread::spawn(move || {
            // It reads on when nobody looks any more, so that the process is not held up.
            BufReader::new(stream).lines().map_while(Result::ok).for_each(|line| _ = sender.send(line).ok());
        });
        Self(receiver)
    }
}

impl Iterator for Lines {
    type Item = String;

    fn next(&mut self) -> Option<String> {
        match self.0.recv_timeout(PATIENCE) {
            Ok(line) => Some(line),
            Err(RecvTimeoutError::Disconnected) => None,
            Err(RecvTimeoutError::Timeout) => panic!("no line was written within {PATIENCE:?}"),
        }
    }
}

pub(crate) fn serve(listen: &str) -> (Process, String) {
    serve_with(&["serve", "--listen", listen, "--log", "off", "--ephemeral"])
}

pub(crate) fn serve_with(arguments: &[&str]) -> (Process, String) {
    start(command(arguments))
}

/// Starts a server; gives the address that it listens on.
pub(crate) fn start(mut command: Command) -> (Process, String) {
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let url = line.trim().strip_prefix("handback listening on ").unwrap().to_owned();
    (Process(child), url)
}

pub(crate) fn attach(url: &str, arguments: &[&str]) -> (Process, Lines) {
    let arguments = [&["attach", "--client", "laptop", "--url", url][..], arguments].concat();
    let mut child = command(&arguments).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = Lines::of(child.stderr.take().unwrap());
    wait_for(&mut lines, "connected to ");
    (Process(child), lines)
}

pub(crate) fn wait_for(lines: &mut Lines, start: &str) {
    assert!(lines.any(|line| line.starts_with(start)), "no line starts with {start}");
}

#[test]
fn a_command_is_called_through_the_server_until_its_client_stops() {
    let (mut server, url) = serve("127.0.0.1:0");
    let (mut client, _lines) = attach(&url, &["--tool", "shout", "--", "tr", "a-z", "A-Z"]);
    let called = handback(&["call", "shout", "{\"text\":\"hello\"}", "--url", &url]);
    assert_eq!(called, Ran { code: Some(0), stdout: "{\"TEXT\":\"HELLO\"}\n".to_owned(), stderr: String::new() });
    client.signal(Signal::INT);
    assert_eq!(client.end().code(), Some(0));
    assert_eq!(handback(&["tools", "--url", &url]).stderr, "no tools\n");
    server.signal(Signal::TERM);
    assert_eq!(server.end().code(), Some(0));
}

#[test]
fn a_client_comes_back_to_a_server_that_was_restarted() {
    let (mut server, url) = serve("127.0.0.1:0");
    let (_client, mut lines) = attach(&url, &["--tool", "echo", "--", "cat"]);
    server.signal(Signal::TERM);
    server.end();
    wait_for(&mut lines, "the connection to ");
    let (_server, again) = serve(url.strip_prefix("http://").unwrap());
    assert_eq!(again, url);
    wait_for(&mut lines, "connected to ");
    assert_eq!(handback(&["call", "echo", "--url", &url]).stdout, "{}\n");
}

#[test]
fn a_second_signal_stops_a_client_and_its_commands_at_once() {
    let (_server, url) = serve("127.0.0.1:0");
    // A command that does not heed SIGTERM.
    let script = "trap '' TERM; while :; do sleep 1; done";
    let (mut client, mut lines) = attach(&url, &["--tool", "stay", "--", "sh", "-c", script]);
    assert_eq!(handback(&["call", "stay", "--no-wait", "--url", &url]).code, Some(0));
    wait_for(&mut lines, "call ");
    client.signal(Signal::INT);
    client.signal(Signal::TERM);
    assert_eq!(client.end().code(), Some(130));
}

#[test]
fn without_a_command_the_options_are_those_of_serve() {
    let (mut server, url) = serve_with(&["--listen", "127.0.0.1:0", "--log", "off", "--ephemeral", "--workers", "1"]);
    assert_eq!(handback(&["clients", "--url", &url]).code, Some(0));
    server.signal(Signal::TERM);
    assert_eq!(server.end().code(), Some(0));
}

#[test]
fn a_second_server_keeps_nothing_where_nobody_said_where_and_is_refused_a_place_that_is_taken() {
    let data = std::env::temp_dir().join(format!("handback-two-servers-{}", std::process::id()));
    let serve = |arguments: &[&str]| {
        let mut command = command(&[&["serve", "--listen", "127.0.0.1:0"], arguments].concat());
        command.env("XDG_DATA_HOME", &data).stderr(Stdio::piped());
        command
    };
    let (_first, _) = start(serve(&[]));
    let (mut second, url) = start(serve(&[]));
    assert!(url.starts_with("http://127.0.0.1:"), "{url}");
    let mut warning = String::new();
    BufReader::new(second.0.stderr.take().unwrap()).read_line(&mut warning).unwrap();
    assert!(warning.contains("is in use by another server") && warning.contains("--data"), "{warning}");
    let taken = data.join("handback");
    let refused = serve(&["--data", taken.to_str().unwrap()]).output().unwrap();
    let complaint = String::from_utf8(refused.stderr).unwrap();
    assert!(!refused.status.success() && complaint.contains("is in use by another server"), "{complaint}");
    std::fs::remove_dir_all(data).unwrap();
}
