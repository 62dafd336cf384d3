//! However a turn ends, its run says so, and the stream is over.

use std::time::Duration;

use handback_core::id::{MessageId, SessionId};
use handback_core::sessions::ModelEvent;
use handback_core::store::{StopReason, TurnError, Usage};
use handback_server::config::OnDisconnect;
use handback_testkit::agui::{Generation, Page};
use handback_testkit::{RawSocket, Scratch};
use serde_json::{Value, json};

use super::{World, call, failed_run, result, run, run_1_0, text};

fn page(generation: Generation) -> Page {
    let mut page = Page::speaking("t", generation);
    page.more = json!({ "forwardedProps": { "clientID": "tab" } });
    page.say("u1", "go");
    page
}

fn old() -> Page {
    page(Generation::Old)
}

/// What a call is told that a stopped turn has left.
const ABORTED: &str = "Not finished: The turn was aborted";

#[tokio::test]
async fn a_failing_provider_is_an_error_after_all_that_was_open_is_ended() {
    for generation in [Generation::Old, Generation::New] {
        let world = World::start().await;
        let mut stream = page(generation).begin(&world.server).await;
        let asked = world.model.asked().await;
        asked.say(ModelEvent::Usage(Usage { input: 7, output: 1, ..Usage::default() }));
        asked.say(ModelEvent::Text("Well".to_owned()));
        stream.until("TEXT_MESSAGE_CONTENT").await;
        asked.fail(TurnError::Provider { message: "overloaded".to_owned(), status: Some(529), retryable: true });
        let lines = stream.lines().await;
        assert_eq!(lines[1..4], text("msg_1", "Well"));
        let last = stream.seen().last().unwrap();
        let keys = ["type", "code", "message"].map(|key| last[key].as_str().unwrap());
        assert_eq!(keys, ["RUN_ERROR", "provider_error", "overloaded"]);
        // And the thread goes on.
        world.model.will_say("Here I am.");
        let mut next = page(generation);
        next.say("u2", "and now?");
        assert_eq!(next.run(&world.server).await.last().await["type"], "RUN_FINISHED");
    }
}

#[tokio::test]
async fn what_a_failed_run_has_cost_is_told() {
    let world = World::start().await;
    let usage = |input| Ok(ModelEvent::Usage(Usage { input, output: 1, ..Usage::default() }));
    let calls = handback_testkit::model::called(&[("list_tools", "{}".to_owned())]);
    world.model.will([vec![usage(7)], calls].concat());
    world.model.will(vec![Err(TurnError::Other("broken".to_owned()))]);
    let last = old().run(&world.server).await.last().await;
    let used = json!([{ "provider": "fake", "model": "one", "inputTokens": 7, "outputTokens": 1, "totalTokens": 8 }]);
    assert_eq!(last, json!({ "type": "RUN_ERROR", "code": "run_failed", "message": "broken", "usage": used }));
}

#[tokio::test]
async fn an_answer_that_is_cut_off_is_an_error_too() {
    let world = World::start().await;
    let mut stream = old().begin(&world.server).await;
    let asked = world.model.asked().await;
    asked.say(ModelEvent::Reasoning("Hm".to_owned()));
    asked.say(ModelEvent::CallStarted { index: 0, id: "p".to_owned(), name: "pick".to_owned() });
    asked.say(ModelEvent::Arguments { index: 0, delta: "{\"n\":".to_owned() });
    stream.until("TOOL_CALL_ARGS").await;
    drop(asked);
    let lines = stream.lines().await;
    let end = [
        r#"TOOL_CALL_END {"toolCallId":"cal_1"}"#.to_owned(),
        result("prt_2", "cal_1", "Not finished: The model's answer was cut off").remove(0),
        r#"RUN_ERROR {"code":"provider_error","message":"The model's answer was cut off"}"#.to_owned(),
    ];
    assert_eq!(lines[lines.len() - 3..], end, "{lines:#?}");
}

#[tokio::test]
async fn a_turn_that_is_aborted_is_cancelled_as_each_generation_knows_it() {
    for generation in [Generation::Old, Generation::New] {
        let world = World::start().await;
        world.server.register("tab", &["t"]).await;
        let mut client = world.server.stream("tab").await;
        world.model.will_call(&[("client_tab_t", json!({}))]);
        let mut stream = page(generation).begin(&world.server).await;
        let held = client.next_call().await;
        world.server.abort("t").await;
        let result = result("prt_1", "cal_1", &format!("{ABORTED}; it may have run"));
        let middle: [&[String]; 2] = [&call("cal_1", "client_tab_t", "{}"), &result];
        let expected = match generation {
            Generation::Old => failed_run(1, &middle, "cancelled", "The turn was aborted"),
            Generation::New => run_1_0(1, &middle, &json!({ "type": "cancelled" })),
        };
        assert_eq!(stream.lines().await, expected);
        assert_eq!(world.server.outcome(held["requestID"].as_str().unwrap()).await["status"], "cancelled");
    }
}

