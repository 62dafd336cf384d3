//! `handback chat` against a real server with the built-in model.

use std::fs::{File, OpenOptions};
use std::io::{BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};

use rustix::process::Signal;

use crate::processes::{Process, serve_with};
use crate::terminal::{PATIENCE, Terminal};
use crate::{Ran, command, run};

pub(crate) fn serve() -> (Process, String) {
    crate::processes::serve("127.0.0.1:0")
}

/// A server whose calls all have to be allowed.
pub(crate) fn serve_asking(test: &str) -> (Process, String) {
    let path = temporary(&format!("{test}.toml"));
    std::fs::write(&path, "[agents.default.permission]\nclient_tools = \"ask\"\n").unwrap();
    let config = path.to_str().unwrap();
    let serving = serve_with(&["serve", "--listen", "127.0.0.1:0", "--log", "off", "--ephemeral", "--config", config]);
    std::fs::remove_file(path).unwrap();
    serving
}

/// A path that no other test uses.
pub(crate) fn temporary(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("chat-{}-{name}", std::process::id()))
}

/// A pipe with a name: who reads it waits for who writes it.
pub(crate) fn pipe(name: &str) -> PathBuf {
    let path = temporary(name);
    assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
    path
}

/// Waits until a command writes to the pipe.
pub(crate) fn wait_for_line(pipe: &Path) {
    let (sender, receiver) = channel();
    let pipe = pipe.to_owned();
    std::thread::spawn(move || sender.send(std::fs::read_to_string(pipe)));
    assert_eq!(receiver.recv_timeout(PATIENCE).unwrap().unwrap(), "yes\n");
}

/// A command that says that it runs and then waits: its gates, and how it is attached.
pub(crate) struct Gated {
    pub(crate) runs: PathBuf,
    gate: PathBuf,
    /// The end that the test holds: while it is open, what was written is there for whoever comes to read it.
    held: File,
    pub(crate) attached: String,
}

impl Gated {
    pub(crate) fn new(test: &str, tool: &str, last: &str) -> Self {
        let [runs, gate] = ["runs", "gate"].map(|name| pipe(&format!("{test}-{tool}-{name}")));
        let attached = format!("{tool}=echo yes > {}; read line < {}; {last}", runs.display(), gate.display());
        // Opened for both, it does not wait for the other end.
        let held = OpenOptions::new().read(true).write(true).open(&gate).unwrap();
        Self { runs, gate, held, attached }
    }

    /// Lets the command go on, once.
    pub(crate) fn let_go(&self) {
        (&self.held).write_all(b"yes\n").unwrap();
    }
}

impl Drop for Gated {
    fn drop(&mut self) {
        for path in [&self.runs, &self.gate] {
            std::fs::remove_file(path).ok();
        }
    }
}

pub(crate) fn chat_command(url: &str, arguments: &[&str]) -> Command {
    command(&[&["chat", "--url", url], arguments].concat())
}

fn chat(url: &str, arguments: &[&str]) -> Ran {
    without_numbers(run(chat_command(url, arguments)))
}

/// With `#` for the numbers that differ from run to run: how long calls took and what the turn cost.
pub(crate) fn without_numbers(ran: Ran) -> Ran {
    let mut stderr = String::new();
    for line in ran.stderr.lines() {
        let varies = line.contains('✓') || line.contains(" tokens in, ");
        let hidden = line.chars().map(|char| if varies && char.is_ascii_digit() { '#' } else { char });
        stderr.extend(hidden.chain(['\n']));
    }
    while stderr.contains("##") {
        stderr = stderr.replace("##", "#");
    }
    Ran { stderr, ..ran }
}

pub(crate) fn ran(code: i32, stdout: &str, stderr: &str) -> Ran {
    Ran { code: Some(code), stdout: stdout.to_owned(), stderr: stderr.to_owned() }
}

