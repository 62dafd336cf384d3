//! Front ends send the whole conversation every time, and sometimes the same again: what is known stays as it is.

use std::sync::Arc;

use futures_util::future::join_all;
use handback_core::sessions::ModelEvent;
use handback_core::store::{ModelRef, ToolResult, TurnError};
use handback_core::tools::{BoxFuture, Hook, HookedCall};
use handback_server::app::Extensions;
use handback_testkit::agui::Page;
use handback_testkit::chat::saying;
use handback_testkit::model::MODEL;
use handback_testkit::session::text_prompt;
use handback_testkit::{AguiStream, Answer, FakeModel, Scratch, TestServer, TestStream};
use serde_json::json;
use tokio::sync::Notify;

use super::{World, call, failed_run, result, run, text};

#[tokio::test]
async fn stored_results_are_never_replaced() {
    let world = World::start().await;
    let (mut page, calls) = world.with_calls(&[("pick", json!({}))]).await;
    page.answer(&calls[0], "really");
    world.model.will_say("Done.");
    page.run(&world.server).await;
    let place = page.messages.iter().position(|message| message["role"] == "tool").unwrap();
    page.messages[place]["content"] = "forged".into();
    page.say("u2", "and?");
    world.model.will_say("Still.");
    page.run(&world.server).await;
    let conversation = ["user | go", "assistant | pick {} → really", "assistant | Done.", "user | and?"];
    assert_eq!(world.model.last_shown().conversation, conversation);
}

#[tokio::test]
async fn a_continuation_that_is_complete_is_told_again_without_asking_the_model() {
    let world = World::start().await;
    let (mut page, calls) = world.with_calls(&[("pick", json!({}))]).await;
    page.answer(&calls[0], "five");
    world.model.will_say("It is five.");
    let mut input = page.input();
    let first = world.server.agui(&input).await.lines().await;
    // Other content, and another tool's result beside it: nothing of it counts.
    input["messages"][2]["content"] = "six".into();
    let again = world.server.agui(&input).await.lines().await;
    assert_eq!(again, first);
    assert_eq!(again, run(2, &[&text("msg_1", "It is five.")]));
    assert_eq!(world.model.shown().len(), 2);
    let history = ["user | go", "assistant | pick {} → five | <tool-calls>", "assistant | It is five. | <stop>"];
    assert_eq!(world.history("t").await, history);
}

