//! A server that is stopped and started again has its sessions, as they were.

use handback_core::tools::Permission;
use handback_testkit::session::{permit, text_prompt, tool_part};
use handback_testkit::{Answer, Scratch};
use serde_json::{Value, json};

use super::errors::{must_fail, must_fail_for};
use super::{World, id};

async fn start(scratch: &Scratch) -> World {
    World::with(|config| {
        permit(config, Permission::Ask);
        config.data = Some(scratch.path().to_owned());
    })
    .await
}

/// All that can be read of sessions.
async fn all(world: &World) -> Value {
    let sessions = world.server.get("/session").await.body;
    let mut messages = Vec::new();
    for session in sessions.as_array().unwrap() {
        messages.push(world.server.messages(session["id"].as_str().unwrap()).await);
    }
    json!({ "sessions": sessions, "messages": messages, "status": world.server.get("/session/status").await.body })
}

#[tokio::test]
async fn sessions_messages_and_permissions_are_as_they_were() {
    let scratch = Scratch::new();
    let mut world = start(&scratch).await;
    let body = json!({
        "clientID": "tab", "title": "Mine", "parentID": world.session, "agent": "default",
        "model": { "providerID": "fake", "modelID": "two" }, "metadata": { "z": 1, "a": [1.0, "ä\u{1f600}", null] },
    });
    let session = world.server.session(body).await;
    world.model.will_call(&[("client_tab_b", json!({ "z": 1, "a": 2.50 }))]);
    world.model.will_say("Done.");
    let prompt = world.server.prompt_with(
        &session,
        json!({
            "parts": [
                { "type": "text", "text": "look" },
                { "type": "file", "mime": "image/png", "url": "data:image/png;base64,iVBORw0KGgo=" },
            ],
            "messageID": "msg_mine", "system": "Be brief.", "tools": { "a": false },
        }),
    );
    let ask = world.server.until_asked(1).await.remove(0);
    world.server.reply(&ask, json!({ "reply": "always" })).await.must_be(200, &json!(true));
    let call = world.stream.next_call().await;
    let file = json!({ "mime": "image/png", "filename": "x.png", "url": "data:image/png;base64,AAAA" });
    let result = json!({ "status": "success", "title": "T", "output": "o\u{0}\u{1f600}", "metadata": { "m": 1 }, "attachments": [file] });
    world.server.post("/client-tools/result", json!({ "requestID": id(&call), "result": result })).await;
    prompt.await.unwrap();
    let silent = json!({ "parts": [{ "type": "text", "text": "by the way" }], "noReply": true });
    Answer::to(world.server.saying(&session, &silent)).await;
    world.server.until_idle(&session).await;
    let before = all(&world).await;
    world.server.stop().await;

    let mut world = World { session, ..start(&scratch).await };
    // Its own session is newer, and not in question.
    let mut after = all(&world).await;
    let new = after["sessions"].as_array_mut().unwrap().remove(0)["id"].clone();
    after["messages"].as_array_mut().unwrap().remove(0);
    after["status"].as_object_mut().unwrap().remove(new.as_str().unwrap());
    assert_eq!(after, before);
    let part = world.server.messages(&world.session).await;
    assert_eq!(tool_part(&part[1])["state"]["attachments"][0]["url"], file["url"]);
    // The call that it links to is there as well.
    assert_eq!(world.server.outcome(id(&call)).await["attachments"], json!([file]));

    // The conversation goes on, and what was allowed always still is.
    world.model.will_call(&[("client_tab_b", json!({}))]);
    world.model.will_say("Again.");
    let prompt = world.server.prompt(&world.session, "once more");
    world.answer_next("ok").await;
    assert_eq!(prompt.await.unwrap().body["info"]["modelID"], "two");
    let shown = world.model.last_shown().conversation;
    let expected = [
        "user | look | [image/png]",
        "assistant | client_tab_b {\"a\":2.5,\"z\":1} → o\u{0}\u{1f600} [image/png]",
        "assistant | Done.",
        "user | by the way",
        "user | once more",
        "assistant | client_tab_b {} → ok",
    ];
    assert_eq!(shown, expected);
    // It is still its client's.
    let mut foreign = text_prompt("mine?");
    foreign["clientID"] = "other".into();
    must_fail(&Answer::to(world.server.saying(&world.session, &foreign)).await, 403);
    let taken = json!({ "parts": [{ "type": "text", "text": "x" }], "messageID": "msg_mine" });
    let refused = Answer::to(world.server.saying(&world.session, &taken)).await;
    assert_eq!(must_fail_for(&refused, 409).1, Some("taken"));
}

#[tokio::test]
async fn a_deleted_session_does_not_come_back() {
    let scratch = Scratch::new();
    let mut world = start(&scratch).await;
    world.model.will_call(&[("client_tab_a", json!({}))]);
    let prompt = world.server.prompt(&world.session, "go");
    world.server.until_asked(1).await;
    let path = format!("/session/{}", world.session);
    world.server.delete(&path, json!({})).await.must_be(200, &json!(true));
    prompt.await.unwrap();
    world.server.begin_call(json!({ "toolID": "client_tab_b", "requestID": "marker" })).await;
    world.stream.expect_call("marker").await;
    world.server.answer("marker", "").await;
    world.server.stop().await;
    let world = start(&scratch).await;
    must_fail(&world.server.get(&path).await, 404);
    let listed = world.server.get("/session").await.body;
    assert_eq!((listed.as_array().unwrap().len(), &listed[0]["id"]), (1, &json!(world.session)));
}
