//! Who may come in, and what is bounded: 15, 17, 18.

use std::time::Duration;

use handback_testkit::{Answer, TestServer, TestSocket};
use reqwest::Method;
use serde_json::json;

#[tokio::test]
async fn w15_a_stranger_cannot_read_register_list_or_answer_for_another_client() {
    let server = TestServer::protected(|_| {}).await;
    let ids = server.register("tab", &["t"]).await;
    let mut owner = server.stream("tab").await;
    server.begin_call(json!({ "toolID": ids[0], "requestID": "r" })).await;
    owner.expect_call("r").await;
    let stranger = server.token(json!({ "clientID": "stranger" })).await;
    let send = async |method: Method, path: &str, body: serde_json::Value| {
        Answer::to(server.request_without_key(method, path).bearer_auth(&stranger).json(&body)).await
    };
    let register = json!({ "clientID": "tab", "tools": [{ "id": "t", "description": "taken over" }] });
    send(Method::POST, "/client-tools/register", register).await.must_fail(403, "FORBIDDEN");
    send(Method::GET, "/client-tools/pending/tab", json!(null)).await.must_fail(403, "FORBIDDEN");
    assert_eq!(TestSocket::try_open(&server.socket_url("tab"), Some(&stranger)).await.err().unwrap().0, 403);
    send(Method::GET, "/client-tools/tools/tab", json!(null)).await.must_fail(403, "FORBIDDEN");
    send(Method::GET, "/client-tools/tools", json!(null)).await.must_be(200, &json!({}));
    let result = json!({ "requestID": "r", "result": { "status": "success", "output": "forged" } });
    send(Method::POST, "/client-tools/result", result).await.must_fail(403, "FORBIDDEN");
    server.answer("r", "genuine").await;
    assert_eq!(server.outcome("r").await["output"], "genuine");

    // Where nobody needs a key, a web page is still kept out.
    let open = TestServer::start().await;
    let page = open.request(Method::POST, "/client-tools/result").header("origin", "https://evil.example");
    Answer::to(page.json(&json!({ "requestID": "r", "status": "success" }))).await.must_fail(403, "FORBIDDEN");
}

#[tokio::test]
async fn w17_what_nobody_uses_is_reclaimed_and_everything_has_a_limit() {
    let server = TestServer::with(|config| {
        config.limits.unconnected_tools = Duration::from_millis(100);
        config.limits.clients = 3;
        config.limits.tools_per_client = 2;
    })
    .await;
    let _stream = server.stream("connected").await;
    for client in ["a", "b"] {
        server.register(client, &["t"]).await;
    }
    let third = json!({ "clientID": "c", "tools": [{ "id": "t" }] });
    server.post("/client-tools/register", third.clone()).await.must_fail(503, "UNAVAILABLE");
    server.get("/client-tools/pending/c").await.must_fail(503, "UNAVAILABLE");
    server.until("those who never connect are gone", |counts| counts.clients == 1 && counts.tools == 0).await;
    assert_eq!(server.post("/client-tools/register", third).await.status, 200);
    let many = json!({ "clientID": "connected", "tools": [{ "id": "a" }, { "id": "b" }, { "id": "c" }] });
    server.post("/client-tools/register", many).await.must_fail(413, "TOO_LARGE");
    // A client whose tools are all unregistered one by one leaves nothing behind.
    server.register("c", &["t", "u"]).await;
    for tool in ["t", "u"] {
        server.delete("/client-tools/unregister", json!({ "clientID": "c", "toolIDs": [tool] })).await;
    }
    assert_eq!(server.get("/client-tools/clients").await.body.as_array().unwrap().len(), 1);
}

/// Theirs published events while holding the lock of the registry. Ours must serve a subscriber that reads the
/// registry on every event, while others change it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn w18_a_subscriber_that_reads_the_registry_on_every_event_blocks_nobody() {
    let server = TestServer::start().await;
    let mut events = server.events().await;
    let changes = async {
        for n in 0..100 {
            let client = format!("tab{}", n % 5);
            server.register(&client, &["t"]).await;
            server.delete("/client-tools/unregister", json!({ "clientID": client })).await;
        }
    };
    let reads = async {
        for n in 0..200 {
            let kind = events.next().await.data["type"].clone();
            assert_eq!(kind, ["client-tool.registered", "client-tool.unregistered"][n % 2]);
            assert_eq!(server.get("/client-tools/tools").await.status, 200);
        }
    };
    tokio::join!(changes, reads);
}
