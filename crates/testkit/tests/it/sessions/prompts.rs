//! What may be said with a prompt: parts, ids, agents, models, instructions, silence.

use std::collections::BTreeMap;

use handback_core::store::ModelRef;
use handback_server::config::Agent;
use handback_testkit::session::text_prompt;
use handback_testkit::{Answer, Scratch};
use serde_json::{Value, json};

use super::World;
use super::errors::{must_fail, must_fail_for};

/// Says a body, which must be answered with 200; gives the answer.
async fn say(world: &World, body: Value) -> Value {
    let answer = Answer::to(world.server.saying(&world.session, &body)).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.body
}

/// A prompt of one text with more to it.
fn with(more: Value) -> Value {
    let mut body = text_prompt("hello");
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    body
}

async fn title(world: &World, session: &str) -> Value {
    world.server.get(&format!("/session/{session}")).await.body["title"].clone()
}

#[tokio::test]
async fn the_title_is_made_from_the_first_prompt() {
    let world = World::start().await;
    let long = format!("  \n\n  {} and the rest\nsecond line", "ä".repeat(60));
    let titles = [
        ("Where is my phone?", "Where is my phone?".to_owned()),
        (long.as_str(), format!("{}…", "ä".repeat(60))),
        (&"x".repeat(60), "x".repeat(60)),
    ];
    for (text, expected) in titles {
        let session = world.server.session_of("tab").await;
        assert_eq!(title(&world, &session).await, "New session");
        world.model.will_say("Hello.");
        world.server.say(&session, text).await;
        assert_eq!(title(&world, &session).await, json!(expected));
        world.model.will_say("Hello again.");
        world.server.say(&session, "something else").await;
        assert_eq!(title(&world, &session).await, json!(expected));
    }
}

#[tokio::test]
async fn a_title_that_was_given_stays() {
    let world = World::start().await;
    let session = world.server.session(json!({ "clientID": "tab", "title": "Mine" })).await;
    world.model.will_say("Hello.");
    world.server.say(&session, "hi").await;
    assert_eq!(title(&world, &session).await, "Mine");
}

