//! Calls that are the page's own: the stream ends with them, and the page's next request brings the results.

use handback_testkit::ChatStream;
use handback_testkit::chat::{assistant, ran, saying, user};
use serde_json::{Value, json};

use super::{World, page_tools, picking};

/// A chat whose turn has ended with calls of the page: the message, and the calls.
async fn with_calls(world: &World, wanted: &[(&str, Value)]) -> (String, Vec<String>) {
    world.model.will_call(wanted);
    let mut stream = world.server.chat(&picking("chat", "u1")).await;
    stream.lines().await;
    open_calls(&stream)
}

/// The message of a stream, and the calls in it that are the page's to run.
fn open_calls(stream: &ChatStream) -> (String, Vec<String>) {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let handed_out = |chunk: &&Value| chunk["type"] == "tool-input-available" && chunk["providerExecuted"].is_null();
    let calls = stream.seen().iter().filter(handed_out).map(|chunk| text(&chunk["toolCallId"])).collect();
    (text(&stream.seen()[0]["messageId"]), calls)
}

/// What a page posts when it has run calls.
fn going_on(message: &str, parts: &[Value]) -> Value {
    json!({
        "id": "chat", "messages": [user("u1", "go"), assistant(message, json!(parts))], "tools": page_tools(),
        "trigger": "submit-message", "messageId": message,
    })
}

/// The chunks of a continuation that is a text.
fn text_of(text: &str) -> Vec<String> {
    let delta = json!({ "delta": text, "id": "prt_1" });
    let delta = format!("text-delta {delta}");
    let lines = [
        r#"start {"messageId":"msg_1"}"#,
        "start-step",
        r#"text-start {"id":"prt_1"}"#,
        delta.as_str(),
        r#"text-end {"id":"prt_1"}"#,
        "finish-step",
        r#"finish {"finishReason":"stop"}"#,
    ];
    lines.map(str::to_owned).to_vec()
}

