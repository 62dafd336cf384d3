//! Requests that are wrong in every way: each gets an error of this API, soon, and nothing half-made stays behind.

use std::time::Duration;

use handback_core::tools::Permission;
use handback_testkit::raw::Head;
use handback_testkit::session::permit;
use handback_testkit::{Answer, RawSocket};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;

use super::World;
use super::errors::name_of;

/// How long any answer may take.
const SOON: Duration = Duration::from_secs(5);

/// A world with something of everything: a session with a turn that is over, one whose turn waits to be allowed, and a
/// call that is under way.
async fn lived_in() -> (World, Value) {
    let mut world = World::with(|config| permit(config, Permission::Ask)).await;
    world.model.will_say("Hello.");
    world.server.say(&world.session, "hi").await;
    world.server.until_idle(&world.session).await;
    let waiting = world.server.session_of("tab").await;
    world.model.will_call(&[("client_tab_a", json!({ "n": 1 }))]);
    world.server.prompt_async(&waiting, "count").await;
    let ask = world.server.until_asked(1).await.remove(0);
    world.server.begin_call(json!({ "toolID": "client_tab_b", "requestID": "open" })).await;
    world.stream.expect_call("open").await;
    (world, ask)
}

/// All that the server knows, without what time alone changes.
async fn state(world: &World) -> Value {
    let get = async |path: &str| world.server.get(path).await.body;
    let sessions = get("/session").await;
    let mut messages = Vec::new();
    for session in sessions.as_array().unwrap() {
        messages.push(get(&format!("/session/{}/message", session["id"].as_str().unwrap())).await);
    }
    let mut calls = get("/client-tools/calls").await;
    for call in calls.as_array_mut().unwrap() {
        call["times"].take();
    }
    let [asks, status, tools] =
        [get("/permission").await, get("/session/status").await, get("/client-tools/tools").await];
    json!({
        "sessions": sessions, "messages": messages, "calls": calls, "asks": asks, "status": status, "tools": tools,
        "shown to the model": world.model.shown().len(),
    })
}

/// A request as bytes.
fn request(method: &str, path: &str, body: impl AsRef<[u8]>) -> Vec<u8> {
    let body = body.as_ref();
    let head = format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n", body.len());
    [head.as_bytes(), body].concat()
}

/// What is wrong with an answer that should have been a refusal; `None` if nothing is.
fn complaint(head: &Head, answer: &Answer) -> Option<String> {
    let text = answer.body.to_string();
    if !(400..500).contains(&answer.status) {
        return Some(format!("status {}: {text:.200}", answer.status));
    }
    if head.header("content-type") != "application/json" {
        return Some(format!("content type {:?}: {text:.200}", head.header("content-type")));
    }
    let name = name_of(answer.status);
    let message = answer.body["data"]["message"].as_str().unwrap_or_default();
    if message.is_empty() || answer.body != json!({ "name": name, "data": { "message": message } }) {
        return Some(format!("another shape: {text:.200}"));
    }
    if message.len() > 2000 {
        return Some(format!("a message of {} bytes", message.len()));
    }
    let leaks = ["panicked", "backtrace", ".rs:", "/src/", ".cargo"];
    let leak = leaks.iter().find(|leak| text.contains(**leak))?;
    Some(format!("it shows our inside ({leak}): {text:.400}"))
}

/// Sends every request, and checks that each is refused and nothing changes.
async fn all_refused(world: &World, requests: Vec<(String, Vec<u8>)>) {
    let before = state(world).await;
    let mut wrong = Vec::new();
    let count = requests.len();
    for (what, bytes) in requests {
        match tokio::time::timeout(SOON, RawSocket::exchange(world.server.address, bytes)).await {
            Err(_) => wrong.push(format!("{what}: no answer within {SOON:?}")),
            Ok((head, answer)) => {
                wrong.extend(complaint(&head, &answer).map(|complaint| format!("{what}: {complaint}")))
            }
        }
        let after = state(world).await;
        if after != before {
            wrong.push(format!("{what}: something changed"));
            break;
        }
    }
    assert!(wrong.is_empty(), "{} of {count}: {wrong:#?}", wrong.len());
}

