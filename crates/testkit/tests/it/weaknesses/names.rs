//! Names: 7, 9, 12, 16, 25.

use handback_testkit::TestServer;
use reqwest::Method;
use serde_json::json;

#[tokio::test]
async fn w07_two_clients_never_share_a_tool_id() {
    let server = TestServer::start().await;
    let ids = server.register("a", &["b_c"]).await;
    let body = json!({ "clientID": "a_b", "tools": [{ "id": "c" }] });
    server.post("/client-tools/register", body).await.must_fail(409, "CONFLICT");
    let (mut owner, _other) = (server.stream("a").await, server.stream("a_b").await);
    for n in 0..12 {
        let request = server.begin_call(json!({ "toolID": ids[0], "requestID": format!("r{n}") })).await;
        owner.expect_call(&request).await;
    }
}

#[tokio::test]
async fn w09_a_tool_whose_own_id_starts_with_client_can_be_unregistered_by_it() {
    let server = TestServer::start().await;
    server.register("tab", &["client_side", "client_tab_x"]).await;
    for (short, full) in [("client_side", "client_tab_client_side"), ("client_tab_x", "client_tab_client_tab_x")] {
        let answer = server.delete("/client-tools/unregister", json!({ "clientID": "tab", "toolIDs": [short] })).await;
        answer.must_be(200, &json!({ "success": true, "unregistered": [full] }));
    }
}

#[tokio::test]
async fn w12_an_unknown_path_is_answered_here_and_passed_on_to_nobody() {
    let server = TestServer::start().await;
    for path in ["/client-tools/exec", "/anything", "/desktop", "/http://example.com/"] {
        for method in [Method::GET, Method::POST] {
            let answer = handback_testkit::Answer::to(server.request(method, path)).await;
            answer.must_fail(404, "NOT_FOUND");
        }
    }
}

#[tokio::test]
async fn w16_made_ids_cannot_be_guessed_and_one_client_that_leaves_takes_no_other_with_it() {
    let server = TestServer::start().await;
    let ids = [server.register("client1", &["t"]).await, server.register("client10", &["t"]).await].concat();
    let (mut one, mut ten) = (server.stream("client1").await, server.stream("client10").await);
    let mut made = Vec::new();
    for _ in 0..20 {
        made.push(server.begin_call(json!({ "toolID": ids[1] })).await);
        ten.expect_call(made.last().unwrap()).await;
    }
    for id in &made {
        assert!(id.len() >= 20 && !id.contains("client"), "{id}");
    }
    // Random from the first characters on: no two share a beginning, as they would if it were a time or a counter.
    let mut beginnings: Vec<&str> = made.iter().map(|id| &id[..6]).collect();
    beginnings.sort_unstable();
    beginnings.dedup();
    assert_eq!(beginnings.len(), 20, "{made:?}");

    let call = server.execute(json!({ "toolID": ids[0] }));
    one.expect("tool-request").await;
    drop(one);
    call.await.unwrap().must_fail(502, "CLIENT_DISCONNECTED");
    for id in &made {
        server.answer(id, "unharmed").await.must_be(200, &json!({ "success": true }));
    }
}

/// How a name is shortened for a model is a question of sessions; here an id is what it was registered as, and the
/// characters that no provider could take are refused.
#[tokio::test]
async fn w25_ids_have_characters_that_can_be_named_and_reach_the_client_in_full() {
    let server = TestServer::start().await;
    for (client, tool) in [("a b", "t"), ("tab", "a b"), ("é", "t"), ("tab", "ü"), ("a/b", "t"), ("tab", "a\"b")] {
        let body = json!({ "clientID": client, "tools": [{ "id": tool }] });
        server.post("/client-tools/register", body).await.must_fail(400, "INVALID_REQUEST");
    }
    let client = "0b9c8e5e-7c5b-4c5e-9d6f-2f1f3c9a8b7d";
    let tool = "a_tool_whose_name_is_long_for_a_provider_but_not_for_this_api";
    let ids = server.register(client, &[tool]).await;
    let mut stream = server.stream(client).await;
    server.begin_call(json!({ "toolID": ids[0] })).await;
    let request = stream.expect("tool-request").await;
    assert_eq!(request.data["tool"], format!("client_{client}_{tool}"));
}
