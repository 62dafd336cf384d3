//! Calls that are held: the stream stays open until their results are there, and goes on with them.

use handback_core::sessions::ModelEvent;
use handback_core::tools::Permission;
use handback_testkit::chat::saying;
use handback_testkit::model::called;
use handback_testkit::session::permit;
use handback_testkit::{FakeModel, TestServer};
use serde_json::{Value, json};

use super::{World, picking, url};

#[tokio::test]
async fn a_text_is_a_whole_stream_with_the_headers_of_one() {
    let world = World::start().await;
    world.model.will_say("Hello.");
    let mut stream = world.server.chat(&saying("chat", "u1", "hi")).await;
    let header = |name: &str| stream.headers.get(name).map(|value| value.to_str().unwrap().to_owned());
    assert_eq!(header("content-type").as_deref(), Some("text/event-stream"));
    assert_eq!(header("x-vercel-ai-ui-message-stream").as_deref(), Some("v1"));
    assert_eq!(header("cache-control").as_deref(), Some("no-cache"));
    assert_eq!(header("x-accel-buffering").as_deref(), Some("no"));
    let lines = [
        r#"start {"messageId":"msg_1"}"#,
        "start-step",
        r#"text-start {"id":"prt_1"}"#,
        r#"text-delta {"delta":"Hello.","id":"prt_1"}"#,
        r#"text-end {"id":"prt_1"}"#,
        "finish-step",
        r#"finish {"finishReason":"stop"}"#,
    ];
    assert_eq!(stream.lines().await, lines);
    assert_eq!(world.history("chat").await, ["user | hi", "assistant | Hello. | <stop>"]);
}

#[tokio::test]
async fn thoughts_and_texts_come_as_they_are_said() {
    let world = World::start().await;
    let mut stream = world.server.chat(&saying("chat", "u1", "hi")).await;
    let asked = world.model.asked().await;
    asked.say(ModelEvent::Reasoning("Hm\n".to_owned()));
    assert_eq!(stream.until("reasoning-delta").await["delta"], "Hm\n");
    asked.say(ModelEvent::Reasoning("m.".to_owned()));
    assert_eq!(stream.until("reasoning-delta").await["delta"], "m.");
    asked.say(ModelEvent::Text("A\u{1f600}\u{2028}".to_owned()));
    assert_eq!(stream.until("text-delta").await["delta"], "A\u{1f600}\u{2028}");
    asked.answer("\n\ndata: [DONE]\n\n");
    let lines = [
        r#"start {"messageId":"msg_1"}"#,
        "start-step",
        r#"reasoning-start {"id":"prt_1"}"#,
        r#"reasoning-delta {"delta":"Hm\nm.","id":"prt_1"}"#,
        r#"reasoning-end {"id":"prt_1"}"#,
        r#"text-start {"id":"prt_2"}"#,
        "text-delta {\"delta\":\"A\u{1f600}\u{2028}\\n\\ndata: [DONE]\\n\\n\",\"id\":\"prt_2\"}",
        r#"text-end {"id":"prt_2"}"#,
        "finish-step",
        r#"finish {"finishReason":"stop"}"#,
    ];
    assert_eq!(stream.lines().await, lines);
}

#[tokio::test]
async fn an_ack_goes_on_in_the_same_stream_with_a_step_of_its_own() {
    let world = World::start().await;
    world.model.will_call(&[("open-url", url())]);
    world.model.will_say("It is open.");
    let mut stream = world.server.chat(&saying("chat", "u1", "open it")).await;
    let call = stream.call().await;
    world.server.ack_success(&call, json!({ "viewKey": "v" })).await;
    let lines = [
        r#"start {"messageId":"msg_1"}"#,
        "start-step",
        r#"tool-input-start {"toolCallId":"cal_1","toolName":"open-url"}"#,
        r#"tool-input-delta {"inputTextDelta":"{\"url\":\"https://example.org/\"}","toolCallId":"cal_1"}"#,
        r#"tool-input-available {"input":{"url":"https://example.org/"},"toolCallId":"cal_1","toolName":"open-url"}"#,
        r#"tool-output-available {"output":{"output":{"viewKey":"v"},"status":"success"},"toolCallId":"cal_1"}"#,
        "finish-step",
        "start-step",
        r#"text-start {"id":"prt_1"}"#,
        r#"text-delta {"delta":"It is open.","id":"prt_1"}"#,
        r#"text-end {"id":"prt_1"}"#,
        "finish-step",
        r#"finish {"finishReason":"stop"}"#,
    ];
    assert_eq!(stream.lines().await, lines);
    let told = r#"{"status":"success","output":{"viewKey":"v"}}"#;
    assert_eq!(world.model.last_shown().results, [told]);
    let call = format!("assistant | open-url {} → {told} | <tool-calls>", url());
    assert_eq!(world.history("chat").await, ["user | open it", &call, "assistant | It is open. | <stop>"]);
}

