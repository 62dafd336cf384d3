//! Commands that show what happens as it happens, and those that answer what waits for a person.

use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::impostor::{Answer, impostor};
use crate::processes::{Lines, Process, attach, serve, serve_with, wait_for};
use crate::terminal::PATIENCE;
use crate::upkeep::Directory;
use crate::{Ran, command, handback, run};

/// A command that goes on until it is stopped.
struct Follower {
    process: Process,
    printed: Lines,
    remarks: Lines,
}

impl Follower {
    fn start(url: &str, arguments: &[&str]) -> Self {
        let mut command = command(&[arguments, &["--url", url]].concat());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let printed = Lines::of(child.stdout.take().unwrap());
        let remarks = Lines::of(child.stderr.take().unwrap());
        Self { process: Process(child), printed, remarks }
    }

    /// The next line.
    fn line(&mut self) -> String {
        self.printed.next().unwrap()
    }

    /// The lines up to the first one with this text.
    fn until(&mut self, text: &str) -> Vec<String> {
        let mut lines = Vec::new();
        while lines.last().is_none_or(|line: &String| !line.contains(text)) {
            lines.push(self.line());
        }
        lines
    }

    /// Stops it as Ctrl-C does; gives the exit code, and what it printed last.
    fn stop(mut self) -> (Option<i32>, Vec<String>) {
        self.process.signal(Signal::INT);
        let last = self.printed.collect();
        (self.process.end().code(), last)
    }
}

fn post(url: &str, path: &str, body: &Value) -> Value {
    let mut curl = Command::new("curl");
    curl.args(["-sS", "--max-time", "20", "-d", &body.to_string(), &format!("{url}{path}")]);
    serde_json::from_str(&run(curl).stdout).unwrap()
}

fn session(url: &str) -> String {
    post(url, "/session", &json!({ "clientID": "laptop" }))["id"].as_str().unwrap().to_owned()
}

fn say(url: &str, session: &str, text: &str) -> Value {
    post(url, &format!("/session/{session}/message"), &json!({ "parts": [{ "type": "text", "text": text }] }))
}

/// A server whose calls wait until somebody allows them, and a client of it.
fn asking(name: &str) -> (Directory, [Process; 2], String) {
    let directory = Directory::new(name);
    std::fs::create_dir_all(directory.path()).unwrap();
    let config = directory.join("handback.toml");
    std::fs::write(&config, "[agents.default.permission]\nclient_tools = \"ask\"\n").unwrap();
    let (server, url) =
        serve_with(&["serve", "--listen", "127.0.0.1:0", "--log", "off", "--ephemeral", "--config", &config]);
    let (client, _) = attach(&url, &["--tool", "shout", "--", "tr", "a-z", "A-Z"]);
    (directory, [server, client], url)
}

/// The one ask that is open, once there is one.
fn ask(url: &str) -> Value {
    let began = Instant::now();
    while began.elapsed() < PATIENCE {
        let ran = handback(&["approvals", "--json", "--url", url]);
        let asks: Value = serde_json::from_str(&ran.stdout).unwrap();
        if let Some(ask) = asks.get(0) {
            return ask.clone();
        }
    }
    panic!("nothing is asked within {PATIENCE:?}");
}