#[tokio::test]
async fn an_abort_in_the_middle_of_arguments_leaves_nothing_open() {
    let world = World::start().await;
    let mut stream = old().begin(&world.server).await;
    let asked = world.model.asked().await;
    asked.say(ModelEvent::CallStarted { index: 0, id: "p".to_owned(), name: "pick".to_owned() });
    asked.say(ModelEvent::Arguments { index: 0, delta: "{\"n\":".to_owned() });
    stream.until("TOOL_CALL_ARGS").await;
    world.server.abort("t").await;
    asked.dropped().await;
    let middle: [&[String]; 2] = [&call("cal_1", "pick", "{\"n\":"), &result("prt_1", "cal_1", ABORTED)];
    assert_eq!(stream.lines().await, failed_run(1, &middle, "cancelled", "The turn was aborted"));
}

#[tokio::test]
async fn a_reader_that_leaves_stops_the_turn_and_its_calls() {
    let world = World::start().await;
    world.server.register("tab", &["t"]).await;
    let mut client = world.server.stream("tab").await;
    // While the model speaks.
    let mut stream = old().begin(&world.server).await;
    let asked = world.model.asked().await;
    asked.say(ModelEvent::Text("Well".to_owned()));
    stream.until("TEXT_MESSAGE_CONTENT").await;
    drop(stream);
    asked.dropped().await;
    world.server.until_idle("t").await;
    assert_eq!(
        world.history("t").await,
        ["user | go", "assistant | Well | !MessageAbortedError: The turn was aborted"]
    );
    // While a client runs a call.
    world.model.will_call(&[("client_tab_t", json!({}))]);
    let stream = old().begin(&world.server).await;
    let held = client.next_call().await;
    drop(stream);
    let cancelled = client.expect("tool-cancel").await;
    assert_eq!(cancelled.request_id(), held["requestID"]);
    world.server.until_idle("t").await;
    // The thread is as good as before.
    world.model.will_say("Hello.");
    assert_eq!(old().run(&world.server).await.lines().await, run(1, &[&text("msg_1", "Hello.")]));
}

#[tokio::test]
async fn where_it_is_configured_so_a_reader_that_leaves_stops_nothing() {
    let world = World::with(|config| config.agui.on_disconnect = OnDisconnect::Continue).await;
    let mut page = old();
    let stream = page.begin(&world.server).await;
    let asked = world.model.asked().await;
    drop(stream);
    asked.answer("All the same.");
    world.server.until_idle("t").await;
    assert_eq!(world.history("t").await, ["user | go", "assistant | All the same. | <stop>"]);
}

#[tokio::test]
async fn a_run_that_waits_is_never_run_when_its_reader_leaves() {
    let world = World::start().await;
    let mut page = old();
    let mut first = page.begin(&world.server).await;
    let asked = world.model.asked().await;
    let mut waiting = page.clone();
    waiting.say("u2", "and this");
    let mut stream = waiting.begin(&world.server).await;
    assert_eq!(stream.next().await["type"], "RUN_STARTED");
    drop(stream);
    let (thread, second) = (SessionId::parse("t").unwrap(), MessageId::parse("u2").unwrap());
    let is_gone = async || world.server.app.sessions().feed_of(&thread, &second).is_none();
    handback_testkit::server::until("the server has noticed", is_gone).await;
    asked.answer("First.");
    page.read(&mut first).await;
    assert_eq!(first.lines().await, run(1, &[&text("msg_1", "First.")]));
    world.server.until_idle("t").await;
    assert_eq!(world.model.shown().len(), 1);
}

#[tokio::test]
async fn a_run_that_waits_is_told_when_its_thread_is_deleted() {
    let world = World::start().await;
    let mut page = old();
    let mut first = page.begin(&world.server).await;
    let asked = world.model.asked().await;
    page.say("u2", "and this");
    let mut second = page.begin(&world.server).await;
    second.next().await;
    world.server.delete("/session/t", json!({})).await.must_be(200, &json!(true));
    asked.dropped().await;
    assert_eq!(first.last().await["type"], "RUN_ERROR");
    assert_eq!(second.last().await["type"], "RUN_ERROR");
}

