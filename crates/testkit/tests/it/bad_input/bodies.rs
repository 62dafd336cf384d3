//! Bodies that are no JSON, or JSON of another shape.

use handback_testkit::TestServer;
use reqwest::Method;
use serde_json::{Value, json};

use super::{not_refused, state};

/// An endpoint, a body that it would take, what it needs of that, and what each field must not be.
struct Endpoint {
    method: &'static str,
    path: &'static str,
    good: Value,
    required: &'static [&'static str],
    bad: Vec<(&'static str, Vec<Value>)>,
}

/// No text.
fn no_text() -> Vec<Value> {
    vec![json!(5), json!(1.5), json!(true), json!([]), json!(["x"]), json!({}), json!({ "a": "b" })]
}

/// No name of a client or a tool; a name may have so many characters.
fn no_name(most: usize) -> Vec<Value> {
    let bad = ["", " ", "a b", "a/b", "a\\b", "é", "a\u{7}", "a\n", "\0", "a\u{202e}", "👍", "a%20b"];
    let bad = bad.into_iter().map(Value::from).chain([Value::from("x".repeat(most + 1)), Value::Null]);
    bad.chain(no_text()).collect()
}

/// No id that others make: anything printable within a length.
fn no_opaque_id() -> Vec<Value> {
    let bad = ["a\u{7}", "a\n", "\0", "\u{85}"].into_iter().map(Value::from);
    bad.chain([Value::from("x".repeat(257))]).chain(no_text()).collect()
}

/// No time in milliseconds. What is between two @ is written as it is, without quotes.
fn no_time() -> Vec<Value> {
    let bad = ["5", "@1e999@", "@-1e999@", "@NaN@", "@Infinity@", "@0x10@", "@+1@", "@01@", "@.5@", "@1.@", "@1e@"];
    let bad = bad.into_iter().map(Value::from);
    bad.chain([json!(0), json!(-1), json!(-0.5), json!(true), json!([5]), json!({})]).collect()
}

fn endpoints() -> Vec<Endpoint> {
    let tool = json!({
        "id": "x", "description": "d", "parameters": { "type": "object" }, "timeout": 5, "effect": "read", "version": "1",
    });
    let ids = |most| [no_name(most), no_text()].concat();
    let unregister = |method| Endpoint {
        method,
        path: "/client-tools/unregister",
        good: json!({ "clientID": "tab", "sessionID": "s", "toolIDs": ["nobody"] }),
        required: &["clientID"],
        bad: vec![
            ("/clientID", ids(128)),
            ("/sessionID", no_opaque_id()),
            ("/toolIDs", vec![json!("t"), json!(5), json!({}), json!([5]), json!([null]), json!([["t"]]), json!(true)]),
        ],
    };
    vec![
        Endpoint {
            method: "POST",
            path: "/client-tools/register",
            good: json!({ "clientID": "new", "sessionID": "s", "tools": [tool] }),
            required: &["clientID", "tools"],
            bad: vec![
                ("/clientID", ids(128)),
                ("/sessionID", no_opaque_id()),
                ("/tools", vec![json!(null), json!("x"), json!(5), json!({}), json!([5]), json!([null]), json!([[]])]),
                ("/tools/0/id", ids(64)),
                ("/tools/0/description", no_text()),
                ("/tools/0/parameters", vec![json!("x"), json!(5), json!(true), json!([]), json!([{}])]),
                ("/tools/0/timeout", no_time()),
                ("/tools/0/effect", [no_text(), vec![json!("delete"), json!("READ"), json!("")]].concat()),
                ("/tools/0/version", no_text()),
            ],
        },
        unregister("DELETE"),
        unregister("POST"),
        Endpoint {
            method: "POST",
            path: "/client-tools/execute",
            good: json!({
                "toolID": "client_tab_t", "requestID": "new", "sessionID": "s", "messageID": "m", "callID": "c",
                "input": { "a": 1 }, "timeout": 5, "wait": false,
            }),
            required: &["toolID"],
            bad: vec![
                ("/toolID", [no_text(), vec![json!(null), json!("client_tab_nobody")]].concat()),
                ("/requestID", [no_opaque_id(), vec![json!("")]].concat()),
                ("/sessionID", no_opaque_id()),
                ("/messageID", no_opaque_id()),
                ("/callID", no_opaque_id()),
                (
                    "/input",
                    vec![json!("x"), json!(5), json!(true), json!([]), json!({ "a": "x" }), json!({ "a": 1.5 })],
                ),
                ("/input/a", ["@NaN@", "@1e999@", "@\"\\ud800\"@", "@\"\u{1}\"@"].map(Value::from).to_vec()),
                ("/timeout", no_time()),
                ("/wait", vec![json!(0), json!("false"), json!([]), json!({})]),
            ],
        },
        Endpoint {
            method: "POST",
            path: "/client-tools/result",
            good: json!({ "requestID": "r", "result": { "status": "success", "title": "", "output": "", "metadata": {} } }),
            required: &["requestID", "result"],
            bad: vec![
                ("/requestID", [no_opaque_id(), vec![json!(null), json!(""), json!("nobody")]].concat()),
                ("/result", vec![json!("success"), json!(5), json!(true), json!([]), json!({}), json!(["success"])]),
                ("/result/status", [no_text(), vec![json!(null), json!(""), json!("done"), json!("SUCCESS")]].concat()),
                ("/result/title", no_text()),
                ("/result/output", no_text()),
                ("/result/metadata", vec![json!("x"), json!(5), json!(true), json!([]), json!([{}])]),
                (
                    "/result/attachments",
                    vec![json!("x"), json!({}), json!([5]), json!([{}]), json!([{ "mime": "a/b" }])],
                ),
            ],
        },
        Endpoint {
            method: "POST",
            path: "/client-tools/cancel",
            good: json!({ "requestID": "r", "reason": "x" }),
            required: &["requestID"],
            bad: vec![
                ("/requestID", [no_opaque_id(), vec![json!(null), json!(""), json!("nobody")]].concat()),
                ("/reason", no_text()),
            ],
        },
        Endpoint {
            method: "POST",
            path: "/auth/client-token",
            good: json!({ "clientID": "tab", "sessionID": "s", "ttl": 5 }),
            required: &["clientID"],
            bad: vec![("/clientID", ids(128)), ("/sessionID", no_opaque_id()), ("/ttl", no_time())],
        },
    ]
}

