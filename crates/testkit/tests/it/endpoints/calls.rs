//! `GET /client-tools/calls` and `GET /client-tools/calls/{requestID}`.

use handback_testkit::keys::seconds_until;
use handback_testkit::{RawSocket, TestServer};
use serde_json::{Value, json};

/// A call without its times, once they have been looked at.
fn without_times(mut call: Value) -> Value {
    let fields = call.as_object_mut().unwrap();
    let created = fields.remove("created").unwrap();
    let deadline = fields.remove("deadline").unwrap();
    let times = fields.remove("times").unwrap();
    assert!(seconds_until(created.as_str().unwrap()) <= 1.0, "{created}");
    assert!(seconds_until(deadline.as_str().unwrap()) > 0.0, "{deadline}");
    let mut phases: Vec<&str> = times.as_object().unwrap().keys().map(String::as_str).collect();
    phases.sort_unstable();
    assert_eq!(phases, ["approval", "execute", "queue"]);
    assert!(times.as_object().unwrap().values().all(|time| time.as_f64().unwrap() >= 0.0), "{times}");
    call
}

async fn ids(server: &TestServer, query: &str) -> Vec<String> {
    let answer = server.get(&format!("/client-tools/calls{query}")).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    let mut ids: Vec<String> =
        answer.body.as_array().unwrap().iter().map(|call| call["requestID"].as_str().unwrap().to_owned()).collect();
    ids.sort();
    ids
}

#[tokio::test]
async fn a_call_is_shown_in_each_of_its_states() {
    let server = TestServer::start().await;
    let tool = json!({ "id": "t", "effect": "read" });
    server.post("/client-tools/register", json!({ "clientID": "tab", "tools": [tool] })).await;
    let call = json!({
        "toolID": "client_tab_t", "requestID": "r", "sessionID": "s", "messageID": "m", "callID": "c",
        "input": { "a": 1 },
    });
    server.begin_call(call).await;
    let expected = |state: &str, attempt: u32| {
        json!({
            "requestID": "r", "sessionID": "s", "messageID": "m", "callID": "c", "tool": "client_tab_t",
            "clientID": "tab", "effect": "read", "state": state, "attempt": attempt, "input": { "a": 1 },
        })
    };
    assert_eq!(without_times(server.call("r").await), expected("queued", 1));

    let mut first = server.stream("tab").await;
    first.expect_call("r").await;
    assert_eq!(without_times(server.call("r").await), expected("offered", 1));
    let mut second = server.stream("tab").await;
    drop(first);
    second.expect_call("r").await;
    assert_eq!(without_times(server.call("r").await), expected("offered", 2));

    server.answer("r", "done").await;
    let mut done = expected("done", 2);
    done["outcome"] = json!({ "status": "success", "title": "", "output": "done" });
    assert_eq!(without_times(server.call("r").await), done);

    // A list does without the inputs.
    done.as_object_mut().unwrap().remove("input");
    let listed = server.get("/client-tools/calls").await;
    let rows: Vec<Value> = listed.body.as_array().unwrap().iter().cloned().map(without_times).collect();
    assert_eq!(rows, [done]);
}

#[tokio::test]
async fn time_is_reported_for_the_phase_in_which_it_was_spent() {
    let server = TestServer::start().await;
    let ids = server.register("tab", &["t"]).await;
    let request = server.begin_call(json!({ "toolID": ids[0] })).await;
    let wait = format!("/client-tools/calls/{request}?wait=30");
    server.get(&wait).await;
    let mut stream = server.stream("tab").await;
    stream.expect_call(&request).await;
    server.get(&wait).await;
    server.answer(&request, "").await;
    let times = server.call(&request).await["times"].clone();
    let [approval, queue, execute] = ["approval", "queue", "execute"].map(|phase| times[phase].as_f64().unwrap());
    assert!(approval < 30.0 && queue >= 30.0 && execute >= 30.0, "{times}");
    assert_eq!(server.call(&request).await["times"], times, "a call that is over takes no more time");
}

#[tokio::test]
async fn every_end_is_an_outcome_of_its_own() {
    let server = TestServer::start().await;
    let ids = server.register("tab", &["t"]).await;
    let mut stream = server.stream("tab").await;
    for request in ["success", "error", "cancelled", "disconnected"] {
        server.begin_call(json!({ "toolID": ids[0], "requestID": request })).await;
        stream.expect_call(request).await;
    }
    server.begin_call(json!({ "toolID": ids[0], "requestID": "timeout", "timeout": 20 })).await;
    let timeout = server.outcome("timeout").await;
    server.answer("success", "o").await;
    server.post("/client-tools/result", json!({ "requestID": "error", "status": "error", "error": "e" })).await;
    server.cancel("cancelled", "why").await;
    drop(stream);
    assert_eq!(server.outcome("success").await, json!({ "status": "success", "title": "", "output": "o" }));
    assert_eq!(server.outcome("error").await, json!({ "status": "error", "error": "e" }));
    assert_eq!(server.outcome("cancelled").await, json!({ "status": "cancelled", "error": "why" }));
    let disconnected = json!({ "status": "disconnected", "error": "Client disconnected" });
    assert_eq!(server.outcome("disconnected").await, disconnected);
    assert_eq!(timeout["status"], "timeout");
    assert!(timeout["error"].as_str().unwrap().contains("20"), "{timeout}");
}