/// Bodies that no endpoint takes.
fn never() -> Vec<Vec<u8>> {
    let texts = [
        "nonsense",
        "{",
        "}",
        "[",
        "[]",
        "[{}]",
        "[[]]",
        "null",
        "true",
        "5",
        "1e999",
        "\"text\"",
        "\"",
        "{,}",
        "{\"a\":1,}",
        "{\"a\" 1}",
        "{'parts':[]}",
        "{parts:[]}",
        "{}{}",
        "/* x */ {}",
        "\u{feff}{}",
        "{\"title\":NaN}",
        "{\"title\":\"a\nb\"}",
        "\0",
        "{}\0",
        "title=x&parts=y",
        "<xml/>",
        "--boundary\r\n",
    ];
    let bytes = [
        b"\xff\xfe{\x00}\x00".to_vec(),
        b"{\"title\":\"\xff\",\"parts\":\"\xff\"}".to_vec(),
        b"{\"title\":\"\xed\xa0\x80\"}".to_vec(),
        vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0],
        "[".repeat(10_000).into_bytes(),
        [b"[".repeat(10_000), b"]".repeat(10_000)].concat(),
        "{\"a\":".repeat(10_000).into_bytes(),
        "{\"parts\":[".repeat(10_000).into_bytes(),
    ];
    texts.iter().map(|text| text.as_bytes().to_vec()).chain(bytes).collect()
}

/// Something nested so deep.
fn nested(depth: usize) -> Value {
    (0..depth).fold(json!(1), |inner, _| json!({ "a": inner }))
}

/// Values that are no text.
fn no_text() -> Vec<Value> {
    vec![json!(5), json!(1.5), json!(true), json!([]), json!(["x"]), json!({}), json!({ "a": "b" })]
}

/// Values that are no model.
fn no_model() -> Vec<Value> {
    vec![
        json!("fake/one"),
        json!(5),
        json!(true),
        json!([]),
        json!({}),
        json!(["fake", "one"]),
        json!({ "providerID": "fake" }),
        json!({ "modelID": "one" }),
        json!({ "providerID": 5, "modelID": "one" }),
        json!({ "providerID": "fake", "modelID": 5 }),
        json!({ "providerID": "fake", "modelID": "" }),
        json!({ "providerID": "", "modelID": "one" }),
        json!({ "providerID": "nowhere", "modelID": "one" }),
        json!({ "providerID": "fa/ke", "modelID": "one" }),
        json!({ "providerID": "fake", "modelID": "x".repeat(300) }),
        json!({ "providerID": "fake", "modelID": "a\nb" }),
        json!({ "providerID": "fake", "modelID": "one", "id": "two" }),
    ]
}

/// Values that are no client.
fn no_client() -> Vec<Value> {
    let names = ["", " ", "a b", "a/b", "é", "a\n", "\0"].map(Value::from);
    names.into_iter().chain([json!("x".repeat(129))]).chain(no_text()).collect()
}

/// A body in which each of these fields is each of these values, one after the other.
fn each(good: &Value, fields: Vec<(&str, Vec<Value>)>) -> Vec<(String, Vec<u8>)> {
    let mut bodies = Vec::new();
    for (field, values) in fields {
        for value in values {
            let mut body = good.clone();
            let what = format!("{field} = {:.60}", value.to_string());
            body[field] = value;
            bodies.push((what, body.to_string().into_bytes()));
        }
    }
    bodies
}

/// A table of bodies as requests to one endpoint, with those that no endpoint takes.
fn to(method: &str, path: &str, bodies: Vec<(String, Vec<u8>)>) -> Vec<(String, Vec<u8>)> {
    let never =
        never().into_iter().map(|body| (String::from_utf8_lossy(&body[..body.len().min(60)]).into_owned(), body));
    let all = never.chain(bodies);
    all.map(|(what, body)| (format!("{method} {path}: {what}"), request(method, path, body))).collect()
}

#[tokio::test]
async fn a_session_is_not_made_from_a_bad_body() {
    let (world, _) = lived_in().await;
    let deep = format!("{{\"metadata\":{{\"x\":{}1{}}}}}", "[".repeat(10_000), "]".repeat(10_000)).into_bytes();
    let mut bodies = each(
        &json!({ "title": "x" }),
        vec![
            ("title", no_text()),
            (
                "parentID",
                [no_text(), vec![json!("ses_nobody"), json!(""), json!("a\nb"), json!("x".repeat(257))]].concat(),
            ),
            ("clientID", no_client()),
            ("agent", [no_text(), vec![json!("nobody"), json!("")]].concat()),
            ("model", no_model()),
            (
                "metadata",
                vec![json!("x"), json!(5), json!(true), json!([]), json!([{}]), json!({ "clientID": 5 }), nested(129)],
            ),
        ],
    );
    bodies.extend([
        ("metadata nested 10,000 deep".to_owned(), deep),
        ("title twice".to_owned(), b"{\"title\":\"a\",\"title\":\"b\"}".to_vec()),
        ("values without names".to_owned(), b"[\"title\"]".to_vec()),
        ("5 MiB".to_owned(), format!("{{\"title\":\"{}\"}}", "x".repeat(5 << 20)).into_bytes()),
    ]);
    all_refused(&world, to("POST", "/session", bodies)).await;
}