#[test]
fn a_question_is_answered_from_a_command_that_is_attached() {
    let (_server, url) = serve();
    let said = chat(&url, &["--attach", "shout=tr a-z A-Z", "call shout {\"text\":\"hello\"}"]);
    let stderr = "⚙ shout {\"text\":\"hello\"} … ✓ #.# s\n  │ {\"TEXT\":\"HELLO\"}\n# tokens in, # out\n";
    assert_eq!(said, ran(0, "The tool `shout` answered: {\"TEXT\":\"HELLO\"}\n", stderr));
    // Its tools have gone with it.
    assert_eq!(crate::handback(&["tools", "--url", &url]).stderr, "no tools\n");
}

#[test]
fn several_commands_are_called_at_once_and_fail_alone() {
    let (_server, url) = serve();
    let tools = ["--attach", "one=echo 1", "--attach", "two=echo broken >&2; exit 3"];
    let said = chat(&url, &[&tools[..], &["call one {}\ncall two {}"]].concat());
    assert_eq!(said.code, Some(0));
    assert!(said.stdout.contains('1') && said.stdout.contains("broken"), "{said:?}");
    assert!(said.stderr.contains("exit status: 3: broken"), "{said:?}");
}

#[test]
fn what_is_piped_in_is_said() {
    let (_server, url) = serve();
    let piped = |arguments: &[&str], input: &str| {
        let mut command = chat_command(&url, &[&["--attach", "echo=cat"], arguments].concat());
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        let ended = child.wait_with_output().unwrap();
        (ended.status.code(), String::from_utf8(ended.stdout).unwrap())
    };
    let answer = (Some(0), "The tool `echo` answered: {\"a\":1}\n".to_owned());
    assert_eq!(piped(&[], "call echo {\"a\":1}\n"), answer);
    assert_eq!(piped(&["Please", "do:", "-"], "call echo {\"a\":1}\n"), answer);
}

#[test]
fn a_call_that_asks_is_rejected_where_nobody_can_be_asked() {
    let (_server, url) = serve_asking("rejected");
    let tool = ["--attach", "today=printf Sunday"];
    let said = chat(&url, &[&tool[..], &["call today {}"]].concat());
    let stderr = "⚙ today {} …\ntoday needs to be allowed, and nobody can be asked here; --yes allows\n\
                  ✗ today This call needs to be allowed, and nobody could be asked\n# tokens in, # out\n";
    let stdout = "The tool `today` failed: This call needs to be allowed, and nobody could be asked\n";
    assert_eq!(said, ran(0, stdout, stderr));
    let said = chat(&url, &[&tool[..], &["--yes", "call today {}"]].concat());
    let stderr = "⚙ today {} … ✓ #.# s\n  │ Sunday\n# tokens in, # out\n";
    assert_eq!(said, ran(0, "The tool `today` answered: Sunday\n", stderr));
}

#[test]
fn a_turn_that_ends_with_an_error_is_exit_code_1() {
    let (_server, url) = serve();
    let failed = "error: there is no model \"none\" here, only \"scripted\"\n";
    assert_eq!(chat(&url, &["--model", "demo/none", "hello"]), ran(1, "", failed));
    let unknown = chat(&url, &["--model", "nobody/none", "hello"]);
    assert_eq!((unknown.code, unknown.stdout.as_str()), (Some(1), ""));
    assert!(unknown.stderr.starts_with("error: "), "{unknown:?}");
    let unknown = chat(&url, &["--session", "ses_none", "hello"]);
    assert_eq!((unknown.code, unknown.stdout.as_str()), (Some(1), ""));
    assert!(unknown.stderr.contains("ses_none"), "{unknown:?}");
    let refused = chat(&url, &["--attach", "no good name=date", "hello"]);
    assert_eq!((refused.code, refused.stdout.as_str()), (Some(1), ""));
    assert!(refused.stderr.starts_with("error: the tools cannot be offered: "), "{refused:?}");
}