#[tokio::test]
async fn calls_are_listed_by_client_session_and_state() {
    let server = TestServer::start().await;
    let one = server.register("one", &["t"]).await;
    let two = server.register("two", &["t"]).await;
    let mut stream = server.stream("one").await;
    let calls = [("a", &one, "s1"), ("b", &one, "s2"), ("c", &two, "s1"), ("d", &two, "")];
    for (request, tools, session) in calls {
        server.begin_call(json!({ "toolID": tools[0], "requestID": request, "sessionID": session })).await;
    }
    stream.expect_call("a").await;
    stream.expect_call("b").await;
    server.answer("a", "").await;
    let cases = [
        ("", vec!["a", "b", "c", "d"]),
        ("?clientID=one", vec!["a", "b"]),
        ("?clientID=two", vec!["c", "d"]),
        ("?clientID=nobody", vec![]),
        ("?sessionID=s1", vec!["a", "c"]),
        ("?state=queued", vec!["c", "d"]),
        ("?state=offered", vec!["b"]),
        ("?state=done", vec!["a"]),
        ("?state=awaiting_approval", vec![]),
        ("?clientID=one&sessionID=s1&state=done", vec!["a"]),
        ("?clientID=one&sessionID=s1&state=queued", vec![]),
        ("?unknown=1", vec!["a", "b", "c", "d"]),
    ];
    for (query, expected) in cases {
        assert_eq!(ids(&server, query).await, expected, "{query}");
    }
}

#[tokio::test]
async fn a_query_that_means_nothing_is_400() {
    let server = TestServer::start().await;
    for query in [
        "?state=finished",
        "?state=DONE",
        "?state=",
        "?limit=",
        "?cursor=",
        "?clientID=",
        "?clientID=a%20b",
        "?clientID=a&clientID=b",
    ] {
        server.get(&format!("/client-tools/calls{query}")).await.must_fail(400, "INVALID_REQUEST");
    }
    let ids = server.register("tab", &["t"]).await;
    let request = server.begin_call(json!({ "toolID": ids[0] })).await;
    for wait in ["soon", "-1", "1.5"] {
        let answer = server.get(&format!("/client-tools/calls/{request}?wait={wait}")).await;
        answer.must_fail(400, "INVALID_REQUEST");
    }
}

#[tokio::test]
async fn calls_are_kept_up_to_the_limit() {
    let server = TestServer::with(|config| config.limits.stored_calls = 2).await;
    let tools = server.register("tab", &["t"]).await;
    for request in ["a", "b", "c"] {
        server.begin_call(json!({ "toolID": tools[0], "requestID": request })).await;
        server.answer(request, "").await;
    }
    assert_eq!(ids(&server, "").await, ["b", "c"]);
    server.get("/client-tools/calls/a").await.must_fail(404, "NOT_FOUND");
}

#[tokio::test]
async fn a_call_whose_id_has_to_be_written_out_in_a_path_is_found_by_it() {
    let server = TestServer::start().await;
    let tools = server.register("tab", &["t"]).await;
    for id in ["a/b c?d#e%f", "..", "ünïcode", "+", "a&b=c"] {
        server.begin_call(json!({ "toolID": tools[0], "requestID": id })).await;
        let path: String = id.bytes().map(|byte| format!("%{byte:02x}")).collect();
        // Bare: a URL library would take the dots for a step up.
        let request = format!("GET /client-tools/calls/{path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        let (_, answer) = RawSocket::exchange(server.address, request).await;
        assert_eq!((answer.status, &answer.body["requestID"]), (200, &json!(id)));
    }
}

#[tokio::test]
async fn everybody_who_waits_for_a_call_is_told_of_its_end() {
    let server = TestServer::start().await;
    let tools = server.register("tab", &["t"]).await;
    let mut stream = server.stream("tab").await;
    let call = server.execute(json!({ "toolID": tools[0], "requestID": "r" }));
    stream.expect_call("r").await;
    let path = "/client-tools/calls/r?wait=30000";
    let (one, two, three, _) =
        tokio::join!(server.get(path), server.get(path), server.get(path), server.answer("r", "for all"));
    for answer in [one, two, three] {
        assert_eq!((&answer.body["state"], &answer.body["outcome"]["output"]), (&json!("done"), &json!("for all")));
    }
    assert_eq!(call.await.unwrap().body["output"], "for all");
}
