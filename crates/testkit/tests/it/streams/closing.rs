//! What goes with a connection, and what stays.

use std::time::Duration;

use handback_testkit::TestServer;
use handback_testkit::stream::End;
use serde_json::json;

#[tokio::test]
async fn when_the_last_connection_closes_the_tools_and_the_calls_of_the_client_end() {
    let server = TestServer::start().await;
    let ids = server.register("tab", &["a", "b"]).await;
    let other = server.register("tab1", &["a"]).await;
    let mut stream = server.stream("tab").await;
    let mut other_stream = server.stream("tab1").await;
    let seen = server.execute(json!({ "toolID": ids[0], "requestID": "seen" }));
    stream.expect_call("seen").await;
    let others = server.execute(json!({ "toolID": other[0], "requestID": "others" }));
    other_stream.expect_call("others").await;

    drop(stream);
    assert_eq!(seen.await.unwrap().must_fail(502, "CLIENT_DISCONNECTED"), "Client disconnected");
    server.until("the client is gone", |counts| counts.clients == 1).await;
    server.get("/client-tools/tools/tab").await.must_be(200, &json!([]));
    server.post("/client-tools/execute", json!({ "toolID": ids[1] })).await.must_fail(404, "NOT_FOUND");
    server.answer("others", "unharmed").await;
    assert_eq!(others.await.unwrap().body["output"], "unharmed");
}

#[tokio::test]
async fn an_older_connection_that_closes_while_a_newer_is_open_changes_nothing() {
    let server = TestServer::start().await;
    let ids = server.register("tab", &["t"]).await;
    let older = server.stream("tab").await;
    let mut newer = server.stream("tab").await;
    let call = server.execute(json!({ "toolID": ids[0], "requestID": "r" }));
    newer.expect_call("r").await;
    let before = server.get("/client-tools/tools").await;
    drop(older);
    server.until("the older is gone", |counts| counts.connections == 1).await;
    assert_eq!(server.get("/client-tools/tools").await, before);
    assert_eq!(server.call("r").await["attempt"], 1);
    server.answer("r", "fine").await;
    assert_eq!(call.await.unwrap().body["output"], "fine");
}

#[tokio::test]
async fn a_newer_connection_of_the_same_name_supersedes_the_older_at_once() {
    let server = TestServer::start().await;
    let ids = server.register("tab", &["t"]).await;
    let mut older = server.stream("tab?connection=main").await;
    let mut unrelated = server.stream("tab?connection=side&grace=1000").await;
    // The newest of those with the least to do: two calls, one for each.
    server.begin_call(json!({ "toolID": ids[0], "requestID": "side" })).await;
    server.begin_call(json!({ "toolID": ids[0], "requestID": "main" })).await;
    unrelated.expect_call("side").await;
    older.expect_call("main").await;
    let mut newer = server.stream("tab?connection=main").await;
    // Clean: it is not to come back.
    assert_eq!(older.end().await, (vec![], End::Clean));
    let again = newer.expect_call("main").await;
    assert_eq!(again.data["attempt"], 2);
    assert_eq!(server.counts().connections, 2);
    assert_eq!(server.call("side").await["attempt"], 1);
}

#[tokio::test]
async fn superseding_does_not_unregister_even_without_grace() {
    let server = TestServer::start().await;
    server.register("tab", &["t"]).await;
    let mut events = server.events().await;
    let mut streams = vec![server.stream("tab?connection=main").await];
    for _ in 0..5 {
        streams.push(server.stream("tab?connection=main").await);
    }
    let last = streams.pop().unwrap();
    for stream in &mut streams {
        assert_eq!(stream.end().await, (vec![], End::Clean));
    }
    server.register("tab", &["next"]).await;
    assert_eq!(events.next().await.data["type"], "client-tool.registered");
    assert_eq!((server.counts().tools, server.counts().connections), (2, 1));
    drop(last);
    assert_eq!(events.next().await.data["type"], "client-tool.unregistered");
}

#[tokio::test]
async fn the_same_name_of_another_client_is_another_connection() {
    let server = TestServer::start().await;
    let ids = server.register("one", &["t"]).await;
    let mut one = server.stream("one?connection=main").await;
    let _other = server.stream("two?connection=main").await;
    let request = server.begin_call(json!({ "toolID": ids[0] })).await;
    one.expect_call(&request).await;
    assert_eq!(server.counts().connections, 2);
}

#[tokio::test]
async fn tools_of_a_client_that_never_connects_go_after_a_while_with_its_calls() {
    let server = TestServer::with(|config| config.limits.unconnected_tools = Duration::from_millis(100)).await;
    let mut events = server.events().await;
    let ids = server.register("tab", &["a", "b"]).await;
    assert_eq!(events.next().await.data["type"], "client-tool.registered");
    let call = server.execute(json!({ "toolID": ids[0] }));
    call.await.unwrap().must_fail(502, "CLIENT_DISCONNECTED");
    server.until("nothing is left", |counts| counts.clients == 0 && counts.tools == 0 && counts.calls == 0).await;
    let mut seen = Vec::new();
    while seen.last().is_none_or(|kind| kind != "client-tool.unregistered") {
        seen.push(events.next().await.data["type"].clone());
    }
    server.get("/client-tools/clients").await.must_be(200, &json!([]));
}

