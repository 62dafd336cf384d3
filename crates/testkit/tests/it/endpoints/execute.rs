//! `POST /client-tools/execute`.

use handback_testkit::keys::between;
use handback_testkit::{Answer, TestServer};
use reqwest::Method;
use serde_json::{Value, json};

async fn execute(server: &TestServer, body: Value) -> Answer {
    server.post("/client-tools/execute", body).await
}

#[tokio::test]
async fn a_success_is_answered_with_all_of_it() {
    let server = TestServer::start().await;
    let ids = server.register("tab", &["t"]).await;
    let mut stream = server.stream("tab").await;
    let call = server.execute(json!({ "toolID": ids[0] }));
    let request = stream.expect("tool-request").await;
    let result = json!({
        "status": "success", "title": "A heading", "output": "text\nwith ünïcode",
        "metadata": { "n": [1, 2.5, null], "deep": { "er": true } },
        "attachments": [
            { "mime": "image/png", "filename": "a.png", "url": "data:image/png;base64,AAAA" },
            { "mime": "text/plain", "url": "https://example.com/a.txt" },
        ],
    });
    server.post("/client-tools/result", json!({ "requestID": request.request_id(), "result": result })).await;
    call.await.unwrap().must_be(200, &result);
}

#[tokio::test]
async fn a_tool_that_fails_is_a_result_and_not_an_http_failure() {
    let server = TestServer::start().await;
    let ids = server.register("tab", &["t"]).await;
    let mut stream = server.stream("tab").await;
    let call = server.execute(json!({ "toolID": ids[0] }));
    let request = stream.expect("tool-request").await;
    let result = json!({ "status": "error", "error": "no such file" });
    server.post("/client-tools/result", json!({ "requestID": request.request_id(), "result": result })).await;
    call.await.unwrap().must_be(200, &result);
}

#[tokio::test]
async fn what_is_missing_gets_its_default() {
    let server = TestServer::start().await;
    let ids = server.register("tab", &["t"]).await;
    let mut stream = server.stream("tab").await;
    let call = server.execute(json!({ "toolID": ids[0] }));
    let mut request = stream.expect("tool-request").await.data;
    let (made, deadline) = (request["requestID"].take(), request["deadline"].take());
    let expected = json!({
        "type": "client-tool-request", "requestID": null, "sessionID": "", "messageID": "", "callID": "",
        "tool": ids[0], "input": {}, "deadline": null, "effect": "write", "attempt": 1,
    });
    assert_eq!(request, expected);
    assert!(made.as_str().unwrap().len() >= 16, "{made}");
    assert!(humantime_like(deadline.as_str().unwrap()), "{deadline}");
    server.answer(made.as_str().unwrap(), "").await;
    call.await.unwrap().must_be(200, &json!({ "status": "success", "title": "", "output": "" }));
}

fn humantime_like(time: &str) -> bool {
    time.len() >= "2026-01-01T00:00:00Z".len() && time.as_bytes()[10] == b'T' && time.ends_with('Z')
}

#[tokio::test]
async fn what_is_said_reaches_the_client_as_it_was_said() {
    let server = TestServer::start().await;
    let tool = json!({ "id": "t", "effect": "idempotent" });
    server.post("/client-tools/register", json!({ "clientID": "tab", "tools": [tool] })).await;
    let mut stream = server.stream("tab").await;
    let request = json!({
        "toolID": "client_tab_t", "requestID": "r / 1?", "sessionID": "s1", "messageID": "m1", "callID": "c1",
        "input": { "text": "ü", "n": 1.5 }, "timeout": 5000, "unknown": [],
    });
    let call = server.execute(request);
    let mut request = stream.expect("tool-request").await.data;
    request["deadline"].take();
    let expected = json!({
        "type": "client-tool-request", "requestID": "r / 1?", "sessionID": "s1", "messageID": "m1", "callID": "c1",
        "tool": "client_tab_t", "input": { "text": "ü", "n": 1.5 }, "deadline": null, "effect": "idempotent",
        "attempt": 1,
    });
    assert_eq!(request, expected);
    server.answer("r / 1?", "done").await;
    assert_eq!(call.await.unwrap().status, 200);
}

