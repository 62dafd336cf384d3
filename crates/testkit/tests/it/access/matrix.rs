//! Every endpoint with every kind of caller: one table.

use handback_server::config::Agent;
use handback_testkit::TestServer;
use handback_testkit::keys::{APPLICATION_KEY, seconds_from_now, token};
use reqwest::Method;
use serde_json::{Value, json};

/// Who asks. The calls and tools asked for are those of client `tab` in session `s1`.
const CALLERS: [&str; 8] = [
    "none",
    "wrong",
    "expired",
    "another client",
    "another session",
    "the client",
    "the client everywhere",
    "the application",
];

/// What is asked for, and the status that each of [`CALLERS`] gets. `{call}` is a call under way, a new one each time.
type Row = (&'static str, &'static str, fn(&str) -> Option<Value>, [u16; 8]);

fn nothing(_: &str) -> Option<Value> {
    None
}

fn registration(_: &str) -> Option<Value> {
    Some(json!({ "clientID": "tab", "sessionID": "s1", "tools": [{ "id": "t" }] }))
}

fn own_tools(_: &str) -> Option<Value> {
    Some(json!({ "clientID": "tab", "sessionID": "s1", "toolIDs": [] }))
}

fn execution(_: &str) -> Option<Value> {
    Some(json!({ "toolID": "client_tab_t", "sessionID": "s1", "wait": false }))
}

fn result(call: &str) -> Option<Value> {
    Some(json!({ "requestID": call, "result": { "status": "success" } }))
}

fn cancel(call: &str) -> Option<Value> {
    Some(json!({ "requestID": call }))
}

fn unknown(_: &str) -> Option<Value> {
    Some(json!({ "requestID": "nobody", "status": "success" }))
}

fn goodbye(_: &str) -> Option<Value> {
    Some(json!({ "clientID": "tab", "connection": "unknown" }))
}

fn token_request(_: &str) -> Option<Value> {
    Some(json!({ "clientID": "tab" }))
}

fn opaque(_: &str) -> Option<Value> {
    Some(json!({ "clientID": "tab", "sessionID": "opaque", "tools": [{ "id": "t" }] }))
}

fn session(_: &str) -> Option<Value> {
    Some(json!({}))
}

fn of_clerk(_: &str) -> Option<Value> {
    Some(json!({ "agent": "clerk" }))
}

fn of_nobody(_: &str) -> Option<Value> {
    Some(json!({ "agent": "nobody" }))
}

