//! Whose a thread is: its client's, or nobody's; others do not get at it.

use handback_server::config::Agent;
use handback_testkit::agui::{Page, refused};
use handback_testkit::keys::{self, seconds_from_now, token};
use handback_testkit::{AguiStream, Answer};
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};

use super::{World, run, text};

fn token_of(client: &str) -> String {
    token(&json!({ "clientID": client, "exp": seconds_from_now(60) }))
}

fn posting(world: &World, path: &str, token: &str) -> RequestBuilder {
    world.server.request_without_key(Method::POST, path).bearer_auth(token)
}

fn of(client: &str, thread: &str, message: &str) -> Value {
    let mut page = Page::new(thread);
    page.say(message, "hi");
    page.more = json!({ "forwardedProps": { "clientID": client } });
    page.input()
}

fn of_nobody(thread: &str, message: &str) -> Value {
    let mut page = Page::new(thread);
    page.say(message, "hi");
    page.input()
}

#[tokio::test]
async fn another_clients_thread_is_403_and_nothing_is_changed() {
    let world = World::start().await;
    world.model.will_say("Mine.");
    world.server.agui(&of("tab", "t", "u1")).await.last().await;
    let mut running = world.server.agui(&of("tab", "t", "u2")).await;
    let asked = world.model.asked().await;
    let before = world.history("t").await;
    let mut resume = of("other", "t", "u3");
    resume["resume"] = json!([{ "interruptId": "x", "status": "cancelled" }]);
    for input in [of("other", "t", "u3"), of("other", "t", "u1"), of("other", "t", "u2"), resume] {
        world.server.refused_agui("/agui", &input).await.must_fail(403, "FORBIDDEN");
    }
    let request = world.server.request(Method::POST, "/agui").header("x-handback-client", "other");
    refused(request.json(&of_nobody("t", "u4"))).await.must_fail(403, "FORBIDDEN");
    assert_eq!(world.history("t").await, before);
    asked.answer("Still here.");
    assert_eq!(running.last().await["type"], "RUN_FINISHED");
}

#[tokio::test]
async fn the_header_names_the_client_as_well() {
    let world = World::start().await;
    world.server.register("tab", &["t"]).await;
    world.model.will_say("Yes.");
    let request = world.server.request(Method::POST, "/agui").header("x-handback-client", "tab");
    AguiStream::open(request, &of_nobody("t", "u1")).await.last().await;
    assert_eq!(world.model.last_shown().aliases(), ["list_tools", "client_tab_t", "pick"]);
    assert_eq!(world.server.get("/session/t").await.body["clientID"], "tab");
}

#[tokio::test]
async fn a_client_token_uses_its_own_threads_alone() {
    let world = World::with(keys::protect).await;
    world.server.register("tab", &["t"]).await;
    let (tab, other) = (token_of("tab"), token_of("other"));
    // Nobody, and somebody with a forged token.
    for request in [
        world.server.request_without_key(Method::POST, "/agui"),
        posting(&world, "/agui", "nonsense"),
        posting(&world, "/agui", &token(&json!({ "clientID": "tab", "exp": seconds_from_now(-60) }))),
    ] {
        refused(request.json(&of("tab", "t", "u1"))).await.must_fail(401, "UNAUTHORIZED");
    }
    // A token that says whose it is needs no client in the input, and takes no other.
    world.model.will_say("Yes.");
    AguiStream::open(posting(&world, "/agui", &tab), &of_nobody("t", "u1")).await.last().await;
    assert_eq!(world.model.last_shown().aliases(), ["list_tools", "client_tab_t", "pick"]);
    refused(posting(&world, "/agui", &tab).json(&of("other", "new", "u1"))).await.must_fail(403, "FORBIDDEN");
    refused(posting(&world, "/agui", &other).json(&of_nobody("t", "u2"))).await.must_fail(403, "FORBIDDEN");
    // A thread of nobody's is the application's.
    world.model.will_say("Yes.");
    world.server.agui(&of_nobody("free", "u1")).await.last().await;
    refused(posting(&world, "/agui", &tab).json(&of_nobody("free", "u2"))).await.must_fail(403, "FORBIDDEN");
    let threads =
        |token: &str| world.server.request_without_key(Method::GET, "/api/v1/rooms/default/agui").bearer_auth(token);
    let seen = Answer::to(threads(&tab)).await.body;
    assert_eq!(seen["threads"].as_array().unwrap().len(), 1);
    assert_eq!(seen["threads"][0]["thread_id"], "t");
    assert_eq!(Answer::to(threads(&other)).await.body, json!({ "threads": [] }));
    for (method, path) in
        [(Method::GET, ""), (Method::POST, ""), (Method::DELETE, ""), (Method::GET, "/r"), (Method::POST, "/r")]
    {
        let path = format!("/api/v1/rooms/default/agui/t{path}");
        let answer =
            Answer::to(world.server.request_without_key(method, &path).bearer_auth(&other).json(&json!({}))).await;
        assert_eq!((answer.status, answer.body["detail"].is_string()), (403, true), "{path}: {answer:?}");
    }
}

