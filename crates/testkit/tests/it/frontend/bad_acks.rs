//! Acks and claims that make no sense: each is answered in the shape of this API, and changes nothing.

use handback_testkit::{Answer, TestServer};
use reqwest::Method;
use serde_json::{Value, json};

use super::{World, success, taken};

/// Checks that it is an error of this API; gives its words.
#[track_caller]
fn must_fail(answer: &Answer, status: u16, reason: &str) -> String {
    let error = answer.body["error"].as_str().unwrap_or_default();
    answer.must_be(status, &json!({ "ok": false, "reason": reason, "error": error }));
    assert!(!error.is_empty() && error.chars().count() < 600, "{answer:?}");
    error.to_owned()
}

async fn post(server: &TestServer, path: &str, body: impl Into<reqwest::Body>) -> Answer {
    Answer::to(server.request(Method::POST, path).body(body)).await
}

#[tokio::test]
async fn an_ack_that_makes_no_sense_is_400_and_the_call_goes_on() {
    let world = World::start().await;
    let (mut stream, call) = world.held("chat").await;
    let good = success(&call, json!(1));
    let with = |key: &str, value: Value| {
        let mut ack = good.clone();
        ack[key] = value;
        ack.to_string()
    };
    let without = |key: &str| {
        let mut ack = good.clone();
        ack.as_object_mut().unwrap().remove(key);
        ack.to_string()
    };
    let mut bad = vec![
        String::new(),
        " ".to_owned(),
        "{".to_owned(),
        "null".to_owned(),
        "\"text\"".to_owned(),
        "1".to_owned(),
        "{}".to_owned(),
        format!("[{good}]"),
        json!([call, "success", 1]).to_string(),
        format!("{good} {good}"),
        format!(r#"{{"toolCallId":"{call}","toolCallId":"{call}","status":"success"}}"#),
        without("toolCallId"),
        without("status"),
        // Nested so deep that a reader that follows would run out of stack.
        format!(r#"{{"toolCallId":"{call}","status":"success","output":{}"#, "[".repeat(1_000_000)),
    ];
    let ids = [json!(""), json!(null), json!(1), json!(true), json!([call]), json!({ "id": call })];
    bad.extend(ids.into_iter().map(|id| with("toolCallId", id)));
    bad.extend([json!("a".repeat(257)), json!("a\nb"), json!("\u{0}")].map(|id| with("toolCallId", id)));
    for status in [json!(""), json!(null), json!("Success"), json!("success "), json!("error"), json!(200), json!([])] {
        bad.push(with("status", status));
    }
    let times = ["", "now", "2026-02-01", "2026-02-01T12:34:56", "2026-02-30T12:34:56Z", "1738413296000", "☃"];
    bad.extend(times.map(|time| with("requestedAt", json!(time))));
    bad.extend([json!(1_738_413_296), json!({}), json!(false)].map(|time| with("requestedAt", time)));
    bad.extend([json!(1), json!({}), json!(["no"])].map(|text| with("errorText", text)));
    bad.extend([json!(""), json!(1), json!("c".repeat(257))].map(|claimant| with("claimant", claimant)));
    for path in ["/api/tools/ack", "/ai/tools/ack"] {
        for body in &bad {
            let answer = post(&world.server, path, body.clone()).await;
            assert_eq!(answer.status, 400, "{}: {answer:?}", &body[..body.len().min(300)]);
            must_fail(&answer, 400, "invalid");
        }
        must_fail(&post(&world.server, path, &b"{\"toolCallId\":\"\xff\"}"[..]).await, 400, "invalid");
    }
    assert_eq!(world.server.call(&call).await["state"], "offered");
    world.server.ack(&good).await.must_be(200, &taken());
    assert_eq!(world.results(&mut stream).await, [r#"{"status":"success","output":1}"#]);
}

#[tokio::test]
async fn a_claim_that_makes_no_sense_is_400_and_nothing_is_claimed() {
    let world = World::start().await;
    let (_stream, call) = world.held("chat").await;
    let bad = [
        json!({}),
        json!([call, "me"]),
        json!({ "toolCallId": call }),
        json!({ "claimant": "me" }),
        json!({ "toolCallId": call, "claimant": "" }),
        json!({ "toolCallId": call, "claimant": null }),
        json!({ "toolCallId": call, "claimant": 1 }),
        json!({ "toolCallId": call, "claimant": "c".repeat(257) }),
        json!({ "toolCallId": "", "claimant": "me" }),
        json!({ "toolCallId": [call], "claimant": "me" }),
        json!({ "toolCallId": call, "claimant": "me", "release": "yes" }),
    ];
    for body in bad {
        must_fail(&world.server.post("/api/tools/claim", body).await, 400, "invalid");
    }
    world.server.ack(&success(&call, json!(1))).await.must_be(200, &taken());
}

#[tokio::test]
async fn what_is_too_large_is_413_in_the_same_shape() {
    let world = World::with(|config| config.limits.body_bytes = 4_096).await;
    let (_stream, call) = world.held("chat").await;
    let large = success(&call, json!("x".repeat(5_000)));
    for path in ["/api/tools/ack", "/ai/tools/ack", "/api/tools/claim"] {
        must_fail(&world.server.post(path, large.clone()).await, 413, "invalid");
    }
    world.server.ack(&success(&call, json!("x".repeat(3_000)))).await.must_be(200, &taken());
}

#[tokio::test]
async fn other_methods_and_paths_are_answered_in_the_same_shape() {
    let world = World::start().await;
    for path in ["/api/tools/ack", "/ai/tools/ack", "/api/tools/claim"] {
        let answer = world.server.get(path).await;
        assert_eq!((answer.status, &answer.body["ok"]), (405, &json!(false)), "{answer:?}");
    }
    for path in ["/api/tools", "/api/tools/nack", "/ai/tools/claim/x"] {
        must_fail(&world.server.post(path, json!({})).await, 404, "unknown");
    }
}

#[tokio::test]
async fn large_and_deep_outputs_go_through_as_they_are() {
    let world = World::start().await;
    let large = json!({ "text": "é".repeat(200_000), "n": 12_345_678_901_234_567_890u64 });
    let (mut stream, call) = world.held("large").await;
    world.server.ack_success(&call, large.clone()).await;
    world.results(&mut stream).await;
    let given = stream.seen().iter().find(|chunk| chunk["type"] == "tool-output-available").unwrap();
    assert_eq!(given["output"], json!({ "status": "success", "output": large }));

    // As deep as inputs may be, and no deeper.
    let (mut stream, call) = world.held("deep").await;
    let nested = |depth: usize| {
        let output = format!("{}1{}", "[".repeat(depth), "]".repeat(depth));
        format!(r#"{{"toolCallId":"{call}","status":"success","output":{output}}}"#)
    };
    for depth in [129, 10_000] {
        must_fail(&post(&world.server, "/api/tools/ack", nested(depth)).await, 400, "invalid");
    }
    post(&world.server, "/api/tools/ack", nested(120)).await.must_be(200, &taken());
    post(&world.server, "/api/tools/ack", nested(120)).await.must_be(200, &super::ignored());
    assert_eq!(world.results(&mut stream).await.len(), 1);
    assert_eq!(world.server.get("/client-tools/calls").await.status, 200);
    assert_eq!(world.server.get("/api/chat/deep").await.status, 200);
}

#[tokio::test]
async fn numbers_and_spaces_of_an_output_are_kept_on_one_line() {
    let world = World::start().await;
    let (mut stream, call) = world.held("chat").await;
    let body = format!(
        "{{\"toolCallId\":\"{call}\",\"status\":\"success\",\"output\":{{\n\n \"n\" : 1.10e2,\r\n\"a\":[ ]}}}}"
    );
    post(&world.server, "/api/tools/ack", body).await.must_be(200, &taken());
    let results = world.results(&mut stream).await;
    let told: Value = serde_json::from_str(&results[0]).unwrap();
    assert_eq!(told, json!({ "status": "success", "output": { "n": 110.0, "a": [] } }));
    assert!(results[0].contains("1.10e2"), "{results:?}");
}
