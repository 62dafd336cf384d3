//! Asks: a call waits until somebody allows it, rejects it, or nobody says anything.

use std::time::Duration;

use handback_core::tools::Permission;
use handback_testkit::server::until;
use handback_testkit::session::{permit, tool_part};
use handback_testkit::tidy::{Tidier, tidy};
use handback_testkit::{Answer, TestStream};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::{World, id};

/// A world where every call has to be allowed.
async fn asking() -> World {
    World::with(|config| permit(config, Permission::Ask)).await
}

/// The same, with a turn that wants `a` with `{"n":1}`, and its ask.
async fn with_ask() -> (World, JoinHandle<Answer>, Value) {
    let world = asking().await;
    world.model.will_call(&[("client_tab_a", json!({ "n": 1 }))]);
    let prompt = world.server.prompt(&world.session, "go");
    let ask = world.server.until_asked(1).await.remove(0);
    (world, prompt, ask)
}

/// Checks that the client hears of nothing: the next call that it is given is made now.
async fn hears_nothing(world: &World, stream: &mut TestStream) {
    world.server.begin_call(json!({ "toolID": "client_tab_b", "requestID": "marker" })).await;
    stream.expect_call("marker").await;
    world.server.answer("marker", "").await;
}

#[tokio::test]
async fn an_ask_says_all_that_somebody_has_to_know() {
    let (world, _prompt, ask) = with_ask().await;
    let mut tidier = Tidier::default();
    let session = tidier.tidy(&json!(world.session));
    let expected = json!({
        "id": "per_1", "type": "client_tool", "permission": "client_tool", "tool": "client_tab_a",
        "pattern": "client_tab_a", "patterns": ["client_tab_a"], "always": ["client_tab_a"], "sessionID": session,
        "messageID": "msg_1", "callID": "cal_1", "clientID": "tab", "title": "Run a on tab", "input": { "n": 1 },
        "metadata": { "tool": "client_tab_a", "input": { "n": 1 } }, "time": { "created": "time" },
    });
    assert_eq!(tidier.tidy(&ask), expected);
    // Meanwhile the part is running, and the call is listed as what it is.
    let messages = world.server.messages(&world.session).await;
    let part = tool_part(&messages[1]);
    assert_eq!((&part["state"]["status"], &part["callID"]), (&json!("running"), &ask["callID"]));
    let calls = world.server.get("/client-tools/calls?state=awaiting_approval").await.body;
    assert_eq!((calls.as_array().unwrap().len(), &calls[0]["callID"]), (1, &ask["callID"]));
    // Its time begins when it is allowed.
    assert_eq!(calls[0].get("deadline"), None);
    assert_eq!(world.server.status(&world.session).await, "busy");
}

#[tokio::test]
async fn once_allows_this_call_alone_by_either_endpoint() {
    let mut world = asking().await;
    for by_session in [true, false] {
        world.model.will_call(&[("client_tab_a", json!({ "n": 1 }))]);
        world.model.will_say("Done.");
        let prompt = world.server.prompt(&world.session, "go");
        let ask = world.server.until_asked(1).await.remove(0);
        let answer = match by_session {
            true => world.server.respond(&ask, json!({ "response": "once" })).await,
            false => world.server.reply(&ask, json!({ "reply": "once" })).await,
        };
        answer.must_be(200, &json!(true));
        let call = world.answer_next("allowed").await;
        assert_eq!((&call["callID"], &call["input"]), (&ask["callID"], &json!({ "n": 1 })));
        assert_eq!(prompt.await.unwrap().body["parts"][1]["text"], "Done.");
        assert_eq!(world.model.last_shown().results, ["allowed"]);
        assert_eq!(world.server.asks().await, Vec::<Value>::new());
    }
}

