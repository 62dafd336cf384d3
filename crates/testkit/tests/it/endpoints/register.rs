//! `POST /client-tools/register` and the listings of tools and clients.

use handback_testkit::keys::seconds_until;
use handback_testkit::{Answer, TestServer};
use reqwest::Method;
use serde_json::{Value, json};

async fn register(server: &TestServer, body: Value) -> Answer {
    server.post("/client-tools/register", body).await
}

#[tokio::test]
async fn registered_tools_are_answered_by_their_full_ids_in_their_order() {
    let server = TestServer::start().await;
    let tools = json!([{ "id": "zoom" }, { "id": "a.b:c@d-e_F9" }]);
    let answer = register(&server, json!({ "clientID": "tab", "tools": tools })).await;
    answer.must_be(200, &json!({ "registered": ["client_tab_zoom", "client_tab_a.b:c@d-e_F9"] }));
    let answer = register(&server, json!({ "clientID": "tab", "tools": [] })).await;
    answer.must_be(200, &json!({ "registered": [] }));
}

#[tokio::test]
async fn a_tool_is_listed_with_all_that_it_said_and_the_defaults_of_what_it_did_not() {
    let server = TestServer::start().await;
    let schema = json!({ "type": "object", "properties": { "city": { "type": "string" } }, "required": ["city"] });
    let full = json!({
        "id": "weather", "description": "Tells the weather", "parameters": schema, "timeout": 1500, "effect": "read",
        "version": "2.1", "unknown": { "is": "ignored" },
    });
    register(&server, json!({ "clientID": "tab", "tools": [full, { "id": "any" }], "more": 1 })).await;

    let weather = json!({
        "id": "client_tab_weather", "description": "Tells the weather", "parameters": schema, "timeout": 1500.0,
        "effect": "read", "version": "2.1",
    });
    let any = json!({
        "id": "client_tab_any", "description": "", "parameters": { "type": "object" }, "effect": "write",
    });
    server.get("/client-tools/tools/tab").await.must_be(200, &json!([weather, any]));
    let all = json!({ "client_tab_weather": weather, "client_tab_any": any });
    server.get("/client-tools/tools").await.must_be(200, &all);
}

#[tokio::test]
async fn tools_of_a_client_are_listed_in_order_of_registration() {
    let server = TestServer::start().await;
    let names = ["z", "m", "a", "q", "b"];
    for name in names {
        server.register("tab", &[name]).await;
    }
    let answer = server.get("/client-tools/tools/tab").await;
    let listed: Vec<&str> = answer.body.as_array().unwrap().iter().map(|tool| tool["id"].as_str().unwrap()).collect();
    assert_eq!(listed, names.map(|name| format!("client_tab_{name}")));
}

#[tokio::test]
async fn the_same_id_again_replaces_the_tool() {
    let server = TestServer::start().await;
    let tool = json!({ "id": "t", "description": "old", "timeout": 5, "effect": "read", "version": "1" });
    register(&server, json!({ "clientID": "tab", "tools": [tool] })).await;
    let again = register(&server, json!({ "clientID": "tab", "tools": [{ "id": "t", "description": "new" }] })).await;
    again.must_be(200, &json!({ "registered": ["client_tab_t"] }));
    let new =
        json!([{ "id": "client_tab_t", "description": "new", "parameters": { "type": "object" }, "effect": "write" }]);
    server.get("/client-tools/tools/tab").await.must_be(200, &new);
}

#[tokio::test]
async fn a_registration_with_one_bad_tool_registers_none_and_changes_none() {
    let server = TestServer::start().await;
    server.register("a", &["b_c"]).await;
    server.register("a_b", &["kept"]).await;
    let before = server.get("/client-tools/tools").await;
    let bad = [
        (json!({ "id": "c" }), 409, "CONFLICT"),
        (json!({ "id": "no spaces" }), 400, "INVALID_REQUEST"),
        (json!({ "id": "x", "parameters": { "type": "nonsense" } }), 400, "INVALID_REQUEST"),
        (json!({ "id": "x", "timeout": 0 }), 400, "INVALID_REQUEST"),
    ];
    for (bad, status, code) in bad {
        let tools = json!([{ "id": "good" }, { "id": "kept", "description": "changed" }, bad]);
        register(&server, json!({ "clientID": "a_b", "tools": tools })).await.must_fail(status, code);
        assert_eq!(server.get("/client-tools/tools").await, before, "after {bad}");
    }
}

