//! `GET /event`: what is told of a call, to whom, and what it never does to a call.

use std::time::Duration;

use handback_testkit::keys::{self, seconds_from_now, token};
use handback_testkit::stream::End;
use handback_testkit::{RawSocket, TestServer, TestStream};
use reqwest::Method;
use serde_json::{Value, json};
use tokio::time::Instant;

/// The properties of the next event, which must be of that type and have nothing else.
async fn properties(events: &mut TestStream, kind: &str) -> Value {
    let frame = events.next().await;
    assert_eq!((frame.event.as_str(), frame.id.as_str()), ("", ""));
    assert_eq!(frame.data, json!({ "type": kind, "properties": frame.data["properties"] }));
    frame.data["properties"].clone()
}

/// What events say of the call that [`begin`] makes.
fn reference() -> Value {
    json!({ "sessionID": "s", "messageID": "m", "callID": "c", "tool": "client_tab_t", "clientID": "tab" })
}

fn reference_with(key: &str, value: impl Into<Value>) -> Value {
    let mut reference = reference();
    reference[key] = value.into();
    reference
}

/// A call `r` whose input is `{"a":1}`, with the timeout in ms, and its first two events.
async fn begin(server: &TestServer, events: &mut TestStream, timeout: u64) {
    let call = json!({
        "toolID": "client_tab_t", "requestID": "r", "sessionID": "s", "messageID": "m", "callID": "c",
        "input": { "a": 1 }, "timeout": timeout,
    });
    server.begin_call(call).await;
    let mut request = properties(events, "client-tool.request").await;
    assert!(request["request"]["deadline"].take().is_string());
    let expected = json!({
        "type": "client-tool-request", "requestID": "r", "sessionID": "s", "messageID": "m", "callID": "c",
        "tool": "client_tab_t", "input": { "a": 1 }, "deadline": null, "effect": "write", "attempt": 1,
    });
    assert_eq!(request, json!({ "clientID": "tab", "request": expected }));
    assert_eq!(properties(events, "client-tool.executing").await, reference());
}

/// A server with the tool `t` of the client `tab`, who is connected, and its events from here on.
async fn with_client() -> (TestServer, TestStream, TestStream) {
    let server = TestServer::start().await;
    server.register("tab", &["t"]).await;
    let stream = server.stream("tab").await;
    let events = server.events().await;
    (server, stream, events)
}

/// Checks that nothing more is told of a call: the next event is that of a registration made now.
async fn nothing_more(server: &TestServer, events: &mut TestStream) {
    server.register("marker", &["t"]).await;
    let marker = json!({ "clientID": "marker", "toolIDs": ["client_marker_t"] });
    assert_eq!(properties(events, "client-tool.registered").await, marker);
}

#[tokio::test]
async fn the_stream_begins_with_server_connected_and_has_the_headers_of_a_stream() {
    let server = TestServer::start().await;
    let mut socket = RawSocket::open(server.address).await;
    let head = socket.get("/event").await;
    assert_eq!((head.status, head.header("content-type")), (200, "text/event-stream"));
    assert_eq!((head.header("cache-control"), head.header("x-accel-buffering")), ("no-cache", "no"));
    assert_eq!(socket.frame().await, "data: {\"type\":\"server.connected\",\"properties\":{}}\n\n");
    server.register("tab", &["t"]).await;
    let registered =
        "{\"type\":\"client-tool.registered\",\"properties\":{\"clientID\":\"tab\",\"toolIDs\":[\"client_tab_t\"]}}";
    assert_eq!(socket.frame().await, format!("data: {registered}\n\n"));
}

#[tokio::test]
async fn a_comment_keeps_the_stream_alive() {
    let server = TestServer::with(|config| config.client_tools.keepalive_interval = Duration::from_millis(20)).await;
    let mut socket = RawSocket::open(server.address).await;
    socket.get("/event").await;
    socket.frame().await;
    for _ in 0..3 {
        let frame = socket.frame().await;
        assert!(frame.starts_with(':') && frame.ends_with("\n\n") && frame.lines().count() == 2, "{frame:?}");
    }
}

#[tokio::test]
async fn a_success_is_request_executing_completed() {
    let (server, mut stream, mut events) = with_client().await;
    begin(&server, &mut events, 30_000).await;
    stream.expect_call("r").await;
    server.answer("r", "done").await;
    assert_eq!(properties(&mut events, "client-tool.completed").await, reference_with("success", true));
    server.answer("r", "done").await;
    server.answer("r", "other").await;
    nothing_more(&server, &mut events).await;
}