#[tokio::test]
async fn a_token_for_one_thread_uses_that_alone() {
    let world = World::with(keys::protect).await;
    let bound = token(&json!({ "clientID": "tab", "sessionID": "t", "exp": seconds_from_now(60) }));
    world.model.will_say("Yes.");
    AguiStream::open(posting(&world, "/agui", &bound), &of_nobody("t", "u1")).await.last().await;
    refused(posting(&world, "/agui", &bound).json(&of_nobody("u", "u1"))).await.must_fail(403, "FORBIDDEN");
    assert_eq!(world.server.get("/session").await.body.as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn a_token_for_anothers_thread_makes_no_run_in_it() {
    let world = World::with(|config| {
        keys::protect(config);
        config.agents.insert("cook".to_owned(), Agent { open: Some(true), ..Agent::default() });
    })
    .await;
    world.model.will_say("Mine.");
    AguiStream::open(posting(&world, "/agui", &token_of("tab")), &of_nobody("t", "u1")).await.last().await;
    let bound = |client: &str| token(&json!({ "clientID": client, "sessionID": "t", "exp": seconds_from_now(60) }));
    let make = async |room: &str, token: &str| {
        Answer::to(posting(&world, &format!("/api/v1/rooms/{room}/agui"), token).json(&json!({}))).await
    };
    for room in ["default", "cook"] {
        let answer = make(room, &bound("other")).await;
        assert_eq!((answer.status, answer.body["detail"].is_string()), (403, true), "{room}: {answer:?}");
    }
    // Nor does its owner's, in another room.
    let answer = make("cook", &bound("tab")).await;
    assert_eq!((answer.status, answer.body["detail"].is_string()), (400, true), "{answer:?}");
    assert_eq!(world.server.get("/api/v1/rooms/default/agui/t").await.body["runs"], json!({}));
    assert_eq!(make("default", &bound("tab")).await.status, 200);
}

#[tokio::test]
async fn a_token_that_expires_ends_the_run_with_an_error() {
    let world = World::with(keys::protect).await;
    let short = token(&json!({ "clientID": "tab", "exp": seconds_from_now(1) }));
    let mut stream = AguiStream::open(posting(&world, "/agui", &short), &of_nobody("t", "u1")).await;
    let asked = world.model.asked().await;
    let last = stream.last().await;
    assert_eq!((&last["type"], &last["code"]), (&json!("RUN_ERROR"), &json!("token_expired")), "{last}");
    // Nobody reads it any more: the turn is stopped.
    asked.dropped().await;
    world.server.until_idle("t").await;
    world.model.will_say("Hello.");
    let lines = AguiStream::open(posting(&world, "/agui", &token_of("tab")), &of_nobody("t", "u1")).await.lines().await;
    assert_eq!(lines, run(1, &[&text("msg_1", "Hello.")]));
}
