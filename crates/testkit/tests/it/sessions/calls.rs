//! From a prompt through the model to the client and back: every way in which a call can end.

use handback_core::sessions::ModelEvent;
use handback_core::tools::Permission;
use handback_testkit::client::{failure, success};
use handback_testkit::model::called;
use handback_testkit::session::{permit, tool_part};
use handback_testkit::tidy::{Tidier, tidy};
use serde_json::{Value, json};

use super::{World, id};

#[tokio::test]
async fn a_prompt_becomes_a_call_and_its_result_becomes_the_answer() {
    let mut world = World::start().await;
    world.model.will_call(&[("client_tab_a", json!({ "n": 1 }))]);
    world.model.will_say("It is 2.");
    let prompt = world.server.prompt(&world.session, "what is 1 + 1?");
    let call = world.stream.next_call().await;
    let result = json!({ "status": "success", "title": "Added", "output": "2", "metadata": { "exact": true } });
    let answered = world.server.post("/client-tools/result", json!({ "requestID": id(&call), "result": result })).await;
    answered.must_be(200, &json!({ "success": true }));
    let answer = prompt.await.unwrap();
    assert_eq!(answer.status, 200);

    let mut tidier = Tidier::default();
    let messages = tidier.tidy(&world.server.messages(&world.session).await.into());
    let tokens = json!({ "input": 0, "output": 0, "reasoning": 0, "cache": { "read": 0, "write": 0 } });
    let model = json!({ "providerID": "fake", "modelID": "one" });
    let assistant = |id: &str, finish: &str| {
        json!({
            "id": id, "sessionID": "ses_1", "role": "assistant", "time": { "created": "time", "completed": "time" },
            "agent": "default", "mode": "default", "parentID": "msg_1", "providerID": "fake", "modelID": "one",
            "path": { "cwd": "", "root": "" }, "cost": 0.0, "tokens": tokens, "finish": finish,
        })
    };
    let part = |id: &str, message: &str, mut rest: Value| {
        rest["id"] = id.into();
        rest["messageID"] = message.into();
        rest["sessionID"] = "ses_1".into();
        rest
    };
    let finish = |reason: &str| json!({ "type": "step-finish", "reason": reason, "cost": 0.0, "tokens": tokens });
    let state = json!({
        "status": "completed", "input": { "n": 1 }, "output": "2", "title": "Added", "metadata": { "exact": true },
        "time": { "start": "time", "end": "time" },
    });
    let time = json!({ "start": "time", "end": "time" });
    let expected = json!([
        {
            "info": {
                "id": "msg_1", "sessionID": "ses_1", "role": "user", "time": { "created": "time" }, "agent": "default",
                "model": model,
            },
            "parts": [part("prt_1", "msg_1", json!({ "type": "text", "text": "what is 1 + 1?" }))],
        },
        {
            "info": assistant("msg_2", "tool-calls"),
            "parts": [
                part("prt_2", "msg_2", json!({ "type": "step-start" })),
                part("prt_3", "msg_2", json!({ "type": "tool", "callID": "cal_1", "tool": "client_tab_a", "state": state })),
                part("prt_4", "msg_2", finish("tool-calls")),
            ],
        },
        {
            "info": assistant("msg_3", "stop"),
            "parts": [
                part("prt_5", "msg_3", json!({ "type": "step-start" })),
                part("prt_6", "msg_3", json!({ "type": "text", "text": "It is 2.", "time": time })),
                part("prt_7", "msg_3", finish("stop")),
            ],
        },
    ]);
    assert_eq!(messages, expected);
    // What the prompter is told is the last of them.
    assert_eq!(tidier.tidy(&answer.body), expected[2]);

    // The client was told all that the contract says, and the model all that came of it.
    let told = json!({
        "type": "client-tool-request", "requestID": "req_1", "sessionID": "ses_1", "messageID": "msg_2",
        "callID": "cal_1", "tool": "client_tab_a", "input": { "n": 1 }, "deadline": "time", "effect": "write",
        "attempt": 1,
    });
    assert_eq!(tidier.tidy(&call), told);
    let shown = world.model.last_shown();
    assert_eq!(shown.conversation, ["user | what is 1 + 1?", "assistant | client_tab_a {\"n\":1} → 2"]);
    assert_eq!(shown.aliases(), ["list_tools", "client_tab_a", "client_tab_b"]);
    // The call is listed with the ids of its session.
    let listed = world.server.call(id(&call)).await;
    let [session, message] = [&listed["sessionID"], &listed["messageID"]];
    assert_eq!([session, message], [&json!(world.session), &call["messageID"]]);
}