#[tokio::test]
async fn an_error_of_the_tool_is_request_executing_failed() {
    let (server, mut stream, mut events) = with_client().await;
    begin(&server, &mut events, 30_000).await;
    stream.expect_call("r").await;
    server.post("/client-tools/result", json!({ "requestID": "r", "status": "error", "error": "no such file" })).await;
    assert_eq!(properties(&mut events, "client-tool.failed").await, reference_with("error", "no such file"));
    nothing_more(&server, &mut events).await;
}

/// The properties of a call that its client has seen, and that ends without a result.
fn seen_failing(error: &Value) -> Value {
    let mut properties = reference_with("error", error.clone());
    properties["mayHaveRun"] = true.into();
    properties
}

#[tokio::test]
async fn a_timeout_is_request_executing_failed() {
    let (server, _stream, mut events) = with_client().await;
    begin(&server, &mut events, 50).await;
    let error = server.outcome("r").await["error"].clone();
    assert_eq!(properties(&mut events, "client-tool.failed").await, seen_failing(&error));
    server.answer("r", "too late").await;
    let mut late = seen_failing(&error);
    late["requestID"] = "r".into();
    assert_eq!(properties(&mut events, "client-tool.late").await, late);
    server.answer("r", "later still").await;
    nothing_more(&server, &mut events).await;
}

#[tokio::test]
async fn a_cancel_is_request_executing_failed() {
    let (server, _stream, mut events) = with_client().await;
    begin(&server, &mut events, 30_000).await;
    server.cancel("r", "never mind").await;
    assert_eq!(properties(&mut events, "client-tool.failed").await, seen_failing(&json!("never mind")));
    nothing_more(&server, &mut events).await;
}

#[tokio::test]
async fn a_caller_that_goes_is_request_executing_failed() {
    let (server, mut stream, mut events) = with_client().await;
    let call = server.execute(json!({
        "toolID": "client_tab_t", "requestID": "r", "sessionID": "s", "messageID": "m", "callID": "c",
    }));
    stream.expect_call("r").await;
    call.abort();
    properties(&mut events, "client-tool.request").await;
    assert_eq!(properties(&mut events, "client-tool.executing").await, reference());
    let mut failed = properties(&mut events, "client-tool.failed").await;
    assert!(!failed["error"].take().as_str().unwrap().is_empty());
    assert_eq!(failed, seen_failing(&Value::Null));
    nothing_more(&server, &mut events).await;
}

#[tokio::test]
async fn a_disconnect_is_request_executing_failed_and_the_tools_are_unregistered() {
    let (server, mut stream, mut events) = with_client().await;
    begin(&server, &mut events, 30_000).await;
    stream.expect_call("r").await;
    drop(stream);
    let mut seen = vec![events.next().await.data, events.next().await.data];
    seen.sort_by_key(|event| event["type"].as_str().unwrap().to_owned());
    let gone = json!({ "clientID": "tab", "toolIDs": ["client_tab_t"] });
    let expected = [
        json!({ "type": "client-tool.failed", "properties": seen_failing(&json!("Client disconnected")) }),
        json!({ "type": "client-tool.unregistered", "properties": gone }),
    ];
    assert_eq!(seen, expected);
    nothing_more(&server, &mut events).await;
}

#[tokio::test]
async fn a_call_that_is_offered_again_is_still_requested_and_executing_once() {
    let (server, mut first, mut events) = with_client().await;
    begin(&server, &mut events, 30_000).await;
    first.expect_call("r").await;
    let mut second = server.stream("tab").await;
    drop(first);
    assert_eq!(second.expect_call("r").await.data["attempt"], 2);
    server.answer("r", "done").await;
    assert_eq!(properties(&mut events, "client-tool.completed").await, reference_with("success", true));
}

#[tokio::test]
async fn a_call_that_is_refused_is_no_event() {
    let (server, _stream, mut events) = with_client().await;
    server.post("/client-tools/execute", json!({ "toolID": "client_tab_other" })).await.must_fail(404, "NOT_FOUND");
    let bad = json!({ "toolID": "client_tab_t", "input": [] });
    server.post("/client-tools/execute", bad).await.must_fail(400, "INVALID_REQUEST");
    nothing_more(&server, &mut events).await;
}

#[tokio::test]
async fn registering_and_unregistering_are_events_where_something_changed() {
    let server = TestServer::start().await;
    let mut events = server.events().await;
    server.register("tab", &["a", "b"]).await;
    let both = json!({ "clientID": "tab", "toolIDs": ["client_tab_a", "client_tab_b"] });
    assert_eq!(properties(&mut events, "client-tool.registered").await, both);
    server.delete("/client-tools/unregister", json!({ "clientID": "tab", "toolIDs": ["nobody"] })).await;
    server.delete("/client-tools/unregister", json!({ "clientID": "tab", "toolIDs": ["b"] })).await;
    let one = json!({ "clientID": "tab", "toolIDs": ["client_tab_b"] });
    assert_eq!(properties(&mut events, "client-tool.unregistered").await, one);
    server.delete("/client-tools/unregister", json!({ "clientID": "tab" })).await;
    let other = json!({ "clientID": "tab", "toolIDs": ["client_tab_a"] });
    assert_eq!(properties(&mut events, "client-tool.unregistered").await, other);
    nothing_more(&server, &mut events).await;
}

