//! Sessions with everything in its own process: the server, the client that runs the tools, and whoever prompts.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::command;
use crate::processes::{Lines, Process, serve_with, wait_for};

/// How often to look whether something has come true.
const MOMENT: Duration = Duration::from_millis(10);
/// How many times; a test that needs longer has failed.
const MOMENTS: usize = 3_000;

/// A directory that goes with its test.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let name = format!("sessions-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir(&path).unwrap();
        Self(path)
    }

    fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }

    /// How many files commands have made here.
    fn files(&self) -> usize {
        std::fs::read_dir(&self.0)
            .unwrap()
            .filter(|entry| entry.as_ref().unwrap().file_type().unwrap().is_file())
            .count()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A server in a process of its own.
struct Server {
    process: Process,
    url: String,
}

impl Server {
    /// With default settings, and nothing kept.
    fn start() -> Self {
        Self::with("")
    }

    /// With these settings, and nothing kept.
    fn with(config: &str) -> Self {
        let folder = Folder::new();
        let file = format!("{}/handback.toml", folder.path());
        std::fs::write(&file, config).unwrap();
        Self::serve(&["--listen", "127.0.0.1:0", "--ephemeral", "--config", &file])
    }

    /// On this address, with what is kept in a folder.
    fn on_disk(listen: &str, folder: &Folder) -> Self {
        let file = format!("{}/handback.toml", folder.path());
        std::fs::write(&file, "[limits]\ndrainTimeout = 100\n").unwrap();
        let data = format!("{}/data", folder.path());
        Self::serve(&["--listen", listen, "--data", &data, "--config", &file])
    }

    fn serve(arguments: &[&str]) -> Self {
        let (process, url) = serve_with(&[&["serve", "--log", "off"], arguments].concat());
        Self { process, url }
    }

    fn address(&self) -> &str {
        self.url.strip_prefix("http://").unwrap()
    }

    /// A client in a process of its own, with one tool.
    fn attach(&self, client: &str, tool: &[&str]) -> Client {
        let arguments = [&["attach", "--client", client, "--url", &self.url, "--tool"], tool].concat();
        let mut child = command(&arguments).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = Lines::of(child.stderr.take().unwrap());
        wait_for(&mut lines, "connected to ");
        Client { process: Process(child), lines }
    }

    fn session(&self, client: &str) -> String {
        let (status, session) = self.post("/session", &json!({ "clientID": client }));
        assert_eq!(status, 200, "{session}");
        session["id"].as_str().unwrap().to_owned()
    }

    /// Says something and waits for the answer.
    fn say(&self, session: &str, text: &str) -> Value {
        let (status, answer) = self.post(&format!("/session/{session}/message"), &prompt(text));
        assert_eq!(status, 200, "{answer}");
        answer
    }

    /// The same in the background.
    fn prompt(&self, session: &str, text: &str) -> JoinHandle<(u16, Value)> {
        let (address, path, body) = (self.address().to_owned(), format!("/session/{session}/message"), prompt(text));
        std::thread::spawn(move || request(&address, "POST", &path, &body.to_string()))
    }

    fn post(&self, path: &str, body: &Value) -> (u16, Value) {
        request(self.address(), "POST", path, &body.to_string())
    }

    fn get(&self, path: &str) -> Value {
        let (status, body) = request(self.address(), "GET", path, "");
        assert_eq!(status, 200, "{body}");
        body
    }

    /// The messages of a session, one line each.
    fn history(&self, session: &str) -> Vec<String> {
        self.get(&format!("/session/{session}/message")).as_array().unwrap().iter().map(brief).collect()
    }

    /// The one ask that is open, once there is one.
    fn ask(&self) -> Value {
        until("somebody is asked", || self.get("/permission").as_array().unwrap().len() == 1);
        self.get("/permission")[0].clone()
    }

    fn reply(&self, ask: &Value, body: &Value) -> (u16, Value) {
        self.post(&format!("/permission/{}/reply", ask["id"].as_str().unwrap()), body)
    }
}

/// A client in a process of its own, and what it remarks on.
struct Client {
    process: Process,
    lines: Lines,
}

impl Client {
    /// Waits until it has begun a call.
    fn begins(&mut self) {
        assert!(self.lines.any(|line| line.ends_with(": started")));
    }

    /// Waits until it says that a call was cancelled; gives the reason.
    fn is_told(&mut self) -> String {
        let told = self.lines.find_map(|line| Some(line.split_once(": cancelled: ")?.1.to_owned()));
        told.unwrap()
    }
}

fn prompt(text: &str) -> Value {
    json!({ "parts": [{ "type": "text", "text": text }] })
}

/// Sends one request, and reads all of the answer.
fn request(address: &str, method: &str, path: &str, body: &str) -> (u16, Value) {
    let mut socket = TcpStream::connect(address).unwrap();
    let head =
        format!("{method} {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nContent-Length: {}", body.len());
    socket.write_all(format!("{head}\r\n\r\n{body}").as_bytes()).unwrap();
    let mut answer = String::new();
    // A server that is killed says nothing more.
    if socket.read_to_string(&mut answer).is_err() || answer.is_empty() {
        return (0, Value::Null);
    }
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, serde_json::from_str(body).unwrap_or(Value::Null))
}