#[tokio::test]
async fn parallel_calls_are_made_at_once_and_the_model_gets_every_result_in_its_order() {
    let mut world = World::start().await;
    let wanted: Vec<(&str, Value)> =
        (0..5).map(|n| (if n % 2 == 0 { "client_tab_a" } else { "client_tab_b" }, json!({ "n": n }))).collect();
    world.model.will_call(&wanted);
    world.model.will_say("All five.");
    let prompt = world.server.prompt(&world.session, "five at once");
    let mut calls = Vec::new();
    // All are there before any is answered.
    for _ in 0..5 {
        calls.push(world.stream.next_call().await);
    }
    let inputs: Vec<&Value> = calls.iter().map(|call| &call["input"]["n"]).collect();
    assert_eq!(inputs, [0, 1, 2, 3, 4]);
    for call in calls.iter().rev() {
        world.server.answer(id(call), &format!("output {}", call["input"]["n"])).await;
    }
    assert_eq!(prompt.await.unwrap().status, 200);
    let outputs = ["output 0", "output 1", "output 2", "output 3", "output 4"];
    assert_eq!(world.model.last_shown().results, outputs);
    let history = world.history().await;
    let step = "assistant | client_tab_a {\"n\":0} → output 0 | client_tab_b {\"n\":1} → output 1 | \
                client_tab_a {\"n\":2} → output 2 | client_tab_b {\"n\":3} → output 3 | \
                client_tab_a {\"n\":4} → output 4 | <tool-calls>";
    assert_eq!(history, ["user | five at once", step, "assistant | All five. | <stop>"]);
}

#[tokio::test]
async fn each_call_fails_alone_and_the_others_succeed() {
    let mut world = World::start().await;
    let tools = json!([{ "id": "slow", "timeout": 300 }]);
    world.server.post("/client-tools/register", json!({ "clientID": "tab", "tools": tools })).await;
    let wanted = [
        ("client_tab_a", json!({ "n": 1 })),
        ("client_tab_a", json!({ "n": 2 })),
        ("client_tab_slow", json!({})),
        ("client_tab_a", json!({ "n": "four" })),
        ("nobody", json!({})),
        ("client_tab_b", json!({})),
    ];
    world.model.will_call(&wanted);
    world.model.will_say("Mixed.");
    let prompt = world.server.prompt(&world.session, "go");
    let calls = [
        world.stream.next_call().await,
        world.stream.next_call().await,
        world.stream.next_call().await,
        world.stream.next_call().await,
    ];
    world.server.answer(id(&calls[0]), "one").await;
    let body = json!({ "requestID": id(&calls[1]), "result": failure("no such file") });
    world.server.post("/client-tools/result", body).await;
    world.server.cancel(id(&calls[3]), "somebody cancelled it").await;
    // Nobody answers the third.
    assert_eq!(prompt.await.unwrap().status, 200);
    let results = [
        "one",
        "no such file",
        "Client tool execution timed out after 300ms; it may have run",
        "Invalid input: at /n: \"four\" is not of type \"integer\"",
        "There is no tool `nobody`. There is: list_tools, client_tab_a, client_tab_b, client_tab_slow",
        "somebody cancelled it; it may have run",
    ];
    assert_eq!(world.model.last_shown().results, results);
    let step = &world.server.messages(&world.session).await[1];
    let statuses: Vec<&Value> = step["parts"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|part| part["type"] == "tool")
        .map(|part| &part["state"]["status"])
        .collect();
    assert_eq!(statuses, ["completed", "error", "error", "error", "error", "error"]);
    assert_eq!(world.server.counts().calls, 0);
}

