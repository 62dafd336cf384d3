//! Who is given a call, and when.

use handback_testkit::server::until;
use handback_testkit::{RawSocket, TestServer};
use serde_json::json;

#[tokio::test]
async fn a_call_made_with_no_connection_open_is_delivered_on_connect() {
    let server = TestServer::start().await;
    let ids = server.register("tab", &["t"]).await;
    let call = server.execute(json!({ "toolID": ids[0], "requestID": "r" }));
    server.until("the call waits", |counts| counts.calls == 1).await;
    let mut stream = server.stream("tab").await;
    let request = stream.expect_call("r").await;
    assert_eq!(request.data["attempt"], 1);
    server.answer("r", "here").await;
    assert_eq!(call.await.unwrap().body["output"], "here");
}

#[tokio::test]
async fn calls_that_wait_are_delivered_in_the_order_in_which_they_were_made() {
    let server = TestServer::start().await;
    let ids = server.register("tab", &["t"]).await;
    let requests: Vec<String> = (0..50).map(|n| format!("r{}", n * 7 % 50)).collect();
    for request in &requests {
        server.begin_call(json!({ "toolID": ids[0], "requestID": request })).await;
    }
    let mut stream = server.stream("tab").await;
    for request in &requests {
        stream.expect_call(request).await;
    }
}

#[tokio::test]
async fn a_call_that_has_expired_is_not_delivered_any_more() {
    let server = TestServer::start().await;
    let ids = server.register("tab", &["t"]).await;
    let expired = server.post("/client-tools/execute", json!({ "toolID": ids[0], "timeout": 20 })).await;
    expired.must_fail(504, "TIMEOUT");
    server.begin_call(json!({ "toolID": ids[0], "requestID": "next" })).await;
    let mut stream = server.stream("tab").await;
    stream.expect_call("next").await;
}

#[tokio::test]
async fn a_call_cancelled_while_it_waited_is_not_delivered_any_more() {
    let server = TestServer::start().await;
    let ids = server.register("tab", &["t"]).await;
    for request in ["cancelled", "next"] {
        server.begin_call(json!({ "toolID": ids[0], "requestID": request })).await;
    }
    server.cancel("cancelled", "no").await;
    let mut stream = server.stream("tab").await;
    stream.expect_call("next").await;
}

#[tokio::test]
async fn a_call_goes_to_one_connection_and_to_the_other_when_that_one_goes() {
    let server = TestServer::start().await;
    let ids = server.register("tab", &["t"]).await;
    let (mut one, mut other) = (server.stream("tab").await, server.stream("tab").await);
    let call = server.execute(json!({ "toolID": ids[0], "requestID": "r" }));
    let first = tokio::select! {
        frame = one.next() => { drop(one); frame }
        frame = other.next() => { drop(std::mem::replace(&mut other, one)); frame }
    };
    assert_eq!((first.event.as_str(), first.request_id(), &first.data["attempt"]), ("tool-request", "r", &json!(1)));
    let second = other.expect_call("r").await;
    let mut expected = first.data.clone();
    expected["attempt"] = json!(2);
    assert_eq!(second.data, expected);
    assert_ne!(second.id, first.id);
    server.answer("r", "by the other").await;
    assert_eq!(call.await.unwrap().body["output"], "by the other");
}

#[tokio::test]
async fn of_two_connections_only_one_is_given_each_call() {
    let server = TestServer::start().await;
    let ids = server.register("tab", &["t"]).await;
    let (mut one, mut other) = (server.stream("tab").await, server.stream("tab").await);
    for n in 0..20 {
        server.begin_call(json!({ "toolID": ids[0], "requestID": format!("r{n:02}") })).await;
    }
    let mut seen = Vec::new();
    while seen.len() < 20 {
        let frame = tokio::select! { frame = one.next() => frame, frame = other.next() => frame };
        assert_eq!(frame.event, "tool-request");
        seen.push(frame.request_id().to_owned());
    }
    seen.sort();
    assert_eq!(seen, (0..20).map(|n| format!("r{n:02}")).collect::<Vec<_>>());
    // Whatever had been sent twice would come before the ends of these calls.
    server.post("/client-tools/unregister", json!({ "clientID": "tab" })).await;
    for request in &seen {
        server.answer(request, "").await;
    }
    server.begin_stop();
    for stream in [&mut one, &mut other] {
        assert_eq!(stream.end().await.0, []);
    }
}

#[tokio::test]
async fn a_call_goes_to_its_own_client_alone() {
    let server = TestServer::start().await;
    let mut others = Vec::new();
    for n in 0..20 {
        let client = format!("tab{n}");
        let ids = server.register(&client, &["t"]).await;
        others.push((server.stream(&client).await, ids[0].clone(), format!("own{n}")));
    }
    let ids = server.register("tab", &["t"]).await;
    let mut stream = server.stream("tab").await;
    for n in 0..20 {
        server.begin_call(json!({ "toolID": ids[0], "requestID": format!("r{n}") })).await;
        stream.expect_call(&format!("r{n}")).await;
    }
    for (stream, tool, request) in &mut others {
        server.begin_call(json!({ "toolID": tool, "requestID": request })).await;
        stream.expect_call(request).await;
    }
}

#[tokio::test]
async fn a_call_made_right_after_the_head_of_the_stream_is_not_missed() {
    let server = TestServer::start().await;
    let ids = server.register("tab", &["t"]).await;
    let _keeps_the_tools = server.stream("tab?connection=first").await;
    for n in 0..30 {
        // The newest connection of those with the least to do is given the call.
        let mut stream = server.stream("tab?connection=second").await;
        let request = server.begin_call(json!({ "toolID": ids[0], "requestID": format!("r{n}") })).await;
        stream.expect_call(&request).await;
        server.answer(&request, "").await;
    }
}

#[tokio::test]
async fn a_stream_does_not_care_for_parameters_that_it_does_not_know() {
    let server = TestServer::start().await;
    let ids = server.register("tab", &["t"]).await;
    let mut stream = server.stream("tab?directory=%2Felsewhere&grace=&connection=&x=1").await;
    let request = server.begin_call(json!({ "toolID": ids[0] })).await;
    stream.expect_call(&request).await;
}

#[tokio::test]
async fn more_connections_of_one_client_than_the_limit_are_503() {
    let server = TestServer::with(|config| config.limits.connections_per_client = 2).await;
    let _streams = [server.stream("tab").await, server.stream("tab?connection=named").await];
    server.get("/client-tools/pending/tab").await.must_fail(503, "UNAVAILABLE");
    server.stream("other").await;
    // One that takes over from another needs no room of its own.
    let _named = server.stream("tab?connection=named").await;
}

#[tokio::test]
async fn more_connections_of_all_than_the_limit_are_told_so_and_let_in_when_there_is_room() {
    let server = TestServer::with(|config| config.limits.connections = 2).await;
    let request = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let mut inside = Vec::new();
    for _ in 0..2 {
        let mut socket = RawSocket::open(server.address).await;
        socket.send(request).await.unwrap();
        assert_eq!(socket.answer().await.1.status, 200);
        inside.push(socket);
    }
    let (_, refused) = RawSocket::exchange(server.address, request).await;
    refused.must_fail(503, "UNAVAILABLE");
    inside.pop();
    until("there is room", async || RawSocket::exchange(server.address, request).await.0.status == 200).await;
}