#[tokio::test]
async fn the_timeout_is_that_of_the_call_or_of_the_tool_or_the_default() {
    let server = TestServer::start().await;
    let tools = json!([{ "id": "plain" }, { "id": "slow", "timeout": 90_000.0 }]);
    server.post("/client-tools/register", json!({ "clientID": "tab", "tools": tools })).await;
    let cases = [
        (json!({ "toolID": "client_tab_plain" }), 30_000),
        (json!({ "toolID": "client_tab_slow" }), 90_000),
        (json!({ "toolID": "client_tab_slow", "timeout": 45_000 }), 45_000),
        (json!({ "toolID": "client_tab_plain", "timeout": 1e300 }), 24 * 60 * 60 * 1000),
    ];
    for (body, milliseconds) in cases {
        let request = server.begin_call(body).await;
        let call = server.call(&request).await;
        let time = between(call["created"].as_str().unwrap(), call["deadline"].as_str().unwrap());
        assert_eq!(time.as_millis(), milliseconds, "{call}");
    }
}

#[tokio::test]
async fn without_waiting_it_is_answered_202_and_the_outcome_is_fetched() {
    let server = TestServer::start().await;
    let ids = server.register("tab", &["t"]).await;
    let answer = execute(&server, json!({ "toolID": ids[0], "requestID": "mine", "wait": false })).await;
    answer.must_be(202, &json!({ "requestID": "mine" }));
    let made = execute(&server, json!({ "toolID": ids[0], "wait": false })).await;
    assert_eq!((made.status, made.body.as_object().unwrap().len()), (202, 1), "{made:?}");

    let mut stream = server.stream("tab").await;
    let request = stream.expect_call("mine").await;
    let wait = "/client-tools/calls/mine?wait=30000";
    let (call, _) = tokio::join!(server.get(wait), async {
        until_waited_for(&server).await;
        server.answer(request.request_id(), "noon").await
    });
    assert_eq!((call.status, &call.body["state"]), (200, &json!("done")));
    assert_eq!(call.body["outcome"], json!({ "status": "success", "title": "", "output": "noon" }));
    // Once it is done nothing is waited for.
    assert_eq!(server.get(wait).await.body["outcome"], call.body["outcome"]);
    stream.expect_call(made.body["requestID"].as_str().unwrap()).await;
}

/// A request under way cannot be seen; some round trips later it has long arrived.
async fn until_waited_for(server: &TestServer) {
    for _ in 0..5 {
        assert_eq!(server.call("mine").await["state"], "offered");
    }
}

#[tokio::test]
async fn waiting_for_a_call_ends_when_the_time_is_up() {
    let server = TestServer::start().await;
    let ids = server.register("tab", &["t"]).await;
    let request = server.begin_call(json!({ "toolID": ids[0] })).await;
    let answer = server.get(&format!("/client-tools/calls/{request}?wait=20")).await;
    assert_eq!((answer.status, &answer.body["state"]), (200, &json!("queued")));
    assert!(answer.body["times"]["queue"].as_f64().unwrap() >= 20.0, "{answer:?}");
    assert_eq!(answer.body.get("outcome"), None);
}

#[tokio::test]
async fn an_unknown_tool_is_404() {
    let server = TestServer::start().await;
    server.register("tab", &["t"]).await;
    for tool in ["client_tab_other", "t", "", "client_tab_t ", "client_TAB_t"] {
        execute(&server, json!({ "toolID": tool })).await.must_fail(404, "NOT_FOUND");
    }
}