#[tokio::test]
async fn a_failed_call_is_an_error_state_with_what_happened() {
    let mut world = World::start().await;
    world.model.will_call(&[("client_tab_b", json!({ "path": "x" }))]);
    world.model.will_say("It failed.");
    let prompt = world.server.prompt(&world.session, "go");
    let call = world.stream.next_call().await;
    let body = json!({ "requestID": id(&call), "result": failure("no such file") });
    world.server.post("/client-tools/result", body).await;
    prompt.await.unwrap();
    let messages = world.server.messages(&world.session).await;
    let state = json!({
        "status": "error", "input": { "path": "x" }, "error": "no such file", "time": { "start": "time", "end": "time" },
    });
    let expected = json!({
        "id": "prt_1", "sessionID": "ses_1", "messageID": "msg_1", "type": "tool", "callID": "cal_1",
        "tool": "client_tab_b", "state": state,
    });
    assert_eq!(tidy(tool_part(&messages[1])), expected);
}

#[tokio::test]
async fn a_call_that_the_policy_denies_never_reaches_the_client() {
    let mut world = World::with(|config| permit(config, Permission::Deny)).await;
    world.model.will_call(&[("client_tab_b", json!({}))]);
    world.model.will_say("I may not.");
    let answer = world.server.say(&world.session, "go").await;
    assert_eq!(answer["info"]["error"], Value::Null);
    assert_eq!(world.model.last_shown().results, ["This tool is not allowed here"]);
    let step = "assistant | client_tab_b {} ✗ This tool is not allowed here | <tool-calls>";
    assert_eq!(world.history().await, ["user | go", step, "assistant | I may not. | <stop>"]);
    // The next thing that the client hears of is a call that somebody else makes.
    world.server.begin_call(json!({ "toolID": "client_tab_b", "requestID": "other" })).await;
    world.stream.expect_call("other").await;
}

#[tokio::test]
async fn the_most_specific_pattern_decides_for_each_tool() {
    let mut world = World::with(|config| {
        permit(config, Permission::Deny);
        let agent = config.agents.get_mut("default").unwrap();
        agent.permission.tools = [("client_*_a".to_owned(), Permission::Allow)]
            .into_iter()
            .map(|(text, rule)| (pattern(&text), rule))
            .collect();
    })
    .await;
    let tools = world.server.get(&format!("/session/{}/tools", world.session)).await.body;
    let rules: Vec<(&Value, &Value)> =
        tools.as_array().unwrap().iter().map(|tool| (&tool["name"], &tool["permission"])).collect();
    let expected = [("list_tools", "allow"), ("client_tab_a", "allow"), ("client_tab_b", "deny")];
    assert_eq!(
        rules,
        expected
            .map(|(name, rule)| (json!(name), json!(rule)))
            .iter()
            .map(|(name, rule)| (name, rule))
            .collect::<Vec<_>>()
    );
    world.model.will_call(&[("client_tab_a", json!({})), ("client_tab_b", json!({}))]);
    world.model.will_say("Half of it.");
    let prompt = world.server.prompt(&world.session, "go");
    assert_eq!(world.answer_next("done").await["tool"], "client_tab_a");
    prompt.await.unwrap();
    assert_eq!(world.model.last_shown().results, ["done", "This tool is not allowed here"]);
}

fn pattern(text: &str) -> handback_core::tools::ToolPattern {
    handback_core::tools::ToolPattern::parse(text).unwrap()
}

