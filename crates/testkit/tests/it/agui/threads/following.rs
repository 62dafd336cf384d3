//! A run goes on when its reader leaves, and whoever comes back gets what it missed.

use std::time::Duration;

use handback_core::sessions::ModelEvent;
use handback_core::store::{StopReason, TurnError};
use handback_testkit::agui::{Rules, refused};
use handback_testkit::keys::{self, seconds_from_now, token};
use handback_testkit::server::until;
use handback_testkit::stream::End;
use handback_testkit::{AguiStream, TestStream};
use reqwest::Method;
use serde_json::{Value, json};

use super::{Thread, World, detail};

/// The ids of a run's events, from one on.
fn ids(run: &str, from: usize, to: usize) -> Vec<String> {
    (from..to).map(|number| format!("{run}:{number}")).collect()
}

#[tokio::test]
async fn whoever_comes_back_while_it_runs_gets_the_rest_wherever_it_was() {
    let world = World::start().await;
    let mut thread = Thread::make(&world.server).await;
    let mut whole = thread.execute(&world.server).await;
    let asked = world.model.asked().await;
    let mut readers = Vec::new();
    for number in 0..6 {
        asked.say(ModelEvent::Text(format!("{number}, ")));
        whole.until("TEXT_MESSAGE_CONTENT").await;
        // From every place up to now.
        for last in 0..whole.seen().len() {
            let mut reader = thread.come_back(&world.server, last).await;
            for missed in &whole.seen()[last + 1..] {
                assert_eq!(reader.next().await, *missed);
            }
            readers.push((last, reader));
        }
    }
    asked.say(ModelEvent::Stop(StopReason::Stop));
    whole.last().await;
    let events = whole.seen();
    for (last, reader) in &mut readers {
        reader.last().await;
        assert_eq!(reader.seen(), &events[*last + 1..]);
        assert_eq!(reader.ids(), ids(&thread.run, *last + 1, events.len()));
    }
    assert_eq!(world.model.shown().len(), 1);
}

#[tokio::test]
async fn whoever_comes_back_afterwards_gets_the_rest_and_always_the_end() {
    let world = World::start().await;
    let mut thread = Thread::make(&world.server).await;
    world.model.will_call(&[("pick", json!({ "n": 1 })), ("list_tools", json!({}))]);
    let stream = thread.run(&world.server).await;
    let events = stream.seen();
    for last in 0..events.len() + 3 {
        let mut reader = thread.come_back(&world.server, last).await;
        reader.last().await;
        let from = (last + 1).min(events.len() - 1);
        assert_eq!(reader.seen(), &events[from..], "{last}");
        assert_eq!(reader.ids(), ids(&thread.run, from, events.len()));
    }
}

#[tokio::test]
async fn an_id_that_is_not_of_this_run_is_refused() {
    let world = World::start().await;
    let mut thread = Thread::make(&world.server).await;
    let first = thread.run.clone();
    world.model.will_say("Hello.");
    thread.run(&world.server).await;
    thread.next_run(&world.server).await;
    let input = thread.input();
    let path = thread.path_of_run();
    let refuse = async |last: &str| {
        let request = world.server.request(Method::POST, &path).header("last-event-id", last);
        detail(&refused(request.json(&input)).await, 400);
    };
    // It was not started, and is not by this.
    for last in [format!("{first}:0"), format!("{}:0", thread.run), String::new(), "x".to_owned(), ":".to_owned()] {
        refuse(&last).await;
    }
    assert_eq!(thread.shown(&world.server).await["run_input"], json!(null));
    thread.page.say("u2", "again");
    world.model.will_say("Hello.");
    thread.run(&world.server).await;
    for last in [
        format!("{first}:0"),
        thread.run.clone(),
        format!("{}:-1", thread.run),
        format!("{}:x", thread.run),
        format!("{}:99999999999999999999999", thread.run),
        "0".to_owned(),
    ] {
        refuse(&last).await;
    }
    assert_eq!(world.model.shown().len(), 2);
}

