//! Calls that the server or a registered client runs within the run, alone and beside the page's own.

use std::sync::Arc;

use handback_core::store::{ModelRef, ToolResult};
use handback_core::tools::{Before, BoxFuture, Hook, HookedCall, Permission};
use handback_server::app::Extensions;
use handback_testkit::agui::{Generation, Page};
use handback_testkit::client::{failure, success};
use handback_testkit::model::MODEL;
use handback_testkit::session::permit;
use handback_testkit::{FakeModel, ScriptedClient, TestServer};
use serde_json::value::to_raw_value;
use serde_json::{Value, json};

use super::{World, call, calls, result, run, text};

/// A page of the client `tab`.
fn page_of_tab() -> Page {
    let mut page = Page::new("t");
    page.more = json!({ "forwardedProps": { "clientID": "tab" } });
    page.say("u1", "go");
    page
}

#[tokio::test]
async fn a_clients_tool_is_run_within_the_run() {
    let world = World::start().await;
    world.server.register("tab", &["t"]).await;
    let mut client = world.server.stream("tab").await;
    world.model.will_call(&[("client_tab_t", json!({ "a": 1 }))]);
    world.model.will_say("Done.");
    let mut page = page_of_tab();
    let mut stream = page.begin(&world.server).await;
    let told = client.next_call().await;
    assert_eq!((&told["sessionID"], &told["input"]), (&json!("t"), &json!({ "a": 1 })));
    // It is told while it runs, and its result when there is one.
    assert_eq!(stream.until("TOOL_CALL_END").await["toolCallId"], told["callID"]);
    world.server.answer(told["requestID"].as_str().unwrap(), "two\nlines").await;
    page.read(&mut stream).await;
    let middle: [&[String]; 3] = [
        &call("cal_1", "client_tab_t", r#"{"a":1}"#),
        &result("prt_1", "cal_1", "two\nlines"),
        &text("msg_2", "Done."),
    ];
    assert_eq!(stream.lines().await, run(1, &middle));
    // What the front end sends back of it changes nothing.
    let place = page.messages.iter().position(|message| message["role"] == "tool").unwrap();
    page.messages[place]["content"] = "forged".into();
    page.say("u2", "and?");
    world.model.will_say("Yes.");
    page.run(&world.server).await;
    let conversation =
        ["user | go", "assistant | client_tab_t {\"a\":1} → two\nlines", "assistant | Done.", "user | and?"];
    assert_eq!(world.model.last_shown().conversation, conversation);
}

#[tokio::test]
async fn a_failing_client_is_a_result() {
    let world = World::start().await;
    let _client = ScriptedClient::attach(&world.server, "tab", &["t"], |_| Some(failure("no luck"))).await;
    world.model.will_call(&[("client_tab_t", json!({}))]);
    world.model.will_say("Done.");
    let middle: [&[String]; 3] =
        [&call("cal_1", "client_tab_t", "{}"), &result("prt_1", "cal_1", "no luck"), &text("msg_2", "Done.")];
    assert_eq!(page_of_tab().run(&world.server).await.lines().await, run(1, &middle));
}

#[tokio::test]
async fn page_client_and_server_calls_of_one_step_end_the_run_when_all_that_is_held_is_over() {
    for generation in [Generation::Old, Generation::New] {
        let world = World::start().await;
        world.server.register("tab", &["t"]).await;
        let mut client = world.server.stream("tab").await;
        let wanted = [("pick", json!({ "n": 1 })), ("client_tab_t", json!({})), ("list_tools", json!({}))];
        world.model.will_call(&wanted);
        let mut page = page_of_tab();
        page.generation = generation;
        let mut stream = page.begin(&world.server).await;
        let told = client.next_call().await;
        let listed = stream.until("TOOL_CALL_RESULT").await;
        assert_eq!(stream.calls("list_tools"), [listed["toolCallId"].as_str().unwrap()]);
        world.server.answer(told["requestID"].as_str().unwrap(), "ran").await;
        page.read(&mut stream).await;
        let lines = stream.lines().await;
        let wanted =
            calls(&[("cal_1", "pick", r#"{"n":1}"#), ("cal_2", "client_tab_t", "{}"), ("cal_3", "list_tools", "{}")]);
        assert_eq!(lines[1..10], wanted);
        assert!(lines[10].starts_with("TOOL_CALL_RESULT"), "{lines:#?}");
        assert_eq!(lines[11..12], result("prt_2", "cal_2", "ran"));
        let mut finished = json!({ "runId": "r1", "threadId": "t" });
        if generation == Generation::New {
            finished["outcome"] = json!({ "type": "success", "pendingToolCallIds": ["cal_1"] });
        }
        assert_eq!(lines[12..], [format!("RUN_FINISHED {finished}")]);
        assert_eq!(world.model.shown().len(), 1);
        // The page's own is the only one that it brings a result for; the others are as they were.
        page.answer(&stream.calls("pick")[0], "picked");
        world.model.will_say("Done.");
        page.run(&world.server).await;
        let results = world.model.last_shown().results;
        assert_eq!(results[..2], ["picked", "ran"]);
        assert!(results[2].contains("client_tab_t"), "{results:?}");
    }
}

#[tokio::test]
async fn files_are_parts_of_a_result_for_whoever_speaks_1_0_alone() {
    let files = json!([
        { "mime": "image/png", "filename": "x.png", "url": "data:image/png;base64,AAAA" },
        { "mime": "audio/wav", "url": "data:audio/wav;base64,AAAA" },
        { "mime": "video/mp4", "url": "http://a/b.mp4" },
        { "mime": "application/pdf", "url": "data:application/pdf;base64,AAAA" },
    ]);
    for generation in [Generation::Old, Generation::New] {
        let world = World::start().await;
        let files = files.clone();
        let answer =
            move |_: &Value| Some(json!({ "status": "success", "output": "four files", "attachments": files }));
        let _client = ScriptedClient::attach(&world.server, "tab", &["t"], answer).await;
        world.model.will_call(&[("client_tab_t", json!({}))]);
        world.model.will_say("Nice.");
        let mut page = page_of_tab();
        page.generation = generation;
        let stream = page.run(&world.server).await;
        let told = stream.seen().iter().find(|event| event["type"] == "TOOL_CALL_RESULT").unwrap();
        let inline = |mime: &str| json!({ "type": "data", "value": "AAAA", "mimeType": mime });
        let parts = json!([
            { "type": "text", "text": "four files" },
            { "type": "image", "source": inline("image/png"), "metadata": { "filename": "x.png" } },
            { "type": "audio", "source": inline("audio/wav") },
            { "type": "video", "source": { "type": "url", "value": "http://a/b.mp4", "mimeType": "video/mp4" } },
            { "type": "document", "source": inline("application/pdf") },
        ]);
        let expected = if generation == Generation::New { parts } else { json!("four files") };
        assert_eq!(told["content"], expected);
        // The model sees them either way.
        let shown = &world.model.last_shown().conversation[1];
        assert!(shown.ends_with("four files [image/png] [audio/wav] [video/mp4] [application/pdf]"), "{shown}");
    }
}

#[tokio::test]
async fn a_denied_tool_is_over_within_the_run() {
    let world = World::with(|config| permit(config, Permission::Deny)).await;
    world.server.register("tab", &["t"]).await;
    world.model.will_call(&[("pick", json!({})), ("client_tab_t", json!({}))]);
    world.model.will_say("I may not.");
    let lines = page_of_tab().run(&world.server).await.lines().await;
    assert_eq!(world.model.last_shown().results, ["This tool is not allowed here"; 2]);
    assert_eq!(lines.iter().filter(|line| line.starts_with("TOOL_CALL_RESULT")).count(), 2);
    assert_eq!(lines[lines.len() - 4..lines.len() - 1], text("msg_2", "I may not."));
}

/// Doubles numbers, refuses 13, and signs what comes back.
struct Doubling;

impl Hook for Doubling {
    fn before<'a>(&'a self, call: HookedCall<'a>) -> BoxFuture<'a, Before> {
        let input: Value = serde_json::from_str(call.input.get()).unwrap();
        Box::pin(std::future::ready(match input["n"].as_i64() {
            Some(13) => Before::Refuse("13 is not taken".to_owned()),
            Some(n) => Before::Change(to_raw_value(&json!({ "n": n * 2 })).unwrap()),
            None => Before::Go,
        }))
    }

    fn after<'a>(&'a self, _call: HookedCall<'a>, result: ToolResult) -> BoxFuture<'a, ToolResult> {
        Box::pin(std::future::ready(result))
    }
}

#[tokio::test]
async fn the_arguments_that_a_page_is_told_are_those_that_hooks_have_made_of_them() {
    let model = FakeModel::default();
    let extensions = Extensions { hooks: vec![Arc::new(Doubling)], ..model.extensions() };
    let server = TestServer::with_extensions(|config| config.model = ModelRef::parse(MODEL).unwrap(), extensions).await;
    model.will_call(&[("pick", json!({ "n": 21 })), ("pick", json!({ "n": 13 })), ("pick", json!({}))]);
    let mut page = Page::new("t");
    page.say("u1", "go");
    let mut stream = page.run(&server).await;
    let of_call = |place: usize| page.messages[1]["toolCalls"][place]["function"]["arguments"].clone();
    assert_eq!([of_call(0), of_call(1), of_call(2)], [json!(r#"{"n":42}"#), json!(r#"{"n":13}"#), json!("{}")]);
    let lines = stream.lines().await;
    assert_eq!(
        lines.iter().filter(|line| **line == result("prt_1", "cal_2", "13 is not taken")[0]).count(),
        1,
        "{lines:#?}"
    );
    let picks = stream.calls("pick");
    page.answer(&picks[0], "ok");
    page.answer(&picks[2], "ok");
    model.will_say("Done.");
    page.run(&server).await;
    assert_eq!(model.last_shown().results, ["ok", "13 is not taken", "ok"]);
}

#[tokio::test]
async fn a_client_that_answers_while_the_page_does_not_is_waited_for() {
    let world = World::start().await;
    let _client = ScriptedClient::attach(&world.server, "tab", &["t"], |_| Some(success("ran"))).await;
    // Step by step, within one run, until the page is needed.
    world.model.will_call(&[("client_tab_t", json!({ "a": 1 }))]);
    world.model.will_call(&[("client_tab_t", json!({ "a": 2 }))]);
    world.model.will_call(&[("pick", json!({}))]);
    let mut page = page_of_tab();
    let mut stream = page.run(&world.server).await;
    let pick: Vec<String> =
        call("cal_3", "pick", "{}").into_iter().map(|line| line.replace("msg_1", "msg_3")).collect();
    let second: Vec<String> =
        call("cal_2", "client_tab_t", r#"{"a":2}"#).into_iter().map(|line| line.replace("msg_1", "msg_2")).collect();
    let middle: [&[String]; 5] = [
        &call("cal_1", "client_tab_t", r#"{"a":1}"#),
        &result("prt_1", "cal_1", "ran"),
        &second,
        &result("prt_2", "cal_2", "ran"),
        &pick,
    ];
    assert_eq!(stream.lines().await, run(1, &middle));
}