#[tokio::test]
async fn a_call_that_nobody_answers_in_time_is_told_to_the_model_and_to_the_client() {
    let mut world = World::start().await;
    let tools = json!([{ "id": "slow", "timeout": 500 }]);
    world.server.post("/client-tools/register", json!({ "clientID": "tab", "tools": tools })).await;
    world.model.will_call(&[("client_tab_slow", json!({}))]);
    world.model.will_say("Too slow.");
    let prompt = world.server.prompt(&world.session, "go");
    let call = world.stream.next_call().await;
    let cancel = world.stream.expect("tool-cancel").await;
    let reason = "Client tool execution timed out after 500ms";
    assert_eq!(cancel.data, json!({ "requestID": id(&call), "reason": reason }));
    let answer = prompt.await.unwrap();
    assert_eq!((answer.status, &answer.body["parts"][1]["text"]), (200, &json!("Too slow.")));
    assert_eq!(world.model.last_shown().results, [format!("{reason}; it may have run")]);
    world.server.answer(id(&call), "late").await.must_fail(410, "GONE");
}

#[tokio::test]
async fn a_client_that_goes_in_the_middle_of_a_call_is_told_to_the_model() {
    let World { server, model, mut stream, session } = World::start().await;
    model.will_call(&[("client_tab_b", json!({}))]);
    let prompt = server.prompt(&session, "go");
    stream.next_call().await;
    drop(stream);
    let asked = model.asked().await;
    assert_eq!(asked.shown.results, ["Client disconnected; it may have run"]);
    assert_eq!(asked.shown.aliases(), ["list_tools"], "its tools went with it");
    // A model that does not notice is told once more.
    asked.call(&[("client_tab_b", json!({}))]);
    let asked = model.asked().await;
    assert_eq!(asked.shown.results, ["There is no tool `client_tab_b`. There is: list_tools"]);
    asked.answer("Gone.");
    assert_eq!(prompt.await.unwrap().body["info"]["error"], Value::Null);
    let steps = [
        "user | go",
        "assistant | client_tab_b {} ✗ Client disconnected; it may have run | <tool-calls>",
        "assistant | client_tab_b {} ✗ There is no tool `client_tab_b`. There is: list_tools | <tool-calls>",
        "assistant | Gone. | <stop>",
    ];
    assert_eq!(server.history(&session).await, steps);
}

#[tokio::test]
async fn a_client_that_comes_back_within_its_grace_answers_the_call() {
    let World { server, model, stream, session } = World::start().await;
    let mut patient = server.stream("tab?grace=60000").await;
    drop(stream);
    server.until("one connection is left", |counts| counts.connections == 1).await;
    model.will_call(&[("client_tab_b", json!({}))]);
    model.will_say("Back again.");
    let prompt = server.prompt(&session, "go");
    let call = patient.next_call().await;
    drop(patient);
    server.until("nobody is connected", |counts| counts.connections == 0).await;
    assert_eq!(server.status(&session).await, "busy");
    let mut back = server.stream("tab?grace=60000").await;
    let again = back.expect_call(id(&call)).await;
    assert_eq!(again.data["attempt"], 2);
    server.answer(id(&call), "still here").await.must_be(200, &json!({ "success": true }));
    assert_eq!(prompt.await.unwrap().body["parts"][1]["text"], "Back again.");
    assert_eq!(model.last_shown().results, ["still here"]);
}

#[tokio::test]
async fn a_client_that_comes_back_with_its_place_answers_what_it_had_begun() {
    let World { server, model, stream, session } = World::start().await;
    let mut patient = server.stream("tab?grace=60000").await;
    drop(stream);
    server.until("one connection is left", |counts| counts.connections == 1).await;
    model.will_call(&[("client_tab_b", json!({}))]);
    model.will_say("Done.");
    let prompt = server.prompt(&session, "go");
    let frame = patient.expect("tool-request").await;
    drop(patient);
    server.until("nobody is connected", |counts| counts.connections == 0).await;
    let mut back = server.resume("tab?grace=60000", &frame.id).await;
    server.answer(frame.request_id(), "finished meanwhile").await.must_be(200, &json!({ "success": true }));
    prompt.await.unwrap();
    assert_eq!(model.last_shown().results, ["finished meanwhile"]);
    // It was not given the call a second time: the next that it hears of is another.
    server.begin_call(json!({ "toolID": "client_tab_b", "requestID": "other" })).await;
    back.expect_call("other").await;
}