#[tokio::test]
async fn texts_and_files_reach_the_model_in_their_order() {
    let world = World::start().await;
    world.model.will_say("I see.");
    let parts = json!([
        { "type": "text", "text": "first", "id": "prt_of_the_sdk", "synthetic": false },
        { "type": "file", "mime": "image/png", "filename": "x.png", "url": "data:image/png;base64,iVBORw0KGgo=" },
        { "type": "file", "mime": "text/plain", "url": "https://example.com/x.txt" },
        { "type": "text", "text": "second" },
    ]);
    say(&world, json!({ "parts": parts })).await;
    assert_eq!(world.model.last_shown().conversation, ["user | first | [image/png] | [text/plain] | second"]);
    let user = &world.server.messages(&world.session).await[0];
    let kept: Vec<Value> = user["parts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|part| json!([part["type"], part["text"], part["url"], part["filename"]]))
        .collect();
    let expected = [
        json!(["text", "first", null, null]),
        json!(["file", null, "data:image/png;base64,iVBORw0KGgo=", "x.png"]),
        json!(["file", null, "https://example.com/x.txt", null]),
        json!(["text", "second", null, null]),
    ];
    assert_eq!(kept, expected);
}

#[tokio::test]
async fn a_prompt_that_wants_no_reply_is_kept_and_shown_to_the_model_later() {
    let world = World::start().await;
    let silent = say(&world, with(json!({ "noReply": true }))).await;
    assert_eq!((&silent["info"]["role"], &silent["parts"][0]["text"]), (&json!("user"), &json!("hello")));
    assert_eq!(world.server.status(&world.session).await, "idle");
    assert_eq!(world.history().await, ["user | hello"]);
    assert_eq!(world.server.messages(&world.session).await[0], silent);
    let path = format!("/session/{}/prompt_async", world.session);
    world.server.post(&path, with(json!({ "noReply": true }))).await.must_be(204, &json!(""));
    assert_eq!(world.model.shown(), []);
    world.model.will_say("Hello.");
    world.server.say(&world.session, "and now?").await;
    assert_eq!(world.model.last_shown().conversation, ["user | hello", "user | hello", "user | and now?"]);
}

#[tokio::test]
async fn a_prompt_may_bring_its_own_id_but_not_twice() {
    let world = World::start().await;
    world.model.will_say("Hello.");
    let answer = say(&world, with(json!({ "messageID": "msg_mine" }))).await;
    assert_eq!(answer["info"]["parentID"], "msg_mine");
    let before = world.server.messages(&world.session).await;
    assert_eq!(before[0]["info"]["id"], "msg_mine");
    let taken = "there is a message msg_mine already; choose another id or leave it out";
    for path in ["message", "prompt_async"] {
        for more in [json!({ "messageID": "msg_mine" }), json!({ "messageID": "msg_mine", "noReply": true })] {
            let again = world.server.post(&format!("/session/{}/{path}", world.session), with(more)).await;
            assert_eq!(must_fail_for(&again, 409), (taken, Some("taken")));
        }
    }
    // The id of the answer is taken as well.
    let answers = with(json!({ "messageID": answer["info"]["id"] }));
    let refused = Answer::to(world.server.saying(&world.session, &answers)).await;
    assert_eq!(must_fail_for(&refused, 409).1, Some("taken"));
    assert_eq!(world.server.messages(&world.session).await, before);
    // In another session it is free.
    let other = world.server.session_of("tab").await;
    world.model.will_say("Hello there.");
    let answer = Answer::to(world.server.saying(&other, &with(json!({ "messageID": "msg_mine" })))).await;
    assert_eq!((answer.status, &answer.body["info"]["parentID"]), (200, &json!("msg_mine")));
    assert_eq!(world.server.history(&other).await, ["user | hello", "assistant | Hello there. | <stop>"]);
    assert_eq!(world.server.messages(&world.session).await, before);
}

#[tokio::test]
async fn an_id_that_waits_or_runs_is_taken() {
    let world = World::start().await;
    let running = world.server.prompt_with(&world.session, with(json!({ "messageID": "msg_running" })));
    let asked = world.model.asked().await;
    let path = format!("/session/{}/prompt_async", world.session);
    world.server.post(&path, with(json!({ "messageID": "msg_waiting" }))).await.must_be(204, &json!(""));
    for id in ["msg_running", "msg_waiting"] {
        let refused = world.server.post(&path, with(json!({ "messageID": id }))).await;
        assert_eq!(must_fail_for(&refused, 409).1, Some("taken"));
    }
    asked.answer("one");
    world.model.asked().await.answer("two");
    running.await.unwrap();
    world.server.until_idle(&world.session).await;
    assert_eq!(world.history().await.len(), 4);
}

#[tokio::test]
async fn of_many_prompts_with_one_id_at_once_one_is_taken() {
    let world = World::start().await;
    let prompts: Vec<_> =
        (0..8).map(|_| world.server.prompt_with(&world.session, with(json!({ "messageID": "msg_one" })))).collect();
    world.model.asked().await.answer("Once.");
    let mut statuses = Vec::new();
    for prompt in prompts {
        statuses.push(prompt.await.unwrap().status);
    }
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 409, 409, 409, 409, 409, 409, 409]);
    assert_eq!(world.history().await, ["user | hello", "assistant | Once. | <stop>"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_many_prompts_with_one_id_that_want_no_reply_one_is_taken() {
    let scratch = Scratch::new();
    let world = World::with(|config| config.data = Some(scratch.path().to_owned())).await;
    for round in 0..20 {
        let body = |text: usize| {
            let parts = json!([{ "type": "text", "text": format!("text {text}") }]);
            json!({ "parts": parts, "messageID": format!("msg_{round}"), "noReply": true })
        };
        let prompts: Vec<_> = (0..8).map(|text| world.server.prompt_with(&world.session, body(text))).collect();
        let mut statuses = Vec::new();
        for prompt in prompts {
            statuses.push(prompt.await.unwrap().status);
        }
        statuses.sort_unstable();
        assert_eq!(statuses, [200, 409, 409, 409, 409, 409, 409, 409]);
    }
    assert_eq!(world.history().await.len(), 20);
}

#[tokio::test]
async fn agents_models_and_instructions_are_those_that_are_said_closest() {
    let agent = |system: &str, model: Option<&str>| Agent {
        system: Some(system.to_owned()),
        model: model.map(|model| ModelRef::parse(model).unwrap()),
        ..Agent::default()
    };
    let world = World::with(|config| {
        config.agents = BTreeMap::from([
            ("default".to_owned(), agent("Be brief.", None)),
            ("clerk".to_owned(), agent("You are a clerk.", Some("fake/clerk"))),
        ]);
    })
    .await;
    let of_clerk = world.server.session(json!({ "clientID": "tab", "agent": "clerk" })).await;
    let model = json!({ "providerID": "fake", "modelID": "session" });
    let of_model = world.server.session(json!({ "clientID": "tab", "agent": "clerk", "model": model })).await;
    for (session, model) in [(&world.session, "one"), (&of_clerk, "clerk"), (&of_model, "session")] {
        let shown = world.server.get(&format!("/session/{session}")).await.body;
        assert_eq!(shown["model"], json!({ "providerID": "fake", "id": model }));
    }
    let cases = [
        (&world.session, json!({}), "default", "one", "Be brief."),
        (&world.session, json!({ "agent": "clerk" }), "clerk", "clerk", "You are a clerk."),
        (&world.session, json!({ "system": "Sing." }), "default", "one", "Sing."),
        (&world.session, json!({ "model": { "providerID": "fake", "modelID": "x" } }), "default", "x", "Be brief."),
        (&world.session, json!({ "model": { "providerID": "fake", "id": "y/z" } }), "default", "y/z", "Be brief."),
        (&of_clerk, json!({}), "clerk", "clerk", "You are a clerk."),
        (&of_clerk, json!({ "agent": "default" }), "default", "one", "Be brief."),
        (&of_model, json!({}), "clerk", "session", "You are a clerk."),
        (&of_model, json!({ "model": { "providerID": "fake", "modelID": "x" } }), "clerk", "x", "You are a clerk."),
    ];
    for (session, more, agent, model, system) in cases {
        world.model.will_say("Yes.");
        let answer = Answer::to(world.server.saying(session, &with(more.clone()))).await.body;
        let shown = world.model.last_shown();
        assert_eq!((shown.model.as_str(), shown.system.as_deref()), (model, Some(system)), "{more}");
        let info = &answer["info"];
        let said = json!([info["agent"], info["mode"], info["providerID"], info["modelID"]]);
        assert_eq!(said, json!([agent, agent, "fake", model]));
        let messages = world.server.messages(session).await;
        let user = &messages[messages.len() - 2]["info"];
        assert_eq!(
            (&user["agent"], &user["model"]),
            (&json!(agent), &json!({ "providerID": "fake", "modelID": model }))
        );
        assert_eq!(user["system"], more["system"]);
    }
}

#[tokio::test]
async fn an_agent_or_a_model_that_is_not_there_is_refused_and_nothing_is_kept() {
    let world = World::start().await;
    let bad = [
        json!({ "agent": "nobody" }),
        json!({ "agent": "" }),
        json!({ "model": { "providerID": "nowhere", "modelID": "x" } }),
        json!({ "model": { "providerID": "fake" } }),
        json!({ "model": { "modelID": "one" } }),
        json!({ "model": { "providerID": "fake/", "modelID": "one" } }),
        json!({ "model": { "providerID": "fake", "modelID": "one", "id": "two" } }),
        json!({ "model": { "providerID": "fake", "modelID": "" } }),
    ];
    for more in bad {
        must_fail(&Answer::to(world.server.saying(&world.session, &with(more))).await, 400);
    }
    assert_eq!((world.history().await, world.server.status(&world.session).await), (vec![], "idle".to_owned()));
}

#[tokio::test]
async fn the_scripted_model_is_the_default_and_needs_no_key() {
    let server = handback_testkit::TestServer::start().await;
    let client = handback_testkit::ScriptedClient::attach(&server, "tab", &["battery"], |_| {
        Some(handback_testkit::client::success("80 %"))
    })
    .await;
    let session = server.session_of("tab").await;
    let answer = server.say(&session, "call battery {\"unit\":\"percent\"}").await;
    let info = [&answer["info"]["providerID"], &answer["info"]["modelID"]];
    assert_eq!(info, [&json!("demo"), &json!("scripted")]);
    let calls = client.calls();
    assert_eq!((calls.len(), &calls[0]["input"]), (1, &json!({ "unit": "percent" })));
    let text = answer["parts"][1]["text"].as_str().unwrap();
    assert!(text.contains("80 %"), "{text}");
}