#[tokio::test]
async fn parallel_calls_are_handed_out_at_once_and_answered_in_any_order() {
    let world = World::start().await;
    let wanted: Vec<(&str, Value)> =
        (0..8).map(|number| ("open-url", json!({ "url": format!("http://a/{number}") }))).collect();
    world.model.will_call(&wanted);
    world.model.will_say("Done.");
    let mut stream = world.server.chat(&saying("chat", "u1", "go")).await;
    let mut calls = Vec::new();
    for (_, input) in &wanted {
        let chunk = stream.until("tool-input-available").await;
        assert_eq!(&chunk["input"], input);
        calls.push(chunk["toolCallId"].as_str().unwrap().to_owned());
    }
    for (number, call) in calls.iter().enumerate().rev() {
        world.server.ack_success(call, json!(number)).await;
        let chunk = stream.until("tool-output-available").await;
        assert_eq!((&chunk["toolCallId"], &chunk["output"]["output"]), (&json!(call), &json!(number)));
    }
    stream.lines().await;
    let expected: Vec<String> = (0..8).map(|number| format!(r#"{{"status":"success","output":{number}}}"#)).collect();
    assert_eq!(world.model.last_shown().results, expected);
}

#[tokio::test]
async fn the_scripted_model_makes_several_calls_of_several_lines() {
    let server = TestServer::start().await;
    let text = "call open-url {\"url\":\"http://a/1\"}\ncall open-url {\"url\":\"http://a/2\"}\ncall list_tools {}";
    let mut stream = server.chat(&saying("chat", "u1", text)).await;
    let mut handed_out = Vec::new();
    for _ in 0..3 {
        handed_out.push(stream.until("tool-input-available").await);
    }
    let mut urls: Vec<&str> = handed_out.iter().filter_map(|chunk| chunk["input"]["url"].as_str()).collect();
    urls.sort_unstable();
    assert_eq!(urls, ["http://a/1", "http://a/2"]);
    for chunk in handed_out.iter().filter(|chunk| chunk["toolName"] == "open-url") {
        server.ack_success(chunk["toolCallId"].as_str().unwrap(), json!("opened")).await;
    }
    let lines = stream.lines().await;
    assert_eq!(lines.iter().filter(|line| line.starts_with("tool-output-available")).count(), 3);
    assert_eq!(lines.last().unwrap(), r#"finish {"finishReason":"stop"}"#);
}

#[tokio::test]
async fn what_others_run_is_marked_so_and_shown_in_the_same_stream() {
    let world = World::start().await;
    world.server.register("tab", &["t"]).await;
    let mut client = world.server.stream("tab").await;
    world.model.will_call(&[("client_tab_t", json!({ "a": 1 })), ("list_tools", json!({}))]);
    world.model.will_say("Done.");
    let mut body = saying("chat", "u1", "go");
    body["clientID"] = "tab".into();
    let mut stream = world.server.chat(&body).await;
    let call = client.next_call().await;
    assert_eq!((&call["sessionID"], &call["input"]), (&json!("chat"), &json!({ "a": 1 })));
    world.server.answer(call["requestID"].as_str().unwrap(), "two\nlines").await;
    let lines = stream.lines().await;
    for line in [
        r#"tool-input-available {"input":{"a":1},"providerExecuted":true,"toolCallId":"cal_1","toolName":"client_tab_t"}"#,
        r#"tool-input-available {"input":{},"providerExecuted":true,"toolCallId":"cal_2","toolName":"list_tools"}"#,
        r#"tool-output-available {"output":"two\nlines","toolCallId":"cal_1"}"#,
    ] {
        assert_eq!(lines.iter().filter(|known| *known == line).count(), 1, "{line}: {lines:#?}");
    }
    assert_eq!(lines.last().unwrap(), r#"finish {"finishReason":"stop"}"#);
}

#[tokio::test]
async fn held_yielded_and_server_calls_in_one_step_end_it_when_all_that_is_held_is_over() {
    let world = World::start().await;
    world.model.will_call(&[("pick", json!({ "n": 1 })), ("open-url", url()), ("list_tools", json!({}))]);
    let mut stream = world.server.chat(&picking("chat", "u1")).await;
    let mut handed_out = Vec::new();
    for _ in 0..3 {
        let chunk = stream.until("tool-input-available").await;
        handed_out.push((chunk["toolName"].as_str().unwrap().to_owned(), chunk));
    }
    let held = handed_out.iter().find(|(name, _)| name == "open-url").unwrap().1["toolCallId"].as_str().unwrap();
    world.server.ack_success(held, json!(1)).await;
    let lines = stream.lines().await;
    assert_eq!(&lines[lines.len() - 2..], ["finish-step", r#"finish {"finishReason":"tool-calls"}"#]);
    // The page's own call is open, and the model was asked once.
    assert_eq!(lines.iter().filter(|line| line.starts_with("tool-output")).count(), 2);
    assert_eq!(world.model.shown().len(), 1);
    assert_eq!(world.server.status("chat").await, "idle");
}

#[tokio::test]
async fn input_that_does_not_fit_is_told_as_such_and_not_delivered() {
    let world = World::start().await;
    let bad = [
        ("open-url", "{}", "{}", "Invalid input: the input: \"url\" is a required property"),
        (
            "open-url",
            r#"{"url":"javascript:alert(1)"}"#,
            r#"{"url":"javascript:alert(1)"}"#,
            "Invalid input: at /url: \"javascript:alert(1)\" does not match \"^[hH][tT][tT][pP][sS]?://\"",
        ),
        (
            "open-url",
            r#"{"url":"http://a/","timeoutSec":"5"}"#,
            r#"{"timeoutSec":"5","url":"http://a/"}"#,
            "Invalid input: at /timeoutSec: \"5\" is not of type \"number\"",
        ),
        ("open-url", "[1]", "{}", "Invalid input: the arguments must be a JSON object, not `[1]`"),
        (
            "open-url",
            "{\"url\":",
            "{}",
            "Invalid input: the arguments are not JSON: EOF while parsing a value at line 1 column 7",
        ),
        ("pick", r#"{"n":"x"}"#, r#"{"n":"x"}"#, "Invalid input: at /n: \"x\" is not of type \"integer\""),
        ("nobody", "{}", "{}", "There is no tool `nobody`. There is: list_tools, open-url, pick"),
    ];
    for (number, (tool, arguments, input, error)) in bad.into_iter().enumerate() {
        world.model.will(called(&[(tool, arguments.to_owned())]));
        world.model.will_say("Oh.");
        let lines = world.server.chat_lines(&picking("chat", &format!("u{number}"))).await;
        let input: Value = serde_json::from_str(input).unwrap();
        let told = json!({ "errorText": error, "input": input, "toolCallId": "cal_1", "toolName": tool });
        let expected = [
            r#"start {"messageId":"msg_1"}"#.to_owned(),
            "start-step".to_owned(),
            format!("tool-input-start {}", json!({ "toolCallId": "cal_1", "toolName": tool })),
            format!("tool-input-delta {}", json!({ "inputTextDelta": arguments, "toolCallId": "cal_1" })),
            format!("tool-input-error {told}"),
            "finish-step".to_owned(),
            "start-step".to_owned(),
            r#"text-start {"id":"prt_1"}"#.to_owned(),
            r#"text-delta {"delta":"Oh.","id":"prt_1"}"#.to_owned(),
            r#"text-end {"id":"prt_1"}"#.to_owned(),
            "finish-step".to_owned(),
            r#"finish {"finishReason":"stop"}"#.to_owned(),
        ];
        assert_eq!(lines, expected);
        assert_eq!(world.model.last_shown().results, [error]);
    }
    assert_eq!(world.server.get("/client-tools/calls").await.body, json!([]));
}

#[tokio::test]
async fn a_denied_tool_is_not_handed_out() {
    let world = World::with(|config| permit(config, Permission::Deny)).await;
    for (number, tool) in ["open-url", "pick"].into_iter().enumerate() {
        world.model.will_call(&[(tool, url())]);
        world.model.will_say("I may not.");
        let lines = world.server.chat_lines(&picking("chat", &format!("u{number}"))).await;
        let told = json!({
            "errorText": "This tool is not allowed here", "input": url(), "toolCallId": "cal_1", "toolName": tool,
        });
        assert_eq!(lines[4], format!("tool-input-error {told}"));
        assert_eq!(lines.last().unwrap(), r#"finish {"finishReason":"stop"}"#);
        assert_eq!(world.model.last_shown().results, ["This tool is not allowed here"]);
    }
}

#[tokio::test]
async fn the_page_may_choose_model_and_agent() {
    let model = FakeModel::default();
    let server = TestServer::with_extensions(
        |config| {
            let agent = handback_server::config::Agent { system: Some("Be brief.".to_owned()), ..Default::default() };
            config.agents.insert("short".to_owned(), agent);
        },
        model.extensions(),
    )
    .await;
    model.will_say("Hi.");
    let mut body = saying("chat", "u1", "hi");
    body["model"] = "fake/two".into();
    body["agent"] = "short".into();
    assert_eq!(server.chat_lines(&body).await.len(), 7);
    let shown = model.last_shown();
    assert_eq!((shown.model.as_str(), shown.system.as_deref()), ("two", Some("Be brief.")));
}