#[tokio::test]
async fn an_invalid_schema_is_refused_with_the_name_of_its_tool() {
    let server = TestServer::start().await;
    let tools = json!([{ "id": "fine" }, { "id": "broken-one", "parameters": { "properties": 5 } }]);
    let answer = register(&server, json!({ "clientID": "tab", "tools": tools })).await;
    let message = answer.must_fail(400, "INVALID_REQUEST");
    assert!(message.contains("broken-one"), "{message}");
}

#[tokio::test]
async fn a_tool_id_that_two_clients_would_share_is_refused_to_the_second_until_the_first_is_gone() {
    let server = TestServer::start().await;
    let one = server.register("a", &["b_c"]).await;
    let body = json!({ "clientID": "a_b", "tools": [{ "id": "c", "description": "the second's" }] });
    let message = register(&server, body.clone()).await;
    assert!(message.must_fail(409, "CONFLICT").contains("client_a_b_c"), "{message:?}");
    assert_eq!(server.get("/client-tools/tools/a_b").await.body, json!([]));

    let mut stream = server.stream("a").await;
    let call = server.execute(json!({ "toolID": one[0] }));
    let request = stream.expect("tool-request").await;
    server.answer(request.request_id(), "the first's").await;
    assert_eq!(call.await.unwrap().body["output"], "the first's");

    server.delete("/client-tools/unregister", json!({ "clientID": "a" })).await;
    register(&server, body).await.must_be(200, &json!({ "registered": ["client_a_b_c"] }));
    let owner = server.get("/client-tools/tools/a_b").await;
    assert_eq!(owner.body[0]["description"], "the second's");
}

#[tokio::test]
async fn a_tool_may_be_in_several_sessions_and_leaves_them_one_by_one() {
    let server = TestServer::start().await;
    let registered = json!({ "registered": ["client_tab_t"] });
    for session in ["ses_1", "anything at all, even ünknown"] {
        let body = json!({ "clientID": "tab", "sessionID": session, "tools": [{ "id": "t" }] });
        register(&server, body).await.must_be(200, &registered);
    }
    assert_eq!(server.counts().tools, 1);
    let leave = async |session: &str| {
        server.delete("/client-tools/unregister", json!({ "clientID": "tab", "sessionID": session })).await
    };
    let gone = json!({ "success": true, "unregistered": ["client_tab_t"] });
    let none = json!({ "success": true, "unregistered": [] });
    leave("ses_1").await.must_be(200, &gone);
    leave("ses_1").await.must_be(200, &none);
    assert_eq!(server.counts().tools, 1);
    leave("anything at all, even ünknown").await.must_be(200, &gone);
    assert_eq!(server.counts().tools, 0);
}

#[tokio::test]
async fn every_allowed_client_id_can_be_registered_and_listed() {
    let server = TestServer::start().await;
    for client in ["a", "A-z_0.9:@", "...", &"x".repeat(128)] {
        let ids = server.register(client, &["t"]).await;
        assert_eq!(ids, [format!("client_{client}_t")]);
        let path: String = client.bytes().map(|byte| format!("%{byte:02x}")).collect();
        let listed = server.get(&format!("/client-tools/tools/{path}")).await;
        assert_eq!(listed.body[0]["id"], ids[0].as_str(), "{client}");
    }
}