fn until(what: &str, condition: impl Fn() -> bool) {
    let came_true = (0..MOMENTS).any(|_| {
        let holds = condition();
        if !holds {
            std::thread::sleep(MOMENT);
        }
        holds
    });
    assert!(came_true, "it did not come true in time: {what}");
}

/// A message in one line: who, what, and the error if there is one.
fn brief(message: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut line = vec![text(&message["info"]["role"])];
    for part in message["parts"].as_array().unwrap() {
        let state = &part["state"];
        match part["type"].as_str().unwrap() {
            "text" => line.push(text(&part["text"])),
            "tool" if state["status"] == "completed" => {
                line.push(format!("{} → {}", state["input"], text(&state["output"])))
            }
            "tool" => line.push(format!("{} ✗ {}", state["input"], text(&state["error"]))),
            _ => {}
        }
    }
    if let Some(error) = message["info"]["error"]["data"]["message"].as_str() {
        line.push(format!("!{error}"));
    }
    line.join(" | ")
}

/// What the tool calls of the first answer in a session gave.
fn results(server: &Server, session: &str) -> Vec<String> {
    let step = server.history(session)[1].clone();
    step.split(" | ").skip(1).map(str::to_owned).collect()
}

#[test]
fn a_prompt_runs_a_command_on_the_client_and_the_answer_quotes_it() {
    let server = Server::start();
    let script = "printf '%s %s' \"$HANDBACK_SESSION_ID\" \"$(cat)\"";
    let _client = server.attach("laptop", &["note", "--", "sh", "-c", script]);
    let session = server.session("laptop");
    let answer = server.say(&session, "call note {\"text\":\"hello\"}");
    assert_eq!(answer["parts"][1]["text"], format!("The tool `note` answered: {session} {{\"text\":\"hello\"}}"));
    let step = format!("assistant | {{\"text\":\"hello\"}} → {session} {{\"text\":\"hello\"}}");
    assert_eq!(server.history(&session)[..2], ["user | call note {\"text\":\"hello\"}".to_owned(), step]);
}

#[test]
fn parallel_calls_run_at_the_same_time() {
    let server = Server::start();
    let folder = Folder::new();
    // Each waits for all three to be there.
    let script = format!(
        "n=$(cat); touch {0}/$HANDBACK_CALL_ID; while [ $(ls {0} | wc -l) -lt 3 ]; do sleep 0.05; done; printf '%s' \"$n\"",
        folder.path()
    );
    let _client = server.attach("laptop", &["meet", "--timeout", "20000", "--", "sh", "-c", &script]);
    let session = server.session("laptop");
    server.say(&session, "call meet {\"n\":1}\ncall meet {\"n\":2}\ncall meet {\"n\":3}");
    let expected = [1, 2, 3].map(|n| format!("{{\"n\":{n}}} → {{\"n\":{n}}}"));
    assert_eq!((results(&server, &session), folder.files()), (expected.to_vec(), 3));
}

#[test]
fn each_command_fails_alone_and_what_does_not_fit_is_never_run() {
    let server = Server::start();
    let folder = Folder::new();
    let script = format!(
        "n=$(cat); touch {}/$HANDBACK_CALL_ID; case $n in *bad*) echo broken >&2; exit 3;; esac; printf '%s' \"$n\"",
        folder.path()
    );
    let schema = "{\"type\":\"object\",\"properties\":{\"n\":{\"type\":\"string\"}}}";
    let _client = server.attach("laptop", &["try", "--schema", schema, "--", "sh", "-c", &script]);
    let session = server.session("laptop");
    let lines = ["call try {\"n\":\"good\"}", "call try {\"n\":\"bad\"}", "call try {\"n\":5}", "call no_such_tool {}"];
    server.say(&session, &lines.join("\n"));
    let expected = [
        "{\"n\":\"good\"} → {\"n\":\"good\"}",
        "{\"n\":\"bad\"} ✗ exit status: 3: broken",
        "{\"n\":5} ✗ Invalid input: at /n: 5 is not of type \"string\"",
        "{} ✗ There is no tool `no_such_tool`. There is: list_tools, client_laptop_try",
    ];
    assert_eq!((results(&server, &session), folder.files()), (expected.map(str::to_owned).to_vec(), 2));
}

