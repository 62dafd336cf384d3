//! Bodies and lists that are too large.

use std::fmt::Write as _;

use futures_util::future::join_all;
use handback_testkit::{Answer, RawSocket, TestServer};
use reqwest::Method;
use serde_json::json;

use super::{SOON, complaint, not_refused, state};

const LIMIT: usize = 4 << 20;

#[tokio::test]
async fn a_body_that_says_it_is_too_large_is_413_before_it_is_sent() {
    let server = TestServer::start().await;
    for path in ["register", "unregister", "execute", "result", "cancel"] {
        for length in [LIMIT + 1, 5 << 20, usize::MAX] {
            let head =
                format!("POST /client-tools/{path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n\r\n{{");
            let answered = tokio::time::timeout(SOON, RawSocket::exchange(server.address, head)).await;
            let (_, answer) = answered.unwrap_or_else(|_| panic!("{path} with {length} bytes: no answer"));
            // More than a length can be is not HTTP at all.
            if length < usize::MAX {
                answer.must_fail(413, "TOO_LARGE");
            } else {
                assert!((400..500).contains(&answer.status), "{answer:?}");
            }
        }
    }
}

#[tokio::test]
async fn a_body_without_a_length_is_413_once_it_is_too_large() {
    let server = TestServer::start().await;
    let before = state(&server).await;
    let piece = format!("{:x}\r\n{}\r\n", 1 << 16, "x".repeat(1 << 16));
    for path in ["register", "unregister", "execute", "result", "cancel"] {
        let mut body =
            format!("POST /client-tools/{path} HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n");
        for _ in 0..(5 << 20) / (1 << 16) {
            body.push_str(&piece);
        }
        body.push_str("0\r\n\r\n");
        let (_, answer) = RawSocket::exchange(server.address, body).await;
        answer.must_fail(413, "TOO_LARGE");
    }
    assert_eq!(state(&server).await, before);
}

#[tokio::test]
async fn a_common_client_that_sends_too_much_reads_the_413() {
    let server = TestServer::start().await;
    for megabytes in [5, 20] {
        let body = json!({ "clientID": "tab", "tools": [], "x": "x".repeat(megabytes << 20) });
        server.post("/client-tools/register", body).await.must_fail(413, "TOO_LARGE");
    }
}

#[tokio::test]
async fn a_body_of_exactly_the_limit_is_taken_and_one_byte_more_is_not() {
    let server = TestServer::start().await;
    let ids = server.register("tab", &["t"]).await;
    let body = |size: usize| {
        let mut body = format!("{{\"toolID\":\"{}\",\"wait\":false,\"input\":{{\"text\":\"", ids[0]);
        let end = "\"}}";
        body.push_str(&"x".repeat(size - body.len() - end.len()));
        body + end
    };
    let send = async |body: String| Answer::to(server.request(Method::POST, "/client-tools/execute").body(body)).await;
    assert_eq!(send(body(LIMIT)).await.status, 202);
    send(body(LIMIT + 1)).await.must_fail(413, "TOO_LARGE");
    assert_eq!(server.counts().calls, 1);
}

#[tokio::test]
async fn a_hundred_and_twenty_nine_tools_are_refused_in_one_registration_or_in_two() {
    let server = TestServer::start().await;
    let tools = |from: usize, to: usize| {
        let tools: Vec<_> = (from..to).map(|n| json!({ "id": format!("t{n}") })).collect();
        json!({ "clientID": "tab", "tools": tools })
    };
    let before = state(&server).await;
    server.post("/client-tools/register", tools(0, 129)).await.must_fail(413, "TOO_LARGE");
    assert_eq!(state(&server).await, before);
    assert_eq!(server.post("/client-tools/register", tools(0, 128)).await.status, 200);
    server.post("/client-tools/register", tools(128, 129)).await.must_fail(413, "TOO_LARGE");
    // Replacing is not adding.
    assert_eq!(server.post("/client-tools/register", tools(0, 128)).await.status, 200);
    assert_eq!(server.counts().tools, 128);
}