/// Bodies that no endpoint takes.
fn never() -> Vec<Vec<u8>> {
    let deep = |open: &str| open.repeat(10_000).into_bytes();
    let closed = [deep("["), deep("]")].concat();
    let texts = [
        "",
        " ",
        "\n\n",
        "nonsense",
        "{",
        "}",
        "[",
        "[]",
        "[{}]",
        "null",
        "true",
        "5",
        "-",
        "1e999",
        "\"text\"",
        "\"",
        "{}",
        "{,}",
        "{\"a\":1,}",
        "{\"a\" 1}",
        "{'clientID':'tab'}",
        "{clientID:\"tab\"}",
        "{\"clientID\":\"tab\"",
        "{}{}",
        "/* x */ {}",
        "\u{feff}{}",
        "{\"clientID\":NaN}",
        "{\"requestID\":\"\\ud800\"}",
        "{\"clientID\":\"\\ud800\"}",
        "{\"toolID\":\"\\udc00\\ud800\"}",
        "{\"clientID\":\"\\x41\"}",
        "{\"clientID\":\"a\nb\"}",
        "\0",
        "{}\0",
        "clientID=tab&tools=",
        "<xml/>",
        "--boundary\r\n",
    ];
    let bytes = [
        b"\xff\xfe{\x00}\x00".to_vec(),
        b"{\"clientID\":\"\xff\"}".to_vec(),
        b"{\"requestID\":\"\xed\xa0\x80\"}".to_vec(),
        b"{\"toolID\":\"\xc0\x80\"}".to_vec(),
        vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0],
        deep("["),
        closed,
        deep("{\"a\":"),
        deep("{\"tools\":["),
    ];
    texts.iter().map(|text| text.as_bytes().to_vec()).chain(bytes).collect()
}

impl Endpoint {
    /// Every bad body, with what it shows.
    fn bodies(&self) -> Vec<(String, Vec<u8>)> {
        let mut bodies: Vec<(String, Vec<u8>)> = never()
            .into_iter()
            .map(|body| (String::from_utf8_lossy(&body[..body.len().min(60)]).into_owned(), body))
            .collect();
        for field in self.required {
            let mut body = self.good.clone();
            body.as_object_mut().unwrap().remove(*field);
            bodies.push((format!("without {field}"), body.to_string().into_bytes()));
            // The same field twice: nobody can tell which was meant.
            let twice = self.good.to_string().replacen('{', &format!("{{\"{field}\":{},", self.good[*field]), 1);
            bodies.push((format!("{field} twice"), twice.into_bytes()));
        }
        for (place, values) in &self.bad {
            for value in values {
                bodies.push((format!("{place} = {:.60}", value.to_string()), with(&self.good, place, value)));
            }
        }
        bodies
    }
}