#[test]
fn a_denied_call_is_never_run() {
    let server = Server::with("[agents.default.permission]\nclient_tools = \"deny\"\n");
    let folder = Folder::new();
    let script = format!("touch {}/ran", folder.path());
    let _client = server.attach("laptop", &["erase", "--", "sh", "-c", &script]);
    let session = server.session("laptop");
    server.say(&session, "call erase {}");
    assert_eq!(results(&server, &session), ["{} ✗ This tool is not allowed here"]);
    assert_eq!(folder.files(), 0);
}

#[test]
fn an_ask_is_answered_once_always_or_with_a_rejection() {
    let server = Server::with("[agents.default.permission]\nclient_tools = \"ask\"\n");
    let _client = server.attach("laptop", &["echo", "--", "cat"]);
    let cases = [
        (json!({ "reply": "once" }), "{\"n\":1} → {\"n\":1}"),
        (json!({ "reply": "once", "input": { "n": 2 } }), "{\"n\":2} → {\"n\":2}"),
        (json!({ "reply": "reject" }), "{\"n\":1} ✗ The user rejected this call"),
        (json!({ "reply": "reject", "message": "not now" }), "{\"n\":1} ✗ not now"),
        (json!({ "reply": "always" }), "{\"n\":1} → {\"n\":1}"),
    ];
    for (reply, expected) in cases {
        let session = server.session("laptop");
        let prompt = server.prompt(&session, "call echo {\"n\":1}");
        let ask = server.ask();
        assert_eq!((&ask["tool"], &ask["input"]), (&json!("client_laptop_echo"), &json!({ "n": 1 })));
        assert_eq!(server.reply(&ask, &reply), (200, json!(true)));
        assert_eq!(prompt.join().unwrap().0, 200);
        assert_eq!(results(&server, &session), [expected]);
        if reply["reply"] == "always" {
            let answer = server.say(&session, "call echo {\"n\":5}");
            assert_eq!(answer["parts"][1]["text"], "The tool `echo` answered: {\"n\":5}");
        }
    }
}

#[test]
fn an_ask_that_nobody_answers_is_a_denial() {
    let config = "[agents.default.permission]\nclient_tools = \"ask\"\n[clientTools]\napprovalTimeout = 200\n";
    let server = Server::with(config);
    let _client = server.attach("laptop", &["echo", "--", "cat"]);
    let session = server.session("laptop");
    server.say(&session, "call echo {}");
    assert_eq!(results(&server, &session), ["{} ✗ Denied: the approval expired"]);
}

#[test]
fn a_command_that_takes_too_long_is_stopped_and_the_model_is_told() {
    let server = Server::start();
    let mut client = server.attach("laptop", &["wait", "--timeout", "1000", "--", "sleep", "60"]);
    let session = server.session("laptop");
    server.say(&session, "call wait {}");
    let reason = "Client tool execution timed out after 1000ms";
    assert_eq!(results(&server, &session), [format!("{{}} ✗ {reason}; it may have run")]);
    assert_eq!(client.is_told(), reason);
}

#[test]
fn a_client_that_is_killed_in_the_middle_of_a_call_is_told_to_the_model() {
    let server = Server::with("[limits]\nlargestGrace = 200\n");
    let mut client = server.attach("laptop", &["wait", "--", "sleep", "60"]);
    let session = server.session("laptop");
    let prompt = server.prompt(&session, "call wait {}");
    client.begins();
    client.process.signal(Signal::KILL);
    assert_eq!(prompt.join().unwrap().0, 200);
    assert_eq!(results(&server, &session), ["{} ✗ Client disconnected; it may have run"]);
}

#[test]
fn a_client_that_is_started_anew_runs_what_may_be_run_again() {
    let server = Server::start();
    let script = "[ $HANDBACK_ATTEMPT = 1 ] && sleep 60; echo attempt $HANDBACK_ATTEMPT";
    let tool = ["look", "--effect", "read", "--", "sh", "-c", script];
    let mut client = server.attach("laptop", &tool);
    let session = server.session("laptop");
    let prompt = server.prompt(&session, "call look {}");
    client.begins();
    client.process.signal(Signal::KILL);
    let _client = server.attach("laptop", &tool);
    assert_eq!(prompt.join().unwrap().0, 200);
    assert_eq!(results(&server, &session), ["{} → attempt 2\n"]);
}

