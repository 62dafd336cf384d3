//! A run is executed once, with an input of its own ids, and shows what it was and what it told.

use futures_util::future::join_all;
use handback_core::sessions::ModelEvent;
use handback_core::store::{StopReason, Usage};
use handback_core::tools::Permission;
use handback_testkit::Answer;
use handback_testkit::agui::{refused, resolved, result};
use handback_testkit::session::permit;
use handback_testkit::tidy::Tidier;
use serde_json::{Value, json};

use super::{Thread, World, detail};

#[tokio::test]
async fn a_run_tells_numbered_events_and_shows_them_afterwards() {
    let world = World::start().await;
    let mut thread = Thread::make(&world.server).await;
    world.model.will(vec![
        Ok(ModelEvent::Usage(Usage { input: 3, output: 2, cache_read: Some(4), ..Usage::default() })),
        Ok(ModelEvent::Text("Hello.".to_owned())),
        Ok(ModelEvent::Stop(StopReason::Stop)),
    ]);
    let input = thread.input();
    let mut stream = handback_testkit::AguiStream::open(thread.starting(&world.server), &input).await;
    stream.last().await;
    let numbered: Vec<String> = (0..stream.seen().len()).map(|number| format!("{}:{number}", thread.run)).collect();
    assert_eq!(stream.ids(), numbered);
    let header = |name: &str| stream.headers[name].to_str().unwrap().to_owned();
    assert_eq!(header("content-type"), "text/event-stream");
    assert!(header("cache-control").contains("no-cache"));
    assert_eq!(header("x-accel-buffering"), "no");
    let mut tidier = Tidier::default();
    let ids = json!([thread.page.thread, thread.run]);
    assert_eq!(tidier.tidy(&ids), json!(["ses_1", "run_1"]));
    let lines = stream.lines_with(&mut tidier).await;
    let usage = json!([{
        "provider": "fake", "model": "one", "inputTokens": 7, "outputTokens": 2, "totalTokens": 9, "cachedInputTokens": 4,
    }]);
    let mut expected = vec![r#"RUN_STARTED {"runId":"run_1","threadId":"ses_1"}"#.to_owned()];
    expected.extend(super::super::text("msg_1", "Hello."));
    expected.push(format!("RUN_FINISHED {}", json!({ "runId": "run_1", "threadId": "ses_1", "usage": usage })));
    assert_eq!(lines, expected);
    let shown = thread.shown(&world.server).await;
    assert_eq!(shown["run_input"], input);
    assert_eq!(shown["events"], json!(stream.seen()));
    let usage = json!({ "input_tokens": 7, "output_tokens": 2, "requests": 1, "tool_calls": 0 });
    assert_eq!(shown["usage"], usage);
    assert!(shown["finished"].is_string(), "{shown}");
    // The thread's runs are shown without events.
    let listed = world.server.get(&thread.path()).await.body;
    assert_eq!(listed["runs"][&thread.run]["events"], json!(null));
    assert_eq!(listed["runs"][&thread.run]["usage"], usage);
}

#[tokio::test]
async fn of_many_starts_at_once_one_wins() {
    let world = World::start().await;
    for _ in 0..5 {
        let mut thread = Thread::make(&world.server).await;
        let input = thread.input();
        world.model.will_say("Once.");
        let starts = (0..20).map(|_| thread.starting(&world.server).json(&input).send());
        let answers: Vec<_> = join_all(starts).await.into_iter().map(Result::unwrap).collect();
        let (won, lost): (Vec<_>, Vec<_>) = answers.into_iter().partition(|answer| answer.status() == 200);
        assert_eq!((won.len(), lost.len()), (1, 19));
        for answer in lost {
            let detail = format!("run {} was started already; a run is executed once", thread.run);
            Answer::read(answer).await.must_be(400, &json!({ "detail": detail }));
        }
        for answer in won {
            assert!(answer.text().await.unwrap().contains("RUN_FINISHED"));
        }
    }
    assert_eq!(world.model.shown().len(), 5);
}

#[tokio::test]
async fn a_run_that_was_executed_is_not_executed_again() {
    let world = World::start().await;
    let mut thread = Thread::make(&world.server).await;
    let input = thread.input();
    let mut stream = thread.execute(&world.server).await;
    let asked = world.model.asked().await;
    let again = async || detail(&refused(thread.starting(&world.server).json(&input)).await, 400);
    let expected = format!("run {} was started already; a run is executed once", thread.run);
    assert_eq!(again().await, expected);
    asked.answer("Once.");
    stream.last().await;
    assert_eq!(again().await, expected);
    assert_eq!(world.model.shown().len(), 1);
}

#[tokio::test]
async fn an_input_that_is_refused_leaves_the_run_to_be_started() {
    let world = World::start().await;
    let mut thread = Thread::make(&world.server).await;
    let good = thread.input();
    let with = |key: &str, value: Value| {
        let mut input = good.clone();
        input[key] = value;
        input
    };
    let bad = [
        json!({}),
        json!([]),
        json!(null),
        with("threadId", json!("other")),
        with("threadId", json!(thread.page.thread.to_uppercase())),
        with("runId", json!("other")),
        with("runId", json!("")),
        with("messages", json!([])),
        with("messages", json!([1])),
        with("messages", json!([result("r", "nobody", "x")])),
        with("tools", json!([{ "name": "list_tools", "description": "" }])),
        with("tools", json!([{ "name": "a", "description": "", "parameters": { "type": "nothing" } }])),
        with("forwardedProps", json!({ "model": "nobody/one" })),
        with("resume", json!([1])),
    ];
    for input in bad {
        let answer = refused(thread.starting(&world.server).json(&input)).await;
        assert_eq!(answer.status, 400, "{input}: {answer:?}");
        detail(&answer, 400);
        let shown = thread.shown(&world.server).await;
        assert_eq!(
            (&shown["run_input"], &shown["events"], &shown["finished"]),
            (&json!(null), &json!([]), &json!(null))
        );
    }
    detail(&refused(thread.starting(&world.server).body("{")).await, 400);
    world.model.will_say("Hello.");
    assert_eq!(thread.run(&world.server).await.last().await["type"], "RUN_FINISHED");
    assert_eq!(world.model.shown().len(), 1);
}

#[tokio::test]
async fn a_run_is_finished_no_later_than_that_is_told() {
    let world = World::start().await;
    let mut thread = Thread::make(&world.server).await;
    for number in 0..40 {
        if number > 0 {
            thread.next_run(&world.server).await;
            thread.page.say(&format!("u{number}-next"), "again");
        }
        world.model.will_say("Hello.");
        let mut stream = thread.execute(&world.server).await;
        stream.until("RUN_FINISHED").await;
        let shown = thread.shown(&world.server).await;
        assert!(shown["finished"].is_string() && !shown["usage"].is_null(), "{number}: {shown}");
        assert_eq!(shown["events"], json!(stream.seen()), "{number}");
        stream.last().await;
        thread.page.take(stream.seen());
    }
}

#[tokio::test]
async fn a_page_goes_on_with_one_run_after_the_other() {
    let world = World::start().await;
    let mut thread = Thread::make(&world.server).await;
    world.model.will_call(&[("pick", json!({ "n": 1 }))]);
    let first = thread.run.clone();
    let stream = thread.run(&world.server).await;
    thread.page.answer(&stream.calls("pick")[0], "five");
    thread.next_run(&world.server).await;
    world.model.will_say("It is five.");
    let stream = thread.run(&world.server).await;
    assert_eq!(stream.seen()[0]["runId"], thread.run);
    assert_ne!(first, thread.run);
    assert_eq!(world.model.last_shown().results, ["five"]);
    let usage = thread.shown(&world.server).await["usage"].clone();
    assert_eq!((&usage["requests"], &usage["tool_calls"]), (&json!(1), &json!(0)));
}

#[tokio::test]
async fn interrupts_are_answered_by_the_next_run() {
    let world = World::with(|config| permit(config, Permission::Ask)).await;
    world.server.register("tab", &["t"]).await;
    let mut client = world.server.stream("tab").await;
    let mut thread = Thread::make(&world.server).await;
    world.model.will_call(&[("client_tab_t", json!({}))]);
    let mut input = thread.input();
    input["forwardedProps"] = json!({ "clientID": "tab" });
    let mut stream = handback_testkit::AguiStream::open(thread.starting(&world.server), &input).await;
    thread.page.read(&mut stream).await;
    let interrupt = stream.interrupts()[0].clone();
    assert!(thread.shown(&world.server).await["finished"].is_string());
    thread.next_run(&world.server).await;
    let mut input = thread.input();
    input["forwardedProps"] = json!({ "clientID": "tab" });
    input["resume"] = json!([resolved(&interrupt, json!({ "approved": true }))]);
    world.model.will_say("Done.");
    let mut stream = handback_testkit::AguiStream::open(thread.starting(&world.server), &input).await;
    let call = client.next_call().await;
    world.server.answer(call["requestID"].as_str().unwrap(), "ran").await;
    stream.last().await;
    let kinds: Vec<&str> = stream.seen().iter().filter_map(|event| event["type"].as_str()).collect();
    let expected = [
        "RUN_STARTED",
        "TOOL_CALL_RESULT",
        "TEXT_MESSAGE_START",
        "TEXT_MESSAGE_CONTENT",
        "TEXT_MESSAGE_END",
        "RUN_FINISHED",
    ];
    assert_eq!(kinds, expected);
}

#[tokio::test]
async fn a_room_is_its_agent() {
    let world = World::with(super::with_rooms).await;
    let made = world.server.post("/api/v1/rooms/cook/agui", json!({})).await.body;
    let (thread, runs) = (made["thread_id"].as_str().unwrap(), made["runs"].as_object().unwrap());
    let run = runs.keys().next().unwrap();
    let mut page = handback_testkit::agui::Page::new(thread);
    page.say("u1", "hi");
    page.more = json!({ "runId": run });
    world.model.will_say("Soup.");
    let path = format!("/api/v1/rooms/cook/agui/{thread}/{run}");
    let request = world.server.request(reqwest::Method::POST, &path);
    handback_testkit::AguiStream::open(request, &page.input()).await.last().await;
    assert_eq!(world.model.last_shown().system.as_deref(), Some("You cook."));
}