#[tokio::test]
async fn always_holds_for_the_tool_in_this_session_and_for_its_other_open_asks() {
    let mut world = asking().await;
    let wanted =
        [("client_tab_a", json!({ "n": 1 })), ("client_tab_a", json!({ "n": 2 })), ("client_tab_b", json!({}))];
    world.model.will_call(&wanted);
    world.model.will_call(&[("client_tab_a", json!({ "n": 3 }))]);
    world.model.will_say("Done.");
    let prompt = world.server.prompt(&world.session, "go");
    let asks = world.server.until_asked(3).await;
    let first = asks.iter().find(|ask| ask["input"]["n"] == 1).unwrap();
    world.server.respond(first, json!({ "response": "always" })).await.must_be(200, &json!(true));
    let mut answered =
        [world.answer_next("ok").await, world.answer_next("ok").await].map(|call| call["input"]["n"].clone());
    answered.sort_by_key(Value::as_i64);
    assert_eq!(answered, [1, 2]);
    // Another tool of the client still has to be allowed.
    let other = world.server.until_asked(1).await.remove(0);
    assert_eq!(other["tool"], "client_tab_b");
    world.server.reply(&other, json!({ "reply": "reject" })).await.must_be(200, &json!(true));
    // The next step, and the next turn, are not asked for.
    assert_eq!(world.answer_next("ok").await["input"], json!({ "n": 3 }));
    prompt.await.unwrap();
    world.model.will_call(&[("client_tab_a", json!({ "n": 4 }))]);
    world.model.will_say("Again.");
    let prompt = world.server.prompt(&world.session, "once more");
    assert_eq!(world.answer_next("ok").await["input"], json!({ "n": 4 }));
    prompt.await.unwrap();
    // What the model is offered says so.
    let tools = world.server.get(&format!("/session/{}/tools", world.session)).await.body;
    let rules: Vec<_> = tools.as_array().unwrap().iter().map(|tool| (&tool["id"], &tool["permission"])).collect();
    assert!(rules.contains(&(&json!("client_tab_a"), &json!("allow"))), "{rules:?}");
    assert!(rules.contains(&(&json!("client_tab_b"), &json!("ask"))), "{rules:?}");
    // In another session it is asked for again.
    let second = world.server.session_of("tab").await;
    world.model.will_call(&[("client_tab_a", json!({ "n": 5 }))]);
    world.model.will_say("No.");
    let prompt = world.server.prompt(&second, "go");
    let ask = world.server.until_asked(1).await.remove(0);
    assert_eq!((&ask["sessionID"], &ask["tool"]), (&json!(second), &json!("client_tab_a")));
    world.server.reply(&ask, json!({ "reply": "reject" })).await;
    prompt.await.unwrap();
}

#[tokio::test]
async fn a_rejection_is_told_to_the_model_and_the_client_never_hears_of_the_call() {
    let mut world = asking().await;
    let cases = [
        (true, json!({ "response": "reject" }), "The user rejected this call"),
        (false, json!({ "reply": "reject" }), "The user rejected this call"),
        (true, json!({ "response": "reject", "message": "Use b instead." }), "Use b instead."),
        (false, json!({ "reply": "reject", "message": "Not on a Sunday." }), "Not on a Sunday."),
        (false, json!({ "reply": "reject", "message": " " }), "The user rejected this call"),
        // An input that does not fit changes nothing about a rejection.
        (false, json!({ "reply": "reject", "input": { "n": "x" } }), "The user rejected this call"),
    ];
    for (by_session, body, told) in cases {
        world.model.will_call(&[("client_tab_a", json!({ "n": 1 }))]);
        world.model.will_say("Fine.");
        let prompt = world.server.prompt(&world.session, "go");
        let ask = world.server.until_asked(1).await.remove(0);
        let answer = match by_session {
            true => world.server.respond(&ask, body).await,
            false => world.server.reply(&ask, body).await,
        };
        answer.must_be(200, &json!(true));
        assert_eq!(prompt.await.unwrap().body["info"]["error"], Value::Null);
        assert_eq!(world.model.last_shown().results, [told]);
        let history = world.history().await;
        let step = format!("assistant | client_tab_a {{\"n\":1}} ✗ {told} | <tool-calls>");
        assert_eq!(history[history.len() - 2], step);
    }
    let mut stream = std::mem::replace(&mut world.stream, world.server.stream("other").await);
    hears_nothing(&world, &mut stream).await;
}

#[tokio::test]
async fn whoever_allows_a_call_may_change_its_input() {
    let mut world = asking().await;
    for by_session in [true, false] {
        world.model.will_call(&[("client_tab_a", json!({ "n": 1 }))]);
        world.model.will_say("Seven, then.");
        let prompt = world.server.prompt(&world.session, "go");
        let ask = world.server.until_asked(1).await.remove(0);
        let input = json!({ "n": 7 });
        let answer = match by_session {
            true => world.server.respond(&ask, json!({ "response": "once", "input": input })).await,
            false => world.server.reply(&ask, json!({ "reply": "once", "input": input })).await,
        };
        answer.must_be(200, &json!(true));
        assert_eq!(world.answer_next("seven").await["input"], input);
        prompt.await.unwrap();
        // The part and the model have the input that counted.
        let history = world.history().await;
        assert_eq!(history[history.len() - 2], "assistant | client_tab_a {\"n\":7} → seven | <tool-calls>");
        let shown = world.model.last_shown().conversation;
        assert_eq!(shown.last().unwrap(), "assistant | client_tab_a {\"n\":7} → seven");
    }
}