fn bad_prompts() -> Vec<(String, Vec<u8>)> {
    let good = json!({ "parts": [{ "type": "text", "text": "x" }] });
    let no_parts = vec![
        json!(null),
        json!([]),
        json!("x"),
        json!(5),
        json!(true),
        json!({}),
        json!([5]),
        json!([null]),
        json!(["text"]),
        json!([[]]),
        json!([["text", "x"]]),
        json!([{}]),
        json!([{ "type": "text" }]),
        json!([{ "text": "x" }]),
        json!([{ "type": "text", "text": 5 }]),
        json!([{ "type": "text", "text": null }]),
        json!([{ "type": "text", "text": ["x"] }]),
        json!([{ "type": "text", "text": "" }]),
        json!([{ "type": "text", "text": " \n\t" }]),
        json!([{ "type": "unknown", "text": "x" }]),
        json!([{ "type": "Text", "text": "x" }]),
        json!([{ "type": null, "text": "x" }]),
        json!([{ "type": 5, "text": "x" }]),
        json!([{ "type": "tool", "tool": "x", "callID": "y", "state": {} }]),
        json!([{ "type": "step-start" }]),
        json!([{ "type": "file" }]),
        json!([{ "type": "file", "mime": "image/png" }]),
        json!([{ "type": "file", "url": "data:,x" }]),
        json!([{ "type": "file", "mime": 5, "url": "data:,x" }]),
        json!([{ "type": "file", "mime": "a/b", "url": [] }]),
        json!([{ "type": "file", "mime": "a/b", "url": "data:,x", "filename": 5 }]),
        json!([{ "type": "text", "text": "good" }, { "type": "unknown" }]),
        json!([{ "type": "text", "text": "good" }, 5]),
    ];
    let mut bodies = each(
        &good,
        vec![
            ("parts", no_parts),
            ("clientID", no_client()),
            ("model", no_model()),
            ("agent", [no_text(), vec![json!("nobody"), json!("")]].concat()),
            ("system", no_text()),
            (
                "tools",
                vec![json!("x"), json!(5), json!([]), json!({ "a": 5 }), json!({ "a": "false" }), json!({ "a": null })],
            ),
            ("messageID", [no_text(), vec![json!(""), json!("a\nb"), json!("\0"), json!("x".repeat(257))]].concat()),
            ("noReply", vec![json!("yes"), json!(1), json!([]), json!({})]),
        ],
    );
    let huge = format!("{{\"parts\":[{{\"type\":\"text\",\"text\":\"{}\"}}]}}", "x".repeat(5 << 20));
    bodies.extend([
        ("no parts".to_owned(), b"{}".to_vec()),
        ("nothing".to_owned(), Vec::new()),
        ("blanks".to_owned(), b" \n".to_vec()),
        ("values without names".to_owned(), b"[[{\"type\":\"text\",\"text\":\"x\"}]]".to_vec()),
        ("parts twice".to_owned(), b"{\"parts\":[{\"type\":\"text\",\"text\":\"x\"}],\"parts\":[]}".to_vec()),
        (
            "another client".to_owned(),
            b"{\"parts\":[{\"type\":\"text\",\"text\":\"x\"}],\"clientID\":\"other\"}".to_vec(),
        ),
        ("5 MiB".to_owned(), huge.into_bytes()),
    ]);
    bodies
}

#[tokio::test]
async fn nothing_is_said_by_a_bad_message() {
    let (world, _) = lived_in().await;
    all_refused(&world, to("POST", &format!("/session/{}/message", world.session), bad_prompts())).await;
}

#[tokio::test]
async fn nothing_is_said_by_a_bad_message_that_nobody_waits_for() {
    let (world, ask) = lived_in().await;
    // In the session whose turn is under way, as well.
    let busy = ask["sessionID"].as_str().unwrap();
    all_refused(&world, to("POST", &format!("/session/{busy}/prompt_async"), bad_prompts())).await;
}

