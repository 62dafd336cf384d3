//! With keys, a frontend shows a token, and answers the calls of its own chats alone.

use handback_testkit::chat::saying;
use handback_testkit::keys::{self, seconds_from_now, token};
use handback_testkit::{Answer, ChatStream};
use reqwest::Method;
use serde_json::{Value, json};

use super::{World, refused, success, taken};

async fn protected() -> World {
    World::with(keys::protect).await
}

fn token_of(client: &str) -> String {
    token(&json!({ "clientID": client, "exp": seconds_from_now(60) }))
}

fn token_for(client: &str, session: &str) -> String {
    token(&json!({ "clientID": client, "sessionID": session, "exp": seconds_from_now(60) }))
}

async fn post(world: &World, token: Option<&str>, path: &str, body: &Value) -> Answer {
    let request = world.server.request_without_key(Method::POST, path).json(body);
    Answer::to(match token {
        Some(token) => request.bearer_auth(token),
        None => request,
    })
    .await
}

/// A chat of a client with a call that is handed out.
async fn held_by(world: &World, client: &str, chat: &str) -> (ChatStream, String) {
    world.model.will_call(&[("open-url", json!({ "url": "http://a/" }))]);
    let request = world.server.request_without_key(Method::POST, "/api/chat").bearer_auth(token_of(client));
    let mut stream = ChatStream::open(request.json(&saying(chat, "u1", "go"))).await;
    let call = stream.call().await;
    (stream, call)
}

#[tokio::test]
async fn acks_and_claims_without_a_good_token_are_401_in_the_shape_of_this_api() {
    let world = protected().await;
    let (_stream, call) = held_by(&world, "tab", "chat").await;
    let expired = token(&json!({ "clientID": "tab", "exp": seconds_from_now(-60) }));
    let claim = json!({ "toolCallId": call, "claimant": "me" });
    for token in [None, Some("wrong"), Some(expired.as_str())] {
        for (path, body) in [
            ("/api/tools/ack", &success(&call, json!(1))),
            ("/ai/tools/ack", &success(&call, json!(1))),
            ("/api/tools/claim", &claim),
            ("/api/tools/ack", &json!({})),
        ] {
            let answer = post(&world, token, path, body).await;
            let error = answer.body["error"].as_str().unwrap_or_default();
            answer.must_be(401, &json!({ "ok": false, "reason": "unauthorized", "error": error }));
        }
    }
    world.server.ack_success(&call, json!(1)).await;
}

#[tokio::test]
async fn a_token_answers_the_calls_of_its_own_chats_alone() {
    let world = protected().await;
    let (_own, own) = held_by(&world, "tab", "own").await;
    let (_second, second) = held_by(&world, "tab", "second").await;
    let (_free, free) = world.held("free").await;
    let claim = |call: &str| json!({ "toolCallId": call, "claimant": "me" });
    let forbidden = [
        (token_of("other"), &own),
        (token_for("other", "own"), &own),
        (token_for("tab", "own"), &second),
        (token_of("tab"), &free),
        (token_for("tab", "free"), &free),
        // Nobody can have the name that a chat without a client goes by.
        (token(&json!({ "clientID": "session/free", "exp": seconds_from_now(60) })), &free),
    ];
    for (token, call) in &forbidden {
        for (path, body) in [
            ("/api/tools/ack", success(call, json!(1))),
            ("/ai/tools/ack", success(call, json!(1))),
            ("/api/tools/claim", claim(call)),
        ] {
            let answer = post(&world, Some(token), path, &body).await;
            assert!(matches!(answer.status, 401 | 403), "{answer:?}");
            assert_eq!(answer.body["ok"], false);
            assert!(matches!(answer.body["reason"].as_str().unwrap(), "forbidden" | "unauthorized"), "{answer:?}");
        }
    }
    for call in [&own, &second, &free] {
        assert_eq!(world.server.call(call).await["state"], "offered");
    }
    post(&world, Some(&token_for("tab", "own")), "/api/tools/claim", &claim(&own)).await.must_be(200, &taken());
    let mut ack = success(&own, json!(1));
    ack["claimant"] = "me".into();
    post(&world, Some(&token_for("tab", "own")), "/api/tools/ack", &ack).await.must_be(200, &taken());
    post(&world, Some(&token_of("tab")), "/ai/tools/ack", &success(&second, json!(1))).await.must_be(200, &taken());
    // Over, and still not another's: nothing is told of how it went.
    let over = post(&world, Some(&token_of("other")), "/api/tools/ack", &success(&own, json!(1))).await;
    assert_eq!((over.status, &over.body["reason"]), (403, &json!("forbidden")));
    let over = post(&world, Some(&token_of("other")), "/api/tools/claim", &claim(&own)).await;
    assert_eq!((over.status, &over.body["reason"]), (403, &json!("forbidden")));
    // One that nobody has.
    post(&world, Some(&token_of("tab")), "/api/tools/ack", &success("cal_x", json!(1)))
        .await
        .must_be(404, &refused("unknown"));
}