#[tokio::test]
async fn too_much_is_413() {
    let server = TestServer::with(|config| {
        config.limits.body_bytes = 4096;
        config.limits.schema_bytes = 1024;
        config.limits.tools_per_client = 2;
    })
    .await;
    let tool = |size: usize| json!({ "id": "t", "parameters": { "description": "x".repeat(size) } });
    let three = json!([{ "id": "a" }, { "id": "b" }, { "id": "c" }]);
    for tools in [json!([tool(5000)]), json!([tool(2000)]), three] {
        let answer = register(&server, json!({ "clientID": "tab", "tools": tools })).await;
        answer.must_fail(413, "TOO_LARGE");
    }
    server.register("tab", &["a", "b"]).await;
    let answer = register(&server, json!({ "clientID": "tab", "tools": [{ "id": "c" }] })).await;
    answer.must_fail(413, "TOO_LARGE");
    assert_eq!(server.counts().tools, 2);
}

#[tokio::test]
async fn a_registration_without_what_it_needs_is_refused() {
    let server = TestServer::start().await;
    let bad = [
        json!({ "tools": [] }),
        json!({ "clientID": "tab" }),
        json!({ "clientID": "", "tools": [] }),
        json!({ "clientID": "a b", "tools": [] }),
        json!({ "clientID": "x".repeat(129), "tools": [] }),
        json!({ "clientID": "tab", "tools": [{ "description": "no id" }] }),
        json!({ "clientID": "tab", "tools": [{ "id": "" }] }),
        json!({ "clientID": "tab", "tools": [{ "id": "x".repeat(65) }] }),
        json!({ "clientID": "tab", "tools": [{ "id": "t", "effect": "delete" }] }),
    ];
    for body in bad {
        register(&server, body).await.must_fail(400, "INVALID_REQUEST");
    }
    assert_eq!(server.get("/client-tools/clients").await.body, json!([]));
}

#[tokio::test]
async fn any_content_type_is_taken_for_json() {
    let server = TestServer::start().await;
    for kind in ["text/plain", "application/octet-stream"] {
        let request = server.request(Method::POST, "/client-tools/register").header("content-type", kind);
        let answer = Answer::to(request.body(r#"{"clientID":"tab","tools":[{"id":"t"}]}"#)).await;
        answer.must_be(200, &json!({ "registered": ["client_tab_t"] }));
    }
}

#[tokio::test]
async fn tools_of_an_unknown_client_are_none_and_of_a_bad_one_an_error() {
    let server = TestServer::start().await;
    server.get("/client-tools/tools/nobody").await.must_be(200, &json!([]));
    server.get("/client-tools/tools").await.must_be(200, &json!({}));
    server.get("/client-tools/tools/a%20b").await.must_fail(400, "INVALID_REQUEST");
    server.get("/client-tools/tools/a%2Fb").await.must_fail(400, "INVALID_REQUEST");
    server.get(&format!("/client-tools/tools/{}", "x".repeat(129))).await.must_fail(400, "INVALID_REQUEST");
    server.get("/client-tools/tools/").await.must_fail(404, "NOT_FOUND");
}

#[tokio::test]
async fn clients_are_listed_with_what_they_have() {
    let server = TestServer::start().await;
    server.get("/client-tools/clients").await.must_be(200, &json!([]));
    let ids = server.register("busy", &["a", "b"]).await;
    server.register("idle", &["a"]).await;
    let _streams = [server.stream("busy").await, server.stream("busy").await];
    server.begin_call(json!({ "toolID": ids[0] })).await;
    let answer = server.get("/client-tools/clients").await;
    let mut rows = answer.body.as_array().unwrap().clone();
    for row in &mut rows {
        let since = row["since"].take();
        let age = -seconds_until(since.as_str().unwrap());
        assert!((-1.0..20.0).contains(&age), "{since}");
    }
    let expected = [
        json!({ "id": "busy", "connections": 2, "tools": 2, "calls": 1, "since": null }),
        json!({ "id": "idle", "connections": 0, "tools": 1, "calls": 0, "since": null }),
    ];
    assert_eq!(rows, expected);
}