#[tokio::test]
async fn an_ask_stays_open_whatever_bad_answer_it_gets() {
    let (world, ask) = lived_in().await;
    let [session, id] = [&ask["sessionID"], &ask["id"]].map(|id| id.as_str().unwrap());
    let no_reply = [no_text(), vec![json!(null), json!(""), json!("ONCE"), json!("yes"), json!("allow")]].concat();
    let no_input =
        vec![json!("x"), json!(5), json!(true), json!([]), json!({ "n": "x" }), json!({ "n": 1.5 }), nested(200)];
    let mut requests = Vec::new();
    for (path, field) in
        [(format!("/session/{session}/permissions/{id}"), "response"), (format!("/permission/{id}/reply"), "reply")]
    {
        let good = json!({ field: "once" });
        let mut bodies =
            each(&good, vec![(field, no_reply.clone()), ("input", no_input.clone()), ("message", no_text())]);
        bodies.extend([
            ("no answer".to_owned(), b"{}".to_vec()),
            ("nothing".to_owned(), Vec::new()),
            ("values without names".to_owned(), b"[\"once\"]".to_vec()),
            ("twice".to_owned(), format!("{{\"{field}\":\"once\",\"{field}\":\"reject\"}}").into_bytes()),
        ]);
        requests.extend(to("POST", &path, bodies));
    }
    all_refused(&world, requests).await;
}

#[tokio::test]
async fn paths_ids_methods_and_queries_that_make_no_sense_are_refused() {
    let (world, ask) = lived_in().await;
    let [own, ask] = [&json!(world.session), &ask["id"]].map(|id| id.as_str().unwrap().to_owned());
    let mut requests = Vec::new();
    let mut add = |method: &str, path: &str, body: &str| {
        requests.push((format!("{method} {path:.80}"), request(method, path, body)));
    };
    let prompt = "{\"parts\":[{\"type\":\"text\",\"text\":\"x\"}]}";
    let long = "x".repeat(300);
    for id in ["nobody", "ses_nobody", "%00", "a%0Ab", "%ff", "%c3%28", "%ed%a0%80", &long, "..", "%2e%2e", "%20", "*"]
    {
        add("GET", &format!("/session/{id}"), "");
        add("DELETE", &format!("/session/{id}"), "");
        add("GET", &format!("/session/{id}/message"), "");
        add("GET", &format!("/session/{id}/tools"), "");
        add("POST", &format!("/session/{id}/message"), prompt);
        add("POST", &format!("/session/{id}/prompt_async"), prompt);
        add("POST", &format!("/session/{id}/abort"), "");
        add("POST", &format!("/session/{id}/permissions/{ask}"), "{\"response\":\"once\"}");
        add("POST", &format!("/session/{own}/permissions/{id}"), "{\"response\":\"once\"}");
        add("POST", &format!("/permission/{id}/reply"), "{\"reply\":\"once\"}");
    }
    for path in [
        "/session/",
        "/session//",
        "/session//message",
        "/session/status/",
        "/session/a/b",
        "/permission/",
        "/permission/x",
    ] {
        for method in ["GET", "POST"] {
            add(method, path, "{}");
        }
    }
    for rest in [
        "/",
        "/nothing",
        "/message/",
        "/message/msg_x",
        "/message/x/y",
        "/permissions",
        "/permissions/",
        "/permissions/a/b",
        "/share",
        "/init",
    ] {
        add("GET", &format!("/session/{own}{rest}"), "");
        add("POST", &format!("/session/{own}{rest}"), "{}");
    }
    let methods = [
        ("/session".to_owned(), vec!["PUT", "PATCH", "DELETE", "TRACE", "CONNECTED"]),
        ("/session/status".to_owned(), vec!["POST", "PUT", "PATCH"]),
        (format!("/session/{own}"), vec!["POST", "PUT", "PATCH"]),
        (format!("/session/{own}/message"), vec!["PUT", "PATCH", "DELETE"]),
        (format!("/session/{own}/prompt_async"), vec!["GET", "PUT", "DELETE"]),
        (format!("/session/{own}/abort"), vec!["GET", "PUT", "DELETE"]),
        (format!("/session/{own}/tools"), vec!["POST", "PUT", "DELETE"]),
        (format!("/session/{own}/permissions/{ask}"), vec!["GET", "PUT", "DELETE"]),
        ("/permission".to_owned(), vec!["POST", "PUT", "DELETE"]),
        (format!("/permission/{ask}/reply"), vec!["GET", "PUT", "DELETE"]),
    ];
    for (path, methods) in methods {
        for method in methods {
            add(method, &path, prompt);
        }
    }
    for limit in ["x", "-1", "1.5", "1e3", "%ff", "99999999999999999999999", "1&limit=2"] {
        add("GET", &format!("/session?limit={limit}"), "");
        add("GET", &format!("/session/{own}/message?limit={limit}"), "");
    }
    assert!(requests.len() > 150, "{}", requests.len());
    all_refused(&world, requests).await;
}