/// A body with another value at a place. A value between two @ is written as it is, without quotes.
fn with(body: &Value, place: &str, value: &Value) -> Vec<u8> {
    const BARE: &str = "written as it is";
    let bare = value.as_str().and_then(|text| text.strip_prefix('@')?.strip_suffix('@'));
    let value = if bare.is_some() { BARE.into() } else { value.clone() };
    let mut body = body.clone();
    match body.pointer_mut(place) {
        Some(field) => *field = value,
        // Only the good body of a result has no attachments.
        None => body["result"]["attachments"] = value,
    }
    body.to_string().replace(&format!("\"{BARE}\""), bare.unwrap_or(BARE)).into_bytes()
}

#[tokio::test]
async fn every_bad_body_is_refused_and_changes_nothing() {
    let server = TestServer::protected(|_| {}).await;
    let schema = json!({ "type": "object", "properties": { "a": { "type": "integer" } } });
    let tools = json!([{ "id": "t", "parameters": schema }]);
    server.post("/client-tools/register", json!({ "clientID": "tab", "tools": tools })).await;
    for request in ["r", "done"] {
        server.begin_call(json!({ "toolID": "client_tab_t", "requestID": request })).await;
    }
    server.answer("done", "").await;
    let before = state(&server).await;

    let mut wrong = Vec::new();
    let mut count = 0;
    for endpoint in endpoints() {
        for (what, body) in endpoint.bodies() {
            let request = server.request(endpoint.method.parse::<Method>().unwrap(), endpoint.path).body(body);
            if let Some(complaint) = not_refused(request).await {
                wrong.push(format!("{} {}: {what}: {complaint}", endpoint.method, endpoint.path));
            }
            count += 1;
            if state(&server).await != before {
                wrong.push(format!("{} {}: {what}: something changed", endpoint.method, endpoint.path));
                break;
            }
        }
    }
    assert!(count > 500, "only {count} bodies were tried");
    assert!(wrong.is_empty(), "{} of {count}: {wrong:#?}", wrong.len());
}

#[tokio::test]
async fn the_good_bodies_of_the_table_are_good() {
    let server = TestServer::protected(|_| {}).await;
    server.register("tab", &["t"]).await;
    server.begin_call(json!({ "toolID": "client_tab_t", "requestID": "r" })).await;
    for endpoint in endpoints() {
        if endpoint.path.ends_with("/cancel") {
            server.begin_call(json!({ "toolID": "client_tab_t", "requestID": "r2" })).await;
        }
        let mut body = endpoint.good;
        if endpoint.path.ends_with("/cancel") {
            body["requestID"] = json!("r2");
        }
        let request = server.request(endpoint.method.parse::<Method>().unwrap(), endpoint.path).json(&body);
        let status = request.send().await.unwrap().status().as_u16();
        assert!([200, 202].contains(&status), "{} {}: {status}", endpoint.method, endpoint.path);
    }
}

#[tokio::test]
async fn what_is_nested_too_deep_is_refused() {
    let server = TestServer::start().await;
    let ids = server.register("tab", &["t"]).await;
    server.begin_call(json!({ "toolID": ids[0], "requestID": "r" })).await;
    let before = state(&server).await;
    let nested = |depth: usize, open: &str, close: &str| format!("{}1{}", open.repeat(depth), close.repeat(depth));
    let mut wrong = Vec::new();
    for depth in [129, 10_000, 100_000] {
        for (open, close) in [("{\"a\":", "}"), ("[", "]")] {
            let value = nested(depth, open, close);
            let bodies = [
                ("execute", format!("{{\"toolID\":\"{}\",\"wait\":false,\"input\":{{\"x\":{value}}}}}", ids[0])),
                ("result", format!("{{\"requestID\":\"r\",\"status\":\"success\",\"metadata\":{{\"x\":{value}}}}}")),
                (
                    "register",
                    format!("{{\"clientID\":\"tab\",\"tools\":[{{\"id\":\"x\",\"parameters\":{{\"x\":{value}}}}}]}}"),
                ),
                ("register", format!("{{\"clientID\":\"tab\",\"tools\":{value}}}")),
            ];
            for (path, body) in bodies {
                let request = server.request(Method::POST, &format!("/client-tools/{path}")).body(body);
                if let Some(complaint) = not_refused(request).await {
                    wrong.push(format!("{path} with {depth} times {open}: {complaint}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert_eq!(state(&server).await, before);
}