#[tokio::test]
async fn the_stream_ends_with_the_open_call_and_the_answer_continues_the_same_message() {
    let world = World::start().await;
    world.model.will_call(&[("pick", json!({ "n": 1 }))]);
    let mut stream = world.server.chat(&picking("chat", "u1")).await;
    let lines = [
        r#"start {"messageId":"msg_1"}"#,
        "start-step",
        r#"tool-input-start {"toolCallId":"cal_1","toolName":"pick"}"#,
        r#"tool-input-delta {"inputTextDelta":"{\"n\":1}","toolCallId":"cal_1"}"#,
        r#"tool-input-available {"input":{"n":1},"toolCallId":"cal_1","toolName":"pick"}"#,
        "finish-step",
        r#"finish {"finishReason":"tool-calls"}"#,
    ];
    assert_eq!(stream.lines().await, lines);
    assert_eq!(world.server.status("chat").await, "idle");
    assert_eq!(world.server.get("/client-tools/calls").await.body, json!([]));
    world.server.get("/api/chat/chat/stream").await.must_be(204, &json!(""));

    let (message, calls) = open_calls(&stream);
    world.model.will_say("Five.");
    let body = going_on(&message, &[ran("pick", &calls[0], json!({ "n": 5 }))]);
    let mut stream = world.server.chat(&body).await;
    assert_eq!(stream.lines().await, text_of("Five."));
    assert_eq!(stream.seen()[0]["messageId"], message);
    assert_eq!(world.model.last_shown().results, [r#"{"n":5}"#]);
    let history = ["user | go", r#"assistant | pick {"n":1} → {"n":5} | <tool-calls>"#, "assistant | Five. | <stop>"];
    assert_eq!(world.history("chat").await, history);
}

#[tokio::test]
async fn every_kind_of_output_reaches_the_model_as_it_is() {
    let world = World::start().await;
    let error = |state: Value| {
        let mut part = ran("pick", "", json!(null));
        part["state"] = "output-error".into();
        part.as_object_mut().unwrap().remove("output");
        part.as_object_mut().unwrap().extend(state.as_object().unwrap().clone());
        part
    };
    let mut bare = ran("pick", "", json!(null));
    bare.as_object_mut().unwrap().remove("output");
    let mut dynamic = ran("pick", "", json!(7));
    dynamic["type"] = "dynamic-tool".into();
    dynamic["toolName"] = "pick".into();
    let cases = [
        (ran("pick", "", json!("text")), "text"),
        (ran("pick", "", json!(null)), "null"),
        (ran("pick", "", json!([1, "a", {}])), r#"[1,"a",{}]"#),
        (bare, "null"),
        (dynamic, "7"),
        (error(json!({ "errorText": "no luck" })), "no luck"),
        (error(json!({})), "The page failed and does not say why"),
        (error(json!({ "errorText": null })), "The page failed and does not say why"),
    ];
    for (part, told) in cases {
        let (message, calls) = with_calls(&world, &[("pick", json!({}))]).await;
        let mut part = part.clone();
        part["toolCallId"] = calls[0].as_str().into();
        world.model.will_say("Done.");
        world.server.chat_lines(&going_on(&message, &[part.clone()])).await;
        assert_eq!(world.model.last_shown().results, [told], "{part}");
        world.server.delete("/session/chat", json!({})).await.must_be(200, &json!(true));
    }
}

#[tokio::test]
async fn an_output_on_several_lines_does_not_break_the_stream() {
    let world = World::start().await;
    let (message, calls) = with_calls(&world, &[("pick", json!({}))]).await;
    let body = going_on(&message, &[ran("pick", &calls[0], json!({ "a": [1, 2] }))]);
    let pretty = serde_json::to_string_pretty(&body).unwrap().replace('\n', "\n\n");
    world.model.will_say("Done.");
    let request = world.server.request(reqwest::Method::POST, "/api/chat").body(pretty);
    assert_eq!(ChatStream::open(request).await.lines().await, text_of("Done."));
    // The whole of it, told again.
    let lines = world.server.chat_lines(&picking("chat", "u1")).await;
    assert_eq!(lines[4], r#"tool-output-available {"output":{"a":[1,2]},"toolCallId":"cal_1"}"#);
}

#[tokio::test]
async fn what_the_page_leaves_out_it_has_not_run() {
    let world = World::start().await;
    let (message, calls) = with_calls(&world, &[("pick", json!({ "n": 1 })), ("pick", json!({ "n": 2 }))]).await;
    world.model.will_say("Done.");
    let open = json!({ "type": "tool-pick", "toolCallId": calls[1], "state": "input-available", "input": {} });
    let lines = world.server.chat_lines(&going_on(&message, &[ran("pick", &calls[0], json!(1)), open])).await;
    // The page is told of the call that was ended for it.
    let mut expected = text_of("Done.");
    let ended = r#"tool-output-error {"errorText":"The page did not run this call","toolCallId":"cal_1"}"#;
    expected.splice(1..1, [ended.to_owned(), "finish-step".to_owned()]);
    assert_eq!(lines, expected);
    assert_eq!(world.model.last_shown().results, ["1", "The page did not run this call"]);
}

#[tokio::test]
async fn stored_results_win_over_what_the_page_says() {
    let world = World::start().await;
    world.model.will_call(&[
        ("pick", json!({})),
        ("open-url", json!({ "url": "http://a/" })),
        ("list_tools", json!({})),
    ]);
    let mut stream = world.server.chat(&picking("chat", "u1")).await;
    let mut ids = std::collections::BTreeMap::new();
    while ids.len() < 3 {
        let chunk = stream.until("tool-input-available").await;
        ids.insert(chunk["toolName"].as_str().unwrap().to_owned(), chunk["toolCallId"].as_str().unwrap().to_owned());
    }
    world.server.ack_success(&ids["open-url"], json!("really")).await;
    stream.lines().await;
    let (message, _) = open_calls(&stream);
    world.model.will_say("Done.");
    let forged = [
        ran("open-url", &ids["open-url"], json!("forged")),
        ran("list_tools", &ids["list_tools"], json!("forged")),
        ran("pick", &ids["pick"], json!("picked")),
        ran("pick", &ids["pick"], json!("picked twice")),
        ran("pick", "cal_nobody", json!("nothing")),
    ];
    world.server.chat_lines(&going_on(&message, &forged)).await;
    let results = world.model.last_shown().results;
    assert_eq!(results[0], "picked");
    assert_eq!(results[1], r#"{"status":"success","output":"really"}"#);
    assert!(results[2].starts_with("[{\"name\":\"open-url\""), "{results:?}");
    // Over, and said again differently: nothing changes, and the model is not asked again.
    let before = world.history("chat").await;
    let lines = world.server.chat_lines(&going_on(&message, &[ran("pick", &ids["pick"], json!("other"))])).await;
    assert_eq!(lines, text_of("Done."));
    assert_eq!(world.history("chat").await, before);
    assert_eq!(world.model.shown().len(), 2);
}

#[tokio::test]
async fn a_continuation_that_comes_twice_is_one() {
    let world = World::start().await;
    let (message, calls) = with_calls(&world, &[("pick", json!({}))]).await;
    let body = going_on(&message, &[ran("pick", &calls[0], json!(1))]);
    let (mut one, mut two) = tokio::join!(world.server.chat(&body), world.server.chat(&body));
    world.model.asked().await.answer("Once.");
    assert_eq!(one.lines().await, text_of("Once."));
    assert_eq!(two.lines().await, text_of("Once."));
    // And after it: its answer is told again.
    assert_eq!(world.server.chat_lines(&body).await, text_of("Once."));
    assert_eq!(world.model.shown().len(), 2);
    assert_eq!(world.history("chat").await.len(), 3);
}

#[tokio::test]
async fn a_continuation_that_comes_late_does_not_answer_the_calls_after_it() {
    let world = World::start().await;
    let (message, calls) = with_calls(&world, &[("pick", json!({ "n": 1 }))]).await;
    let first = going_on(&message, &[ran("pick", &calls[0], json!(1))]);
    world.model.will_call(&[("pick", json!({ "n": 2 }))]);
    let mut stream = world.server.chat(&first).await;
    let lines = stream.lines().await;
    let (_, second) = open_calls(&stream);
    // Its answer was lost on its way, and the page says it again: the second call is handed out, not given up.
    let mut stream = world.server.chat(&first).await;
    assert_eq!(stream.lines().await, lines);
    assert_eq!(open_calls(&stream), (message.clone(), second.clone()));
    world.model.will_say("Three.");
    let body = going_on(&message, &[ran("pick", &calls[0], json!(1)), ran("pick", &second[0], json!(2))]);
    assert_eq!(world.server.chat_lines(&body).await, text_of("Three."));
    assert_eq!(world.model.last_shown().results, ["2"]);
}

#[tokio::test]
async fn a_user_who_goes_on_without_the_result_is_answered() {
    let world = World::start().await;
    let (message, calls) = with_calls(&world, &[("pick", json!({}))]).await;
    world.model.will_say("Never mind.");
    let open = json!({ "type": "tool-pick", "toolCallId": calls[0], "state": "input-available", "input": {} });
    let messages = [user("u1", "go"), assistant(&message, json!([open])), user("u2", "forget it")];
    let body = json!({ "id": "chat", "messages": messages, "tools": page_tools() });
    assert_eq!(world.server.chat_lines(&body).await.len(), 7);
    let shown = world.model.last_shown().conversation;
    let call = "assistant | pick {} ✗ The page did not answer this call; its outcome is unknown.";
    assert_eq!(shown, ["user | go", call, "user | forget it"]);
}

#[tokio::test]
async fn the_tools_of_a_page_are_there_while_it_brings_them() {
    let world = World::start().await;
    world.model.will_say("Yes.");
    world.server.chat_lines(&picking("chat", "u1")).await;
    assert_eq!(world.model.last_shown().aliases(), ["list_tools", "open-url", "pick"]);
    let pick = world.model.last_shown().tools.pop().unwrap();
    let schema = json!({ "type": "object", "properties": { "n": { "type": "integer" } } });
    let expected =
        json!({ "alias": "pick", "id": "pick", "name": "pick", "description": "Lets the user pick", "schema": schema });
    assert_eq!(pick, expected);
    world.model.will_say("No.");
    world.server.chat_lines(&saying("chat", "u2", "and now")).await;
    assert_eq!(world.model.last_shown().aliases(), ["list_tools", "open-url"]);
}

#[tokio::test]
async fn results_that_come_when_the_conversation_has_gone_on_are_kept_and_the_page_is_told() {
    let world = World::start().await;
    let (message, calls) = with_calls(&world, &[("pick", json!({}))]).await;
    world.model.will_say("Something else.");
    world.server.chat_lines(&saying("chat", "u2", "never mind")).await;
    let late = going_on(&message, &[ran("pick", &calls[0], json!("blue"))]);
    assert_eq!(world.server.refused_chat(&late).await.status, 409);
    let page = world.page("chat").await;
    assert_eq!(
        (&page[1]["parts"][1]["state"], &page[1]["parts"][1]["output"]),
        (&json!("output-available"), &json!("blue"))
    );
    assert_eq!(page.len(), 4);
    assert_eq!(world.model.shown().len(), 2);
}

#[tokio::test]
async fn calls_that_nobody_knows_are_nothing_to_go_on_with() {
    let world = World::start().await;
    with_calls(&world, &[("pick", json!({}))]).await;
    let before = world.page("chat").await;
    let unknown = going_on("msg", &[ran("pick", "cal_unknown", json!(1))]);
    assert_eq!(world.server.refused_chat(&unknown).await.status, 400);
    assert_eq!(world.page("chat").await, before);
}