#[test]
fn the_last_message_can_be_had_as_json() {
    let (_server, url) = serve();
    let said = chat(&url, &["--json", "--attach", "echo=cat", "call echo {\"a\":1}"]);
    assert_eq!(said.code, Some(0), "{said:?}");
    let message: serde_json::Value = serde_json::from_str(&said.stdout).unwrap();
    assert_eq!(message["info"]["role"], "assistant");
    let texts: Vec<&serde_json::Value> =
        message["parts"].as_array().unwrap().iter().filter(|part| part["type"] == "text").collect();
    assert_eq!(texts.len(), 1);
    assert_eq!(texts[0]["text"], "The tool `echo` answered: {\"a\":1}");
    let failed = chat(&url, &["--json", "--model", "demo/none", "hello"]);
    let message: serde_json::Value = serde_json::from_str(&failed.stdout).unwrap();
    assert_eq!((failed.code, &message["info"]["error"]["name"]), (Some(1), &"APIError".into()));
}

#[test]
fn a_session_can_be_gone_on_with() {
    let (_server, url) = serve();
    let tool = ["--attach", "echo=cat", "--client", "laptop"];
    assert_eq!(chat(&url, &[&tool[..], &["call echo {}"]].concat()).code, Some(0));
    assert_eq!(chat(&url, &["another", "session"]).code, Some(0));
    assert_eq!(chat(&url, &[&tool[..], &["--continue", "call echo {}"]].concat()).code, Some(0));
    let listed = crate::handback(&["sessions", "--url", &url, "--json"]).stdout;
    let listed: Vec<serde_json::Value> = serde_json::from_str(&listed).unwrap();
    let shown: Vec<_> =
        listed.iter().map(|session| (session["title"].as_str(), session["clientID"].as_str())).collect();
    assert_eq!(shown, [(Some("call echo {}"), Some("laptop")), (Some("another session"), None)]);

    let id = listed[0]["id"].as_str().unwrap();
    // The tools of the session's client, without its being named.
    let said = chat(&url, &["--attach", "echo=cat", "--session", id, "call echo {}"]);
    assert_eq!((said.code, said.stdout.as_str()), (Some(0), "The tool `echo` answered: {}\n"));
    let other = chat(&url, &["--client", "phone", "--session", id, "hello"]);
    assert_eq!(other, ran(2, "", "error: the session is one of client laptop, not of phone\n"));
    let table = crate::handback(&["sessions", "--url", &url, "--limit", "1"]).stdout;
    let lines: Vec<Vec<&str>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines[0], ["SESSION", "CLIENT", "UPDATED", "TITLE"]);
    assert_eq!((lines.len(), lines[1][0], lines[1][1]), (2, id, "laptop"));
}

#[test]
fn a_hostile_tool_does_not_reach_the_terminal() {
    let (_server, url) = serve();
    let hostile = r"evil=printf '\033]0;title\007\033[2J\302\2331Ared\rover\n'";
    let json = chat(&url, &["--attach", hostile, "--json", "call evil {}"]);
    let said = chat(&url, &["--attach", hostile, "call evil {}"]);
    for text in [&said.stdout, &said.stderr, &json.stdout] {
        assert!(text.contains("]0;title"), "{text:?}");
        assert!(!text.contains(|char: char| char != '\n' && char.is_control()), "{text:?}");
    }
}

