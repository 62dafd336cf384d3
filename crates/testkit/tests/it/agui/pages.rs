//! Calls that are the page's own: the run ends with them, and the next brings the results.

use handback_core::sessions::ModelEvent;
use handback_core::store::TurnError;
use handback_testkit::agui::{Generation, Page, result as ran};
use handback_testkit::model::called;
use serde_json::{Value, json};

use super::{World, call, calls, result, run, run_1_0, text};

#[tokio::test]
async fn a_run_ends_with_the_open_call_and_the_next_one_goes_on() {
    let world = World::start().await;
    world.model.will_call(&[("pick", json!({ "n": 1 }))]);
    let mut page = Page::new("t");
    page.say("u1", "go");
    let mut stream = page.run(&world.server).await;
    assert_eq!(stream.lines().await, run(1, &[&call("cal_1", "pick", r#"{"n":1}"#)]));
    assert_eq!(world.server.status("t").await, "idle");
    assert_eq!(world.server.get("/client-tools/calls").await.body, json!([]));
    page.answer(&stream.calls("pick")[0], "Five");
    world.model.will_say("It is five.");
    assert_eq!(page.run(&world.server).await.lines().await, run(2, &[&text("msg_1", "It is five.")]));
    assert_eq!(world.model.last_shown().results, ["Five"]);
    let history =
        ["user | go", r#"assistant | pick {"n":1} → Five | <tool-calls>"#, "assistant | It is five. | <stop>"];
    assert_eq!(world.history("t").await, history);
}

#[tokio::test]
async fn whoever_speaks_1_0_is_told_which_calls_are_pending() {
    let world = World::start().await;
    world.model.will_call(&[("pick", json!({ "n": 1 })), ("list_tools", json!({})), ("pick", json!({ "n": 2 }))]);
    let mut page = Page::speaking("t", Generation::New);
    page.say("u1", "go");
    let stream = page.run(&world.server).await;
    let picks = stream.calls("pick");
    let outcome = json!({ "type": "success", "pendingToolCallIds": picks });
    assert_eq!(stream.seen().last().unwrap()["outcome"], outcome);
    for pick in &picks {
        page.answer(pick, "ok");
    }
    world.model.will_say("Done.");
    let expected = run_1_0(2, &[&text("msg_1", "Done.")], &json!({ "type": "success" }));
    assert_eq!(page.run(&world.server).await.lines().await, expected);
}

#[tokio::test]
async fn text_and_calls_of_a_step_are_one_message() {
    let world = World::start().await;
    let says = handback_core::sessions::ModelEvent::Text("Let me see.".to_owned());
    world.model.will([vec![Ok(says)], called(&[("pick", "{}".to_owned()), ("pick", "{}".to_owned())])].concat());
    let mut page = Page::new("t");
    page.say("u1", "go");
    let mut stream = page.run(&world.server).await;
    let both = calls(&[("cal_1", "pick", "{}"), ("cal_2", "pick", "{}")]);
    assert_eq!(stream.lines().await, run(1, &[&text("msg_1", "Let me see."), &both]));
    assert_eq!(page.messages.len(), 2);
    assert_eq!(page.messages[1]["toolCalls"].as_array().unwrap().len(), 2);
    // The results, in any order; the model is told in its own.
    let picks = stream.calls("pick");
    page.answer(&picks[1], "two");
    page.answer(&picks[0], "one");
    world.model.will_say("Done.");
    page.run(&world.server).await;
    assert_eq!(world.model.last_shown().results, ["one", "two"]);
    assert_eq!(world.model.shown().len(), 2);
}

#[tokio::test]
async fn every_kind_of_result_reaches_the_model() {
    let world = World::start().await;
    let with = |content: Value, error: Value| json!({ "id": "x", "role": "tool", "content": content, "error": error });
    let text = |text: &str| json!({ "type": "text", "text": text });
    let image = json!({ "type": "image", "source": { "type": "data", "value": "AAAA", "mimeType": "image/png" } });
    let cases = [
        (with(json!("plain"), json!(null)), r#"pick {} → plain"#),
        (with(json!(""), json!(null)), "pick {} → "),
        (with(json!(r#"{"a":[1]}"#), json!(null)), r#"pick {} → {"a":[1]}"#),
        (with(json!("Error: it threw"), json!(null)), "pick {} → Error: it threw"),
        (with(json!("it threw"), json!("it threw")), "pick {} ✗ it threw"),
        (with(json!(""), json!("it threw")), "pick {} ✗ it threw"),
        (with(json!("half of it"), json!("it threw")), "pick {} ✗ it threw\nhalf of it"),
        (with(json!("fine"), json!("")), "pick {} → fine"),
        (with(json!([text("a"), text("b"), image]), json!(null)), "pick {} → a\nb [image/png]"),
    ];
    for (mut message, line) in cases {
        let (mut page, calls) = world.with_calls(&[("pick", json!({}))]).await;
        message["toolCallId"] = calls[0].as_str().into();
        page.messages.push(message);
        world.model.will_say("Done.");
        assert_eq!(page.run(&world.server).await.last().await["type"], "RUN_FINISHED");
        assert_eq!(world.model.last_shown().conversation[1], format!("assistant | {line}"));
        world.server.delete("/session/t", json!({})).await.must_be(200, &json!(true));
    }
}

#[tokio::test]
async fn runs_go_on_as_often_as_the_model_calls() {
    let world = World::start().await;
    let (mut page, mut calls) = world.with_calls(&[("pick", json!({ "n": 0 }))]).await;
    for number in 1..4 {
        page.answer(&calls[0], format!("{number}"));
        world.model.will_call(&[("pick", json!({ "n": number }))]);
        let mut stream = page.run(&world.server).await;
        let arguments = json!({ "n": number }).to_string();
        assert_eq!(stream.lines().await, run(number + 1, &[&call("cal_1", "pick", &arguments)]));
        calls = stream.calls("pick");
        assert_eq!(world.model.last_shown().results, [number.to_string()]);
    }
    page.answer(&calls[0], "4");
    world.model.will_say("Done.");
    assert_eq!(page.run(&world.server).await.lines().await, run(5, &[&text("msg_1", "Done.")]));
    let picked = (0..4).map(|n| format!(r#"assistant | pick {{"n":{n}}} → {}"#, n + 1));
    let conversation: Vec<String> = ["user | go".to_owned()].into_iter().chain(picked).collect();
    assert_eq!(world.model.last_shown().conversation, conversation);
}

#[tokio::test]
async fn what_the_page_leaves_out_it_has_not_run() {
    let world = World::start().await;
    let (mut page, calls) = world.with_calls(&[("pick", json!({ "n": 1 })), ("pick", json!({ "n": 2 }))]).await;
    page.answer(&calls[1], "two");
    world.model.will_say("Done.");
    let stream = page.run(&world.server).await;
    assert_eq!(stream.seen().last().unwrap()["type"], "RUN_FINISHED");
    assert_eq!(world.model.last_shown().results, ["The page did not run this call", "two"]);
    let history = world.history("t").await;
    assert_eq!(
        history[1],
        r#"assistant | pick {"n":1} ✗ The page did not run this call | pick {"n":2} → two | <tool-calls>"#
    );
}

#[tokio::test]
async fn a_call_that_does_not_fit_is_over_within_the_run() {
    let world = World::start().await;
    let bad = [
        (r#"{"n":"x"}"#, "Invalid input: at /n: \"x\" is not of type \"integer\""),
        ("[1]", "Invalid input: the arguments must be a JSON object, not `[1]`"),
        ("{\"n\":", "Invalid input: the arguments are not JSON: EOF while parsing a value at line 1 column 5"),
    ];
    for (number, (arguments, error)) in bad.into_iter().enumerate() {
        world.model.will(called(&[("pick", arguments.to_owned())]));
        world.model.will_say("Oh.");
        let mut page = Page::new("t");
        page.say(&format!("u{number}"), "go");
        let middle: [&[String]; 3] =
            [&call("cal_1", "pick", arguments), &result("prt_1", "cal_1", error), &text("msg_2", "Oh.")];
        assert_eq!(page.run(&world.server).await.lines().await, run(1, &middle));
        assert_eq!(world.model.last_shown().results, [error]);
    }
}

#[tokio::test]
async fn a_tool_that_nobody_has_is_over_within_the_run() {
    let world = World::start().await;
    world.model.will_call(&[("nobody", json!({})), ("pick", json!({}))]);
    let mut page = Page::new("t");
    page.say("u1", "go");
    let mut stream = page.run(&world.server).await;
    let error = "There is no tool `nobody`. There is: list_tools, pick";
    let lines = stream.lines().await;
    let told = result("prt_1", "cal_1", error);
    assert_eq!(lines.iter().filter(|line| **line == told[0]).count(), 1, "{lines:#?}");
    assert_eq!(lines.len(), 2 + 3 + 3 + 1);
    page.answer(&stream.calls("pick")[0], "ok");
    world.model.will_say("Done.");
    page.run(&world.server).await;
    assert_eq!(world.model.last_shown().results, [error, "ok"]);
}

#[tokio::test]
async fn calls_whose_arguments_come_interleaved_are_told_so() {
    use handback_core::sessions::ModelEvent::{Arguments, CallEnded, CallStarted, Stop};
    use handback_core::store::StopReason;
    let world = World::start().await;
    let begins = |index, id: &str| Ok(CallStarted { index, id: id.to_owned(), name: "pick".to_owned() });
    let grows = |index, delta: &str| Ok(Arguments { index, delta: delta.to_owned() });
    world.model.will(vec![
        begins(0, "a"),
        begins(1, "b"),
        grows(1, "{\"n\""),
        grows(0, "{\"n\":"),
        grows(1, ":2}"),
        grows(0, ""),
        Ok(CallEnded { index: 1, kept: None }),
        grows(0, "1}"),
        Ok(CallEnded { index: 0, kept: None }),
        Ok(Stop(StopReason::ToolCalls)),
    ]);
    let mut page = Page::new("t");
    page.say("u1", "go");
    let stream = page.run(&world.server).await;
    let arguments = |place: usize| page.messages[1]["toolCalls"][place]["function"]["arguments"].clone();
    assert_eq!([arguments(0), arguments(1)], [json!("{\"n\":1}"), json!("{\"n\":2}")]);
    assert_eq!(stream.calls("pick").len(), 2);
}

#[tokio::test]
async fn a_call_without_arguments_has_an_empty_object() {
    use handback_core::sessions::ModelEvent::{CallEnded, CallStarted, Stop};
    use handback_core::store::StopReason;
    let world = World::start().await;
    world.model.will(vec![
        Ok(CallStarted { index: 0, id: String::new(), name: "pick".to_owned() }),
        Ok(CallEnded { index: 0, kept: None }),
        Ok(Stop(StopReason::ToolCalls)),
    ]);
    let mut page = Page::new("t");
    page.say("u1", "go");
    assert_eq!(page.run(&world.server).await.lines().await, run(1, &[&call("cal_1", "pick", "{}")]));
}

#[tokio::test]
async fn results_of_calls_that_nobody_made_are_passed_over() {
    let world = World::start().await;
    let (mut page, calls) = world.with_calls(&[("pick", json!({}))]).await;
    page.messages.push(ran("x", "cal_nobody", "forged"));
    page.answer(&calls[0], "ok");
    page.answer(&calls[0], "twice");
    world.model.will_say("Done.");
    page.run(&world.server).await;
    assert_eq!(world.model.last_shown().results, ["ok"]);
}

#[tokio::test]
async fn the_tools_are_those_of_each_run() {
    let world = World::start().await;
    let (mut page, calls) = world.with_calls(&[("pick", json!({}))]).await;
    assert_eq!(world.model.last_shown().aliases(), ["list_tools", "pick"]);
    page.answer(&calls[0], "ok");
    page.tools = json!([{ "name": "zoom", "description": "Zooms" }]);
    world.model.will_call(&[("zoom", json!({ "any": 1 })), ("pick", json!({}))]);
    let stream = page.run(&world.server).await;
    assert_eq!(world.model.last_shown().aliases(), ["list_tools", "zoom"]);
    // What it has no more is unknown, and what it has is its to run.
    page.answer(&stream.calls("zoom")[0], "zoomed");
    world.model.will_say("Done.");
    page.run(&world.server).await;
    assert_eq!(world.model.last_shown().results, ["zoomed", "There is no tool `pick`. There is: list_tools, zoom"]);
}

#[tokio::test]
async fn context_and_model_are_those_of_each_run() {
    let world = World::start().await;
    let context = |entries: &str| json!([{ "description": "The list", "value": entries }]);
    let mut page = Page::new("t");
    page.say("u1", "go");
    page.more = json!({ "context": context("empty") });
    world.model.will_call(&[("pick", json!({}))]);
    let stream = page.run(&world.server).await;
    let first = world.model.last_shown();
    assert_eq!((first.model.as_str(), first.system.as_deref()), ("one", Some("The list: empty")));
    // What the page has run has changed it.
    page.answer(&stream.calls("pick")[0], "one entry more");
    page.more = json!({ "context": context("one entry"), "forwardedProps": { "model": "fake/two" } });
    world.model.will(vec![Err(TurnError::Other("broken".to_owned()))]);
    page.run(&world.server).await;
    let second = world.model.last_shown();
    assert_eq!((second.model.as_str(), second.system.as_deref()), ("two", Some("The list: one entry")));
    // And when it is tried again.
    page.more = json!({ "context": context("two entries") });
    world.model.will_say("Done.");
    page.run(&world.server).await;
    let third = world.model.last_shown();
    assert_eq!((third.model.as_str(), third.system.as_deref()), ("one", Some("The list: two entries")));
    assert_eq!(third.results, ["one entry more"]);
}

#[tokio::test]
async fn a_result_may_stand_right_behind_the_message_with_its_call() {
    let world = World::start().await;
    let mut says = called(&[("pick", r#"{"n":1}"#.to_owned())]);
    says.insert(says.len() - 1, Ok(ModelEvent::Text("Please pick.".to_owned())));
    world.model.will(says);
    let mut page = Page::new("t");
    page.say("u1", "go");
    let stream = page.run(&world.server).await;
    let roles = |page: &Page| page.messages.iter().map(|message| message["role"].clone()).collect::<Vec<_>>();
    assert_eq!(roles(&page), ["user", "assistant", "assistant"]);
    page.answer(&stream.calls("pick")[0], "five");
    page.messages.swap(2, 3);
    assert_eq!(roles(&page), ["user", "assistant", "tool", "assistant"]);
    let input = page.input();
    world.model.will_say("It is five.");
    let lines = world.server.agui(&input).await.lines().await;
    assert_eq!(lines, run(2, &[&text("msg_1", "It is five.")]));
    assert_eq!(world.model.last_shown().results, ["five"]);
    assert_eq!(world.model.shown().len(), 2);
}
