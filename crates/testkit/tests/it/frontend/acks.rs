//! Every row of the table of acks, on both paths, and what each makes of the call.

use std::time::Duration;

use handback_core::tools::Permission;
use handback_testkit::chat::saying;
use handback_testkit::session::{permit, tool_part};
use handback_testkit::tidy::Tidier;
use handback_testkit::{Scratch, TestServer};
use serde_json::{Value, json};

use super::{World, ignored, refused, success, taken};

const PATHS: [&str; 2] = ["/api/tools/ack", "/ai/tools/ack"];

#[tokio::test]
async fn the_first_ack_counts_the_same_again_is_ignored_and_another_is_a_conflict() {
    let world = World::start().await;
    for (number, path) in PATHS.into_iter().enumerate() {
        let (mut stream, call) = world.held(&format!("chat {number}")).await;
        let other_path = PATHS[1 - number];
        let ack = success(&call, json!({ "url": "https://example.org/", "viewKey": "v" }));
        world.server.post(path, ack.clone()).await.must_be(200, &taken());
        for path in [path, other_path] {
            world.server.post(path, ack.clone()).await.must_be(200, &ignored());
            // Keys in another order, and what we do not know, make no other ack.
            let same = format!(
                r#"{{ "more": [1], "output": {{"viewKey":"v","url":"https://example.org/"}}, "status":"success", "toolCallId": "{call}" }}"#
            );
            let same = world.server.request(reqwest::Method::POST, path).body(same);
            handback_testkit::Answer::to(same).await.must_be(200, &ignored());
            for other in [
                json!({ "toolCallId": call, "status": "success" }),
                json!({ "toolCallId": call, "status": "success", "output": null }),
                json!({ "toolCallId": call, "status": "failed", "errorText": "no" }),
                json!({ "toolCallId": call, "status": "timeout" }),
            ] {
                world.server.post(path, other).await.must_be(409, &refused("conflict"));
            }
        }
        let output = r#"{"status":"success","output":{"url":"https://example.org/","viewKey":"v"}}"#;
        assert_eq!(world.results(&mut stream).await, [output]);
        // It stays so when the turn is over.
        world.server.post(path, ack).await.must_be(200, &ignored());
        world.server.post(path, success(&call, json!(1))).await.must_be(409, &refused("conflict"));
    }
}

#[tokio::test]
async fn what_the_model_and_the_stream_get_is_the_ack_without_its_id() {
    let world = World::start().await;
    // The ack, the chunk that it becomes, what the model is told, and the part of the session API.
    let time = "2026-02-01T12:34:56.789+02:00";
    let cases = [
        (
            json!({ "status": "success", "output": [1.50, null, "é\u{1f600}\u{0}"], "requestedAt": time }),
            json!({ "status": "success", "output": [1.50, null, "é\u{1f600}\u{0}"], "requestedAt": time }),
            None,
        ),
        (json!({ "status": "success" }), json!({ "status": "success" }), None),
        (json!({ "status": "success", "output": null }), json!({ "status": "success", "output": null }), None),
        (json!({ "status": "success", "output": "text" }), json!({ "status": "success", "output": "text" }), None),
        (
            json!({ "status": "success", "errorText": null, "requestedAt": null, "claimant": null }),
            json!({ "status": "success" }),
            None,
        ),
        (
            json!({ "status": "failed", "output": { "tried": 2 }, "errorText": "blocked" }),
            json!({ "status": "failed", "output": { "tried": 2 }, "errorText": "blocked" }),
            Some("blocked"),
        ),
        (
            json!({ "status": "failed" }),
            json!({ "status": "failed" }),
            Some("The frontend failed and does not say why"),
        ),
        (
            json!({ "status": "failed", "errorText": " " }),
            json!({ "status": "failed", "errorText": " " }),
            Some("The frontend failed and does not say why"),
        ),
        (
            json!({ "status": "timeout", "output": 1, "errorText": "late", "requestedAt": time }),
            json!({ "status": "timeout" }),
            None,
        ),
    ];
    for (number, (mut ack, told, error)) in cases.into_iter().enumerate() {
        let chat = format!("chat_{number}");
        let (mut stream, call) = world.held(&chat).await;
        ack["toolCallId"] = call.as_str().into();
        world.server.ack(&ack).await.must_be(200, &taken());
        let results = world.results(&mut stream).await;
        let results: Vec<Value> = results.iter().map(|result| serde_json::from_str(result).unwrap()).collect();
        assert_eq!(results, std::slice::from_ref(&told), "{ack}");
        let chunk = match error {
            None => json!({ "type": "tool-output-available", "toolCallId": call, "output": told }),
            Some(error) => json!({ "type": "tool-output-error", "toolCallId": call, "errorText": error }),
        };
        let outputs: Vec<&Value> =
            stream.seen().iter().filter(|chunk| chunk["type"].as_str().unwrap().starts_with("tool-output")).collect();
        assert_eq!(outputs, [&chunk], "{ack}");
        let messages = world.server.messages(&chat).await;
        let state = &tool_part(&messages[1])["state"];
        match error {
            None => {
                let output: Value = serde_json::from_str(state["output"].as_str().unwrap()).unwrap();
                assert_eq!((&state["status"], output), (&json!("completed"), told));
            }
            Some(error) => assert_eq!((&state["status"], &state["error"]), (&json!("error"), &json!(error))),
        }
    }
}

