//! What the log says: the story of each call, turn and request by its id, and nothing secret. Nobody waits for it.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::process::{Command, Stdio};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::processes::{Process, attach, start};
use crate::upkeep::Directory;
use crate::{command, handback, run};

fn directory(name: &str) -> Directory {
    let directory = Directory::new(name);
    std::fs::create_dir_all(directory.path()).unwrap();
    directory
}

/// A server that logs to a file at `info`.
struct Logged {
    directory: Directory,
    process: Process,
    url: String,
}

impl Logged {
    fn start(name: &str, arguments: &[&str]) -> Self {
        Self::with(directory(name), arguments)
    }

    fn with(directory: Directory, arguments: &[&str]) -> Self {
        let data = directory.join("data");
        let mut command = command(&[&["serve", "--listen", "127.0.0.1:0", "--data", &data][..], arguments].concat());
        command.stderr(File::options().create(true).append(true).open(directory.join("log")).unwrap());
        let (process, url) = start(command);
        Self { directory, process, url }
    }

    /// Stops the server. Then all that it logged is in the file.
    fn stop(mut self) -> (Directory, String) {
        self.process.signal(Signal::TERM);
        assert!(self.process.end().success());
        let log = std::fs::read_to_string(self.directory.join("log")).unwrap();
        (self.directory, log)
    }

    fn curl(&self, arguments: &[&str], path: &str) -> String {
        let url = format!("{}{path}", self.url);
        let mut curl = Command::new("curl");
        curl.args(["-sS", "--max-time", "20"]).args(arguments).arg(url);
        run(curl).stdout
    }
}

/// The lines with a text, as `grep` finds them, without the times of a machine.
fn grep(log: &str, text: &str) -> Vec<Value> {
    let lines = log.lines().filter(|line| line.contains(text));
    lines
        .map(|line| {
            let mut line: Value = serde_json::from_str(line).unwrap();
            let fields = line.as_object_mut().unwrap();
            assert_eq!(fields.remove("level").unwrap(), "INFO");
            assert!(fields.remove("timestamp").is_some());
            fields.get_mut("ms").into_iter().for_each(|ms| {
                assert!(ms.as_f64().unwrap() > 0.0);
                *ms = "…".into();
            });
            line
        })
        .collect()
}