#[tokio::test]
async fn a_schema_that_is_too_large_or_too_deep_is_refused() {
    let server = TestServer::start().await;
    let before = state(&server).await;
    let large = format!("{{\"description\":\"{}\"}}", "x".repeat(64 << 10));
    let deep = format!("{}{{}}{}", "{\"not\":".repeat(32), "}".repeat(32));
    let mut wide = "{\"properties\":{".to_owned();
    for n in 0..10_000 {
        write!(wide, "\"p{n}\":{{\"type\":\"string\"}},").unwrap();
    }
    wide += "\"last\":{}}}";
    for schema in [large, deep, wide] {
        let body = format!("{{\"clientID\":\"tab\",\"tools\":[{{\"id\":\"t\",\"parameters\":{schema}}}]}}");
        let complaint = not_refused(server.request(Method::POST, "/client-tools/register").body(body)).await;
        assert_eq!(complaint, None, "{schema:.60}");
    }
    assert_eq!(state(&server).await, before);
    let fits = format!("{}{{}}{}", "{\"not\":".repeat(31), "}".repeat(31));
    let body = format!("{{\"clientID\":\"tab\",\"tools\":[{{\"id\":\"t\",\"parameters\":{fits}}}]}}");
    let answer = Answer::to(server.request(Method::POST, "/client-tools/register").body(body)).await;
    assert_eq!(answer.status, 200, "{answer:?}");
}

#[tokio::test]
async fn heads_and_lines_that_are_too_long_or_malformed_are_refused() {
    let server = TestServer::start().await;
    let long = "x".repeat(1 << 20);
    let requests = [
        format!("GET /{long} HTTP/1.1\r\nHost: localhost\r\n\r\n"),
        format!("GET / HTTP/1.1\r\nHost: localhost\r\nX: {long}\r\n\r\n"),
        "nonsense\r\n\r\n".to_owned(),
        "GET / HTTP/9.9\r\nHost: localhost\r\n\r\n".to_owned(),
        "GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: x\r\n\r\n".to_owned(),
        "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello".to_owned(),
    ];
    for request in requests {
        let mut socket = RawSocket::open(server.address).await;
        _ = socket.send(&request).await;
        let head = tokio::time::timeout(SOON, socket.head()).await.expect("an answer");
        assert!((400..500).contains(&head.status), "{request:.60}: {head:?}");
    }
    assert_eq!(server.get("/client-tools/tools").await.status, 200);
}

#[tokio::test]
async fn long_names_in_paths_and_queries_are_refused() {
    let server = TestServer::start().await;
    let long = "x".repeat(5000);
    let paths = [
        format!("/client-tools/tools/{long}"),
        format!("/client-tools/pending/{long}"),
        format!("/client-tools/ws/{long}"),
        format!("/client-tools/calls/{long}"),
        format!("/client-tools/calls?clientID={long}"),
        format!("/client-tools/calls?sessionID={long}"),
        format!("/client-tools/calls?state={long}"),
        format!("/client-tools/pending/tab?connection={long}"),
        "/client-tools/pending/tab?grace=1e5".to_owned(),
        "/client-tools/pending/tab?grace=99999999999999999999999".to_owned(),
        "/client-tools/calls/%00".to_owned(),
        "/client-tools/calls/%ff".to_owned(),
        "/client-tools/tools/%c0%80".to_owned(),
        "/client-tools/calls/r?wait=99999999999999999999999".to_owned(),
    ];
    for path in paths {
        let answer = server.get(&path).await;
        assert_eq!(complaint(&answer), None, "{path:.80}");
    }
    assert_eq!(server.counts().clients, 0);
}