#[test]
fn events_are_printed_as_they_happen_and_over_a_restart() {
    let (mut server, url) = serve("127.0.0.1:0");
    let mut all = Follower::start(&url, &["events", "--follow"]);
    let mut failures = Follower::start(&url, &["events", "--follow", "--type", "client-tool.failed", "--json"]);
    let mut others = Follower::start(&url, &["events", "--follow", "--client", "desk"]);
    for follower in [&mut all, &mut failures, &mut others] {
        wait_for(&mut follower.remarks, "listening to ");
    }
    let (_client, _) = attach(&url, &["--tool", "find", "--", "grep", "b"]);
    assert_eq!(handback(&["call", "find", r#"{"a":"b"}"#, "--request-id", "one", "--url", &url]).code, Some(0));
    assert_eq!(handback(&["call", "find", r#"{"a":"c"}"#, "--url", &url]).code, Some(1));
    let lines = all.until("client-tool.failed");
    let words = |line: &String| line.split_whitespace().skip(1).map(str::to_owned).collect::<Vec<_>>().join(" ");
    let lines: Vec<String> = lines.iter().map(words).collect();
    for expected in [
        "client-tool.registered client_laptop_find",
        r#"client-tool.request client_laptop_find one {"a":"b"}"#,
        "client-tool.executing client_laptop_find",
        "client-tool.completed client_laptop_find",
    ] {
        assert!(lines.iter().any(|line| line == expected), "{expected} is not in {lines:#?}");
    }
    let failed: Value = serde_json::from_str(&failures.line()).unwrap();
    assert_eq!(
        (&failed["type"], &failed["properties"]["tool"]),
        (&json!("client-tool.failed"), &json!("client_laptop_find"))
    );

    server.signal(Signal::KILL);
    server.end();
    wait_for(&mut all.remarks, "the connection to ");
    let (_server, _) = serve(url.strip_prefix("http://").unwrap());
    wait_for(&mut all.remarks, "listening to ");
    let session = session(&url);
    assert!(all.until("session.created").last().unwrap().contains(&session));
    assert_eq!(all.stop().0, Some(0));
    // Nothing happened to this client.
    assert_eq!(others.stop(), (Some(0), Vec::new()));
}

#[test]
fn calls_are_listed_up_to_a_number_and_watched() {
    let (_server, url) = serve("127.0.0.1:0");
    let (_client, _) = attach(&url, &["--tool", "find", "--", "grep", "b"]);
    let call = |id: &str, input: &str| handback(&["call", "find", input, "--request-id", id, "--url", &url]).code;
    for id in ["one", "two", "three"] {
        assert_eq!(call(id, r#"{"a":"b"}"#), Some(0));
    }
    let list = |limit: &str| handback(&["calls", "--limit", limit, "--url", &url]).stdout;
    let names = |list: &str| list.lines().skip(1).map(|line| line.split(' ').next().unwrap().to_owned()).collect();
    let names: [Vec<String>; 2] = [names(&list("2")), names(&list("1000"))];
    assert_eq!(names, [vec!["three", "two"], vec!["three", "two", "one"]]);

    let mut watching = Follower::start(&url, &["calls", "--watch", "--limit", "1"]);
    let mut failing = Follower::start(&url, &["calls", "--watch", "--json", "--session", "s"]);
    assert!(watching.line().starts_with("REQUEST") && watching.line().starts_with("three"));
    wait_for(&mut watching.remarks, "listening to ");
    wait_for(&mut failing.remarks, "listening to ");
    assert_eq!(call("four", r#"{"a":"c"}"#), Some(1));
    let last = watching.until(" error ").pop().unwrap();
    let words: Vec<&str> = last.split_whitespace().collect();
    assert_eq!(words[..5], ["four", "client_laptop_find", "done", "1", "error"]);
    let arguments = ["call", "find", "{}", "--session", "s", "--request-id", "five", "--url", &url];
    assert_eq!(handback(&arguments).code, Some(1));
    let changes = failing.until(r#""state":"done""#);
    assert!(changes.iter().all(|line| line.contains(r#""requestID":"five""#)), "{changes:#?}");
    assert_eq!((failing.stop(), watching.stop().0), ((Some(0), Vec::new()), Some(0)));
}

#[test]
fn a_watched_call_that_waits_for_a_person_is_shown() {
    let (_directory, _processes, url) = asking("watched");
    let mut watching = Follower::start(&url, &["calls", "--watch", "--client", "laptop"]);
    assert!(watching.line().starts_with("REQUEST"), "there are headings without calls");
    wait_for(&mut watching.remarks, "listening to ");
    let session = session(&url);
    let said = std::thread::spawn({
        let url = url.clone();
        move || say(&url, &session, r#"call shout {"word":"hush"}"#)
    });
    watching.until(" awaiting_approval ");
    assert_eq!(handback(&["approve", ask(&url)["id"].as_str().unwrap(), "--url", &url]).code, Some(0));
    said.join().unwrap();
    watching.until(" success ");
    assert_eq!(watching.stop(), (Some(0), Vec::new()));
}

#[test]
fn watched_calls_are_read_again_without_events_and_a_silent_server_holds_no_ctrl_c_up() {
    let (_server, real) = serve("127.0.0.1:0");
    let (_client, _) = attach(&real, &["--tool", "stay", "--", "sleep", "60"]);
    assert_eq!(handback(&["call", "stay", "--no-wait", "--request-id", "one", "--url", &real]).code, Some(0));
    let call = handback(&["calls", "--json", "--url", &real]).stdout;
    let readings = AtomicUsize::new(0);
    let (url, asked) = impostor(move |path| match path {
        "/event" => Answer::Events("data: {\"type\":\"server.connected\",\"properties\":{}}\n\n".to_owned()),
        _ => match readings.fetch_add(1, Ordering::Relaxed) {
            0 => Answer::Whole(200, "[]".to_owned()),
            // It could not answer for a moment.
            1 => Answer::Whole(503, "{}".to_owned()),
            2 => Answer::Whole(200, call.clone()),
            _ => Answer::Silence,
        },
    });
    let mut watching = Follower::start(&url, &["calls", "--watch"]);
    assert!(watching.until("one ").len() == 2);
    // While the call is open, the list is read again.
    for _reading in 0..4 {
        while asked.recv_timeout(PATIENCE).unwrap() == "/event" {}
    }
    let stopped = Instant::now();
    assert_eq!(watching.stop(), (Some(0), Vec::new()));
    assert!(stopped.elapsed() < PATIENCE / 3, "Ctrl-C waited for the server");
}

#[test]
fn there_are_no_past_events() {
    let ran = handback(&["events"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""));
    assert!(ran.stderr.contains("keeps no past events; add --follow"), "{}", ran.stderr);
}

#[test]
fn a_call_that_waits_is_approved_or_denied_by_a_person() {
    let (_directory, _processes, url) = asking("approvals");
    let nothing = handback(&["approvals", "--url", &url]);
    assert_eq!((nothing.stdout.as_str(), nothing.stderr.as_str()), ("", "nothing waits to be allowed\n"));
    let session = session(&url);
    let prompt = |text: &'static str| {
        let (url, session) = (url.clone(), session.clone());
        std::thread::spawn(move || say(&url, &session, text).to_string())
    };
    let answer = |arguments: &[&str]| handback(&[arguments, &["--url", &url]].concat());

    let said = prompt(r#"call shout {"word":"hush"}"#);
    let id = ask(&url)["id"].as_str().unwrap().to_owned();
    let listed = answer(&["approvals"]).stdout;
    for shown in [&id, "client_laptop_shout", &session, r#"{"word":"hush"}"#] {
        assert!(listed.contains(shown), "{shown} is not in {listed}");
    }
    let allowed = "allowed: client_laptop_shout {\"word\":\"hush\"}\n".to_owned();
    assert_eq!(answer(&["approve", &id]), Ran { code: Some(0), stdout: allowed, stderr: String::new() });
    assert!(said.join().unwrap().contains("HUSH"));
    let late = answer(&["deny", &id]);
    assert_eq!((late.code, late.stdout.as_str()), (Some(1), ""));
    assert!(late.stderr.contains(&id) && late.stderr.contains("`handback approvals` lists"), "{}", late.stderr);

    // Before a person answers, all that the call would do can be seen, also what a terminal would obey.
    let long = format!("{}\u{202e}", "long ".repeat(100));
    let said = std::thread::spawn({
        let (url, session, text) = (url.clone(), session.clone(), format!(r#"call shout {{"word":"{long}"}}"#));
        move || say(&url, &session, &text).to_string()
    });
    let id = ask(&url)["id"].as_str().unwrap().to_owned();
    assert!(!answer(&["approvals"]).stdout.contains(&long));
    let whole = answer(&["approvals", &id]).stdout;
    let input = format!("input     {{\"word\":\"{}\\u202e\"}}", "long ".repeat(100));
    for line in [&format!("approval  {id}"), "tool      client_laptop_shout", "client    laptop", &input] {
        assert!(whole.lines().any(|shown| shown == line), "{line} is not in {whole}");
    }
    let in_json: Value = serde_json::from_str(&answer(&["approvals", &id, "--json"]).stdout).unwrap();
    assert_eq!(in_json["input"]["word"], json!(long));
    assert_eq!(answer(&["approvals", "per_none"]).code, Some(1));
    let denied = answer(&["deny", &id, "--reason", "not on a Friday", "--json"]);
    assert_eq!(serde_json::from_str::<Value>(&denied.stdout).unwrap()["id"], json!(id));
    assert!(said.join().unwrap().contains("not on a Friday"));

    // From here on nobody is asked again.
    let said = prompt(r#"call shout {"word":"first"}"#);
    assert_eq!(answer(&["approve", ask(&url)["id"].as_str().unwrap(), "--always"]).code, Some(0));
    assert!(said.join().unwrap().contains("FIRST"));
    assert!(say(&url, &session, r#"call shout {"word":"second"}"#).to_string().contains("SECOND"));
}

#[test]
fn a_conversation_is_shown_and_followed() {
    let (_directory, _processes, url) = asking("conversation");
    let session = session(&url);
    assert_eq!(say(&url, &session, "hello")["info"]["role"], "assistant");
    let before = handback(&["sessions", "show", &session, "--url", &url]).stdout;
    assert!(before.starts_with("> hello\n") && before.lines().count() > 1, "{before}");
    let mut follower = Follower::start(&url, &["sessions", "show", &session, "--follow"]);
    let mut messages = Follower::start(&url, &["sessions", "show", &session, "--follow", "--json"]);
    assert!(before.lines().all(|line| line == follower.line()));
    let said = std::thread::spawn({
        let (url, session) = (url.clone(), session.clone());
        move || say(&url, &session, r#"call shout {"word":"hush"}"#).to_string()
    });
    let id = ask(&url)["id"].as_str().unwrap().to_owned();
    assert_eq!(
        follower.until("waits to be allowed"),
        [
            r#"> call shout {"word":"hush"}"#.to_owned(),
            r#"⚙ shout {"word":"hush"} …"#.to_owned(),
            format!(r#"? shout {{"word":"hush"}} waits to be allowed: handback approve {id}"#),
        ]
    );
    assert_eq!(handback(&["approve", &id, "--url", &url]).code, Some(0));
    assert!(said.join().unwrap().contains("HUSH"));
    let last = "The tool `shout` answered: {\"WORD\":\"HUSH\"}";
    let lines = follower.until(last);
    assert!(lines[0].starts_with("✓ shout ") && lines[1] == "  │ {\"WORD\":\"HUSH\"}" && lines[2] == last, "{lines:?}");

    // Who comes later sees the same, and each message is one line of JSON.
    let shown = handback(&["sessions", "show", &session, "--url", &url]);
    assert_eq!((shown.code, shown.stderr.as_str()), (Some(0), ""));
    let shown: Vec<&str> = shown.stdout.strip_prefix(&before).unwrap().lines().collect();
    let [said, call, output, answer] = shown[..] else { panic!("{shown:#?}") };
    assert_eq!([said, output, answer], [r#"> call shout {"word":"hush"}"#, "  │ {\"WORD\":\"HUSH\"}", last]);
    assert!(call.starts_with(r#"⚙ shout {"word":"hush"} … ✓ "#), "{call}");
    let lines = messages.until("HUSH").into_iter().chain([messages.line()]);
    let lines: Vec<Value> = lines.map(|line| serde_json::from_str(&line).unwrap()).collect();
    let all: Value =
        serde_json::from_str(&handback(&["sessions", "show", &session, "--json", "--url", &url]).stdout).unwrap();
    assert_eq!(json!(lines), all);

    assert_eq!(follower.stop(), (Some(0), Vec::new()));
    let none = handback(&["sessions", "show", "ses_none", "--url", &url]);
    assert_eq!((none.code, none.stderr.contains("ses_none")), (Some(1), true), "{none:?}");
}

#[test]
fn a_message_that_is_stored_after_its_event_is_printed() {
    let (_server, real) = serve("127.0.0.1:0");
    let session = session(&real);
    let answer = say(&real, &session, "hello");
    let get = |path: &str| {
        let mut curl = Command::new("curl");
        curl.args(["-sS", "--max-time", "20", &format!("{real}{path}")]);
        run(curl).stdout
    };
    let described = get(&format!("/session/{session}"));
    let stored = json!([answer]).to_string();
    let updated = json!({ "type": "message.updated", "properties": { "sessionID": session, "info": answer["info"] } });
    let events = format!("data: {{\"type\":\"server.connected\",\"properties\":{{}}}}\n\ndata: {updated}\n\n");
    let readings = AtomicUsize::new(0);
    let (url, _asked) = impostor(move |path| match path {
        _ if path.ends_with("/event") || path == "/event" => Answer::Events(events.clone()),
        "/permission" => Answer::Whole(200, "[]".to_owned()),
        // Twice for each event: once to follow the session, and once to print it.
        _ if path.ends_with("/message") => match readings.fetch_add(1, Ordering::Relaxed) {
            0..4 => Answer::Whole(200, "[]".to_owned()),
            _ => Answer::Whole(200, stored.clone()),
        },
        _ => Answer::Whole(200, described.clone()),
    });
    let mut messages = Follower::start(&url, &["sessions", "show", &session, "--follow", "--json"]);
    assert_eq!(serde_json::from_str::<Value>(&messages.line()).unwrap(), answer);
    assert_eq!(messages.stop(), (Some(0), Vec::new()));
}

#[test]
fn a_session_whose_events_are_refused_is_an_error_unless_it_is_followed() {
    let (_server, real) = serve("127.0.0.1:0");
    let described = post(&real, "/session", &json!({ "clientID": "laptop" })).to_string();
    let (url, _asked) = impostor(move |path| match path {
        _ if path.ends_with("/event") => Answer::Whole(503, "{}".to_owned()),
        _ => Answer::Whole(200, described.clone()),
    });
    let mut shown = Follower::start(&url, &["sessions", "show", "ses_any"]);
    wait_for(&mut shown.remarks, "error: ");
    assert_eq!(shown.process.end().code(), Some(1));
}