#[tokio::test]
async fn a_call_made_while_its_client_is_away_waits_for_it() {
    let World { server, model, stream, session } = World::start().await;
    drop(stream);
    server.until("the client is gone", |counts| counts.clients == 0).await;
    super::register(&server).await;
    model.will_call(&[("client_tab_b", json!({}))]);
    model.will_say("At last.");
    let prompt = server.prompt(&session, "go");
    server.until("the call waits", |counts| counts.calls == 1).await;
    let mut stream = server.stream("tab").await;
    let call = stream.next_call().await;
    assert_eq!(call["attempt"], 1);
    server.answer(id(&call), "here I am").await;
    assert_eq!(prompt.await.unwrap().body["parts"][1]["text"], "At last.");
}

#[tokio::test]
async fn a_call_is_answered_over_a_websocket_as_well() {
    let World { server, model, stream, session } = World::start().await;
    let mut socket = server.socket("tab").await;
    drop(stream);
    server.until("the stream is gone", |counts| counts.connections == 1).await;
    model.will_call(&[("client_tab_b", json!({ "x": 1 }))]);
    model.will_say("By socket.");
    let prompt = server.prompt(&session, "go");
    let call = socket.request().await;
    assert_eq!((&call["sessionID"], &call["input"]), (&json!(session), &json!({ "x": 1 })));
    let result = json!({ "type": "result", "requestID": id(&call), "result": success("over the socket") });
    assert_eq!(socket.ask(result).await["accepted"], true);
    prompt.await.unwrap();
    assert_eq!(model.last_shown().results, ["over the socket"]);
}

#[tokio::test]
async fn an_abort_cancels_open_calls_tells_the_client_and_marks_the_message() {
    let mut world = World::start().await;
    world.model.will_call(&[("client_tab_a", json!({ "n": 1 })), ("client_tab_b", json!({ "x": 2 }))]);
    let prompt = world.server.prompt(&world.session, "go");
    let first = world.answer_next("one").await;
    let second = world.stream.next_call().await;
    assert_ne!(id(&first), id(&second));
    world.server.abort(&world.session).await;
    // When the abort is answered, the turn is over.
    assert_eq!(world.server.status(&world.session).await, "idle");
    let cancel = world.stream.expect("tool-cancel").await;
    assert_eq!(cancel.data, json!({ "requestID": id(&second), "reason": "The turn was stopped" }));
    let answer = prompt.await.unwrap();
    assert_eq!(answer.status, 200);
    let error = json!({ "name": "MessageAbortedError", "data": { "message": "The turn was aborted" } });
    assert_eq!(answer.body["info"]["error"], error);
    assert!(answer.body["info"]["time"]["completed"].is_u64());
    let step = "assistant | client_tab_a {\"n\":1} → one | client_tab_b {\"x\":2} ✗ Not finished: The turn was aborted; it may have run | \
                !MessageAbortedError: The turn was aborted";
    assert_eq!(world.history().await, ["user | go", step]);
    assert_eq!(world.server.outcome(id(&second)).await["status"], "cancelled");
    world.server.answer(id(&second), "late").await.must_fail(410, "GONE");
    assert_eq!((world.model.shown().len(), world.server.counts().calls), (1, 0));
    // The session goes on, and the model learns what became of the call.
    world.model.will_say("Again.");
    assert_eq!(world.server.say(&world.session, "once more").await["parts"][1]["text"], "Again.");
    let conversation = &world.model.last_shown().conversation;
    assert_eq!(
        conversation[1],
        "assistant | client_tab_a {\"n\":1} → one | client_tab_b {\"x\":2} ✗ Not finished: The turn was aborted; it may have run"
    );
}

#[tokio::test]
async fn an_abort_reaches_a_model_that_is_still_speaking() {
    let world = World::start().await;
    let mut events = world.server.events().await;
    let prompt = world.server.prompt(&world.session, "go");
    let asked = world.model.asked().await;
    asked.say(ModelEvent::Text("Once upon a".to_owned()));
    while events.next().await.data["properties"]["part"]["text"] != "Once upon a" {}
    world.server.abort(&world.session).await;
    asked.dropped().await;
    let answer = prompt.await.unwrap();
    assert_eq!(answer.status, 200);
    let step = "assistant | Once upon a | !MessageAbortedError: The turn was aborted";
    assert_eq!(world.history().await, ["user | go", step]);
}