#[tokio::test]
async fn a_link_to_the_call_stands_in_place_of_data_urls() {
    let (server, mut stream, mut events) = with_client().await;
    let input = json!({
        "image": "data:image/png;base64,iVBORw0KGgo=", "list": [{ "file": "DATA:,x" }], "text": "the data: field",
        "link": "https://example.com",
    });
    let body = json!({ "toolID": "client_tab_t", "requestID": "r", "input": input });
    // The scheme may be hidden behind an escape.
    let body = body.to_string().replace("DATA:", "\\u0044ATA:");
    let response =
        server.request(Method::POST, "/client-tools/execute").body(body.replacen('{', "{\"wait\":false,", 1));
    assert_eq!(response.send().await.unwrap().status().as_u16(), 202);
    let request = properties(&mut events, "client-tool.request").await;
    let link = "/client-tools/calls/r";
    let shown = json!({
        "image": link, "list": [{ "file": link }], "text": "the data: field", "link": "https://example.com",
    });
    assert_eq!(request["request"]["input"], shown);
    // The client gets the files themselves, and so does whoever follows the link.
    assert_eq!(stream.expect_call("r").await.data["input"], input);
    assert_eq!(server.get(link).await.body["input"], input);
    let attachment = json!([{ "mime": "image/png", "url": "data:image/png;base64,iVBORw0KGgo=" }]);
    let result = json!({ "status": "success", "output": "data:image/png;base64,AAAA", "attachments": attachment });
    server.post("/client-tools/result", json!({ "requestID": "r", "result": result })).await;
    properties(&mut events, "client-tool.executing").await;
    let completed = properties(&mut events, "client-tool.completed").await;
    assert!(!completed.to_string().contains("data:"), "{completed}");
}

#[tokio::test]
async fn a_subscriber_that_cannot_keep_up_is_cut_and_slows_no_call() {
    let server = TestServer::with(|config| config.limits.event_buffer = 4).await;
    let ids = server.register("tab", &["t"]).await;
    let mut stream = server.stream("tab").await;
    let mut stuck = RawSocket::open_narrow(server.address).await;
    stuck.get("/event").await;
    let began = Instant::now();
    let input = json!({ "text": "x".repeat(200_000) });
    for n in 0..60 {
        let request = format!("r{n}");
        let call = server.execute(json!({ "toolID": ids[0], "requestID": request, "input": input, "timeout": 5000 }));
        stream.expect_call(&request).await;
        server.answer(&request, "").await;
        assert_eq!(call.await.unwrap().status, 200);
    }
    let took = began.elapsed();
    // It has missed something, so it gets what was on its way and then the end, not a stream with a hole.
    let bytes = stuck.drain().await;
    assert!(bytes < 60 * 200_000, "{bytes}");
    assert!(took < Duration::from_secs(15), "{took:?}");
}

#[tokio::test]
async fn a_subscriber_that_missed_something_sees_an_error_and_not_a_clean_end() {
    let server = TestServer::with(|config| config.limits.event_buffer = 1).await;
    let ids = server.register("tab", &["t"]).await;
    let mut events = server.events().await;
    // A call is two events at once, and there is room for one.
    server.begin_call(json!({ "toolID": ids[0] })).await;
    assert_eq!(events.end().await, (vec![], End::Cut));
}