const TABLE: [Row; 67] = [
    ("POST", "/client-tools/register", opaque, [401, 401, 401, 403, 403, 403, 403, 200]),
    ("POST", "/session", session, [401, 401, 401, 403, 403, 403, 200, 200]),
    ("POST", "/session", of_clerk, [401, 401, 401, 403, 403, 403, 403, 200]),
    ("POST", "/session", of_nobody, [401, 401, 401, 403, 403, 403, 403, 400]),
    ("GET", "/agui/clerk", nothing, [401, 401, 401, 403, 403, 403, 403, 200]),
    ("GET", "/agui/nobody", nothing, [401, 401, 401, 403, 403, 403, 403, 404]),
    ("GET", "/api/v1/rooms/clerk/agui", nothing, [401, 401, 401, 403, 403, 403, 403, 200]),
    ("POST", "/client-tools/register", registration, [401, 401, 401, 403, 403, 200, 403, 200]),
    ("DELETE", "/client-tools/unregister", own_tools, [401, 401, 401, 403, 403, 200, 200, 200]),
    ("POST", "/client-tools/unregister", own_tools, [401, 401, 401, 403, 403, 200, 200, 200]),
    ("POST", "/client-tools/execute", execution, [401, 401, 401, 403, 403, 403, 403, 202]),
    ("POST", "/client-tools/result", result, [401, 401, 401, 403, 403, 200, 200, 200]),
    ("POST", "/client-tools/result", unknown, [401, 401, 401, 404, 404, 404, 404, 404]),
    ("POST", "/client-tools/cancel", cancel, [401, 401, 401, 403, 403, 200, 200, 200]),
    ("GET", "/client-tools/calls/{call}", nothing, [401, 401, 401, 403, 403, 200, 200, 200]),
    ("GET", "/client-tools/calls/{call}?wait=1", nothing, [401, 401, 401, 403, 403, 200, 200, 200]),
    ("GET", "/client-tools/calls?clientID=tab", nothing, [401, 401, 401, 403, 200, 200, 200, 200]),
    ("GET", "/client-tools/calls?sessionID=s1", nothing, [401, 401, 401, 200, 403, 200, 200, 200]),
    ("GET", "/client-tools/calls", nothing, [401, 401, 401, 200, 200, 200, 200, 200]),
    ("GET", "/client-tools/tools/tab", nothing, [401, 401, 401, 403, 200, 200, 200, 200]),
    ("GET", "/client-tools/tools", nothing, [401, 401, 401, 200, 200, 200, 200, 200]),
    ("GET", "/client-tools/clients", nothing, [401, 401, 401, 200, 200, 200, 200, 200]),
    ("GET", "/client-tools/pending/tab", nothing, [401, 401, 401, 403, 200, 200, 200, 200]),
    ("HEAD", "/client-tools/pending/tab", nothing, [401, 401, 401, 405, 405, 405, 405, 405]),
    ("GET", "/client-tools/ws/tab", nothing, [401, 401, 401, 403, 426, 426, 426, 426]),
    ("POST", "/client-tools/disconnect", goodbye, [401, 401, 401, 403, 200, 200, 200, 200]),
    ("GET", "/event", nothing, [401, 401, 401, 200, 200, 200, 200, 200]),
    ("POST", "/auth/client-token", token_request, [401, 401, 401, 403, 403, 403, 403, 200]),
    ("GET", "/status", nothing, [401, 401, 401, 403, 403, 403, 403, 200]),
    ("GET", "/metrics", nothing, [401, 401, 401, 403, 403, 403, 403, 200]),
    ("GET", "/doc", nothing, [401, 401, 401, 403, 403, 403, 403, 200]),
    ("GET", "/healthz", nothing, [200; 8]),
    ("GET", "/readyz", nothing, [200; 8]),
    ("GET", "/nothing/here", nothing, [401, 401, 401, 404, 404, 404, 404, 404]),
    ("PUT", "/client-tools/register", nothing, [401, 401, 401, 405, 405, 405, 405, 405]),
    ("GET", "/session/s1", nothing, [401, 401, 401, 404, 404, 404, 404, 404]),
    ("GET", "/session/s1/children", nothing, [401, 401, 401, 404, 404, 404, 404, 404]),
    ("GET", "/session/s1/todo", nothing, [401, 401, 401, 404, 404, 404, 404, 404]),
    ("GET", "/session/s1/diff", nothing, [401, 401, 401, 404, 404, 404, 404, 404]),
    ("GET", "/global/event", nothing, OPENED),
    ("GET", "/config", nothing, OPENED),
    ("GET", "/config/providers", nothing, OPENED),
    ("GET", "/provider", nothing, OPENED),
    ("GET", "/provider/auth", nothing, OPENED),
    ("GET", "/agent", nothing, OPENED),
    ("GET", "/project/current", nothing, OPENED),
    ("GET", "/project/global/directories", nothing, OPENED),
    ("GET", "/path", nothing, OPENED),
    ("GET", "/command", nothing, OPENED),
    ("GET", "/mcp", nothing, OPENED),
    ("GET", "/lsp", nothing, OPENED),
    ("GET", "/formatter", nothing, OPENED),
    ("GET", "/vcs", nothing, OPENED),
    ("GET", "/question", nothing, OPENED),
    ("GET", "/experimental/capabilities", nothing, OPENED),
    ("GET", "/experimental/console", nothing, OPENED),
    ("GET", "/experimental/resource", nothing, OPENED),
    ("GET", "/experimental/workspace", nothing, OPENED),
    ("GET", "/experimental/workspace/status", nothing, OPENED),
    ("GET", "/api/location", nothing, OPENED),
    ("GET", "/api/agent", nothing, OPENED),
    ("GET", "/api/model", nothing, OPENED),
    ("GET", "/api/provider", nothing, OPENED),
    ("GET", "/api/integration", nothing, OPENED),
    ("GET", "/api/reference", nothing, OPENED),
    ("GET", "/api/command", nothing, OPENED),
    ("GET", "/api/skill", nothing, OPENED),
];

/// What anybody with a good key or token may ask for; each is told of what is its own.
const OPENED: [u16; 8] = [401, 401, 401, 200, 200, 200, 200, 200];

