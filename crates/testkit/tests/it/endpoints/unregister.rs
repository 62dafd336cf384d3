//! `DELETE` and `POST /client-tools/unregister`.

use handback_testkit::TestServer;
use serde_json::{Value, json};

async fn unregister(server: &TestServer, body: Value) -> Value {
    let answer = server.delete("/client-tools/unregister", body).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(answer.body.as_object().unwrap().len(), 2, "{answer:?}");
    assert_eq!(answer.body["success"], true);
    answer.body["unregistered"].clone()
}

async fn names(server: &TestServer, client: &str) -> Vec<String> {
    let answer = server.get(&format!("/client-tools/tools/{client}")).await;
    answer.body.as_array().unwrap().iter().map(|tool| tool["id"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn without_tool_ids_all_of_the_clients_tools_go_and_nobody_elses() {
    let server = TestServer::start().await;
    server.register("tab", &["a", "b"]).await;
    server.register("tab2", &["a"]).await;
    let gone = unregister(&server, json!({ "clientID": "tab" })).await;
    assert_eq!(gone, json!(["client_tab_a", "client_tab_b"]));
    assert_eq!(names(&server, "tab2").await, ["client_tab2_a"]);
    assert_eq!(unregister(&server, json!({ "clientID": "tab" })).await, json!([]));
}

#[tokio::test]
async fn an_empty_list_of_tool_ids_is_none() {
    let server = TestServer::start().await;
    server.register("tab", &["a"]).await;
    assert_eq!(unregister(&server, json!({ "clientID": "tab", "toolIDs": [] })).await, json!([]));
    assert_eq!(names(&server, "tab").await, ["client_tab_a"]);
}

#[tokio::test]
async fn tool_ids_may_be_short_or_full_and_unknown_ones_are_passed_over() {
    let server = TestServer::start().await;
    server.register("tab", &["a", "b", "c"]).await;
    server.register("other", &["a"]).await;
    let ids = json!(["client_tab_b", "nobody", "a", "a", "client_tab_a", "client_other_a", "bad id"]);
    let gone = unregister(&server, json!({ "clientID": "tab", "toolIDs": ids })).await;
    assert_eq!(gone, json!(["client_tab_b", "client_tab_a"]));
    assert_eq!(names(&server, "tab").await, ["client_tab_c"]);
    assert_eq!(names(&server, "other").await, ["client_other_a"]);
}

#[tokio::test]
async fn an_exact_full_id_comes_before_a_short_one_that_looks_like_it() {
    let server = TestServer::start().await;
    server.register("tab", &["client_tab_x", "x"]).await;
    assert_eq!(names(&server, "tab").await, ["client_tab_client_tab_x", "client_tab_x"]);
    let gone = unregister(&server, json!({ "clientID": "tab", "toolIDs": ["client_tab_x"] })).await;
    assert_eq!(gone, json!(["client_tab_x"]));
    let gone = unregister(&server, json!({ "clientID": "tab", "toolIDs": ["client_tab_x"] })).await;
    assert_eq!(gone, json!(["client_tab_client_tab_x"]));
}

#[tokio::test]
async fn post_does_the_same_as_delete() {
    let server = TestServer::start().await;
    server.register("tab", &["a", "b"]).await;
    let answer = server.post("/client-tools/unregister", json!({ "clientID": "tab", "toolIDs": ["a"] })).await;
    answer.must_be(200, &json!({ "success": true, "unregistered": ["client_tab_a"] }));
    server.post("/client-tools/unregister", json!({})).await.must_fail(400, "INVALID_REQUEST");
    assert_eq!(names(&server, "tab").await, ["client_tab_b"]);
}

#[tokio::test]
async fn nothing_to_unregister_is_an_empty_list() {
    let server = TestServer::start().await;
    assert_eq!(unregister(&server, json!({ "clientID": "nobody" })).await, json!([]));
    assert_eq!(unregister(&server, json!({ "clientID": "nobody", "toolIDs": ["a"] })).await, json!([]));
}

#[tokio::test]
async fn without_a_good_client_id_it_is_refused() {
    let server = TestServer::start().await;
    for body in [json!({}), json!({ "clientID": "a b" }), json!({ "clientID": "a", "toolIDs": "a" })] {
        server.delete("/client-tools/unregister", body).await.must_fail(400, "INVALID_REQUEST");
    }
}

#[tokio::test]
async fn calls_under_way_go_on() {
    let server = TestServer::start().await;
    let ids = server.register("tab", &["a"]).await;
    let mut stream = server.stream("tab").await;
    let call = server.execute(json!({ "toolID": ids[0] }));
    let request = stream.expect("tool-request").await;
    unregister(&server, json!({ "clientID": "tab" })).await;
    server.post("/client-tools/execute", json!({ "toolID": ids[0] })).await.must_fail(404, "NOT_FOUND");
    assert_eq!(server.answer(request.request_id(), "still here").await.status, 200);
    call.await.unwrap().must_be(200, &json!({ "status": "success", "title": "", "output": "still here" }));
}
