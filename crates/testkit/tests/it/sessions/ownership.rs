//! A session with a client is only that client's, and so are its tools.

use handback_testkit::session::text_prompt;
use handback_testkit::{Answer, TestServer};
use reqwest::Method;
use serde_json::{Value, json};

use super::World;
use super::errors::must_fail;

const FOREIGN: &str = "the session belongs to another client";

/// The names of what the model is offered in a session, without the server's own tool.
async fn offered(server: &TestServer, session: &str) -> Vec<String> {
    let tools = server.get(&format!("/session/{session}/tools")).await;
    assert_eq!(tools.status, 200, "{tools:?}");
    let names = tools.body.as_array().unwrap().iter().map(|tool| tool["id"].as_str().unwrap().to_owned());
    names.filter(|name| name != "list_tools").collect()
}

fn as_client(client: &str) -> Value {
    let mut body = text_prompt("hello");
    body["clientID"] = client.into();
    body
}

async fn client_of(server: &TestServer, session: &str) -> Value {
    server.get(&format!("/session/{session}")).await.body["clientID"].clone()
}

#[tokio::test]
async fn another_clients_id_on_a_message_is_403_and_nothing_is_kept() {
    let world = World::start().await;
    for path in ["message", "prompt_async"] {
        let path = format!("/session/{}/{path}", world.session);
        let in_body = world.server.post(&path, as_client("other")).await;
        assert_eq!(must_fail(&in_body, 403, "BadRequestError"), FOREIGN);
        let request = world.server.request(Method::POST, &path).header("x-handback-client", "other");
        let in_header = Answer::to(request.json(&text_prompt("hello"))).await;
        assert_eq!(must_fail(&in_header, 403, "BadRequestError"), FOREIGN);
        let mut silent = as_client("other");
        silent["noReply"] = true.into();
        must_fail(&world.server.post(&path, silent).await, 403, "BadRequestError");
    }
    assert_eq!(world.history().await, Vec::<String>::new());
    assert_eq!(world.model.shown(), []);
    // Its own id is welcome, and so is none.
    world.model.will_say("Hello.");
    let own = Answer::to(world.server.saying(&world.session, &as_client("tab"))).await;
    assert_eq!((own.status, &own.body["parts"][1]["text"]), (200, &json!("Hello.")));
}

#[tokio::test]
async fn another_client_cannot_bring_its_tools_into_a_session() {
    let world = World::start().await;
    let body = json!({ "clientID": "other", "sessionID": world.session, "tools": [{ "id": "spy" }] });
    let refused = world.server.post("/client-tools/register", body).await;
    assert_eq!(refused.must_fail(403, "FORBIDDEN"), FOREIGN);
    let mut socket = world.server.socket("other").await;
    let register = json!({ "type": "register", "tools": [{ "id": "spy" }], "sessionID": world.session, "ref": 7 });
    let refused = socket.ask(register).await;
    assert_eq!(refused, json!({ "type": "error", "error": FOREIGN, "code": "FORBIDDEN", "ref": 7 }));
    // The socket stays, and the client may have tools of its own.
    let own = socket.ask(json!({ "type": "register", "tools": [{ "id": "spy" }] })).await;
    assert_eq!(own, json!({ "type": "registered", "toolIDs": ["client_other_spy"] }));
    assert_eq!(offered(&world.server, &world.session).await, ["client_tab_a", "client_tab_b"]);
    assert_eq!(world.server.counts().tools, 3);
}

#[tokio::test]
async fn tools_of_one_client_are_never_offered_in_a_session_of_another() {
    let world = World::start().await;
    world.server.register("other", &["a", "spy"]).await;
    let others = world.server.session_of("other").await;
    assert_eq!(offered(&world.server, &world.session).await, ["client_tab_a", "client_tab_b"]);
    assert_eq!(offered(&world.server, &others).await, ["client_other_a", "client_other_spy"]);
    // A model that knows the id of a foreign tool gets nowhere with it.
    world.model.will_call(&[("client_other_spy", json!({})), ("client_tab_nobody", json!({}))]);
    world.model.will_say("No.");
    world.server.say(&world.session, "spy on the other").await;
    let results = ["client_other_spy", "client_tab_nobody"]
        .map(|tool| format!("There is no tool `{tool}`. There is: list_tools, client_tab_a, client_tab_b"));
    assert_eq!(world.model.last_shown().results, results);
    assert_eq!(world.server.get("/client-tools/calls").await.body, json!([]));
}

