//! Quotas: at a bound nothing new is begun, in each API's own words, and what is under way goes on.

use handback_server::config::Config;
use handback_testkit::agui::Page;
use handback_testkit::chat::saying;
use handback_testkit::session::text_prompt;
use handback_testkit::{Answer, Scratch};
use reqwest::Method;
use serde_json::json;

use crate::world::World;

fn kept(scratch: &Scratch, change: impl FnOnce(&mut Config)) -> impl FnOnce(&mut Config) {
    move |config| {
        config.data = Some(scratch.path().to_owned());
        change(config);
    }
}

/// Checks that it is a 507 of the session API; gives its words.
#[track_caller]
fn refusal(answer: &Answer) -> &str {
    assert_eq!((answer.status, &answer.body["name"]), (507, &json!("UnknownError")), "{answer:?}");
    answer.body["data"]["message"].as_str().unwrap()
}

#[tokio::test]
async fn a_client_has_so_many_sessions() {
    let scratch = Scratch::new();
    let world = World::with(kept(&scratch, |config| config.limits.sessions_per_client = 2)).await;
    let server = &world.server;
    let first = server.session_of("desk").await;
    server.session_of("desk").await;
    let expected = "client desk has as many sessions as limits.sessionsPerClient allows (2); delete some of them";
    assert_eq!(refusal(&server.post("/session", json!({ "clientID": "desk" })).await), expected);
    // Others have theirs, and nobody's count for nobody.
    for _ in 0..3 {
        server.session(json!({})).await;
    }
    server.session_of("phone").await;
    // What is there is used as before.
    world.model.will_say("yes");
    server.say(&first, "go on").await;
    assert_eq!(server.delete(&format!("/session/{first}"), json!({})).await.status, 200);
    server.session_of("desk").await;
    server.post("/session", json!({ "clientID": "desk" })).await;
    assert_eq!(server.post("/session", json!({ "clientID": "desk" })).await.status, 507);
}

#[tokio::test]
async fn at_the_bound_of_bytes_nothing_is_begun() {
    let scratch = Scratch::new();
    let words = "the sessions of client tab take as many bytes as limits.sessionBytesPerClient allows (20000); \
                 delete some of them";
    let world = World::with(kept(&scratch, |config| config.limits.session_bytes_per_client = 20_000)).await;
    let server = &world.server;
    let rooms = "/api/v1/rooms/default/agui";
    let thread = Answer::to(server.request(Method::POST, rooms).header("x-handback-client", "tab")).await.body;
    let thread = format!("{rooms}/{}", thread["thread_id"].as_str().unwrap());
    let empty = server.session_of("tab").await;
    let session = server.session_of("tab").await;
    world.model.will_say("yes");
    server.say(&session, &"x".repeat(20_000)).await;

    assert_eq!(refusal(&server.post("/session", json!({ "clientID": "tab" })).await), words);
    for session in [&session, &empty] {
        for path in ["message", "prompt_async"] {
            let path = format!("/session/{session}/{path}");
            assert_eq!(refusal(&server.post(&path, text_prompt("more")).await), words);
        }
    }
    let post = |path: &str, body| {
        Answer::to(server.request(Method::POST, path).header("x-handback-client", "tab").json(&body))
    };
    let mut page = Page::new("new");
    page.say("u1", "more");
    for (path, body) in [("/api/chat", saying("new", "u1", "more")), ("/agui", page.input())] {
        assert_eq!(post(path, body).await.must_fail(507, "INSUFFICIENT_STORAGE"), words, "{path}");
    }
    for path in [rooms, &thread] {
        post(path, json!({})).await.must_be(507, &json!({ "detail": words }));
    }
    assert!(server.messages(&empty).await.is_empty());
    // Others go on.
    let other = server.session_of("phone").await;
    world.model.will_say("yes");
    server.say(&other, "go on").await;
    // And so does it, once there is room.
    assert_eq!(server.delete(&format!("/session/{session}"), json!({})).await.status, 200);
    world.model.will_say("yes");
    server.say(&empty, "go on").await;
}

#[tokio::test]
async fn the_server_has_so_many_bytes_in_all() {
    let scratch = Scratch::new();
    let full = kept(&scratch, |config| config.limits.session_bytes = 20_000);
    let world = World::with(full).await;
    let session = world.server.session(json!({})).await;
    world.model.will_say("yes");
    world.server.say(&session, &"x".repeat(20_000)).await;
    let expected =
        "the sessions on this server take as many bytes as limits.sessionBytes allows (20000); delete some of them";
    for body in [json!({}), json!({ "clientID": "desk" })] {
        assert_eq!(refusal(&world.server.post("/session", body).await), expected);
    }
    assert_eq!(
        refusal(&world.server.post(&format!("/session/{session}/message"), text_prompt("more")).await),
        expected
    );
    world.server.stop().await;

    // It is counted over restarts.
    let world = World::with(kept(&scratch, |config| config.limits.session_bytes = 20_000)).await;
    assert_eq!(refusal(&world.server.post("/session", json!({})).await), expected);
    world.server.stop().await;
    let world = World::with(kept(&scratch, |config| config.limits.session_bytes = 0)).await;
    world.server.session(json!({})).await;
}

#[tokio::test]
async fn results_and_the_ends_of_turns_are_taken_beyond_the_bound() {
    let scratch = Scratch::new();
    let world = World::with(kept(&scratch, |config| config.limits.session_bytes_per_client = 20_000)).await;
    let server = &world.server;
    let session = server.session_of("desk").await;
    server.register("desk", &["go"]).await;
    let mut stream = server.stream("desk").await;
    world.model.will_call(&[("client_desk_go", json!({}))]);
    world.model.will_say("done");
    let answering = server.prompt(&session, "go");
    let call = stream.next_call().await;
    let result = server.answer(call["requestID"].as_str().unwrap(), &"x".repeat(50_000)).await;
    result.must_be(200, &json!({ "success": true }));
    let answer = answering.await.unwrap();
    assert_eq!((answer.status, &answer.body["info"]["error"]), (200, &json!(null)), "{answer:?}");
    assert_eq!(server.messages(&session).await.len(), 3);
    refusal(&server.post(&format!("/session/{session}/message"), text_prompt("more")).await);
}

#[tokio::test]
async fn in_memory_the_oldest_goes_instead() {
    let world = World::with(|config| {
        config.limits.sessions_per_client = 1;
        config.limits.session_bytes = 1;
        config.limits.stored_sessions = 3;
    })
    .await;
    let oldest = world.server.session_of("desk").await;
    for _ in 0..3 {
        world.server.session_of("desk").await;
    }
    assert_eq!(world.server.get(&format!("/session/{oldest}")).await.status, 404);
}
