//! Paths and methods that there are not, and the shape of errors by path.

use handback_testkit::{Answer, TestServer};
use reqwest::{Method, Response};
use serde_json::{Value, json};

fn allowed(response: &Response) -> Vec<String> {
    let allow = response.headers().get("allow").map(|allow| allow.to_str().unwrap()).unwrap_or_default();
    allow.split(',').map(|method| method.trim().to_owned()).filter(|method| !method.is_empty()).collect()
}

/// On every path of every API, whatever its errors look like.
#[tokio::test]
async fn a_wrong_method_is_405_and_says_which_are_allowed() {
    let server = TestServer::start().await;
    let description = server.get("/doc").await.body;
    let mut wrong = Vec::new();
    for (path, operations) in description["paths"].as_object().unwrap() {
        let methods: Vec<String> = operations.as_object().unwrap().keys().map(|name| name.to_uppercase()).collect();
        for method in ["GET", "POST", "PUT", "PATCH", "DELETE", "TRACE"] {
            if methods.iter().any(|known| known == method) {
                continue;
            }
            let request = server.request(Method::from_bytes(method.as_bytes()).unwrap(), path);
            let response = request.send().await.unwrap();
            let (status, allow) = (response.status().as_u16(), allowed(&response));
            if status != 405 || !methods.iter().all(|method| allow.contains(method)) {
                wrong.push(format!("{method} {path}: {status}, Allow: {allow:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[tokio::test]
async fn head_on_the_stream_of_calls_connects_nobody() {
    let server = TestServer::start().await;
    server.register("tab", &["t"]).await;
    let mut events = server.events().await;
    let response = server.request(Method::HEAD, "/client-tools/pending/tab").send().await.unwrap();
    assert_eq!(response.text().await.unwrap(), "");
    server.register("tab", &["next"]).await;
    let next = events.next().await.data;
    let registered = json!({ "clientID": "tab", "toolIDs": ["client_tab_next"] });
    assert_eq!(next, json!({ "type": "client-tool.registered", "properties": registered }));
    assert_eq!((server.counts().tools, server.counts().connections), (2, 0));
}

#[tokio::test]
async fn head_on_the_stream_of_calls_says_that_get_is_allowed() {
    let server = TestServer::start().await;
    let response = server.request(Method::HEAD, "/client-tools/pending/tab").send().await.unwrap();
    assert_eq!((response.status().as_u16(), allowed(&response)), (405, vec!["GET".to_owned()]));
}

#[tokio::test]
async fn head_on_a_listing_is_its_get_without_the_body() {
    let server = TestServer::start().await;
    let response = server.request(Method::HEAD, "/client-tools/tools").send().await.unwrap();
    assert_eq!(response.status().as_u16(), 200);
    assert_eq!(response.headers()["content-type"], "application/json");
    assert_eq!(response.text().await.unwrap(), "");
}

#[tokio::test]
async fn an_unknown_path_is_404() {
    let server = TestServer::start().await;
    let paths = [
        "/nothing",
        "/client-tools",
        "/client-tools/",
        "/client-tools/nothing",
        "/client-tools/pending/",
        "/client-tools/pending",
        "/client-tools/ws/",
        "/client-tools/calls/",
        "/client-tools/tools/tab/more",
        "/client-tools/register/",
        "/Client-Tools/tools",
        "/events",
        "/sessions",
        "/permissions",
        "/api",
        "/api/v10/x",
    ];
    for path in paths {
        server.get(path).await.must_fail(404, "NOT_FOUND");
    }
}

#[tokio::test]
async fn malformed_json_is_400() {
    let server = TestServer::start().await;
    for path in ["register", "unregister", "execute", "result", "cancel"] {
        for body in ["", " ", "{", "nonsense", "{\"clientID\":}", "{} {}", "'x'"] {
            let request = server.request(Method::POST, &format!("/client-tools/{path}")).body(body);
            Answer::to(request).await.must_fail(400, "INVALID_REQUEST");
        }
    }
}

#[tokio::test]
async fn a_bad_name_or_query_of_a_connection_is_400_and_opens_none() {
    let server = TestServer::start().await;
    let long = "x".repeat(129);
    let bad = [
        "a%20b",
        "a%2Fb",
        "%00",
        &long,
        "tab?grace=soon",
        "tab?grace=-1",
        "tab?connection=a%20b",
        &format!("tab?connection={long}"),
    ];
    for client in bad {
        let answer = server.get(&format!("/client-tools/pending/{client}")).await;
        answer.must_fail(400, "INVALID_REQUEST");
    }
    assert_eq!(server.counts().clients, 0);
}

#[tokio::test]
async fn errors_have_the_shape_of_the_api_that_their_path_belongs_to() {
    let server = TestServer::protected(|_| {}).await;
    for path in ["/session/nothing/here", "/permission/nothing/here/at-all"] {
        for (answer, status) in in_both(&server, path).await {
            assert_eq!(answer.status, status, "{path}");
            let keys = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
            assert_eq!(keys(&answer.body), ["data", "name"], "{path}: {answer:?}");
            assert_eq!(keys(&answer.body["data"]), ["message"], "{path}: {answer:?}");
        }
    }
    for path in ["/api/tools/ack/nothing", "/ai/tools/ack/nothing"] {
        for (answer, status) in in_both(&server, path).await {
            assert_eq!((answer.status, &answer.body["ok"]), (status, &json!(false)), "{path}: {answer:?}");
            assert!(answer.body["reason"].is_string(), "{path}: {answer:?}");
        }
    }
    for (answer, status) in in_both(&server, "/api/v1/nothing").await {
        assert_eq!(answer.status, status);
        assert_eq!(answer.body.as_object().unwrap().keys().collect::<Vec<_>>(), ["detail"], "{answer:?}");
    }
    for (answer, status) in in_both(&server, "/anything/else").await {
        answer.must_fail(status, if status == 404 { "NOT_FOUND" } else { "UNAUTHORIZED" });
    }
}

/// What a path without a route answers to whoever may know and to whoever may not.
async fn in_both(server: &TestServer, path: &str) -> [(Answer, u16); 2] {
    let unknown = server.get(path).await;
    let unauthorized = Answer::to(server.request_without_key(Method::GET, path)).await;
    [(unknown, 404), (unauthorized, 401)]
}

#[tokio::test]
async fn a_foreign_page_is_refused_in_the_shape_of_the_path() {
    let server = TestServer::start().await;
    let refused = async |path: &str| {
        let request = server.request(Method::GET, path).header("origin", "https://elsewhere.example");
        let answer = Answer::to(request).await;
        assert_eq!(answer.status, 403, "{path}");
        answer.body
    };
    assert!(refused("/session").await["data"]["message"].is_string());
    assert!(refused("/permission/x").await["data"]["message"].is_string());
    assert_eq!(refused("/api/tools/ack").await["ok"], false);
    assert_eq!(refused("/ai/tools/ack").await["ok"], false);
    assert!(refused("/api/v1/x").await["detail"].is_string());
    assert_eq!(refused("/event").await["code"], "FORBIDDEN");
}

#[tokio::test]
async fn whether_it_lives_and_is_ready_and_what_it_can_do_is_told() {
    let server = TestServer::start().await;
    server.get("/healthz").await.must_be(200, &json!("ok\n"));
    server.get("/readyz").await.must_be(200, &json!("ok\n"));
    let document = server.get("/doc").await;
    assert_eq!((document.status, &document.body["info"]["title"]), (200, &json!("Handback")));
    let ids = server.register("tab", &["t"]).await;
    server.begin_call(json!({ "toolID": ids[0] })).await;
    let metrics = server.get("/metrics").await;
    let metrics = metrics.body.as_str().unwrap();
    for line in ["handback_connections 0", "handback_calls_started_total 1", "handback_calls_under_way 1"] {
        assert!(metrics.lines().any(|told| told == line), "{line}: {metrics}");
    }
}

#[tokio::test]
async fn answers_and_errors_are_json_and_say_so() {
    let server = TestServer::start().await;
    let paths =
        ["/client-tools/tools", "/client-tools/clients", "/client-tools/calls", "/nothing", "/client-tools/register"];
    for path in paths {
        let response = server.request(Method::GET, path).send().await.unwrap();
        assert_eq!(response.headers()["content-type"], "application/json", "{path}");
        response.json::<Value>().await.unwrap();
    }
}