#[tokio::test]
async fn a_held_call_is_listed_like_any_other_and_then_is_done() {
    let world = World::start().await;
    let (mut stream, call) = world.held("chat").await;
    let mut tidier = Tidier::default();
    let listed = world.server.get("/client-tools/calls").await.body;
    let open = json!([{
        "requestID": "cal_1", "sessionID": "chat", "messageID": "msg_1", "callID": "cal_1", "tool": "open-url",
        "clientID": "session/chat", "state": "offered", "attempt": 1, "effect": "write", "deadline": "time",
        "executionMode": "frontend",
    }]);
    let mut seen = tidier.tidy(&listed);
    for new_each_time in ["created", "times"] {
        seen[0].as_object_mut().unwrap().remove(new_each_time).expect(new_each_time);
    }
    assert_eq!(seen, open);
    world.server.ack_success(&call, json!(1)).await;
    world.results(&mut stream).await;
    let done = world.server.call(&call).await;
    assert_eq!((&done["state"], &done["executionMode"]), (&json!("done"), &json!("frontend")));
    assert_eq!(world.server.counts().calls, 0);
}

#[tokio::test]
async fn calls_that_are_not_a_frontends_are_unknown_here_and_frontends_calls_are_elsewhere() {
    let world = World::start().await;
    world.server.register("tab", &["t"]).await;
    let mut client = world.server.stream("tab").await;
    world.model.will_call(&[
        ("client_tab_t", json!({})),
        ("open-url", json!({ "url": "http://a/" })),
        ("pick", json!({})),
    ]);
    let mut body = saying("chat", "u1", "go");
    body["clientID"] = "tab".into();
    body["tools"] = json!([{ "name": "pick" }]);
    let mut stream = world.server.chat(&body).await;
    let of_client = client.next_call().await;
    let mut ids = std::collections::BTreeMap::new();
    while ids.len() < 3 {
        let chunk = stream.until("tool-input-available").await;
        ids.insert(chunk["toolName"].as_str().unwrap().to_owned(), chunk["toolCallId"].as_str().unwrap().to_owned());
    }
    let strangers = [&ids["client_tab_t"], &ids["pick"], of_client["requestID"].as_str().unwrap(), "cal_nobody", "☃"];
    for stranger in strangers {
        for path in PATHS {
            world.server.post(path, success(stranger, json!(1))).await.must_be(404, &refused("unknown"));
        }
        world.server.claim(stranger, "me").await.must_be(404, &refused("unknown"));
        world.server.release(stranger, "me").await.must_be(404, &refused("unknown"));
    }
    // By the door of clients a frontend's call is not answered.
    world.server.answer(&ids["open-url"], "mine").await.must_fail(404, "NOT_FOUND");
    world.server.ack_success(&ids["open-url"], json!(1)).await;
    world.server.answer(&ids["open-url"], "mine").await.must_fail(404, "NOT_FOUND");
    world.server.answer(of_client["requestID"].as_str().unwrap(), "2").await.must_be(200, &json!({ "success": true }));
    // Over, and still not a frontend's.
    stream.lines().await;
    for stranger in strangers {
        world.server.ack(&success(stranger, json!(1))).await.must_be(404, &refused("unknown"));
    }
}

