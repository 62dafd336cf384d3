//! Claims: of several who see a call one runs it.

use handback_testkit::server::until;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::{World, ignored, refused, success, taken};

fn by(claimant: &str, mut ack: Value) -> Value {
    ack["claimant"] = claimant.into();
    ack
}

#[tokio::test]
async fn the_first_claimant_has_the_call_until_it_lets_go() {
    let world = World::start().await;
    let (mut stream, call) = world.held("chat").await;
    let server = &world.server;
    server.claim(&call, "one").await.must_be(200, &taken());
    server.claim(&call, "one").await.must_be(200, &taken());
    server.claim(&call, "two").await.must_be(409, &refused("claimed"));
    server.release(&call, "two").await.must_be(409, &refused("claimed"));
    server.claim(&call, "two").await.must_be(409, &refused("claimed"));
    server.release(&call, "one").await.must_be(200, &taken());
    server.release(&call, "one").await.must_be(200, &taken());
    server.claim(&call, "two").await.must_be(200, &taken());
    server.claim(&call, "one").await.must_be(409, &refused("claimed"));
    // What another has claimed is not to be answered, with or without a name.
    let ack = success(&call, json!(1));
    server.ack(&ack).await.must_be(409, &refused("claimed"));
    server.ack(&by("one", ack.clone())).await.must_be(409, &refused("claimed"));
    server.ack(&by("two", ack.clone())).await.must_be(200, &taken());
    // Over: the claim is gone, and what counts is what was said.
    server.ack(&by("two", ack.clone())).await.must_be(200, &ignored());
    server.ack(&by("one", ack.clone())).await.must_be(200, &ignored());
    server.ack(&ack).await.must_be(200, &ignored());
    server.ack(&by("one", success(&call, json!(2)))).await.must_be(409, &refused("conflict"));
    server.claim(&call, "two").await.must_be(410, &refused("expired"));
    server.release(&call, "two").await.must_be(410, &refused("expired"));
    assert_eq!(world.results(&mut stream).await, [r#"{"status":"success","output":1}"#]);
}

#[tokio::test]
async fn an_ack_needs_no_claim_while_nobody_has_one() {
    let world = World::start().await;
    let (_stream, call) = world.held("by nobody").await;
    world.server.ack(&success(&call, json!(1))).await.must_be(200, &taken());
    let (_stream, call) = world.held("by a name").await;
    world.server.ack(&by("me", success(&call, json!(1)))).await.must_be(200, &taken());
    let (_stream, call) = world.held("after a release").await;
    world.server.claim(&call, "one").await.must_be(200, &taken());
    world.server.release(&call, "one").await.must_be(200, &taken());
    world.server.ack(&success(&call, json!(1))).await.must_be(200, &taken());
}

#[tokio::test]
async fn names_of_claimants_are_compared_whole() {
    let world = World::start().await;
    let (_stream, call) = world.held("chat").await;
    let long = "é".repeat(128);
    world.server.claim(&call, &long).await.must_be(200, &taken());
    for other in ["é", &long[..254], "one", "ONE", " "] {
        world.server.claim(&call, other).await.must_be(409, &refused("claimed"));
    }
    let release = json!({ "toolCallId": call, "claimant": long, "release": false });
    world.server.post("/api/tools/claim", release).await.must_be(200, &taken());
    world.server.claim(&call, "one").await.must_be(409, &refused("claimed"));
}

#[tokio::test]
async fn of_many_claimants_at_once_one_wins() {
    let world = World::start().await;
    for round in 0..5 {
        let (_stream, call) = world.held(&format!("chat {round}")).await;
        let mut claims = JoinSet::new();
        for number in 0..20 {
            let body = json!({ "toolCallId": call, "claimant": format!("claimant {number}") });
            let request = world.server.request(reqwest::Method::POST, "/api/tools/claim").json(&body);
            claims.spawn(async move { (number, handback_testkit::Answer::to(request).await) });
        }
        let mut winners = Vec::new();
        while let Some(claim) = claims.join_next().await {
            let (number, answer) = claim.unwrap();
            match answer.status {
                200 => winners.push(number),
                _ => answer.must_be(409, &refused("claimed")),
            }
        }
        assert_eq!(winners.len(), 1, "{winners:?}");
        let ack = success(&call, json!("won"));
        world.server.ack(&ack).await.must_be(409, &refused("claimed"));
        world.server.ack(&by(&format!("claimant {}", winners[0]), ack)).await.must_be(200, &taken());
    }
}

#[tokio::test]
async fn a_claim_goes_with_the_deadline() {
    let world = World::start().await;
    let (mut stream, call) = world.held_with("chat", json!({ "url": "http://a/", "timeoutSec": 1 })).await;
    world.server.claim(&call, "me").await.must_be(200, &taken());
    until("the call is over", async || world.server.call(&call).await["state"] == "done").await;
    world.server.claim(&call, "me").await.must_be(410, &refused("expired"));
    world.server.ack(&by("me", success(&call, json!(1)))).await.must_be(410, &refused("expired"));
    assert_eq!(world.results(&mut stream).await, [r#"{"status":"timeout"}"#]);
}