#[tokio::test]
async fn what_is_large_is_read_where_nobody_else_waits() {
    let server = TestServer::start().await;
    let mut socket = server.socket("tab").await;
    let session = server.post("/session", json!({})).await.body["id"].as_str().unwrap().to_owned();
    let pad = "x".repeat(200_000);
    let said = json!({ "id": "m", "role": "user", "content": "hello" });
    let run = json!({ "threadId": "t", "runId": "r", "messages": [said], "state": pad });
    let chat = json!({ "id": "c", "messages": [{ "id": "m", "role": "user", "parts": [{ "type": "text", "text": "hi" }] }],
        "pad": pad });
    let bodies = [
        ("/client-tools/register", json!({ "clientID": "tab", "tools": [], "pad": pad })),
        ("/client-tools/unregister", json!({ "clientID": "tab", "pad": pad })),
        ("/client-tools/execute", json!({ "toolID": "client_tab_none", "input": { "pad": pad } })),
        ("/client-tools/result", json!({ "requestID": "none", "status": "success", "output": pad })),
        ("/client-tools/cancel", json!({ "requestID": "none", "reason": pad })),
        ("/session", json!({ "title": pad })),
        (&*format!("/session/{session}/message"), json!({ "parts": [{ "type": "text", "text": pad }] })),
        ("/api/chat", chat),
        ("/agui", run.clone()),
        ("/agui/default", run.clone()),
    ];
    // All threads for such work are busy, and there is more of it.
    let (hold, held): (Vec<_>, Vec<_>) = (0..256).map(|_| tokio::sync::oneshot::channel::<()>()).unzip();
    let aside = server.app.hub().aside();
    let busy = join_all(held.into_iter().map(|held| aside.run(move || _ = held.blocking_recv())));
    let asking = async {
        let requests = join_all(bodies.into_iter().map(async |(path, body)| {
            let answer = server.post(path, body).await;
            assert!(answer.status < 500, "{path}: {answer:?}");
        }));
        let talking = async {
            socket
                .send(
                    json!({ "type": "result", "requestID": "none", "result": { "status": "success", "output": pad } }),
                )
                .await;
            assert_eq!(socket.next().await["type"], "result");
        };
        let large = async { tokio::join!(requests, talking) };
        tokio::pin!(large);
        let others = async {
            for _ in 0..50 {
                assert_eq!(server.get("/healthz").await.status, 200);
            }
        };
        tokio::select! {
            biased;
            _ = &mut large => panic!("they were read on a thread that serves others"),
            () = others => {}
        }
        drop(hold);
        large.await;
    };
    tokio::join!(busy, asking);
}

#[tokio::test]
async fn what_becomes_a_tree_of_values_has_few_of_them() {
    let server = TestServer::start().await;
    let said = json!({ "id": "m", "role": "user", "content": "hello" });
    let many = json!({ "a": vec![json!([]); 1 << 16] });
    let run = |field: &str, value: &serde_json::Value| {
        let mut run = json!({ "threadId": "t", "runId": "r", "messages": [said] });
        run[field] = value.clone();
        run
    };
    let with = |mut object: serde_json::Value| {
        object["metadata"] = many.clone();
        object
    };
    let answer = json!({ "interruptId": "i", "status": "cancelled" });
    for (what, body) in [
        ("`state`", run("state", &many)),
        ("`state`", run("forwardedProps", &many)),
        ("`state`", run("tools", &json!([with(json!({ "name": "t", "description": "" }))]))),
        ("`state`", run("resume", &json!([with(answer)]))),
        ("`messages[0]`", run("messages", &json!([with(said.clone())]))),
    ] {
        let answer = server.post("/agui", body).await;
        assert!(answer.must_fail(413, "TOO_LARGE").contains(what), "{answer:?}");
    }
    // What is only passed on may have many.
    let output =
        json!({ "type": "tool-look", "toolCallId": "k", "state": "output-available", "input": {}, "output": many });
    let messages = json!([{ "id": "m", "role": "user", "parts": [{ "type": "text", "text": "hi" }] },
        { "id": "n", "role": "assistant", "parts": [output] },
        { "id": "o", "role": "user", "parts": [{ "type": "text", "text": "hi" }] }]);
    assert_eq!(server.post("/api/chat", json!({ "id": "c", "messages": messages })).await.status, 200);
}