#[tokio::test]
async fn a_run_goes_on_to_its_end_without_a_reader() {
    let world = World::start().await;
    world.server.register("tab", &["t"]).await;
    let mut client = world.server.stream("tab").await;
    let mut thread = Thread::make(&world.server).await;
    let mut input = thread.input();
    input["forwardedProps"] = json!({ "clientID": "tab" });
    let mut stream = AguiStream::open(thread.starting(&world.server), &input).await;
    let asked = world.model.asked().await;
    asked.say(ModelEvent::Text("Well".to_owned()));
    stream.until("TEXT_MESSAGE_CONTENT").await;
    let seen = stream.seen().to_vec();
    drop(stream);
    asked.call(&[("client_tab_t", json!({}))]);
    // Its calls are made, and it goes on with what came of them.
    let call = client.next_call().await;
    let shown = thread.shown(&world.server).await;
    assert_eq!(shown["finished"], json!(null));
    world.server.answer(call["requestID"].as_str().unwrap(), "ran").await;
    world.model.asked().await.answer("Done.");
    until("it is finished", async || thread.shown(&world.server).await["finished"].is_string()).await;
    let mut reader = thread.come_back(&world.server, seen.len() - 1).await;
    reader.last().await;
    let all = [seen, reader.seen().to_vec()].concat();
    let mut rules = Rules::new(&input);
    all.iter().try_for_each(|event| rules.take(event)).and_then(|()| rules.end()).unwrap();
    assert_eq!(thread.shown(&world.server).await["events"], json!(all));
    let usage = thread.shown(&world.server).await["usage"].clone();
    assert_eq!((&usage["requests"], &usage["tool_calls"]), (&json!(2), &json!(1)));
}

#[tokio::test]
async fn a_run_that_fails_is_finished_and_told_again_as_it_was() {
    let world = World::start().await;
    let mut thread = Thread::make(&world.server).await;
    world.model.will(vec![
        Ok(ModelEvent::Text("Well".to_owned())),
        Err(TurnError::Provider { message: "overloaded".to_owned(), status: Some(529), retryable: true }),
    ]);
    let stream = thread.run(&world.server).await;
    let error = json!({ "type": "RUN_ERROR", "code": "provider_error", "message": "overloaded" });
    assert_eq!(*stream.seen().last().unwrap(), error);
    assert!(thread.shown(&world.server).await["finished"].is_string());
    let mut again = thread.come_back(&world.server, 0).await;
    again.last().await;
    assert_eq!(again.seen(), &stream.seen()[1..]);
}

#[tokio::test]
async fn a_run_of_a_thread_that_is_deleted_ends_for_all_its_readers() {
    let world = World::start().await;
    let mut thread = Thread::make(&world.server).await;
    let mut stream = thread.execute(&world.server).await;
    let asked = world.model.asked().await;
    let mut reader = thread.come_back(&world.server, 0).await;
    world.server.delete(&thread.path(), json!({})).await.must_be(204, &json!(""));
    asked.dropped().await;
    assert_eq!(stream.last().await["type"], "RUN_ERROR");
    assert_eq!(reader.last().await["type"], "RUN_ERROR");
    detail(&world.server.get(&thread.path_of_run()).await, 404);
}

#[tokio::test]
async fn a_run_that_is_made_is_gone_with_its_thread_even_if_it_ends_later() {
    let world = World::start().await;
    let mut thread = Thread::make(&world.server).await;
    let id = thread.page.thread.clone();
    let mut stream = thread.execute(&world.server).await;
    world.model.asked().await;
    world.server.delete(&thread.path(), json!({})).await.must_be(204, &json!(""));
    stream.last().await;
    // A thread of the same name has none of its runs.
    world.model.will_say("New.");
    let mut page = handback_testkit::agui::Page::new(&id);
    page.say("u1", "hi");
    page.run(&world.server).await;
    let shown = world.server.get(&thread.path()).await;
    assert_eq!((shown.status, &shown.body["runs"]), (200, &json!({})));
}

#[tokio::test]
async fn a_silent_run_is_kept_alive_with_comments() {
    let world = World::with(|config| config.client_tools.keepalive_interval = Duration::from_millis(10)).await;
    let mut thread = Thread::make(&world.server).await;
    let mut stream = thread.execute(&world.server).await;
    stream.next().await;
    for _ in 0..3 {
        assert_eq!(stream.comment().await, ": keep-alive");
    }
    world.model.asked().await.answer("Hello.");
    assert_eq!(stream.last().await["type"], "RUN_FINISHED");
}