#[tokio::test]
async fn a_bad_answer_leaves_the_ask_open() {
    let (mut world, prompt, ask) = with_ask().await;
    world.model.will_say("Done.");
    let bad = [
        json!({ "response": "once", "input": { "n": "seven" } }),
        json!({ "response": "once", "input": [7] }),
        json!({ "response": "always", "input": "seven" }),
        json!({ "response": "maybe" }),
        json!({ "response": null }),
        json!({}),
        json!([]),
    ];
    for body in bad {
        let answer = world.server.respond(&ask, body.clone()).await;
        super::errors::must_fail(&answer, 400);
        let mut newer = body.clone();
        if let Some(fields) = newer.as_object_mut()
            && let Some(response) = fields.remove("response")
        {
            fields.insert("reply".to_owned(), response);
        }
        super::errors::must_fail(&world.server.reply(&ask, newer).await, 400);
        assert_eq!(world.server.asks().await, std::slice::from_ref(&ask), "{body}");
    }
    world.server.reply(&ask, json!({ "reply": "once" })).await.must_be(200, &json!(true));
    world.answer_next("ok").await;
    prompt.await.unwrap();
}

#[tokio::test]
async fn the_first_answer_counts_and_a_later_one_is_404() {
    let (mut world, prompt, ask) = with_ask().await;
    world.model.will_say("Done.");
    let (one, other) = tokio::join!(
        world.server.respond(&ask, json!({ "response": "once" })),
        world.server.reply(&ask, json!({ "reply": "reject" }))
    );
    let mut statuses = [one.status, other.status];
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 404]);
    if one.status == 200 {
        world.answer_next("ok").await;
    }
    prompt.await.unwrap();
    for late in [
        world.server.respond(&ask, json!({ "response": "once" })).await,
        world.server.reply(&ask, json!({ "reply": "always" })).await,
    ] {
        super::errors::must_fail(&late, 404);
    }
}

#[tokio::test]
async fn an_ask_is_answered_through_its_own_session_only() {
    let (world, _prompt, ask) = with_ask().await;
    let other = world.server.session_of("tab").await;
    let path = format!("/session/{other}/permissions/{}", ask["id"].as_str().unwrap());
    let answer = world.server.post(&path, json!({ "response": "once" })).await;
    super::errors::must_fail(&answer, 404);
    assert_eq!(world.server.asks().await, [ask]);
}

#[tokio::test]
async fn an_ask_that_nobody_answers_is_a_denial() {
    let mut world = World::with(|config| {
        permit(config, Permission::Ask);
        config.client_tools.approval_timeout = Duration::from_millis(150);
    })
    .await;
    world.model.will_call(&[("client_tab_a", json!({ "n": 1 }))]);
    world.model.will_say("Nobody said anything.");
    let mut events = world.server.events().await;
    let answer = world.server.say(&world.session, "go").await;
    assert_eq!(answer["info"]["error"], Value::Null);
    assert_eq!(world.model.last_shown().results, ["Denied: the approval expired"]);
    assert_eq!(world.server.asks().await, Vec::<Value>::new());
    let mut asked = String::new();
    let replied = loop {
        let event = events.next().await.data;
        match event["type"].as_str().unwrap() {
            "permission.asked" => asked = event["properties"]["id"].as_str().unwrap().to_owned(),
            "permission.replied" => break event["properties"].clone(),
            _ => {}
        }
    };
    let expected = json!({
        "sessionID": world.session, "permissionID": asked, "requestID": asked, "response": "reject", "reply": "reject",
    });
    assert_eq!(replied, expected);
    let mut stream = std::mem::replace(&mut world.stream, world.server.stream("other").await);
    hears_nothing(&world, &mut stream).await;
}