#[tokio::test]
async fn a_continuation_that_ended_with_calls_hands_them_out_again() {
    let world = World::start().await;
    let (mut page, calls) = world.with_calls(&[("pick", json!({ "n": 1 }))]).await;
    page.answer(&calls[0], "one");
    world.model.will_call(&[("pick", json!({ "n": 2 }))]);
    let input = page.input();
    let mut first = world.server.agui(&input).await;
    let mut again = world.server.agui(&input).await;
    let lines = first.lines().await;
    assert_eq!(again.lines().await, lines);
    assert_eq!(lines, run(2, &[&call("cal_1", "pick", r#"{"n":2}"#)]));
    assert_eq!(again.calls("pick"), first.calls("pick"));
    page.take(again.seen());
    page.answer(&again.calls("pick")[0], "two");
    world.model.will_say("Done.");
    page.run(&world.server).await;
    assert_eq!(world.model.last_shown().results, ["two"]);
    assert_eq!(world.model.shown().len(), 3);
}

#[tokio::test]
async fn a_continuation_that_failed_is_tried_again_with_the_results_kept() {
    let world = World::start().await;
    let (mut page, calls) = world.with_calls(&[("pick", json!({})), ("list_tools", json!({}))]).await;
    page.answer(&calls[0], "five");
    let overloaded = || TurnError::Provider { message: "overloaded".to_owned(), status: Some(529), retryable: true };
    let mut input = page.input();
    for _ in 0..2 {
        world.model.will(vec![Err(overloaded())]);
        let lines = world.server.agui(&input).await.lines().await;
        assert_eq!(lines, failed_run(2, &[], "provider_error", "overloaded"));
        // What is said differently the next time does not count.
        input["messages"].as_array_mut().unwrap().last_mut().unwrap()["content"] = "six".into();
    }
    world.model.will_say("It is five.");
    let lines = world.server.agui(&input).await.lines().await;
    assert_eq!(lines, run(2, &[&text("msg_1", "It is five.")]));
    assert_eq!(world.model.last_shown().results[0], "five");
    assert_eq!(world.model.shown().len(), 4);
    // What failed is there to be seen, and the model is not shown it.
    assert_eq!(world.history("t").await.len(), 5);
    assert_eq!(world.model.last_shown().conversation.len(), 2);
}

#[tokio::test]
async fn a_continuation_that_comes_twice_at_once_is_one() {
    let world = World::start().await;
    let (mut page, calls) = world.with_calls(&[("pick", json!({}))]).await;
    page.answer(&calls[0], "five");
    let input = page.input();
    let (mut one, mut two) = tokio::join!(world.server.agui(&input), world.server.agui(&input));
    world.model.asked().await.answer("Once.");
    assert_eq!(one.lines().await, run(2, &[&text("msg_1", "Once.")]));
    assert_eq!(two.lines().await, run(2, &[&text("msg_1", "Once.")]));
    assert_eq!(world.model.shown().len(), 2);
    assert_eq!(world.history("t").await.len(), 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_continuation_that_comes_many_times_at_once_is_one_whatever_the_store() {
    let scratch = Scratch::new();
    let world = World::with(|config| config.data = Some(scratch.path().to_owned())).await;
    for round in 0..10 {
        world.model.will_call(&[("pick", json!({}))]);
        let mut page = Page::new(&format!("t{round}"));
        page.say("u1", "go");
        let stream = page.run(&world.server).await;
        page.answer(&stream.calls("pick")[0], "five");
        let input = page.input();
        let shown = world.model.shown().len();
        let streams = join_all((0..6).map(|_| world.server.agui(&input))).await;
        world.model.asked().await.answer("Once.");
        for mut stream in streams {
            let lines = stream.lines().await;
            assert_eq!(lines[1..lines.len() - 1], text("msg_1", "Once."));
            assert_eq!(stream.last().await["type"], "RUN_FINISHED");
        }
        assert_eq!(world.model.shown().len(), shown + 1);
        assert_eq!(world.history(&page.thread).await.len(), 3);
    }
}

#[tokio::test]
async fn the_same_message_again_is_answered_anew() {
    let world = World::start().await;
    let mut page = Page::new("t");
    page.say("u1", "hi");
    world.model.will_say("Hello.");
    page.clone().run(&world.server).await;
    world.model.will_say("Good day.");
    assert_eq!(page.run(&world.server).await.lines().await, run(1, &[&text("msg_1", "Good day.")]));
    assert_eq!(world.model.last_shown().conversation, ["user | hi"]);
    assert_eq!(world.history("t").await, ["user | hi", "assistant | Good day. | <stop>"]);
}

/// A page of the client `tab`, whose first message makes the model call its tool.
async fn with_a_client(world: &World) -> (Page, TestStream) {
    world.server.register("tab", &["t"]).await;
    let client = world.server.stream("tab").await;
    world.model.will_call(&[("client_tab_t", json!({}))]);
    let mut page = Page::new("t");
    page.more = json!({ "forwardedProps": { "clientID": "tab" } });
    page.say("u1", "go");
    (page, client)
}

/// The same; the call is done.
async fn with_a_call_done(world: &World) -> (Page, AguiStream) {
    let (mut page, mut client) = with_a_client(world).await;
    let mut stream = page.begin(&world.server).await;
    let told = client.next_call().await;
    world.server.answer(told["requestID"].as_str().unwrap(), "done").await;
    stream.until("TOOL_CALL_RESULT").await;
    (page, stream)
}

#[tokio::test]
async fn the_same_message_after_a_turn_that_broke_off_goes_on_and_runs_nothing_again() {
    let done = || [call("cal_1", "client_tab_t", "{}"), result("prt_1", "cal_1", "done")].concat();
    // Aborted, left by its reader, and failed.
    for end in ["abort", "leave", "fail"] {
        let world = World::start().await;
        let (mut page, mut stream) = with_a_call_done(&world).await;
        let asked = world.model.asked().await;
        asked.say(ModelEvent::Text("Half".to_owned()));
        stream.until("TEXT_MESSAGE_CONTENT").await;
        match end {
            "abort" => world.server.abort("t").await,
            "leave" => drop(stream),
            _ => asked.fail(TurnError::Other("broken".to_owned())),
        }
        world.server.until_idle("t").await;
        // Twice: what goes on may break off again.
        world.model.will(vec![Err(TurnError::Other("broken".to_owned()))]);
        let lines = page.clone().run(&world.server).await.lines().await;
        assert_eq!(lines, failed_run(2, &[&done()], "run_failed", "broken"), "{end}");
        world.model.will_say("Done.");
        let lines = page.run(&world.server).await.lines().await;
        assert_eq!(lines, run(2, &[&done(), &text("msg_2", "Done.")]), "{end}");
        assert_eq!(world.model.last_shown().conversation, ["user | go", "assistant | client_tab_t {} → done"]);
        let calls = world.server.get("/client-tools/calls").await.body;
        assert_eq!(calls.as_array().unwrap().len(), 1, "{end}: it was called again");
    }
}

#[tokio::test]
async fn the_same_message_after_a_restart_goes_on_and_runs_nothing_again() {
    let scratch = Scratch::new();
    let start = || {
        World::with(|config| {
            config.data = Some(scratch.path().to_owned());
            config.limits.drain_timeout = std::time::Duration::ZERO;
        })
    };
    let world = start().await;
    let (mut page, mut stream) = with_a_call_done(&world).await;
    world.model.asked().await.say(ModelEvent::Text("Half".to_owned()));
    stream.until("TEXT_MESSAGE_CONTENT").await;
    world.server.stop().await;
    let world = start().await;
    world.model.will_say("Done.");
    let done = [call("cal_1", "client_tab_t", "{}"), result("prt_1", "cal_1", "done")].concat();
    assert_eq!(page.run(&world.server).await.lines().await, run(2, &[&done, &text("msg_2", "Done.")]));
    assert_eq!(world.model.last_shown().conversation, ["user | go", "assistant | client_tab_t {} → done"]);
    assert_eq!(world.server.get("/client-tools/calls").await.body.as_array().unwrap().len(), 1);
}

/// Says when a call was answered, and keeps that from its turn.
#[derive(Default)]
struct Slow(Arc<Notify>);

impl Hook for Slow {
    fn after<'a>(&'a self, _: HookedCall<'a>, _: ToolResult) -> BoxFuture<'a, ToolResult> {
        self.0.notify_one();
        Box::pin(std::future::pending())
    }
}

#[tokio::test]
async fn a_call_that_was_answered_before_its_turn_knew_is_not_made_again() {
    let (model, answered) = (FakeModel::default(), Arc::new(Notify::new()));
    let hooks: Vec<Arc<dyn Hook>> = vec![Arc::new(Slow(answered.clone()))];
    let extensions = Extensions { hooks, ..model.extensions() };
    let default = ModelRef::parse(MODEL).unwrap();
    let server = TestServer::with_extensions(|config| config.model = default, extensions).await;
    let world = World { server, model };
    let (mut page, mut client) = with_a_client(&world).await;
    let stream = page.clone().begin(&world.server).await;
    let told = client.next_call().await;
    assert_eq!(world.server.answer(told["requestID"].as_str().unwrap(), "done").await.status, 200);
    answered.notified().await;
    drop(stream);
    world.server.until_idle("t").await;
    assert_eq!(
        world.history("t").await[1],
        "assistant | client_tab_t {} ✗ Not finished: The turn was aborted; it may have run | !MessageAbortedError: The turn was aborted"
    );
    world.model.will_say("Done.");
    let done = [call("cal_1", "client_tab_t", "{}"), result("prt_1", "cal_1", "done")].concat();
    assert_eq!(page.run(&world.server).await.lines().await, run(1, &[&done, &text("msg_2", "Done.")]));
    assert_eq!(world.model.last_shown().conversation, ["user | go", "assistant | client_tab_t {} → done"]);
    assert_eq!(world.server.get("/client-tools/calls").await.body.as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn what_a_tool_says_of_its_failure_is_never_taken_for_a_call_that_was_cut() {
    let world = World::start().await;
    let (mut page, mut client) = with_a_client(&world).await;
    world.model.will(vec![Err(TurnError::Other("broken".to_owned()))]);
    let mut stream = page.clone().begin(&world.server).await;
    let request = client.next_call().await["requestID"].clone();
    let failed = json!({ "status": "error", "error": "Not finished: 3 of 5 are sent" });
    world.server.post("/client-tools/result", json!({ "requestID": request, "result": failed })).await;
    stream.until("RUN_ERROR").await;
    world.model.will_say("Two are left.");
    page.run(&world.server).await;
    let conversation = ["user | go", "assistant | client_tab_t {} ✗ Not finished: 3 of 5 are sent"];
    assert_eq!(world.model.last_shown().conversation, conversation);
    assert_eq!(world.server.get("/client-tools/calls").await.body.as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn a_turn_that_was_cut_between_two_steps_goes_on() {
    let scratch = Scratch::new();
    let start = || World::with(|config| config.data = Some(scratch.path().to_owned()));
    let world = start().await;
    let (mut page, mut stream) = with_a_call_done(&world).await;
    world.model.asked().await.answer("Done.");
    stream.until("RUN_FINISHED").await;
    world.server.stop().await;
    // As if the process had ended before anything of the second step was kept.
    let database = rusqlite::Connection::open(scratch.path().join("handback.db")).unwrap();
    let last = "DELETE FROM message WHERE number = (SELECT max(number) FROM message)";
    assert_eq!(database.execute(last, []).unwrap(), 1);
    drop(database);
    let world = start().await;
    world.model.will_say("Done again.");
    page.run(&world.server).await;
    assert_eq!(world.model.last_shown().conversation, ["user | go", "assistant | client_tab_t {} → done"]);
    assert_eq!(world.server.get("/client-tools/calls").await.body.as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn a_message_that_is_answered_where_nobody_can_follow_is_left_alone() {
    let world = World::start().await;
    let session = world.server.session(json!({})).await;
    let mut prompt = text_prompt("go");
    prompt["messageID"] = "u1".into();
    assert_eq!(world.server.post(&format!("/session/{session}/prompt_async"), prompt).await.status, 204);
    let asked = world.model.asked().await;
    let mut page = Page::new(&session);
    page.say("u1", "go");
    world.server.refused_agui("/agui", &page.input()).await.must_fail(409, "CONFLICT");
    world.server.post("/api/chat", saying(&session, "u1", "go")).await.must_fail(409, "CONFLICT");
    asked.answer("Once.");
    world.server.until_idle(&session).await;
    assert_eq!(world.history(&session).await, ["user | go", "assistant | Once. | <stop>"]);
}

#[tokio::test]
async fn a_new_message_that_comes_many_times_at_once_is_one_turn_that_all_follow() {
    let world = World::start().await;
    let mut page = Page::new("t");
    page.say("u1", "hi");
    let input = page.input();
    let streams = join_all((0..6).map(|_| world.server.agui(&input))).await;
    world.model.asked().await.answer("Once.");
    for mut stream in streams {
        let lines = stream.lines().await;
        assert_eq!(lines[1..lines.len() - 1], text("msg_1", "Once."));
    }
    assert_eq!(world.history("t").await, ["user | hi", "assistant | Once. | <stop>"]);
    assert_eq!(world.model.shown().len(), 1);
}

#[tokio::test]
async fn a_turn_that_goes_on_in_a_session_of_nobody_keeps_its_client_s_tools() {
    let world = World::start().await;
    let session = world.server.session(json!({})).await;
    world.model.will_say("Hello.");
    world.server.prompt(&session, "hi").await.unwrap();
    world.server.register("tab", &["t"]).await;
    let mut client = world.server.stream("tab").await;
    let mut page = Page::new(&session);
    page.more = json!({ "forwardedProps": { "clientID": "tab" }, "tools": [{ "name": "pick", "description": "" }] });
    page.say("u2", "go");
    world.model.will_call(&[("pick", json!({}))]);
    let stream = page.run(&world.server).await;
    page.answer(&stream.calls("pick")[0], "five");
    world.model.will_call(&[("client_tab_t", json!({}))]);
    world.model.will_say("Done.");
    let mut stream = page.begin(&world.server).await;
    let told = client.next_call().await;
    world.server.answer(told["requestID"].as_str().unwrap(), "done").await;
    stream.until("RUN_FINISHED").await;
    assert_eq!(world.model.last_shown().results, ["done"]);
}

#[tokio::test]
async fn the_same_message_while_its_turn_runs_follows_it() {
    let world = World::start().await;
    let (page, mut stream) = with_a_call_done(&world).await;
    let asked = world.model.asked().await;
    let mut again = page.clone().begin(&world.server).await;
    again.until("TOOL_CALL_RESULT").await;
    asked.answer("Done.");
    let middle =
        [call("cal_1", "client_tab_t", "{}"), result("prt_1", "cal_1", "done"), text("msg_2", "Done.")].concat();
    assert_eq!(stream.lines().await, run(1, &[&middle]));
    let lines = again.lines().await;
    assert_eq!(lines[1..lines.len() - 1], middle);
    assert_eq!(world.model.shown().len(), 2);
}

#[tokio::test]
async fn a_message_whose_answer_failed_is_answered_anew() {
    let world = World::start().await;
    let mut page = Page::new("t");
    page.say("u1", "hi");
    world.model.will(vec![Err(TurnError::Auth { provider: "fake".into(), message: "bad key".to_owned() })]);
    let lines = page.clone().run(&world.server).await.lines().await;
    assert_eq!(lines, failed_run(1, &[], "provider_auth", "bad key"));
    world.model.will_say("Hello.");
    assert_eq!(page.run(&world.server).await.lines().await, run(1, &[&text("msg_1", "Hello.")]));
    assert_eq!(world.history("t").await, ["user | hi", "assistant | Hello. | <stop>"]);
}

#[tokio::test]
async fn a_turn_that_is_tried_again_forgets_nothing() {
    let world = World::start().await;
    let mut page = Page::new("t");
    page.say("u1", "hi");
    let overloaded = TurnError::Provider { message: "overloaded".to_owned(), status: Some(529), retryable: true };
    world.model.will(vec![Ok(ModelEvent::Text("Well".to_owned())), Err(overloaded)]);
    let mut stream = page.run(&world.server).await;
    let failed = failed_run(1, &[&text("msg_1", "Well")], "provider_error", "overloaded");
    assert_eq!(stream.lines().await, failed);
    // Somebody says something that needs no answer.
    let note = json!({ "parts": [{ "type": "text", "text": "by the way" }], "noReply": true });
    assert_eq!(Answer::to(world.server.saying("t", &note)).await.status, 200);
    let before = world.history("t").await;
    assert_eq!(before, ["user | hi", "assistant | Well | !APIError: overloaded", "user | by the way"]);
    // The page runs again, with nothing new.
    world.model.will_say("Hello.");
    assert_eq!(page.run(&world.server).await.lines().await, run(2, &[&text("msg_1", "Hello.")]));
    // The turn is the one that it was: it knows neither what it was saying when it failed nor what came after it.
    assert_eq!(world.model.last_shown().conversation, ["user | hi"]);
    let history = world.history("t").await;
    assert_eq!((&history[..3], &history[3..]), (&before[..], &["assistant | Hello. | <stop>".to_owned()][..]));
}

#[tokio::test]
async fn a_message_instead_of_results_ends_the_calls_and_later_results_are_ignored() {
    let world = World::start().await;
    let (mut page, calls) = world.with_calls(&[("pick", json!({}))]).await;
    page.say("u2", "never mind");
    world.model.will_say("All right.");
    // The page learns what became of the call, so that its conversation has no open ones.
    let ended = result("prt_1", "cal_1", "The page did not run this call");
    assert_eq!(page.run(&world.server).await.lines().await, run(2, &[&ended, &text("msg_1", "All right.")]));
    let shown = world.model.last_shown().conversation;
    assert_eq!(shown, ["user | go", "assistant | pick {} ✗ The page did not run this call", "user | never mind"]);
    // Too late.
    let before = world.history("t").await;
    let mut late = page.clone();
    late.messages.truncate(2);
    late.answer(&calls[0], "late");
    world.server.refused_agui("/agui", &late.input()).await.must_fail(409, "CONFLICT");
    page.messages.insert(2, late.messages[2].clone());
    page.say("u3", "and?");
    world.model.will_say("Nothing.");
    page.run(&world.server).await;
    assert_eq!(world.history("t").await[..4], before);
    assert_eq!(world.model.last_shown().conversation[1], "assistant | pick {} ✗ The page did not run this call");
}

#[tokio::test]
async fn results_and_a_message_in_one_request_both_count() {
    let world = World::start().await;
    let (mut page, calls) = world.with_calls(&[("pick", json!({ "n": 1 })), ("pick", json!({ "n": 2 }))]).await;
    page.answer(&calls[0], "five");
    page.say("u2", "and what is that squared?");
    world.model.will_say("25.");
    let ended = result("prt_1", "cal_1", "The page did not run this call");
    assert_eq!(page.run(&world.server).await.lines().await, run(2, &[&ended, &text("msg_1", "25.")]));
    let conversation = [
        "user | go",
        r#"assistant | pick {"n":1} → five | pick {"n":2} ✗ The page did not run this call"#,
        "user | and what is that squared?",
    ];
    assert_eq!(world.model.last_shown().conversation, conversation);
}

#[tokio::test]
async fn several_messages_are_said_and_the_last_is_answered() {
    let world = World::start().await;
    let mut page = Page::new("t");
    for (id, said) in [("u1", "one"), ("u2", "two"), ("u3", "three")] {
        page.say(id, said);
    }
    world.model.will_say("Four.");
    assert_eq!(page.run(&world.server).await.lines().await, run(1, &[&text("msg_1", "Four.")]));
    assert_eq!(world.model.last_shown().conversation, ["user | one", "user | two", "user | three"]);
    assert_eq!(world.model.shown().len(), 1);
}

#[tokio::test]
async fn what_stands_before_a_known_message_is_not_said_after_it() {
    let world = World::start().await;
    let mut page = Page::new("t");
    page.say("u1", "hi");
    world.model.will_say("Hello.");
    page.clone().run(&world.server).await;
    // The user's message again, with one before it that nobody has seen.
    page.messages.insert(0, handback_testkit::agui::user("u0", "before"));
    world.model.will_say("Good day.");
    assert_eq!(page.run(&world.server).await.lines().await, run(1, &[&text("msg_1", "Good day.")]));
    assert_eq!(world.history("t").await, ["user | hi", "assistant | Good day. | <stop>"]);
}

#[tokio::test]
async fn a_run_that_begins_while_another_is_under_way_waits_for_it() {
    let world = World::start().await;
    let mut page = Page::new("t");
    page.say("u1", "one");
    let mut first = page.begin(&world.server).await;
    let asked = world.model.asked().await;
    page.say("u2", "two");
    let mut second = page.begin(&world.server).await;
    assert_eq!(second.next().await["runId"], "r2");
    assert_eq!(world.model.shown().len(), 1);
    asked.answer("First.");
    assert_eq!(first.lines().await, run(1, &[&text("msg_1", "First.")]));
    world.model.asked().await.answer("Second.");
    assert_eq!(second.lines().await, run(2, &[&text("msg_1", "Second.")]));
    assert_eq!(world.model.last_shown().conversation, ["user | one", "assistant | First.", "user | two"]);
}
