//! `GET /status`: how a server is, for whoever runs it.

use handback_testkit::{Scratch, TestServer};
use serde_json::{Value, json};

/// The status, without what no test can know.
async fn status(server: &TestServer) -> Value {
    let mut status = server.get("/status").await.body;
    let known = status.as_object_mut().unwrap();
    assert!(known.remove("time").unwrap().as_u64().unwrap() > 0);
    assert!(known.remove("uptime").unwrap().is_u64());
    if cfg!(target_os = "linux") {
        let files = known.remove("openFiles").unwrap();
        assert!(files["used"].as_u64().unwrap() > 0 && files["used"].as_u64() <= files["most"].as_u64(), "{files}");
    }
    let used = &mut known["bounds"]["limits.connections"]["used"];
    assert!(used.as_u64().unwrap() > 0);
    *used = "some".into();
    status
}

#[tokio::test]
async fn a_server_says_what_there_is_and_nothing_secret() {
    let server = TestServer::with(|config| {
        let provider = |settings: Value| serde_json::from_str(&settings.to_string()).unwrap();
        let with_key = json!({ "kind": "openai", "baseURL": "https://api.openai.com/v1", "apiKey": "very-secret" });
        let without = json!({ "kind": "openai", "baseURL": "http://127.0.0.1:9/v1" });
        config.providers.insert("work".to_owned(), provider(with_key));
        config.providers.insert("local".to_owned(), provider(without));
        config.limits.clients = 10;
        config.limits.connections = 100;
    })
    .await;
    let mut expected = json!({
        "version": env!("CARGO_PKG_VERSION"), "ready": true, "store": "memory", "model": "demo/scripted",
        "providers": { "work": "set", "local": "none" },
        "counts": { "clients": 0, "connections": 0, "tools": 0, "calls": 0 },
        "bounds": {
            "limits.clients": { "used": 0, "most": 10 }, "limits.connections": { "used": "some", "most": 100 },
        },
    });
    assert_eq!(status(&server).await, expected);

    server.register("tab", &["read", "write"]).await;
    let _stream = server.stream("tab").await;
    server.begin_call(json!({ "toolID": "client_tab_read" })).await;
    expected["counts"] = json!({ "clients": 1, "connections": 1, "tools": 2, "calls": 1 });
    expected["bounds"]["limits.clients"]["used"] = json!(1);
    assert_eq!(status(&server).await, expected);
}

#[tokio::test]
async fn a_server_with_a_database_says_how_much_of_its_quota_is_used() {
    let scratch = Scratch::new();
    let server = TestServer::with(|config| {
        config.data = Some(scratch.path().to_owned());
        config.limits.session_bytes = 1_000_000;
    })
    .await;
    server.session(json!({ "title": "One" })).await;
    let status = status(&server).await;
    let stored = &status["bounds"]["limits.sessionBytes"];
    assert_eq!((&status["store"], &stored["most"]), (&json!("database"), &json!(1_000_000)));
    assert!((1..1_000_000).contains(&stored["used"].as_u64().unwrap()), "{stored}");
}