#[tokio::test]
async fn a_thread_that_is_deleted_ends_its_run() {
    for generation in [Generation::Old, Generation::New] {
        let world = World::start().await;
        let mut stream = page(generation).begin(&world.server).await;
        let asked = world.model.asked().await;
        world.server.delete("/session/t", json!({})).await.must_be(200, &json!(true));
        asked.dropped().await;
        let last = stream.last().await;
        match generation {
            Generation::Old => assert_eq!((&last["type"], &last["code"]), (&json!("RUN_ERROR"), &json!("cancelled"))),
            Generation::New => assert_eq!(last["outcome"], json!({ "type": "cancelled" })),
        }
    }
}

/// With a store that lasts, the turns go on in the next process, and nobody follows a plain run there.
#[tokio::test]
async fn a_server_that_stops_ends_its_runs() {
    let scratch = Scratch::new();
    for (generation, data) in [
        (Generation::Old, None),
        (Generation::New, None),
        (Generation::Old, Some(scratch.join("old"))),
        (Generation::New, Some(scratch.join("new"))),
    ] {
        let world = World::with(|config| {
            config.data = data;
            config.limits.drain_timeout = Duration::ZERO;
        })
        .await;
        world.server.register("tab", &["t"]).await;
        let mut client = world.server.stream("tab").await;
        world.model.will_call(&[("client_tab_t", json!({}))]);
        let mut stream = page(generation).begin(&world.server).await;
        client.next_call().await;
        let mut waiting = page(generation);
        waiting.say("u2", "and this");
        let mut second = waiting.begin(&world.server).await;
        second.next().await;
        world.server.stop().await;
        for stream in [&mut stream, &mut second] {
            let last = stream.last().await;
            assert_eq!((&last["type"], &last["code"]), (&json!("RUN_ERROR"), &json!("shutting_down")), "{last}");
        }
    }
}

#[tokio::test]
async fn a_run_that_answers_interrupts_ends_at_shutdown_as_well() {
    let world = World::with(|config| {
        handback_testkit::session::permit(config, handback_core::tools::Permission::Ask);
    })
    .await;
    world.server.register("tab", &["t"]).await;
    let mut client = world.server.stream("tab").await;
    world.model.will_call(&[("client_tab_t", json!({}))]);
    let mut page = old();
    let stream = page.run(&world.server).await;
    let mut input = page.input();
    input["resume"] = json!([handback_testkit::agui::resolved(&stream.interrupts()[0], json!({ "approved": true }))]);
    let mut stream = world.server.agui(&input).await;
    client.next_call().await;
    world.server.stop().await;
    assert_eq!(stream.last().await["code"], "shutting_down");
}

#[tokio::test]
async fn a_model_that_goes_on_for_ever_is_stopped() {
    let world = World::with(|config| config.limits.steps = 3).await;
    for number in 0..3 {
        world.model.will_call(&[("list_tools", json!({ "n": number }))]);
    }
    let last = old().run(&world.server).await.last().await;
    let message = "The turn was stopped after 3 steps; say something to go on";
    assert_eq!(last, json!({ "type": "RUN_ERROR", "code": "run_failed", "message": message }));
}

#[tokio::test]
async fn a_slow_reader_gets_all_of_it_in_its_own_time() {
    let world = World::start().await;
    let body = old().input().to_string();
    let mut slow = RawSocket::open_narrow(world.server.address).await;
    let request = format!("POST /agui HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    slow.send(request).await.unwrap();
    let asked = world.model.asked().await;
    let piece = "x".repeat(16_384);
    for _ in 0..500 {
        asked.say(ModelEvent::Text(piece.clone()));
    }
    asked.say(ModelEvent::Stop(StopReason::Stop));
    // Others go on meanwhile.
    world.server.until_idle("t").await;
    world.model.will_say("Quick.");
    let mut quick = Page::new("quick");
    quick.say("q1", "hi");
    assert_eq!(quick.run(&world.server).await.last().await["type"], "RUN_FINISHED");
    slow.head().await;
    let (mut bytes, mut rules) = (0, handback_testkit::agui::Rules::new(&serde_json::from_str(&body).unwrap()));
    while rules.end().is_err() {
        let frame = slow.frame().await;
        let event: Value = serde_json::from_str(frame.strip_prefix("data: ").unwrap()).unwrap();
        bytes += event["delta"].as_str().unwrap_or_default().len();
        rules.take(&event).unwrap();
    }
    assert_eq!(bytes, piece.len() * 500);
}