#[tokio::test]
async fn a_client_that_takes_over_an_id_is_not_given_the_calls_of_another_session() {
    // `a` with its tool `b_c`, and `a_b` with its tool `c`, have the same full id, one after the other.
    let World { server, model, .. } = World::start().await;
    server.register("a", &["b_c"]).await;
    let owner = server.stream("a").await;
    let session = server.session_of("a").await;
    let prompt = server.prompt(&session, "go");
    let asked = model.asked().await;
    assert_eq!(asked.shown.aliases(), ["list_tools", "client_a_b_c"]);
    drop(owner);
    server.until("the owner is gone", |counts| counts.clients == 1).await;
    server.register("a_b", &["c"]).await;
    let mut stranger = server.stream("a_b").await;
    asked.call(&[("client_a_b_c", json!({ "secret": 1 }))]);
    let asked = model.asked().await;
    assert_eq!(asked.shown.results, ["The tool client_a_b_c is no longer there: its client has gone"]);
    asked.answer("Gone.");
    prompt.await.unwrap();
    server.begin_call(json!({ "toolID": "client_a_b_c", "requestID": "marker" })).await;
    stranger.expect_call("marker").await;
}

#[tokio::test]
async fn a_tool_registered_with_a_session_is_offered_there_and_nowhere_else() {
    let mut world = World::start().await;
    let second = world.server.session_of("tab").await;
    let third = world.server.session_of("tab").await;
    for session in [&second, &third] {
        let body = json!({ "clientID": "tab", "sessionID": session, "tools": [{ "id": "only" }] });
        world
            .server
            .post("/client-tools/register", body)
            .await
            .must_be(200, &json!({ "registered": ["client_tab_only"] }));
    }
    assert_eq!(offered(&world.server, &world.session).await, ["client_tab_a", "client_tab_b"]);
    for session in [&second, &third] {
        assert_eq!(offered(&world.server, session).await, ["client_tab_a", "client_tab_b", "client_tab_only"]);
    }
    world.model.will_call(&[("client_tab_only", json!({}))]);
    world.model.will_say("Not here.");
    world.server.say(&world.session, "go").await;
    let unknown = "There is no tool `client_tab_only`. There is: list_tools, client_tab_a, client_tab_b";
    assert_eq!(world.model.last_shown().results, [unknown]);
    world.model.will_call(&[("client_tab_only", json!({}))]);
    world.model.will_say("Here.");
    let prompt = world.server.prompt(&second, "go");
    let call = world.answer_next("ok").await;
    assert_eq!((&call["tool"], &call["sessionID"]), (&json!("client_tab_only"), &json!(second)));
    prompt.await.unwrap();
    // Taken out of one session, it stays in the other.
    let body = json!({ "clientID": "tab", "sessionID": second, "toolIDs": ["only"] });
    world.server.delete("/client-tools/unregister", body).await;
    assert_eq!(offered(&world.server, &second).await, ["client_tab_a", "client_tab_b"]);
    assert_eq!(offered(&world.server, &third).await, ["client_tab_a", "client_tab_b", "client_tab_only"]);
}

#[tokio::test]
async fn a_session_of_nobody_has_the_tools_that_were_brought_into_it() {
    let world = World::start().await;
    let free = world.server.session(json!({})).await;
    assert_eq!(offered(&world.server, &free).await, Vec::<String>::new());
    for client in ["one", "two"] {
        let body = json!({ "clientID": client, "sessionID": free, "tools": [{ "id": "t" }] });
        assert_eq!(world.server.post("/client-tools/register", body).await.status, 200);
    }
    assert_eq!(offered(&world.server, &free).await, ["client_one_t", "client_two_t"]);
    let mut streams = [world.server.stream("one").await, world.server.stream("two").await];
    world.model.will_call(&[("client_one_t", json!({})), ("client_two_t", json!({}))]);
    world.model.will_say("Both.");
    let prompt = world.server.prompt(&free, "go");
    for (stream, client) in streams.iter_mut().zip(["one", "two"]) {
        let call = stream.next_call().await;
        assert_eq!(call["tool"], format!("client_{client}_t"));
        world.server.answer(super::id(&call), client).await;
    }
    prompt.await.unwrap();
    assert_eq!(world.model.last_shown().results, ["one", "two"]);
    assert_eq!(client_of(&world.server, &free).await, Value::Null);
}