#[test]
fn a_client_that_is_started_anew_does_not_run_twice_what_it_may_have_done() {
    let server = Server::start();
    let folder = Folder::new();
    let script = format!("touch {}/$HANDBACK_ATTEMPT; sleep 60", folder.path());
    let tool = ["pay", "--", "sh", "-c", &script];
    let mut client = server.attach("laptop", &tool);
    let session = server.session("laptop");
    let prompt = server.prompt(&session, "call pay {}");
    client.begins();
    until("it has begun", || folder.files() == 1);
    client.process.signal(Signal::KILL);
    let _client = server.attach("laptop", &tool);
    assert_eq!(prompt.join().unwrap().0, 200);
    let results = results(&server, &session);
    assert!(results[0].starts_with("{} ✗ ") && results[0].contains("unknown"), "{results:?}");
    assert_eq!(folder.files(), 1);
}

#[test]
fn an_abort_stops_the_command_and_marks_the_message() {
    let server = Server::start();
    let mut client = server.attach("laptop", &["wait", "--", "sleep", "60"]);
    let session = server.session("laptop");
    let prompt = server.prompt(&session, "call wait {}");
    client.begins();
    assert_eq!(server.post(&format!("/session/{session}/abort"), &json!({})), (200, json!(true)));
    assert_eq!(client.is_told(), "The turn was stopped");
    let (status, answer) = prompt.join().unwrap();
    assert_eq!((status, &answer["info"]["error"]["name"]), (200, &json!("MessageAbortedError")));
    let step = "assistant | {} ✗ Not finished: The turn was aborted; it may have run | !The turn was aborted";
    assert_eq!(server.history(&session), ["user | call wait {}", step]);
    // The client is still there.
    assert_eq!(server.get(&format!("/session/{session}/tools"))[1]["id"], "client_laptop_wait");
}

#[test]
fn clients_keep_to_their_own_sessions() {
    let server = Server::start();
    let _laptop = server.attach("laptop", &["echo", "--", "echo", "laptop"]);
    let _phone = server.attach("phone", &["echo", "--", "echo", "phone"]);
    for client in ["laptop", "phone"] {
        let session = server.session(client);
        let answer = server.say(&session, "call echo {}");
        assert_eq!(answer["parts"][1]["text"], format!("The tool `echo` answered:\n{client}\n").as_str());
        let tools = server.get(&format!("/session/{session}/tools"));
        assert_eq!((tools.as_array().unwrap().len(), &tools[1]["clientID"]), (2, &json!(client)));
    }
}

#[test]
fn a_tool_attached_to_one_session_is_offered_there_alone() {
    let server = Server::start();
    let [one, other] = [server.session("laptop"), server.session("laptop")];
    let _client = server.attach("laptop", &["echo", "--session", &one, "--", "cat"]);
    let offered = |session: &str| server.get(&format!("/session/{session}/tools")).as_array().unwrap().len();
    assert_eq!([offered(&one), offered(&other)], [2, 1]);
    assert_eq!(server.say(&one, "call echo {\"a\":1}")["parts"][1]["text"], "The tool `echo` answered: {\"a\":1}");
}

/// A server with a turn that is over and one under way, and a prompt that waits; gives its session and client. The call
/// under way ends when there is a file `go-on`.
fn in_the_middle(server: &Server, folder: &Folder) -> (String, Client) {
    let go_on = format!("{}/go-on", folder.path());
    let script =
        format!("n=$(cat); case $n in *wait*) while [ ! -e {go_on} ]; do sleep 0.05; done;; esac; printf '%s' \"$n\"");
    let mut client = server.attach("laptop", &["run", "--", "sh", "-c", &script]);
    let session = server.session("laptop");
    server.say(&session, "call run {\"a\":1}");
    for text in ["call run {\"a\":\"wait\"}", "call run {\"a\":2}"] {
        assert_eq!(server.post(&format!("/session/{session}/prompt_async"), &prompt(text)).0, 204);
    }
    client.begins();
    client.begins();
    (session, client)
}