#[tokio::test]
async fn an_input_that_does_not_fit_is_refused_with_where_and_why() {
    let server = TestServer::start().await;
    let schema = json!({
        "type": "object", "required": ["to"], "additionalProperties": false,
        "properties": { "to": { "type": "object", "properties": { "age": { "type": "integer", "minimum": 18 } } } },
    });
    let tools = json!([{ "id": "t", "parameters": schema }, { "id": "any" }]);
    server.post("/client-tools/register", json!({ "clientID": "tab", "tools": tools })).await;
    let cases = [
        (json!({ "to": { "age": "x" } }), ["/to/age", "integer"]),
        (json!({ "to": { "age": 3 } }), ["/to/age", "18"]),
        (json!({}), ["to", "required"]),
        (json!({ "to": {}, "cc": 1 }), ["cc", "dditional"]),
    ];
    for (input, expected) in cases {
        let answer = execute(&server, json!({ "toolID": "client_tab_t", "input": input })).await;
        let message = answer.must_fail(400, "INVALID_REQUEST");
        assert!(expected.iter().all(|part| message.contains(part)), "{input}: {message}");
    }
    for input in [json!([]), json!("x"), json!(1), json!(true)] {
        let answer = execute(&server, json!({ "toolID": "client_tab_any", "input": input })).await;
        answer.must_fail(400, "INVALID_REQUEST");
    }
    assert_eq!(server.counts().calls, 0);
}

#[tokio::test]
async fn a_timeout_that_is_not_above_zero_is_refused() {
    let server = TestServer::start().await;
    let ids = server.register("tab", &["t"]).await;
    for timeout in [json!(0), json!(-1), json!(0.0), json!(-0.0), json!(-1e300)] {
        let answer = execute(&server, json!({ "toolID": ids[0], "timeout": timeout })).await;
        let message = answer.must_fail(400, "INVALID_REQUEST");
        assert!(message.contains("timeout"), "{message}");
    }
}

#[tokio::test]
async fn the_same_call_again_joins_the_first_and_another_of_its_id_is_refused() {
    let server = TestServer::start().await;
    let ids = server.register("tab", &["t", "u"]).await;
    let mut stream = server.stream("tab").await;
    // Equal is what is equal as parsed. The first call's timeout counts.
    let body = json!({ "toolID": ids[0], "requestID": "same", "input": { "a": 1, "b": [2] } });
    let same = json!({ "toolID": ids[0], "requestID": "same", "input": { "b": [2.0], "a": 1.0 }, "timeout": 1 });
    let others = [
        json!({ "toolID": ids[0], "requestID": "same", "input": { "a": 1 } }),
        json!({ "toolID": ids[1], "requestID": "same", "input": { "a": 1, "b": [2] } }),
    ];
    let call = server.execute(body.clone());
    stream.expect_call("same").await;
    let joined = server.execute(same.clone());
    let unwaited = json!({ "toolID": ids[0], "requestID": "same", "input": { "a": 1, "b": [2] }, "wait": false });
    execute(&server, unwaited.clone()).await.must_be(202, &json!({ "requestID": "same" }));
    for other in &others {
        execute(&server, other.clone()).await.must_fail(409, "CONFLICT");
    }
    server.answer("same", "first").await;
    for call in [call, joined] {
        assert_eq!(call.await.unwrap().body["output"], "first");
    }
    for other in &others {
        execute(&server, other.clone()).await.must_fail(409, "CONFLICT");
    }
    for again in [body, same] {
        assert_eq!(execute(&server, again).await.body["output"], "first");
    }
    execute(&server, unwaited).await.must_be(202, &json!({ "requestID": "same" }));
    assert_eq!(server.counts().calls, 0);
    execute(&server, json!({ "toolID": ids[0], "requestID": "" })).await.must_fail(400, "INVALID_REQUEST");
}