#[tokio::test]
async fn tools_of_a_client_that_connects_in_time_stay() {
    let limit = Duration::from_millis(150);
    let server = TestServer::with(|config| config.limits.unconnected_tools = limit).await;
    server.register("tab", &["t"]).await;
    let _stream = server.stream("tab").await;
    server.register("never", &["t"]).await;
    server.until("the other's are gone", |counts| counts.clients == 1).await;
    assert_eq!(server.counts().tools, 1);
    assert_eq!(server.get("/client-tools/tools/tab").await.body[0]["id"], "client_tab_t");
}

#[tokio::test]
async fn a_client_that_connects_without_tools_may_register_later() {
    let server = TestServer::start().await;
    let mut stream = server.stream("tab").await;
    let ids = server.register("tab", &["t"]).await;
    let request = server.begin_call(json!({ "toolID": ids[0] })).await;
    stream.expect_call(&request).await;
    drop(stream);
    server.until("nothing is left", |counts| counts.clients == 0).await;
}

async fn say_goodbye(server: &TestServer, connection: &str) {
    let goodbye = json!({ "clientID": "tab", "connection": connection });
    server.post("/client-tools/disconnect", goodbye).await.must_be(200, &json!({ "success": true }));
}

#[tokio::test]
async fn a_goodbye_ends_the_client_at_once_whatever_grace_it_had_asked_for() {
    let server = TestServer::start().await;
    let ids = server.register("tab", &["t"]).await;
    let mut stream = server.stream("tab?connection=main&grace=300000").await;
    let call = server.execute(json!({ "toolID": ids[0], "requestID": "r" }));
    stream.expect_call("r").await;
    say_goodbye(&server, "main").await;
    server.get("/client-tools/clients").await.must_be(200, &json!([]));
    server.get("/client-tools/tools").await.must_be(200, &json!({}));
    assert_eq!(call.await.unwrap().must_fail(502, "CLIENT_DISCONNECTED"), "Client disconnected");
    assert_eq!(stream.end().await.1, End::Clean);
    // The same again, as a network may deliver it, is fine.
    say_goodbye(&server, "main").await;
}

#[tokio::test]
async fn a_goodbye_leaves_what_another_connection_of_the_client_keeps() {
    let server = TestServer::start().await;
    let ids = server.register("tab", &["t"]).await;
    let mut other = server.stream("tab?connection=other&grace=1000").await;
    let mut leaving = server.stream("tab?connection=leaving&grace=300000").await;
    let call = server.execute(json!({ "toolID": ids[0], "requestID": "r" }));
    leaving.expect_call("r").await;
    say_goodbye(&server, "unknown").await;
    assert_eq!(server.call("r").await["attempt"], 1);
    say_goodbye(&server, "leaving").await;
    other.expect_call("r").await;
    assert_eq!(server.call("r").await["attempt"], 2);
    server.answer("r", "done by the other").await;
    assert_eq!(call.await.unwrap().body["output"], "done by the other");
    assert_eq!(server.get("/client-tools/tools/tab").await.body[0]["id"], "client_tab_t");
}

#[tokio::test]
async fn a_goodbye_after_the_connection_was_lost_takes_the_grace_back() {
    let server = TestServer::start().await;
    server.register("tab", &["t"]).await;
    drop(server.stream("tab?connection=main&grace=300000").await);
    server.until("the connection is gone", |counts| counts.connections == 0).await;
    assert_eq!(server.get("/client-tools/tools/tab").await.body[0]["id"], "client_tab_t");
    say_goodbye(&server, "main").await;
    server.get("/client-tools/tools/tab").await.must_be(200, &json!([]));
}

#[tokio::test]
async fn a_goodbye_takes_no_grace_back_but_its_own() {
    let server = TestServer::start().await;
    server.register("tab", &["t"]).await;
    // Somebody else's, before the client has ever been connected.
    say_goodbye(&server, "stranger").await;
    assert_eq!(server.get("/client-tools/tools/tab").await.body[0]["id"], "client_tab_t");
    let one = server.stream("tab?connection=one&grace=300000").await;
    let two = server.stream("tab?connection=two&grace=300000").await;
    drop((one, two));
    server.until("both are gone", |counts| counts.connections == 0).await;
    let call = server.begin_call(json!({ "toolID": "client_tab_t" })).await;
    say_goodbye(&server, "one").await;
    say_goodbye(&server, "one").await;
    assert_eq!(server.get("/client-tools/tools/tab").await.body[0]["id"], "client_tab_t");
    server.stream("tab?connection=two&grace=300000").await.expect_call(&call).await;
    server.until("it is gone again", |counts| counts.connections == 0).await;
    say_goodbye(&server, "two").await;
    server.get("/client-tools/tools/tab").await.must_be(200, &json!([]));
    assert_eq!(server.outcome(&call).await["status"], "disconnected");
}