/// What came before, and then the turn that was under way and the prompt that waited, as if nothing had happened.
fn as_ever() -> Vec<String> {
    let turn = |input: &str| {
        [format!("assistant | {input} → {input}"), format!("assistant | The tool `run` answered: {input}")]
    };
    let [one, wait, two] = ["{\"a\":1}", "{\"a\":\"wait\"}", "{\"a\":2}"];
    let said = |input: &str| format!("user | call run {input}");
    [vec![said(one)], turn(one).to_vec(), vec![said(wait), said(two)], turn(wait).to_vec(), turn(two).to_vec()].concat()
}

/// Checks that everything goes on in a server that was started again.
fn must_go_on(server: &Server, folder: &Folder, session: &str, client: &mut Client) {
    assert_eq!(server.get("/session/status")[session]["type"], "busy");
    std::fs::write(format!("{}/go-on", folder.path()), "").unwrap();
    let is_idle = |_: &usize| server.get("/session/status")[session]["type"] == "idle";
    let wait = |moment: usize| {
        std::thread::sleep(MOMENT);
        moment
    };
    assert!((0..MOMENTS).map(wait).any(|moment| is_idle(&moment)), "{:#?}", server.history(session));
    // A prompt that waits may come before or after the first answer.
    let (mut history, mut expected) = (server.history(session), as_ever());
    history.sort();
    expected.sort();
    assert_eq!(history, expected);
    goes_on(server, session, client);
}

/// Checks that a session goes on with a client that has come back by itself.
fn goes_on(server: &Server, session: &str, client: &mut Client) {
    wait_for(&mut client.lines, "connected to ");
    assert_eq!(server.get("/session/status")[session]["type"], "idle");
    let answer = server.say(session, "call run {\"a\":3}");
    assert_eq!(answer["parts"][1]["text"], "The tool `run` answered: {\"a\":3}");
    assert_eq!(server.get(&format!("/session/{session}"))["title"], "call run {\"a\":1}");
}

#[test]
fn a_server_that_is_killed_goes_on_where_it_was() {
    let folder = Folder::new();
    let mut server = Server::on_disk("127.0.0.1:0", &folder);
    let (session, mut client) = in_the_middle(&server, &folder);
    for _ in 0..3 {
        server.process.signal(Signal::KILL);
        server.process.end();
        server = Server::on_disk(server.address(), &folder);
    }
    must_go_on(&server, &folder, &session, &mut client);
}

/// Calls a command that waits for a file `go-on`, in the background.
fn call_that_waits(server: &Server, folder: &Folder) -> (Process, Client) {
    let go_on = format!("{}/go-on", folder.path());
    let script = format!("while [ ! -e {go_on} ]; do sleep 0.05; done; echo done");
    let mut client = server.attach("laptop", &["stay", "--", "sh", "-c", &script]);
    let mut call = command(&["call", "stay", "--url", &server.url]);
    let call = call.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    client.begins();
    (Process(call), client)
}

/// What a process has printed when it ends, and its exit code.
fn end(mut process: Process) -> (Option<i32>, String, String) {
    let [mut stdout, mut stderr] = [String::new(), String::new()];
    process.0.stdout.take().unwrap().read_to_string(&mut stdout).unwrap();
    process.0.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
    (process.end().code(), stdout, stderr)
}

#[test]
fn a_call_of_a_shell_outlives_a_server_that_is_killed() {
    let folder = Folder::new();
    let mut server = Server::on_disk("127.0.0.1:0", &folder);
    let (call, _client) = call_that_waits(&server, &folder);
    server.process.signal(Signal::KILL);
    server.process.end();
    let _server = Server::on_disk(server.address(), &folder);
    std::fs::write(format!("{}/go-on", folder.path()), "").unwrap();
    assert_eq!(end(call), (Some(0), "done\n".to_owned(), String::new()));
}

#[test]
fn a_call_of_a_shell_that_is_interrupted_is_cancelled() {
    let folder = Folder::new();
    for signal in [Signal::INT, Signal::TERM] {
        let server = Server::start();
        let (call, mut client) = call_that_waits(&server, &folder);
        call.signal(signal);
        assert_eq!(end(call), (Some(130), String::new(), "error: the call was cancelled\n".to_owned()));
        assert_eq!(client.is_told(), "Cancelled");
    }
}

#[test]
fn a_server_that_is_stopped_goes_on_where_it_was() {
    let folder = Folder::new();
    let mut server = Server::on_disk("127.0.0.1:0", &folder);
    let (session, mut client) = in_the_middle(&server, &folder);
    for _ in 0..2 {
        server.process.signal(Signal::TERM);
        assert_eq!(server.process.end().code(), Some(0));
        server = Server::on_disk(server.address(), &folder);
    }
    must_go_on(&server, &folder, &session, &mut client);
}