#[tokio::test]
async fn a_call_that_waits_to_be_allowed_can_be_neither_acked_nor_claimed() {
    let world = World::with(|config| permit(config, Permission::Ask)).await;
    world.model.will_call(&[("open-url", json!({ "url": "http://a/" }))]);
    let mut stream = world.server.chat(&saying("chat", "u1", "go")).await;
    let ask = stream.until("tool-approval-request").await;
    let call = ask["toolCallId"].as_str().unwrap();
    let waits = refused("awaiting-approval");
    for path in PATHS {
        world.server.post(path, success(call, json!(1))).await.must_be(409, &waits);
    }
    world.server.claim(call, "me").await.must_be(409, &waits);
    world.server.release(call, "me").await.must_be(409, &waits);
    let reply = format!("/permission/{}/reply", ask["approvalId"].as_str().unwrap());
    world.server.post(&reply, json!({ "reply": "once" })).await.must_be(200, &json!(true));
    assert_eq!(stream.call().await, call);
    world.server.ack_success(call, json!(1)).await;
    assert_eq!(world.results(&mut stream).await, [r#"{"status":"success","output":1}"#]);
}

#[tokio::test]
async fn a_call_that_was_cancelled_takes_no_ack() {
    let world = World::start().await;
    let (mut stream, call) = world.held("chat").await;
    assert_eq!(world.server.cancel(&call, "not now").await.status, 200);
    expired(&world.server, &call).await;
    assert_eq!(world.results(&mut stream).await, ["not now; it may have run"]);
    let ends: Vec<&Value> = stream.seen().iter().filter(|chunk| chunk["type"] == "tool-output-error").collect();
    assert_eq!(
        ends,
        [&json!({ "type": "tool-output-error", "toolCallId": call, "errorText": "not now; it may have run" })]
    );
    expired(&world.server, &call).await;
}

#[tokio::test]
async fn a_call_of_a_chat_that_was_aborted_takes_no_ack() {
    let world = World::start().await;
    for abort in ["/api/chat/chat/abort", "/session/chat/abort"] {
        let (mut stream, call) = world.held("chat").await;
        assert_eq!(world.server.post(abort, json!({})).await.status, 200);
        expired(&world.server, &call).await;
        stream.lines().await;
        world.server.delete("/session/chat", json!({})).await.must_be(200, &json!(true));
        expired(&world.server, &call).await;
    }
}

#[tokio::test]
async fn a_call_of_a_chat_that_was_deleted_takes_no_ack() {
    let world = World::start().await;
    let (mut stream, call) = world.held("chat").await;
    world.server.delete("/session/chat", json!({})).await.must_be(200, &json!(true));
    expired(&world.server, &call).await;
    stream.lines().await;
}

#[tokio::test]
async fn a_call_that_was_denied_takes_no_ack() {
    let world = World::with(|config| permit(config, Permission::Ask)).await;
    world.model.will_call(&[("open-url", json!({ "url": "http://a/" }))]);
    let mut stream = world.server.chat(&saying("chat", "u1", "go")).await;
    let ask = stream.until("tool-approval-request").await;
    let reply = format!("/permission/{}/reply", ask["approvalId"].as_str().unwrap());
    world.server.post(&reply, json!({ "reply": "reject" })).await.must_be(200, &json!(true));
    expired(&world.server, ask["toolCallId"].as_str().unwrap()).await;
    assert_eq!(world.results(&mut stream).await, ["The user rejected this call"]);
}

#[tokio::test]
async fn after_a_restart_an_open_call_is_open_and_an_acked_one_is_still_known() {
    let scratch = Scratch::new();
    let with_store = |config: &mut handback_server::config::Config| {
        config.data = Some(scratch.path().to_owned());
        config.limits.drain_timeout = Duration::from_millis(100);
    };
    let world = World::with(with_store).await;
    let (mut acked_stream, acked) = world.held("acked").await;
    let ack = success(&acked, json!({ "n": 1.0 }));
    world.server.ack(&ack).await.must_be(200, &taken());
    world.results(&mut acked_stream).await;
    let (mut open_stream, open) = world.held("open").await;
    let (mut claimed_stream, claimed) = world.held("claimed").await;
    world.server.claim(&claimed, "me").await.must_be(200, &taken());
    world.server.stop().await;
    // Both are cut, and say nothing of an end.
    for stream in [&mut open_stream, &mut claimed_stream] {
        assert!(!stream.until_cut().await.iter().any(|kind| ["abort", "finish", "error"].contains(&kind.as_str())));
    }

    let world = World::with(with_store).await;
    world.server.claim(&claimed, "another").await.must_be(409, &refused("claimed"));
    let as_another = json!({ "toolCallId": claimed, "status": "success", "output": 1, "claimant": "another" });
    world.server.ack(&as_another).await.must_be(409, &refused("claimed"));
    let shown = world.server.call(&open).await;
    assert_eq!((&shown["state"], &shown["executionMode"]), (&json!("offered"), &json!("frontend")));
    world.server.ack(&success(&open, json!({ "opened": true }))).await.must_be(200, &taken());
    let asked = world.model.asked().await;
    assert_eq!(asked.shown.results, [r#"{"status":"success","output":{"opened":true}}"#]);
    asked.answer("Opened.");
    world.server.ack(&ack).await.must_be(200, &ignored());
    world.server.ack(&success(&acked, json!({ "n": 2 }))).await.must_be(409, &refused("conflict"));
    world.server.claim(&acked, "me").await.must_be(410, &refused("expired"));
}

/// Checks that a call can be neither acked nor claimed any more.
async fn expired(server: &TestServer, call: &str) {
    for path in PATHS {
        server.post(path, success(call, json!(1))).await.must_be(410, &refused("expired"));
        server.post(path, json!({ "toolCallId": call, "status": "timeout" })).await.must_be(410, &refused("expired"));
    }
    server.claim(call, "me").await.must_be(410, &refused("expired"));
    server.release(call, "me").await.must_be(410, &refused("expired"));
}
