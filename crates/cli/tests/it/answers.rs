//! Commands against canned answers: what is printed for them.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;

use crate::{Ran, handback};

/// Answers each request with the status and body that are listed for its first line; returns its URL. Of several for one
/// line each is given once, and the last forever. Status 0 is a connection that is closed without an answer.
fn answering(answers: &[(&'static str, u16, &str)]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let mut answers: Vec<_> =
        answers.iter().map(|(start, status, body)| (*start, *status, (*body).to_owned())).collect();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = BufReader::new(stream.unwrap());
            let mut first = String::new();
            stream.read_line(&mut first).unwrap();
            let mut length = 0;
            loop {
                let mut header = String::new();
                stream.read_line(&mut header).unwrap();
                if header.trim().is_empty() {
                    break;
                }
                if let Some(value) = header.to_lowercase().strip_prefix("content-length:") {
                    length = value.trim().parse().unwrap();
                }
            }
            stream.read_exact(&mut vec![0; length]).unwrap();
            let at = answers.iter().position(|(start, ..)| first.starts_with(start)).unwrap();
            let (start, status, body) = answers[at].clone();
            if answers[at + 1..].iter().any(|(other, ..)| *other == start) {
                answers.remove(at);
            }
            if status == 0 {
                continue;
            }
            let head = format!("HTTP/1.1 {status} x\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len());
            stream.get_mut().write_all(format!("{head}{body}").as_bytes()).unwrap();
        }
    });
    url
}

fn ran(code: i32, stdout: &str, stderr: &str) -> Ran {
    Ran { code: Some(code), stdout: stdout.to_owned(), stderr: stderr.to_owned() }
}

const TOOLS: &str = r#"{"client_a_echo":{"id":"client_a_echo","description":"Says it again"},
    "client_b_echo":{"id":"client_b_echo","effect":"read","timeout":500},"client_b_tabs":{"id":"client_b_tabs"}}"#;

#[test]
fn lists_are_tables_or_json() {
    let clients = r#"[{"id":"laptop","connections":1,"tools":2,"calls":0,"since":"2026-11-15T12:00:00Z"}]"#;
    let url = answering(&[
        (
            "GET /client-tools/clients",
            200,
            r#"[{"id":"laptop","connections":1,"tools":2,"calls":0,"since":"2026-11-15T12:00:00Z"}]"#,
        ),
        ("GET /client-tools/tools/none ", 200, "[]"),
        ("GET /client-tools/tools ", 200, TOOLS),
    ]);
    let table = "CLIENT  CONNECTIONS  TOOLS  CALLS  SINCE\nlaptop  1            2      0      2026-11-15T12:00:00Z\n";
    assert_eq!(handback(&["clients", "--url", &url]), ran(0, table, ""));
    assert_eq!(handback(&["clients", "--url", &url, "--json"]), ran(0, &format!("{clients}\n"), ""));
    assert_eq!(handback(&["tools", "none", "--url", &url]), ran(0, "", "no tools\n"));
    let table = "TOOL           EFFECT  TIMEOUT  VERSION  DESCRIPTION\n\
                 client_a_echo  write                     Says it again\n\
                 client_b_echo  read    500 ms\n\
                 client_b_tabs  write\n";
    assert_eq!(handback(&["tools", "--url", &url]), ran(0, table, ""));
}

/// A server where a call of a tool has this outcome.
fn ending(outcome: &str) -> String {
    let times = r#"{"approval":0,"queue":0,"execute":0}"#;
    let call = format!(
        r#"{{"requestID":"r1","sessionID":"","messageID":"","callID":"","tool":"client_a_echo","clientID":"a","effect":"write",
        "state":"done","attempt":1,"created":"2026-11-15T12:00:00Z","mayHaveRun":true,"times":{times},"outcome":{outcome}}}"#
    );
    answering(&[
        ("GET /client-tools/tools ", 200, TOOLS),
        ("POST /client-tools/execute", 202, r#"{"requestID":"r1"}"#),
        ("GET /client-tools/calls/", 200, &call),
    ])
}

#[test]
fn a_call_prints_the_output_of_its_tool() {
    let url = ending(r#"{"status":"success","title":"","output":"two"}"#);
    assert_eq!(handback(&["call", "client_a_echo", "--url", &url]), ran(0, "two\n", ""));
    assert_eq!(handback(&["call", "tabs", "{\"a\":1}", "--url", &url]), ran(0, "two\n", ""));
    let json = "{\"status\":\"success\",\"title\":\"\",\"output\":\"two\"}\n";
    assert_eq!(handback(&["call", "tabs", "--json", "--url", &url]), ran(0, json, ""));
    let candidates = "error: echo may be any of these; give the full id:\n  client_a_echo\n  client_b_echo\n";
    assert_eq!(handback(&["call", "echo", "--url", &url]), ran(2, "", candidates));
    let unknown = "error: no client has a tool named none; `handback tools` lists what there is\n";
    assert_eq!(handback(&["call", "none", "--url", &url]), ran(1, "", unknown));
}

#[test]
fn a_call_that_ends_badly_is_exit_code_1() {
    let failing = ending(r#"{"status":"error","error":"no such file"}"#);
    let call = ["call", "client_a_echo", "--url"];
    assert_eq!(handback(&[&call[..], &[&failing]].concat()), ran(1, "", "error: the tool failed: no such file\n"));
    let not_found = ("POST", 404, r#"{"error":"there is no such tool","code":"NOT_FOUND"}"#);
    let unknown = answering(&[("GET /client-tools/tools ", 200, TOOLS), not_found]);
    let tip = "error: there is no such tool; `handback tools` lists what there is\n";
    assert_eq!(handback(&[&call[..], &[&unknown]].concat()), ran(1, "", tip));
    let late = ending(r#"{"status":"timeout","error":"no answer within 5 ms"}"#);
    assert_eq!(handback(&[&call[..], &[&late]].concat()), ran(1, "", "error: no answer within 5 ms\n"));
    let details = r#"{"mayHaveRun":true,"requestID":"r1"}"#;
    let json = format!("{{\"error\":\"no answer within 5 ms\",\"code\":\"TIMEOUT\",\"details\":{details}}}\n");
    let shown = handback(&[&call[..], &[&late, "--json", "--request-id", "r1"]].concat());
    assert_eq!(shown, ran(1, &json, "error: no answer within 5 ms\n"));
}

#[test]
fn a_call_that_is_not_waited_for_prints_its_id() {
    let url = answering(&[
        ("GET /client-tools/tools ", 200, TOOLS),
        ("POST /client-tools/execute", 202, r#"{"requestID":"r1"}"#),
    ]);
    assert_eq!(handback(&["call", "client_a_echo", "--no-wait", "--url", &url]), ran(0, "r1\n", ""));
}

#[test]
fn a_chat_asks_again_for_a_session_whose_answer_was_lost() {
    let refused = r#"{"name":"Refused","data":{"message":"this is the second request"}}"#;
    let url = answering(&[("GET /session", 200, "[]"), ("POST /session ", 0, ""), ("POST /session ", 409, refused)]);
    assert_eq!(handback(&["chat", "hello", "--url", &url]), ran(1, "", "error: this is the second request\n"));
}

#[test]
fn a_missing_key_says_where_to_put_one() {
    let url = answering(&[("GET", 401, r#"{"error":"a key is needed","code":"UNAUTHORIZED"}"#)]);
    let tip = "error: a key is needed\n\n  tip: set --token or HANDBACK_TOKEN to a key or token of this server\n";
    assert_eq!(handback(&["clients", "--url", &url]), ran(1, "", tip));
}