#[tokio::test]
async fn arguments_that_are_no_object_are_told_to_the_model_and_never_to_the_client() {
    let mut world = World::start().await;
    let wanted = ["{not json", "[1]", "null", "\"text\"", "{\"n\": 1.5}", "{\"n\":1}{\"n\":2}", "", "  "];
    let wanted: Vec<(&str, String)> = wanted.iter().map(|text| ("client_tab_a", (*text).to_owned())).collect();
    world.model.will(called(&wanted));
    world.model.will_say("Sorry.");
    let prompt = world.server.prompt(&world.session, "go");
    // Nothing at all is an empty object; these two are the only ones that are good.
    for _ in 0..2 {
        assert_eq!(world.answer_next("fine").await["input"], json!({}));
    }
    assert_eq!(prompt.await.unwrap().status, 200);
    let results = world.model.last_shown().results;
    assert!(results[0].starts_with("Invalid input: the arguments are not JSON: "), "{}", results[0]);
    assert_eq!(results[1], "Invalid input: the arguments must be a JSON object, not `[1]`");
    assert_eq!(results[2], "Invalid input: the arguments must be a JSON object, not `null`");
    assert_eq!(results[3], "Invalid input: the arguments must be a JSON object, not `\"text\"`");
    assert_eq!(results[4], "Invalid input: at /n: 1.5 is not of type \"integer\"");
    assert!(results[5].starts_with("Invalid input: the arguments are not JSON: "), "{}", results[5]);
    assert_eq!(results[6..], ["fine", "fine"]);
    // What is no object is shown as an empty one: readers of the part rely on it.
    let messages = world.server.messages(&world.session).await;
    let parts = messages[1]["parts"].as_array().unwrap();
    let inputs: Vec<&Value> =
        parts.iter().filter(|part| part["type"] == "tool").map(|part| &part["state"]["input"]).collect();
    let none = json!({});
    assert_eq!(inputs, [&none, &none, &none, &none, &json!({ "n": 1.5 }), &none, &none, &none]);
}

#[tokio::test]
async fn a_long_output_is_cut_for_the_model_and_whole_in_the_api() {
    let mut world = World::with(|config| config.limits.tool_output = 1000).await;
    let long = "äöü ".repeat(20_000);
    world.model.will_call(&[("client_tab_b", json!({}))]);
    world.model.will_say("Long.");
    let prompt = world.server.prompt(&world.session, "go");
    world.answer_next(&long).await;
    prompt.await.unwrap();
    let beginning = &long[..long.floor_char_boundary(1000)];
    let note = format!("{beginning}\n\n[cut: {} of {} bytes are shown]", beginning.len(), long.len());
    assert_eq!(world.model.last_shown().results, [note]);
    let messages = world.server.messages(&world.session).await;
    assert_eq!(tool_part(&messages[1])["state"]["output"], long);
}

#[tokio::test]
async fn calls_that_a_model_asks_for_are_limited_per_client_and_minute() {
    let mut world = World::with(|config| config.limits.calls_per_minute = 2).await;
    let wanted: Vec<(&str, Value)> = (0..4).map(|n| ("client_tab_a", json!({ "n": n }))).collect();
    world.model.will_call(&wanted);
    world.model.will_say("Enough.");
    let prompt = world.server.prompt(&world.session, "go");
    for _ in 0..2 {
        world.answer_next("ok").await;
    }
    prompt.await.unwrap();
    let results = world.model.last_shown().results;
    assert_eq!(results[..2], ["ok", "ok"]);
    for refused in &results[2..] {
        assert!(
            refused.starts_with("The call was not made: too many calls for this client; try again in "),
            "{refused}"
        );
    }
}