#[tokio::test]
async fn a_session_of_nobody_becomes_that_of_the_first_client_that_speaks_in_it() {
    let world = World::start().await;
    let free = world.server.session(json!({})).await;
    let body = json!({ "clientID": "other", "sessionID": free, "tools": [{ "id": "spy" }] });
    assert_eq!(world.server.post("/client-tools/register", body.clone()).await.status, 200);
    assert_eq!(offered(&world.server, &free).await, ["client_other_spy"]);
    world.model.will_say("Hello.");
    assert_eq!(Answer::to(world.server.saying(&free, &as_client("tab"))).await.status, 200);
    assert_eq!(world.model.last_shown().aliases(), ["list_tools", "client_tab_a", "client_tab_b"]);
    assert_eq!(client_of(&world.server, &free).await, "tab");
    // From now on it is as if it had been made so.
    assert_eq!(offered(&world.server, &free).await, ["client_tab_a", "client_tab_b"]);
    must_fail(&Answer::to(world.server.saying(&free, &as_client("other"))).await, 403, "BadRequestError");
    world.server.post("/client-tools/register", body).await.must_fail(403, "FORBIDDEN");
}

#[tokio::test]
async fn of_two_clients_that_speak_first_at_once_one_owns_the_session() {
    let world = World::start().await;
    for _ in 0..10 {
        let free = world.server.session(json!({})).await;
        let [one, other] = ["one", "other"].map(|client| world.server.prompt_with(&free, as_client(client)));
        world.model.asked().await.answer("Hello.");
        let mut statuses = [("one", one.await.unwrap().status), ("other", other.await.unwrap().status)];
        statuses.sort_by_key(|(_, status)| *status);
        assert_eq!((statuses[0].1, statuses[1].1), (200, 403));
        assert_eq!(client_of(&world.server, &free).await, statuses[0].0);
        assert_eq!(world.server.history(&free).await, ["user | hello", "assistant | Hello. | <stop>"]);
    }
}

#[tokio::test]
async fn a_session_is_bound_by_its_body_its_metadata_or_the_header() {
    let world = World::start().await;
    let bind = async |header: Option<&str>, body: Value| {
        let mut request = world.server.request(Method::POST, "/session");
        if let Some(client) = header {
            request = request.header("x-handback-client", client);
        }
        Answer::to(request.json(&body)).await
    };
    let metadata = json!({ "clientID": "tab", "color": "blue" });
    let good = [
        (None, json!({ "clientID": "tab" })),
        (None, json!({ "metadata": metadata })),
        (Some("tab"), json!({})),
        (Some("tab"), json!({ "clientID": "tab", "metadata": metadata })),
    ];
    for (header, body) in good {
        let made = bind(header, body.clone()).await;
        assert_eq!((made.status, &made.body["clientID"]), (200, &json!("tab")), "{body}");
        assert_eq!(made.body["metadata"], body["metadata"], "metadata is kept as it came");
    }
    let before = world.server.get("/session").await;
    let bad = [
        (Some("other"), json!({ "clientID": "tab" })),
        (Some("other"), json!({ "metadata": metadata })),
        (None, json!({ "clientID": "other", "metadata": metadata })),
        (Some("tab"), json!({ "clientID": "tab", "metadata": { "clientID": "other" } })),
    ];
    for (header, body) in bad {
        let refused = bind(header, body).await;
        let message = "the body, its metadata and the header name different clients";
        assert_eq!(must_fail(&refused, 400, "BadRequestError"), message);
    }
    for (header, body) in [
        (Some("a b"), json!({})),
        (Some(""), json!({})),
        (Some("é"), json!({})),
        (None, json!({ "clientID": "a/b" })),
        (None, json!({ "clientID": "" })),
        (None, json!({ "metadata": { "clientID": 5 } })),
        (None, json!({ "metadata": { "clientID": "x".repeat(129) } })),
        (None, json!({ "metadata": "tab" })),
    ] {
        must_fail(&bind(header, body).await, 400, "BadRequestError");
    }
    assert_eq!(world.server.get("/session").await, before);
}

#[tokio::test]
async fn a_message_whose_body_and_header_name_different_clients_is_400() {
    let world = World::start().await;
    let request = world.server.saying(&world.session, &as_client("tab")).header("x-handback-client", "other");
    must_fail(&Answer::to(request).await, 400, "BadRequestError");
    assert_eq!(world.history().await, Vec::<String>::new());
}