#[tokio::test]
async fn the_execution_clock_starts_when_the_call_is_allowed() {
    let mut world = World::with(|config| {
        permit(config, Permission::Ask);
        config.client_tools.default_timeout = Duration::from_millis(1500);
    })
    .await;
    world.model.will_call(&[("client_tab_a", json!({ "n": 1 }))]);
    world.model.will_say("In time.");
    let prompt = world.server.prompt(&world.session, "go");
    let asked = tokio::time::Instant::now();
    let ask = world.server.until_asked(1).await.remove(0);
    // Longer than the call itself may take.
    until("that time is over", async || asked.elapsed() > Duration::from_millis(1600)).await;
    world.server.reply(&ask, json!({ "reply": "once" })).await.must_be(200, &json!(true));
    world.answer_next("ok").await;
    prompt.await.unwrap();
    assert_eq!(world.model.last_shown().results, ["ok"]);
}

#[tokio::test]
async fn a_call_that_waits_to_be_allowed_cannot_be_answered_by_its_client() {
    let (mut world, prompt, ask) = with_ask().await;
    world.model.will_say("Done.");
    let calls = world.server.get("/client-tools/calls?state=awaiting_approval").await.body;
    world.server.answer(id(&calls[0]), "too early").await.must_fail(409, "CONFLICT");
    world.server.reply(&ask, json!({ "reply": "once" })).await.must_be(200, &json!(true));
    world.answer_next("now").await;
    prompt.await.unwrap();
    assert_eq!(world.model.last_shown().results, ["now"]);
}

#[tokio::test]
async fn an_abort_closes_the_ask() {
    let (mut world, prompt, ask) = with_ask().await;
    world.server.abort(&world.session).await;
    assert_eq!(world.server.asks().await, Vec::<Value>::new());
    let answer = prompt.await.unwrap();
    assert_eq!((answer.status, &answer.body["info"]["error"]["name"]), (200, &json!("MessageAbortedError")));
    super::errors::must_fail(&world.server.reply(&ask, json!({ "reply": "once" })).await, 404);
    let mut stream = std::mem::replace(&mut world.stream, world.server.stream("other").await);
    hears_nothing(&world, &mut stream).await;
    assert_eq!(world.server.counts().calls, 0);
}

#[tokio::test]
async fn a_client_that_goes_while_its_call_is_asked_for_closes_the_ask() {
    let (World { server, model, stream, session }, prompt, ask) = with_ask().await;
    drop(stream);
    let asked = model.asked().await;
    assert_eq!(asked.shown.results, ["Client disconnected"]);
    asked.answer("Gone.");
    prompt.await.unwrap();
    assert_eq!(server.asks().await, Vec::<Value>::new());
    super::errors::must_fail(&server.reply(&ask, json!({ "reply": "once" })).await, 404);
    assert_eq!(server.status(&session).await, "idle");
}

#[tokio::test]
async fn open_asks_are_listed_the_oldest_first_and_each_is_answered_alone() {
    let mut world = asking().await;
    let wanted: Vec<(&str, Value)> = (1..=3).map(|n| ("client_tab_a", json!({ "n": n }))).collect();
    world.model.will_call(&wanted);
    world.model.will_say("Done.");
    let prompt = world.server.prompt(&world.session, "go");
    let asks = world.server.until_asked(3).await;
    let inputs: Vec<&Value> = asks.iter().map(|ask| &ask["input"]["n"]).collect();
    assert_eq!(inputs, [1, 2, 3]);
    world.server.reply(&asks[1], json!({ "reply": "reject", "message": "not two" })).await;
    world.server.reply(&asks[2], json!({ "reply": "once" })).await;
    assert_eq!(world.answer_next("three").await["input"], json!({ "n": 3 }));
    world.server.reply(&asks[0], json!({ "reply": "once" })).await;
    assert_eq!(world.answer_next("one").await["input"], json!({ "n": 1 }));
    prompt.await.unwrap();
    assert_eq!(world.model.last_shown().results, ["one", "not two", "three"]);
}

#[tokio::test]
async fn an_input_with_a_file_is_whole_in_the_list_of_asks() {
    let world = asking().await;
    let input = json!({ "image": "data:image/png;base64,iVBORw0KGgo=" });
    world.model.will_call(&[("client_tab_b", input.clone())]);
    let _prompt = world.server.prompt(&world.session, "go");
    let ask = world.server.until_asked(1).await.remove(0);
    assert_eq!(tidy(&ask["input"]), input);
}