#[test]
fn ctrl_c_stops_the_turn_and_the_command_that_runs() {
    let (_server, url) = serve();
    let (running, stopped) = (pipe("running"), temporary("stopped"));
    let script = "trap 'echo yes > $STOPPED; exit' TERM; echo yes > $RUNNING; sleep 60 & wait";
    let tool = format!("slow=RUNNING={} STOPPED={}; {script}", running.display(), stopped.display());
    let mut command = chat_command(&url, &["--attach", &tool, "call slow {}"]);
    let mut process = Process(command.stderr(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap());
    let mut stderr = Stderr::of(&mut process);
    stderr.wait_for("⚙ slow {} …");
    wait_for_line(&running);
    process.signal(Signal::INT);
    let rest = stderr.rest();
    assert!(rest.ends_with("error: the turn was aborted\n"), "{rest}");
    assert_eq!(process.end().code(), Some(130));
    assert_eq!(std::fs::read_to_string(&stopped).unwrap(), "yes\n");
    std::fs::remove_file(running).unwrap();
    std::fs::remove_file(stopped).unwrap();
    let calls = crate::handback(&["calls", "--url", &url]).stdout;
    assert!(calls.contains("cancelled"), "{calls}");
}

#[test]
fn a_lost_connection_is_told_and_recovers() {
    let (_server, url) = serve();
    let proxy = Proxy::to(&url);
    let (waiting, go_on) = (pipe("waiting"), pipe("go-on"));
    let tool = format!("wait=echo yes > {}; read line < {}; printf waited", waiting.display(), go_on.display());
    let mut command = chat_command(&proxy.url, &["--attach", &tool, "call wait {}"]);
    let mut process = Process(command.stderr(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap());
    let mut stderr = Stderr::of(&mut process);
    stderr.wait_for("⚙ wait {} …");
    // A call that is lost on its way is not run, since nobody knows whether it was.
    wait_for_line(&waiting);
    proxy.cut();
    stderr.wait_for("; connecting again\n");
    stderr.wait_for("connected again\n");
    // Opened for both, it does not wait for the other end.
    let mut pipe = OpenOptions::new().read(true).write(true).open(&go_on).unwrap();
    pipe.write_all(b"yes\n").unwrap();
    let rest = stderr.rest();
    std::fs::remove_file(waiting).unwrap();
    std::fs::remove_file(go_on).unwrap();
    assert!(rest.contains("  │ waited\n"), "{rest}");
    let mut answer = String::new();
    process.0.stdout.take().unwrap().read_to_string(&mut answer).unwrap();
    assert_eq!((answer.as_str(), process.end().code()), ("The tool `wait` answered: waited\n", Some(0)));
}

#[test]
fn a_chat_goes_on_when_its_server_was_started_again() {
    let (data, running, go_on) = (temporary("data"), pipe("running"), temporary("go-on"));
    let serve =
        |listen: &str| serve_with(&["serve", "--listen", listen, "--log", "off", "--data", data.to_str().unwrap()]);
    let (mut server, url) = serve("127.0.0.1:0");
    let wait = format!("while [ ! -e {} ]; do sleep 0.05; done; printf done", go_on.display());
    let tool = format!("slow=echo yes > {}; {wait}", running.display());
    let mut command = chat_command(&url, &["--attach", &tool, "call slow {}"]);
    let mut process = Process(command.stderr(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap());
    let mut stderr = Stderr::of(&mut process);
    // A call that is lost on its way is not run, since nobody knows whether it was.
    wait_for_line(&running);
    server.signal(Signal::KILL);
    server.end();
    stderr.wait_for("; connecting again\n");
    let (_server, _) = serve(url.strip_prefix("http://").unwrap());
    stderr.wait_for("connected again\n");
    std::fs::write(&go_on, "").unwrap();
    let rest = stderr.rest();
    assert!(rest.contains("✓ slow "), "{rest}");
    let mut answer = String::new();
    process.0.stdout.take().unwrap().read_to_string(&mut answer).unwrap();
    assert_eq!((answer.as_str(), process.end().code()), ("The tool `slow` answered: done\n", Some(0)));
    std::fs::remove_file(running).unwrap();
    std::fs::remove_file(go_on).unwrap();
    std::fs::remove_dir_all(data).unwrap();
}

#[test]
fn a_conversation_at_a_terminal() {
    let (_server, url) = serve_asking("conversation");
    let tools = ["--attach", "echo=cat", "--attach", "slow=sleep 60"];
    let mut chat = chat_command(&url, &tools);
    chat.env("NO_COLOR", "1");
    let mut terminal = Terminal::run(chat);
    let introduction = terminal.wait_for("\n> ");
    let server = format!("server   {url}\n");
    for expected in ["session  ses_", &server, "model    demo/scripted\n", "echo, slow", "Ctrl-D leaves"] {
        assert!(introduction.contains(expected), "{introduction}");
    }
    terminal.type_in("call echo {\"a\":1}\n");
    terminal.wait_for("Allow echo {\"a\":1}? [y]es, [a]lways, [n]o, [e]dit: ");
    terminal.type_in("e\n");
    terminal.wait_for("New input (a JSON object; empty to go back): ");
    terminal.type_in("{\"a\":2}\n");
    let answer = terminal.wait_for("\n> ");
    assert!(answer.contains("✓ echo ") && answer.contains("The tool `echo` answered: {\"a\":2}\n"), "{answer}");

    terminal.type_in("call slow {}\n");
    terminal.wait_for("Allow slow {}? [y]es, [a]lways, [n]o, [e]dit: ");
    terminal.process.signal(Signal::INT);
    let aborted = terminal.wait_for("\n> ");
    assert!(aborted.contains("✗ slow ") && aborted.contains("The turn was aborted."), "{aborted}");

    terminal.type_in("/nonsense\n");
    terminal.wait_for("There is no /nonsense; /help lists what there is.\n\n> ");
    terminal.type_in("\u{4}");
    let (farewell, code) = terminal.wait_for_end();
    assert_eq!(code, Some(0), "{farewell}");
    assert!(farewell.contains("\nTo go on: handback chat --session ses_"), "{farewell}");
}

#[test]
fn a_chat_in_which_nothing_is_said_leaves_nothing_behind() {
    let (_server, url) = serve();
    let mut terminal = Terminal::run(chat_command(&url, &[]));
    let introduction = terminal.wait_for("> ");
    assert!(introduction.contains("\u{1b}[2m"), "there are colours at a terminal: {introduction:?}");
    terminal.process.signal(Signal::TERM);
    let (_, code) = terminal.wait_for_end();
    assert!(terminal.is_as_it_was());
    assert_eq!(code, Some(0));
    assert_eq!(crate::handback(&["sessions", "--url", &url]).stderr, "no sessions\n");
}

/// A chat at a terminal, at its first prompt.
fn converse(url: &str, arguments: &[&str]) -> Terminal {
    let mut chat = chat_command(url, arguments);
    chat.env("NO_COLOR", "1");
    let mut terminal = Terminal::run(chat);
    terminal.wait_for("\n> ");
    terminal
}

#[test]
fn what_is_typed_can_be_edited_and_had_back() {
    let (_server, url) = serve();
    let mut terminal = converse(&url, &["--attach", "echo=cat"]);
    let (left, up, backspace, start, end, word) = ("\u{1b}[D", "\u{1b}[A", "\u{7f}", "\u{1}", "\u{5}", "\u{17}");
    for (keys, answer) in [
        (format!("cal echo {{}}{}l", left.repeat(" echo {}".len())), "{}"),
        (up.to_owned(), "{}"),
        (format!("echo{start}call {end} {{\"a\":\"äöü{backspace}\"}}"), "{\"a\":\"äö\"}"),
        (up.repeat(2), "{}"),
        (format!("call echo {{\"b\":1}} nonsense{word}"), "{\"b\":1}"),
    ] {
        terminal.type_in(&format!("{keys}\r"));
        let shown = terminal.wait_for("\n> ");
        assert!(shown.contains(&format!("\nThe tool `echo` answered: {answer}\n")), "{keys:?}: {shown}");
    }
}

#[test]
fn a_paste_of_several_lines_is_one_message_and_so_are_lines_that_are_marked() {
    let (_server, url) = serve();
    let mut terminal = converse(&url, &["--attach", "one=printf 1", "--attach", "two=printf 2"]);
    for keys in ["\u{1b}[200~call one {}\rcall two {}\u{1b}[201~\r", "call one {}\\\rcall two {}\r"] {
        terminal.type_in(keys);
        let shown = terminal.wait_for("tokens in, ");
        assert!(shown.contains("The tool `one` answered: 1\n\nThe tool `two` answered: 2\n"), "{keys:?}: {shown}");
        terminal.wait_for("\n> ");
    }
}

#[test]
fn ctrl_c_at_the_prompt_takes_back_what_is_typed_or_says_how_to_leave() {
    let (_server, url) = serve();
    let mut terminal = converse(&url, &["--attach", "echo=cat"]);
    let hint = "\nPress Ctrl-C again or Ctrl-D to leave.\n> ";
    terminal.type_in("\u{3}");
    terminal.wait_for(hint);
    terminal.type_in("nonsense\u{3}call echo {}\r");
    let shown = terminal.wait_for("\n> ");
    assert!(shown.contains("\nThe tool `echo` answered: {}\n") && !shown.contains("nonsense"), "{shown}");
    terminal.type_in("\u{3}");
    terminal.wait_for(hint);
    // Whoever typed something since is told again.
    terminal.type_in("nonsense\u{3}\u{3}");
    terminal.wait_for(hint);
    terminal.type_in("\u{3}");
    let (farewell, code) = terminal.wait_for_end();
    assert!(farewell.contains("To go on: handback chat --session ses_"), "{farewell}");
    assert!(terminal.is_as_it_was());
    assert_eq!(code, Some(0));
}

#[test]
fn how_long_a_tool_takes_is_shown_until_it_is_done() {
    let (_server, url) = serve();
    let slow = Gated::new("seconds", "slow", "printf done");
    let mut terminal = converse(&url, &["--attach", &slow.attached]);
    terminal.type_in("call slow {}\r");
    wait_for_line(&slow.runs);
    // Every second it is written anew.
    for _ in 0..2 {
        terminal.wait_for("waiting for slow · ");
        terminal.wait_for(" s");
    }
    // What is typed meanwhile is not in the way, and is there afterwards.
    terminal.type_in("call nothing");
    slow.let_go();
    let shown = terminal.wait_for("\n> ");
    assert!(shown.contains("✓ slow ") && shown.contains("The tool `slow` answered: done\n"), "{shown}");
    assert!(!shown.contains("waiting") && !shown.contains("nothing"), "{shown}");
    terminal.wait_for("call nothing");
}

/// What a process says aside, as it comes.
pub(crate) struct Stderr {
    pipe: BufReader<std::process::ChildStderr>,
    seen: Vec<u8>,
}

impl Stderr {
    pub(crate) fn of(process: &mut Process) -> Self {
        Self { pipe: BufReader::new(process.0.stderr.take().unwrap()), seen: Vec::new() }
    }

    /// All until this text, and the text.
    pub(crate) fn wait_for(&mut self, text: &str) -> String {
        while !self.seen.ends_with(text.as_bytes()) {
            let mut byte = [0];
            let length = self.pipe.read(&mut byte).unwrap();
            assert_eq!(length, 1, "{text:?} is not in {}", String::from_utf8_lossy(&self.seen));
            self.seen.extend(byte);
        }
        String::from_utf8(std::mem::take(&mut self.seen)).unwrap()
    }

    pub(crate) fn rest(&mut self) -> String {
        let mut rest = String::new();
        self.pipe.read_to_string(&mut rest).unwrap();
        rest
    }
}

/// Stands between a client and its server, and can cut all connections.
struct Proxy {
    url: String,
    open: Arc<Mutex<Vec<TcpStream>>>,
}

impl Proxy {
    fn to(url: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = url.strip_prefix("http://").unwrap().to_owned();
        let proxy = Self { url: format!("http://{}", listener.local_addr().unwrap()), open: Arc::default() };
        let open = Arc::clone(&proxy.open);
        std::thread::spawn(move || {
            for client in listener.incoming() {
                let (client, server) = (client.unwrap(), TcpStream::connect(&server).unwrap());
                for (from, to) in [(&client, &server), (&server, &client)] {
                    let (mut from, mut to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
                    std::thread::spawn(move || {
                        // A connection that is cut is an error here, as it should be.
                        std::io::copy(&mut from, &mut to).ok();
                        to.shutdown(Shutdown::Write).ok();
                    });
                }
                open.lock().unwrap().extend([client, server]);
            }
        });
        proxy
    }

    fn cut(&self) {
        for stream in self.open.lock().unwrap().drain(..) {
            // It may have been closed already.
            stream.shutdown(Shutdown::Both).ok();
        }
    }
}