#[tokio::test]
async fn a_request_id_is_free_again_once_it_is_forgotten() {
    let server = TestServer::with(|config| {
        config.limits.remembered_calls = 1;
        config.limits.stored_calls = 1;
    })
    .await;
    let ids = server.register("tab", &["t"]).await;
    let mut stream = server.stream("tab").await;
    for round in ["one", "two", "one", "two"] {
        let call = server.execute(json!({ "toolID": ids[0], "requestID": round }));
        stream.expect_call(round).await;
        server.answer(round, round).await;
        assert_eq!(call.await.unwrap().body["output"], round);
    }
}

#[tokio::test]
async fn a_cancelled_call_is_409_cancelled_and_says_why() {
    let server = TestServer::start().await;
    let ids = server.register("tab", &["t"]).await;
    let mut stream = server.stream("tab").await;
    let call = server.execute(json!({ "toolID": ids[0], "requestID": "r" }));
    stream.expect_call("r").await;
    server.cancel("r", "the user changed their mind").await.must_be(200, &json!({ "success": true }));
    let answer = call.await.unwrap();
    assert_eq!(answer.must_fail(409, "CANCELLED"), "the user changed their mind");
}

#[tokio::test]
async fn a_call_that_is_not_answered_in_time_is_504() {
    let server = TestServer::start().await;
    let ids = server.register("tab", &["t"]).await;
    execute(&server, json!({ "toolID": ids[0], "timeout": 30 })).await.must_fail(504, "TIMEOUT");
    let _stream = server.stream("tab").await;
    execute(&server, json!({ "toolID": ids[0], "timeout": 30 })).await.must_fail(504, "TIMEOUT");
}

#[tokio::test]
async fn a_client_that_goes_makes_it_502() {
    let server = TestServer::start().await;
    let ids = server.register("tab", &["t"]).await;
    let mut stream = server.stream("tab").await;
    let call = server.execute(json!({ "toolID": ids[0] }));
    stream.expect("tool-request").await;
    drop(stream);
    assert_eq!(call.await.unwrap().must_fail(502, "CLIENT_DISCONNECTED"), "Client disconnected");
}

#[tokio::test]
async fn more_calls_than_the_limit_in_a_minute_are_429_with_retry_after() {
    let server = TestServer::with(|config| config.limits.execute_per_minute = 2).await;
    let ids = server.register("tab", &["t"]).await;
    let other = server.register("other", &["t"]).await;
    for _ in 0..2 {
        server.begin_call(json!({ "toolID": ids[0] })).await;
    }
    let request = server.request(Method::POST, "/client-tools/execute").json(&json!({ "toolID": ids[0] }));
    let response = request.send().await.unwrap();
    let retry_after: u64 = response.headers()["retry-after"].to_str().unwrap().parse().unwrap();
    assert!((1..=60).contains(&retry_after), "{retry_after}");
    let answer = Answer::read(response).await;
    answer.must_fail(429, "RATE_LIMITED");
    assert_eq!(server.counts().calls, 2);
    server.begin_call(json!({ "toolID": other[0] })).await;
}

#[tokio::test]
async fn more_calls_under_way_than_the_limit_are_503() {
    let server = TestServer::with(|config| config.limits.calls_per_client = 2).await;
    let ids = server.register("tab", &["t"]).await;
    let other = server.register("other", &["t"]).await;
    let first = server.begin_call(json!({ "toolID": ids[0] })).await;
    server.begin_call(json!({ "toolID": ids[0] })).await;
    execute(&server, json!({ "toolID": ids[0] })).await.must_fail(503, "UNAVAILABLE");
    server.begin_call(json!({ "toolID": other[0] })).await;
    server.cancel(&first, "room").await;
    server.begin_call(json!({ "toolID": ids[0] })).await;
}

#[tokio::test]
async fn a_body_without_a_tool_id_is_400() {
    let server = TestServer::start().await;
    for body in [json!({}), json!([]), json!("x"), json!({ "toolID": 5 })] {
        execute(&server, body).await.must_fail(400, "INVALID_REQUEST");
    }
}