#[tokio::test]
async fn a_client_token_sees_the_events_of_its_own_client_and_session_alone() {
    let server = TestServer::protected(|_| {}).await;
    let claims = json!({ "clientID": "tab", "sessionID": "s1", "exp": seconds_from_now(60) });
    let subscribe = async |shown: &str| {
        let request = server.request_without_key(Method::GET, "/event").bearer_auth(shown);
        let mut events = TestStream::open(request).await;
        assert_eq!(properties(&mut events, "server.connected").await, json!({}));
        events
    };
    let mut own = subscribe(&token(&json!({ "clientID": "tab", "exp": seconds_from_now(60) }))).await;
    let mut session = subscribe(&token(&claims)).await;
    let mut all = subscribe(keys::APPLICATION_KEY).await;

    let tools = [server.register("other", &["t"]).await, server.register("tab", &["t"]).await].concat();
    for (n, (tool, session)) in [(&tools[0], "s1"), (&tools[1], "s2"), (&tools[1], "s1")].into_iter().enumerate() {
        server.begin_call(json!({ "toolID": tool, "requestID": format!("r{n}"), "sessionID": session })).await;
        server.cancel(&format!("r{n}"), "enough").await;
    }
    server.register("tab", &["last"]).await;
    let seen = async |events: &mut TestStream| {
        let about = |event: &Value| {
            let properties = &event["properties"];
            let session = properties["request"].get("sessionID").or_else(|| properties.get("sessionID"));
            let kind = event["type"].as_str().unwrap().trim_start_matches("client-tool.");
            let [client, session] = [&properties["clientID"], session.unwrap_or(&Value::Null)]
                .map(|id| id.as_str().unwrap_or("-").to_owned());
            format!("{kind} {client} {session}")
        };
        let mut seen = Vec::new();
        loop {
            let event = events.next().await.data;
            if event["properties"]["toolIDs"] == json!(["client_tab_last"]) {
                return seen;
            }
            seen.push(about(&event));
        }
    };
    let three = |client: &str, session: &str| {
        ["request", "executing", "failed"].map(|kind| format!("{kind} {client} {session}")).to_vec()
    };
    let registered = |client: &str| vec![format!("registered {client} -")];
    let everything =
        [registered("other"), registered("tab"), three("other", "s1"), three("tab", "s2"), three("tab", "s1")].concat();
    assert_eq!(seen(&mut all).await, everything);
    assert_eq!(seen(&mut own).await, [registered("tab"), three("tab", "s2"), three("tab", "s1")].concat());
    assert_eq!(seen(&mut session).await, [registered("tab"), three("tab", "s1")].concat());
}

/// What a stream tells before it tells of a last call: the kinds, and whose.
async fn until_last(events: &mut TestStream) -> Vec<String> {
    let mut seen = Vec::new();
    loop {
        let event = events.next().await.data;
        let properties = &event["properties"];
        if properties["request"]["requestID"].as_str().is_some_and(|request| request.starts_with("last")) {
            return seen;
        }
        let kind = event["type"].as_str().unwrap().trim_start_matches("client-tool.");
        let about = properties["request"].get("sessionID").or_else(|| properties.get("sessionID"));
        let [client, session] =
            [&properties["clientID"], about.unwrap_or(&Value::Null)].map(|id| id.as_str().unwrap_or("-").to_owned());
        seen.push(format!("{kind} {client} {session}"));
    }
}

#[tokio::test]
async fn a_stream_is_narrowed_to_a_session_a_client_or_both() {
    let server = TestServer::start().await;
    let session = server.session_of("tab").await;
    let open = async |path: String| {
        let mut events = TestStream::open(server.request(Method::GET, &path)).await;
        assert_eq!(properties(&mut events, "server.connected").await, json!({}));
        events
    };
    let mut of_session = open(format!("/session/{session}/event")).await;
    let mut same = open(format!("/event?sessionID={session}")).await;
    let mut of_client = open("/event?clientID=tab".to_owned()).await;
    let mut of_both = open(format!("/event?clientID=tab&sessionID={session}&directory=%2Ftmp")).await;
    let mut kept_elsewhere = open("/event?sessionID=elsewhere".to_owned()).await;

    let tools = [server.register("tab", &["t"]).await, server.register("phone", &["t"]).await].concat();
    let [of_tab, of_phone] = [&tools[0], &tools[1]];
    let calls = [(of_tab, "elsewhere"), (of_phone, &*session), (of_tab, &*session), (of_phone, "elsewhere")];
    for (number, (tool, session)) in calls.into_iter().enumerate() {
        let request = format!("r{number}");
        server.begin_call(json!({ "toolID": tool, "requestID": request, "sessionID": session })).await;
        server.cancel(&request, "enough").await;
    }
    for (number, session) in [&*session, "elsewhere"].into_iter().enumerate() {
        let request = format!("last {number}");
        server.begin_call(json!({ "toolID": of_tab, "requestID": request, "sessionID": session })).await;
    }
    let whole = |client: &str, session: &str| {
        ["request", "executing", "failed"].map(|kind| format!("{kind} {client} {session}"))
    };
    let (tab, phone) = (whole("tab", &session), whole("phone", &session));
    let in_session = [phone.clone(), tab.clone()].concat();
    assert_eq!(until_last(&mut of_session).await, in_session);
    assert_eq!(until_last(&mut same).await, in_session);
    let registered = vec!["registered tab -".to_owned()];
    assert_eq!(
        until_last(&mut of_client).await,
        [registered, whole("tab", "elsewhere").to_vec(), tab.to_vec()].concat()
    );
    assert_eq!(until_last(&mut of_both).await, tab);
    assert_eq!(
        until_last(&mut kept_elsewhere).await,
        [whole("tab", "elsewhere"), whole("phone", "elsewhere")].concat()
    );
}