#[tokio::test]
async fn a_server_that_stops_ends_the_runs_of_threads() {
    let world = World::start().await;
    let mut thread = Thread::make(&world.server).await;
    let mut stream = thread.execute(&world.server).await;
    let mut reader = thread.come_back(&world.server, 0).await;
    let _asked = world.model.asked().await;
    world.server.stop().await;
    for stream in [&mut stream, &mut reader] {
        let last = stream.last().await;
        assert_eq!((&last["type"], &last["code"]), (&json!("RUN_ERROR"), &json!("shutting_down")), "{last}");
    }
}

#[tokio::test]
async fn a_client_token_executes_its_own_runs_and_follows_them() {
    let world = World::with(keys::protect).await;
    let of = |client: &str| token(&json!({ "clientID": client, "exp": seconds_from_now(60) }));
    let send = |method: Method, path: &str, client: &str, body: &Value| {
        world.server.request_without_key(method, path).bearer_auth(of(client)).json(body)
    };
    let made = handback_testkit::Answer::to(send(Method::POST, super::THREADS, "tab", &json!({}))).await;
    assert_eq!(made.status, 200, "{made:?}");
    let run = made.body["runs"].as_object().unwrap().keys().next().unwrap().clone();
    let mut page = handback_testkit::agui::Page::new(made.body["thread_id"].as_str().unwrap());
    page.say("u1", "hi");
    let mut thread = Thread { page, run };
    let input = thread.input();
    let path = thread.path_of_run();
    detail(&refused(send(Method::POST, &path, "other", &input)).await, 403);
    detail(&refused(world.server.request_without_key(Method::POST, &path).json(&input)).await, 401);
    world.model.will_say("Hello.");
    let mut stream = AguiStream::open(send(Method::POST, &path, "tab", &input), &input).await;
    assert_eq!(stream.last().await["type"], "RUN_FINISHED");
    let replay =
        |client: &str| send(Method::POST, &path, client, &input).header("last-event-id", format!("{}:0", thread.run));
    detail(&refused(replay("other")).await, 403);
    let mut again = AguiStream::read(replay("tab")).await;
    again.last().await;
    assert_eq!(again.seen(), &stream.seen()[1..]);
}

#[tokio::test]
async fn a_token_that_expires_cuts_the_stream_of_a_run_that_goes_on() {
    let world = World::with(keys::protect).await;
    let mut thread = Thread::make(&world.server).await;
    let short = token(&json!({ "clientID": "tab", "exp": seconds_from_now(2) }));
    let request = |path: &str| world.server.request_without_key(Method::POST, path).bearer_auth(&short);
    let made = handback_testkit::Answer::to(request(super::THREADS).json(&json!({}))).await;
    thread.page.thread = made.body["thread_id"].as_str().unwrap().to_owned();
    thread.run = made.body["runs"].as_object().unwrap().keys().next().unwrap().clone();
    let mut stream = TestStream::open(request(&thread.path_of_run()).json(&thread.input())).await;
    let asked = world.model.asked().await;
    let (frames, end) = stream.end().await;
    let is_over = frames.last().is_some_and(|frame| frame.data["type"] == "RUN_ERROR");
    assert!(is_over || end == End::Cut, "{frames:?}, then {end:?}");
    // The run goes on.
    asked.answer("Late.");
    until("it is finished", async || thread.shown(&world.server).await["finished"].is_string()).await;
}

#[tokio::test]
async fn a_run_that_was_cut_before_its_first_frame_is_taken_up_from_the_start() {
    let world = World::start().await;
    let mut thread = Thread::make(&world.server).await;
    let input = thread.input();
    let seen_nothing = |thread: &Thread| {
        let request = thread.starting(&world.server).header("last-event-id", format!("{}:", thread.run));
        AguiStream::open(request, &input)
    };
    // It was never started: it is now, once.
    let (mut one, mut two) = tokio::join!(seen_nothing(&thread), seen_nothing(&thread));
    world.model.asked().await.answer("Once.");
    one.last().await;
    two.last().await;
    assert_eq!(one.seen(), two.seen());
    // It runs or is over: all of it, under the same numbers.
    let mut again = seen_nothing(&thread).await;
    again.last().await;
    assert_eq!((again.seen(), again.ids()), (one.seen(), &ids(&thread.run, 0, one.seen().len())[..]));
    assert_eq!(world.model.shown().len(), 1);
    // Whoever comes without is still a second start.
    let second = refused(thread.starting(&world.server).json(&input)).await;
    assert_eq!(second.status, 400, "{second:?}");
}