fn shown(caller: &str) -> Option<String> {
    let claims = |client: &str, session: &str, seconds: i64| {
        token(&json!({ "clientID": client, "sessionID": session, "exp": seconds_from_now(seconds) }))
    };
    match caller {
        "none" => None,
        "wrong" => Some("wrong".to_owned()),
        "expired" => Some(claims("tab", "s1", -10)),
        "another client" => Some(claims("other", "s1", 60)),
        "another session" => Some(claims("tab", "s2", 60)),
        "the client" => Some(claims("tab", "s1", 60)),
        "the client everywhere" => Some(token(&json!({ "clientID": "tab", "exp": seconds_from_now(60) }))),
        "the application" => Some(APPLICATION_KEY.to_owned()),
        _ => panic!("who is {caller}?"),
    }
}

#[tokio::test]
async fn every_endpoint_answers_every_caller_with_the_status_of_the_table() {
    let server = TestServer::protected(|config| _ = config.agents.insert("clerk".to_owned(), Agent::default())).await;
    let body = registration("").unwrap();
    assert_eq!(server.post("/client-tools/register", body).await.status, 200);
    // Keeps the client's tools when a stream of the table is closed.
    let _stream = server.stream("tab").await;
    let mut wrong = Vec::new();
    for (method, path, body, expected) in TABLE {
        for (caller, expected) in CALLERS.into_iter().zip(expected) {
            let call = server.begin_call(execution("").unwrap()).await;
            let path = path.replace("{call}", &call);
            let mut request = server.request_without_key(method.parse::<Method>().unwrap(), &path);
            if let Some(body) = body(&call) {
                request = request.json(&body);
            }
            if let Some(shown) = shown(caller) {
                request = request.bearer_auth(shown);
            }
            let response = request.send().await.unwrap();
            let status = response.status().as_u16();
            if status != expected {
                wrong.push(format!("{method} {path} by {caller}: {status} instead of {expected}"));
            }
            // A browser that was asked for a password would send it along from every page.
            if status == 401 && response.headers().get("www-authenticate").is_none_or(|scheme| scheme != "Bearer") {
                wrong.push(format!("{method} {path} by {caller}: 401 that does not ask for a bearer"));
            }
            if [401, 403].contains(&status) && server.call(&call).await["state"] == "done" {
                wrong.push(format!("{method} {path} by {caller}: {status}, and yet the call is over"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[tokio::test]
async fn an_authorization_that_is_no_bearer_is_401() {
    let server = TestServer::protected(|_| {}).await;
    let headers = [
        format!("Basic {APPLICATION_KEY}"),
        APPLICATION_KEY.to_owned(),
        "Bearer".to_owned(),
        "Bearer ".to_owned(),
        format!("Bearer {APPLICATION_KEY}x"),
        format!("Bearer {}", &APPLICATION_KEY[1..]),
        format!("Bearer {}", APPLICATION_KEY.to_uppercase()),
        format!("Token {APPLICATION_KEY}"),
    ];
    for header in headers {
        let request = server.request_without_key(Method::GET, "/client-tools/tools").header("authorization", &header);
        assert_eq!(request.send().await.unwrap().status().as_u16(), 401, "{header}");
    }
    for header in [format!("bearer {APPLICATION_KEY}"), format!("BEARER  {APPLICATION_KEY}")] {
        let request = server.request_without_key(Method::GET, "/client-tools/tools").header("authorization", &header);
        assert_eq!(request.send().await.unwrap().status().as_u16(), 200, "{header}");
    }
}

#[tokio::test]
async fn each_of_several_keys_is_good() {
    let server = TestServer::protected(|config| {
        let second = handback_testkit::keys::hash("second");
        config.auth.keys.push(handback_server::config::Secret::new(second));
    })
    .await;
    for (key, status) in [(APPLICATION_KEY, 200), ("second", 200), ("third", 401)] {
        let request = server.request_without_key(Method::GET, "/client-tools/tools").bearer_auth(key);
        assert_eq!(request.send().await.unwrap().status().as_u16(), status, "{key}");
    }
}

#[tokio::test]
async fn without_keys_whoever_is_on_the_machine_is_trusted() {
    // With a secret for tokens as well: it is the keys that decide.
    for secret in [None, Some(handback_server::config::Secret::new("x".repeat(32)))] {
        let server = TestServer::with(|config| config.auth.token_secret = secret.clone()).await;
        assert_eq!(server.get("/client-tools/tools").await.status, 200, "with a secret: {}", secret.is_some());
    }
}