#[test]
fn what_happened_to_a_call_yesterday_is_one_grep_and_one_command() {
    let server = Logged::start("trail-call", &["--log-format", "json"]);
    let (_client, _lines) = attach(&server.url, &["--tool", "shout", "--", "tr", "a-z", "A-Z"]);
    let call =
        json!({ "toolID": "client_laptop_shout", "requestID": "call-x", "sessionID": "s", "input": { "a": "secret" } });
    let answer = server.curl(&["-H", "x-request-id: trace-1", "-d", &call.to_string()], "/client-tools/execute");
    assert_eq!(answer, r#"{"status":"success","title":"","output":"{\"A\":\"SECRET\"}"}"#);
    // The same call again is told the outcome; an answer that comes too late is refused.
    let answer = json!({ "requestID": "call-x", "status": "success", "output": "another" });
    server.curl(&["-H", "x-request-id: trace-2", "-d", &answer.to_string()], "/client-tools/result");
    let (directory, log) = server.stop();

    let lines = grep(&log, "call-x");
    let connection = lines[1]["connection"].as_str().unwrap();
    assert!(grep(&log, connection).iter().any(|line| line["message"] == "connected"), "{log}");
    let request = |place: usize| lines[place]["spans"][0]["request"].as_str().unwrap();
    let line = |message: &str, request: &str, more: Value| {
        let mut line = json!({
            "message": message, "target": "handback::call", "call": "call-x", "tool": "client_laptop_shout",
            "client": "laptop", "session": "s", "spans": [{ "name": "http", "request": request }],
        });
        line.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        line
    };
    assert_eq!(
        lines[..3],
        [
            line("opened", "trace-1", json!({ "origin": "application" })),
            line("offered", request(1), json!({ "attempt": 1, "connection": connection })),
            line("ended", request(2), json!({ "outcome": "success", "ms": "…", "attempt": 1 })),
        ]
    );
    assert_eq!(
        lines[3..],
        [json!({
            "message": "answer refused", "target": "handback::call", "call": "call-x", "reason": "conflict",
            "spans": [{ "name": "http", "request": "trace-2" }],
        })]
    );
    // What the stages belong to is in the log under the same ids.
    for (id, method, path, status) in [
        ("trace-1", "POST", "/client-tools/execute", 200),
        (request(1), "GET", "/client-tools/pending/laptop", 200),
        (request(2), "POST", "/client-tools/result", 200),
        ("trace-2", "POST", "/client-tools/result", 409),
    ] {
        let expected = json!({
            "message": "answered", "target": "handback::request", "method": method, "path": path, "status": status,
            "ms": "…", "spans": [{ "name": "http", "request": id }],
        });
        assert!(grep(&log, id).contains(&expected), "{expected} is not in {log}");
    }
    assert!(!log.to_lowercase().contains("secret"), "{log}");

    let server = Logged::with(directory, &["--log", "off"]);
    let told = handback(&["calls", "call-x", "--url", &server.url]).stdout;
    for line in ["call-x", "client_laptop_shout", "laptop", "done", "success", r#"{"A":"SECRET"}"#] {
        assert!(told.contains(line), "{line} is not in {told}");
    }
}

#[test]
fn a_call_without_a_result_says_whether_its_tool_ran_and_what_came_too_late() {
    let server = Logged::start("trail-late", &["--log-format", "json"]);
    let (_client, _lines) = attach(&server.url, &["--tool", "sleep", "--", "sleep", "60"]);
    let call = json!({ "toolID": "client_laptop_sleep", "requestID": "call-y", "input": {}, "timeout": 500 });
    let asked = ["-H", "x-request-id: the-caller", "-d", &call.to_string()];
    assert!(server.curl(&asked, "/client-tools/execute").contains("TIMEOUT"));
    let told = || handback(&["calls", "call-y", "--url", &server.url]).stdout;
    assert!(told().contains("ran       maybe: the call was sent, and no result came in time\n"), "{}", told());
    // The client is told that it is too late, stops the command and says so.
    let late = "late      error\n          the command was stopped before it was done\n";
    assert!((0..200).any(|_| told().contains(late)), "{}", told());
    let (_directory, log) = server.stop();
    let line = |message| grep(&log, "call-y").into_iter().find(|line| line["message"] == message).unwrap();
    assert_eq!((&line("ended")["outcome"], &line("ended")["may_have_run"]), (&json!("timeout"), &json!(true)));
    // Nobody's request ended it, so it is told as part of the one that made it.
    assert_eq!(line("ended")["spans"], json!([{ "name": "http", "request": "the-caller" }]));
    assert_eq!(line("late result")["outcome"], "error");
}

#[test]
fn a_turn_and_its_calls_are_found_by_the_request_that_asked_for_them() {
    let server = Logged::start("trail-turn", &["--log-format", "json"]);
    let (_client, _lines) = attach(&server.url, &["--tool", "shout", "--", "tr", "a-z", "A-Z"]);
    let session: Value = serde_json::from_str(&server.curl(&["-d", r#"{"clientID":"laptop"}"#], "/session")).unwrap();
    let session = session["id"].as_str().unwrap();
    let prompt = json!({ "parts": [{ "type": "text", "text": "call shout {\"word\":\"hush\"}" }] }).to_string();
    let said = server.curl(&["-H", "x-request-id: the-prompt", "-d", &prompt], &format!("/session/{session}/message"));
    assert!(said.contains("HUSH"), "{said}");
    let (_directory, log) = server.stop();

    let lines = grep(&log, r#""request":"the-prompt""#);
    let shown = |line: &Value| format!("{} {}", line["target"].as_str().unwrap(), line["message"].as_str().unwrap());
    let shown: Vec<String> = lines.iter().map(shown).collect();
    let all = [
        "handback::turn accepted",
        "handback::turn began",
        "handback::turn answered",
        "handback::call opened",
        "handback::turn answered",
        "handback::turn ended",
        "handback::request answered",
    ];
    assert_eq!(shown, all, "{log}");
    let turn = &lines[0]["turn"];
    for (line, of) in lines.iter().zip(all) {
        let is_of_turn = of != "handback::request answered" && of != "handback::turn accepted";
        assert!(!is_of_turn || line["session"] == *session && line["spans"][1]["turn"] == *turn, "{line}");
    }
    let answered = &lines[2];
    assert_eq!((&answered["model"], &answered["outcome"]), (&json!("demo/scripted"), &json!("success")));
    assert!(answered["first_ms"].as_f64().is_some() && answered["input_tokens"].as_u64() > Some(0), "{answered}");
    let ended = &lines[5];
    assert_eq!((&ended["outcome"], &ended["steps"]), (&json!("success"), &json!(2)));
    assert!(!log.to_lowercase().contains("hush"), "{log}");
}

/// A provider of models that refuses each request, and quotes it.
fn echo() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for socket in listener.incoming() {
            let mut socket = BufReader::new(socket.unwrap());
            let mut length = 0;
            for line in socket.by_ref().lines().map(Result::unwrap).take_while(|line| !line.is_empty()) {
                let line = line.to_lowercase();
                length = line.strip_prefix("content-length: ").map_or(length, |length| length.parse().unwrap());
            }
            let mut body = vec![0; length];
            socket.read_exact(&mut body).unwrap();
            let body = json!({ "detail": [{ "input": String::from_utf8(body).unwrap() }] }).to_string();
            let head =
                format!("HTTP/1.1 422 Unprocessable\r\nConnection: close\r\nContent-Length: {}\r\n\r\n", body.len());
            socket.get_mut().write_all(format!("{head}{body}").as_bytes()).unwrap();
        }
    });
    address
}

#[test]
fn keys_tokens_inputs_and_outputs_are_not_logged() {
    const KEY: &str = "a-key-that-nobody-may-see-0123456789";
    const HASH: &str = "0cebc025ca470bd4fed086bf9a0e971e1328fb560a1374f21a80600ac9738604";
    const SECRET: &str = "a-secret-that-signs-tokens-0123456789";
    let directory = directory("trail-secrets");
    let config = directory.join("handback.toml");
    let echo = echo();
    let provider = format!("[providers.echo]\nkind = \"openai\"\nbaseURL = \"http://{echo}\"\n");
    let text = format!("[auth]\nkeys = [\"{HASH}\"]\ntokenSecret = \"{SECRET}\"\n{provider}");
    std::fs::write(&config, text).unwrap();
    let token = handback(&["token", "--client", "laptop", "--config", &config]).stdout;
    let token = token.trim();
    let server = Logged::with(directory, &["--config", &config, "--log", "trace"]);
    let bearer = format!("Authorization: Bearer {KEY}");
    let answer = |arguments: &[&str], path: &str| server.curl(arguments, path);

    let tools = r#"{"clientID":"laptop","tools":[{"id":"read"}]}"#;
    assert!(answer(&["-H", &bearer, "-d", tools], "/client-tools/register").contains("client_laptop_read"));
    let call = r#"{"toolID":"client_laptop_read","requestID":"mine","input":{"password":"in-0815"},"wait":false}"#;
    assert!(answer(&["-H", &bearer, "-d", call], "/client-tools/execute").contains("mine"));
    let stream = format!("/client-tools/pending/laptop?grace=60000&access_token={token}");
    assert!(answer(&["--max-time", "1"], &stream).contains("in-0815"));
    let result = r#"{"requestID":"mine","status":"success","output":"out-4711"}"#;
    let with_token = format!("Authorization: Bearer {token}");
    let taken = answer(&["-H", &with_token, "-d", result], "/client-tools/result");
    assert!(taken.contains("true"), "{taken}");
    assert!(answer(&["-u", &format!("me:{KEY}")], "/client-tools/tools").contains("client_laptop_read"));
    let wrong = answer(&["-H", "Authorization: Bearer wrong-2342"], "/client-tools/tools?access_token=wrong-2342");
    assert!(wrong.contains("UNAUTHORIZED"), "{wrong}");
    let prompt = r#"{"parts":[{"type":"text","text":"said-1701"}]}"#;
    let session: Value = serde_json::from_str(&answer(&["-H", &bearer, "-d", "{}"], "/session")).unwrap();
    let path = format!("/session/{}/message", session["id"].as_str().unwrap());
    let said = answer(&["-H", &bearer, "-d", prompt], &path);
    assert!(said.contains("assistant"), "{said}");
    // A provider that refuses a request may quote it.
    let quoted = r#"{"parts":[{"type":"text","text":"quoted-1984"}],"model":{"providerID":"echo","modelID":"any"}}"#;
    let failed = answer(&["-H", &bearer, "-d", quoted], &path);
    assert!(failed.contains("422") && failed.contains("said-1701"), "{failed}");
    // A socket carries inputs and outputs as well.
    let tool = ["--token", KEY, "--websocket", "--tool", "say", "--", "sed", "s/in-/out-/"];
    let (_attached, _lines) = attach(&server.url, &tool);
    let call = r#"{"toolID":"client_laptop_say","input":{"password":"in-socket-1"}}"#;
    assert!(answer(&["-H", &bearer, "-d", call], "/client-tools/execute").contains("out-socket-1"));
    let refused =
        answer(&["-H", &bearer, "-d", r#"{"toolID":"client_laptop_read","input":"bad-666"}"#], "/client-tools/execute");
    assert!(refused.contains("INVALID_REQUEST"), "{refused}");
    let long = "long".repeat(1_000);
    let unknown = json!({ "toolID": long, "input": {} }).to_string();
    assert!(answer(&["-H", &bearer, "-d", &unknown], &format!("/client-tools/execute?{long}")).contains("NOT_FOUND"));
    assert!(answer(&[], &format!("/{long}")).contains("UNAUTHORIZED"));

    let (_directory, log) = server.stop();
    assert!(log.lines().all(|line| line.len() < 1_000), "{log}");
    assert!(log.contains("/client-tools/pending/laptop"), "{log}");
    for secret in [
        KEY,
        HASH,
        SECRET,
        token,
        "in-0815",
        "out-4711",
        "wrong-2342",
        "said-1701",
        "bad-666",
        "access_token",
        "quoted-1984",
        "socket-1",
    ] {
        assert!(!log.contains(secret), "{secret} is in {log}");
    }
}

#[test]
fn a_log_that_nobody_reads_holds_nobody_up() {
    let mut command = command(&["serve", "--listen", "127.0.0.1:0", "--ephemeral", "--log", "info"]);
    command.stderr(Stdio::piped());
    let (mut process, url) = start(command);
    // The pipe is open, and nobody reads it.
    let _unread = process.0.stderr.take().unwrap();
    let answer = |path: &str| {
        let mut curl = Command::new("curl");
        curl.args(["-sS", "--max-time", "20", &format!("{url}{path}")]);
        run(curl).stdout
    };
    // More than a pipe holds.
    let answers = answer(&format!("/client-tools/{}/[1-1000]", "x".repeat(200)));
    assert_eq!(answers.matches("NOT_FOUND").count(), 1000, "{answers}");
    assert!(answer("/metrics").contains("\nhandback_log_lines_dropped_total 0\n"));
    process.signal(Signal::TERM);
    assert!(process.end().success());
}