#[tokio::test]
async fn bodies_that_are_not_as_long_as_they_say_are_refused() {
    let (world, _) = lived_in().await;
    let before = state(&world).await;
    let path = format!("/session/{}/message", world.session);
    let body = "{\"parts\":[{\"type\":\"text\",\"text\":\"x\"}]}";
    let head = |length: &str| format!("POST {path} HTTP/1.1\r\nHost: localhost\r\n{length}\r\n\r\n");
    // Answered in the shape of this API.
    let ours = [
        ("too short", format!("{}{body}", head(&format!("Content-Length: {}", body.len() - 1)))),
        ("nothing", head("Content-Length: 0")),
        ("no length", format!("{}{body}", head("X-Nothing: x"))),
        ("more than may be", format!("{}{body}", head("Content-Length: 99999999"))),
        ("too long", format!("{}{body}", head(&format!("Content-Length: {}", body.len() + 10)))),
        ("a broken chunk", format!("{}5\r\n{{\"par\r\nzz\r\n", head("Transfer-Encoding: chunked"))),
        ("half a chunk", format!("{}ff\r\n{{\"par", head("Transfer-Encoding: chunked"))),
        ("no last chunk", format!("{}{:x}\r\n{body}\r\n", head("Transfer-Encoding: chunked"), body.len())),
    ];
    for (what, bytes) in ours {
        let mut socket = RawSocket::open(world.server.address).await;
        _ = socket.send(bytes).await;
        // Nothing more comes.
        _ = socket.socket.shutdown().await;
        let (head, answer) = tokio::time::timeout(SOON, socket.answer()).await.unwrap_or_else(|_| panic!("{what}"));
        assert_eq!(complaint(&head, &answer), None, "{what}");
        assert_eq!(state(&world).await, before, "{what}");
    }
    // No request at all, before there is a path: refused, and the connection is closed.
    let never = [
        ("not a number", format!("{}{body}", head("Content-Length: many"))),
        ("negative", format!("{}{body}", head("Content-Length: -1"))),
        ("two of them", format!("{}{body}", head(&format!("Content-Length: {}\r\nContent-Length: 5", body.len())))),
        ("a bad header", format!("{}{body}", head("Content-Length : 5\r\nx y: z"))),
        ("a bad line", format!("POST {path}\r\n\r\n{body}")),
    ];
    for (what, bytes) in never {
        let mut socket = RawSocket::open(world.server.address).await;
        _ = socket.send(bytes).await;
        let head = tokio::time::timeout(SOON, socket.head()).await.unwrap_or_else(|_| panic!("{what}"));
        assert_eq!(head.status, 400, "{what}");
        socket.drain().await;
        assert_eq!(state(&world).await, before, "{what}");
    }
}

#[tokio::test]
async fn a_body_that_does_not_come_is_not_waited_for_for_ever() {
    let world = World::with(|config| config.limits.body_timeout = Duration::from_millis(100)).await;
    let mut socket = RawSocket::open(world.server.address).await;
    let head =
        format!("POST /session/{}/message HTTP/1.1\r\nHost: localhost\r\nContent-Length: 50\r\n\r\n", world.session);
    socket.send(format!("{head}{{\"parts\":")).await.unwrap();
    let (head, answer) = tokio::time::timeout(SOON, socket.answer()).await.unwrap();
    assert_eq!(complaint(&head, &answer), None);
    assert_eq!(world.history().await, Vec::<String>::new());
}

#[tokio::test]
async fn what_is_large_and_deep_and_within_the_bounds_is_taken() {
    let world = World::start().await;
    let metadata = json!({ "deep": nested(100), "text": "x".repeat(60 << 10) });
    let made = world.server.post("/session", json!({ "clientID": "tab", "metadata": metadata })).await;
    assert_eq!((made.status, &made.body["metadata"]), (200, &metadata));
    let text = "ä".repeat(1 << 20);
    world.model.will_say("Long.");
    world.server.say(&world.session, &text).await;
    assert_eq!(world.model.last_shown().conversation, [format!("user | {text}")]);
    assert_eq!(world.server.messages(&world.session).await[0]["parts"][0]["text"], text);
}
