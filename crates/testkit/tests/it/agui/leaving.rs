//! A reader that leaves takes along what nobody else reads, and nothing else.

use futures_util::FutureExt;
use handback_core::events::{Feed, TurnEvent};
use handback_core::id::{MessageId, SessionId};
use handback_core::sessions::ModelEvent;
use handback_testkit::agui::Page;
use handback_testkit::server::until;
use handback_testkit::{RawSocket, TestServer};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;

use super::{World, failed_run, result, run, text};

/// A reader whose leaving can be waited for.
struct Reader(RawSocket);

impl Reader {
    async fn of(server: &TestServer, input: &Value) -> Self {
        Self::on(RawSocket::open(server.address).await, input).await
    }

    /// One that the server soon has to wait for.
    async fn slow(server: &TestServer, input: &Value) -> Self {
        Self::on(RawSocket::open_narrow(server.address).await, input).await
    }

    async fn on(mut socket: RawSocket, input: &Value) -> Self {
        let body = input.to_string();
        let head = format!("POST /agui HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n", body.len());
        socket.send(head + &body).await.unwrap();
        assert_eq!(socket.head().await.status, 200);
        let first = socket.frame().await;
        assert!(first.contains("RUN_STARTED"), "{first}");
        Self(socket)
    }

    /// Says that it has gone, and waits until the server has noticed.
    async fn leave(mut self) {
        self.0.socket.shutdown().await.unwrap();
        self.0.drain().await;
    }
}

/// How much text a turn has told.
fn told(feed: &Feed) -> usize {
    let mut follower = feed.follow(0);
    let events = std::iter::from_fn(|| follower.next().now_or_never().flatten());
    let length = |event: TurnEvent| match event {
        TurnEvent::Grew { delta, .. } => delta.len(),
        _ => 0,
    };
    events.map(length).sum()
}

#[tokio::test]
async fn a_continuation_that_somebody_else_follows_goes_on() {
    let world = World::start().await;
    let (mut page, calls) = world.with_calls(&[("pick", json!({}))]).await;
    page.answer(&calls[0], "five");
    let input = page.input();
    // The page has lost its connection, and comes again before the server knows.
    let lost = Reader::of(&world.server, &input).await;
    let asked = world.model.asked().await;
    let mut again = world.server.agui(&input).await;
    assert_eq!(again.next().await["type"], "RUN_STARTED");
    lost.leave().await;
    asked.answer("It is five.");
    assert_eq!(again.lines().await, run(2, &[&text("msg_1", "It is five.")]));
    assert_eq!(world.model.shown().len(), 2);
}

#[tokio::test]
async fn a_continuation_stops_when_the_last_who_follows_it_has_left() {
    let world = World::start().await;
    let (mut page, calls) = world.with_calls(&[("pick", json!({}))]).await;
    page.answer(&calls[0], "five");
    let input = page.input();
    let one = Reader::of(&world.server, &input).await;
    let asked = world.model.asked().await;
    let other = Reader::of(&world.server, &input).await;
    one.leave().await;
    assert_eq!(world.server.status("t").await, "busy");
    other.leave().await;
    asked.dropped().await;
    world.server.until_idle("t").await;
}

/// A thread whose first message is answered: what asks for that once more, and what says a second one.
async fn answered(world: &World) -> (Value, Value) {
    let mut page = Page::new("t");
    page.say("u1", "hi");
    let first = page.clone().input();
    world.model.will_say("Hi.");
    page.run(&world.server).await;
    page.say("u2", "and?");
    (first, page.input())
}

#[tokio::test]
async fn a_reader_of_an_answer_that_is_given_anew_does_not_stop_the_new_one() {
    let world = World::start().await;
    let (input, second) = answered(&world).await;
    let stalled = Reader::slow(&world.server, &second).await;
    let asked = world.model.asked().await;
    // More than fits between the server and a reader that does not read.
    let (piece, count) = ("x".repeat(16_384), 1_000);
    for _ in 0..count {
        asked.say(ModelEvent::Text(piece.clone()));
    }
    let (thread, message) = (SessionId::parse("t").unwrap(), MessageId::parse("u2").unwrap());
    let old = world.server.app.sessions().feed_of(&thread, &message).unwrap();
    until("all of it is told", async || told(&old) == piece.len() * count).await;
    let mut anew = world.server.agui(&input).await;
    asked.dropped().await;
    let asked = world.model.asked().await;
    assert!(!old.follow(0).leave(), "it still follows what is over");
    drop(stalled);
    until("the server has noticed", async || old.follow(0).leave()).await;
    asked.answer("Hello.");
    assert_eq!(anew.lines().await, run(1, &[&text("msg_1", "Hello.")]));
    assert_eq!(world.history("t").await, ["user | hi", "assistant | Hello. | <stop>"]);
}

#[tokio::test]
async fn a_threads_run_goes_on_when_a_reader_of_the_same_turn_leaves() {
    let world = World::start().await;
    let threads = "/api/v1/rooms/default/agui";
    let (mut page, calls) = world.with_calls(&[("pick", json!({}))]).await;
    page.answer(&calls[0], "five");
    let made = world.server.post(&format!("{threads}/t"), json!({})).await.body;
    page.more = json!({ "runId": made["run_id"] });
    let input = page.input();
    let path = format!("{threads}/t/{}", made["run_id"].as_str().unwrap());
    let of_thread = world.server.request(reqwest::Method::POST, &path);
    let mut stream = handback_testkit::AguiStream::open(of_thread, &input).await;
    let asked = world.model.asked().await;
    Reader::of(&world.server, &input).await.leave().await;
    asked.answer("It is five.");
    assert_eq!(stream.last().await["type"], "RUN_FINISHED");
    let kept = world.server.get(&path).await.body;
    assert_eq!(kept["events"].as_array().unwrap().last().unwrap()["type"], "RUN_FINISHED");
}

#[tokio::test]
async fn answers_that_are_sent_again_are_followed_when_the_first_reader_leaves() {
    let world = World::with(|config| {
        handback_testkit::session::permit(config, handback_core::tools::Permission::Ask);
    })
    .await;
    world.server.register("tab", &["t"]).await;
    let mut client = world.server.stream("tab").await;
    world.model.will_call(&[("client_tab_t", json!({}))]);
    let mut page = Page::new("t");
    page.more = json!({ "forwardedProps": { "clientID": "tab" } });
    page.say("u1", "go");
    let stream = page.run(&world.server).await;
    let mut input = page.input();
    input["resume"] = json!([handback_testkit::agui::resolved(&stream.interrupts()[0], json!({ "approved": true }))]);
    let lost = Reader::of(&world.server, &input).await;
    let call = client.next_call().await;
    let mut again = world.server.agui(&input).await;
    assert_eq!(again.next().await["type"], "RUN_STARTED");
    lost.leave().await;
    world.model.will_say("Done.");
    world.server.answer(call["requestID"].as_str().unwrap(), "ran").await;
    assert_eq!(again.lines().await, run(2, &[&result("prt_1", "cal_1", "ran"), &text("msg_1", "Done.")]));
}

#[tokio::test]
async fn a_reader_that_leaves_while_its_turn_goes_on_with_its_results_stops_it() {
    let world = World::start().await;
    world.server.register("tab", &["t"]).await;
    let mut client = world.server.stream("tab").await;
    world.model.will_call(&[("pick", json!({})), ("client_tab_t", json!({}))]);
    let mut page = Page::new("t");
    page.more = json!({ "forwardedProps": { "clientID": "tab" } });
    page.say("u1", "go");
    let mut first = page.begin(&world.server).await;
    let held = client.next_call().await;
    first.until("TOOL_CALL_END").await;
    first.until("TOOL_CALL_END").await;
    page.take(first.seen());
    page.answer(&first.calls("pick")[0], "picked");
    let reader = Reader::of(&world.server, &page.input()).await;
    drop(first);
    world.server.answer(held["requestID"].as_str().unwrap(), "ran").await;
    // It goes on by itself, and is left then.
    let asked = world.model.asked().await;
    assert_eq!(asked.shown.results, ["picked", "ran"]);
    reader.leave().await;
    asked.dropped().await;
    world.server.until_idle("t").await;
    // What failed is tried again, without its results being asked for.
    world.model.will_say("Done.");
    assert_eq!(page.run(&world.server).await.lines().await, run(3, &[&text("msg_1", "Done.")]));
}

#[tokio::test]
async fn whoever_reads_a_turn_that_is_answered_anew_is_told_that_it_is_over() {
    let world = World::start().await;
    let (input, second) = answered(&world).await;
    let mut first = world.server.agui(&second).await;
    let asked = world.model.asked().await;
    asked.say(ModelEvent::Text("Well".to_owned()));
    first.until("TEXT_MESSAGE_CONTENT").await;
    let mut anew = world.server.agui(&input).await;
    world.model.asked().await.answer("Hello.");
    let cancelled = failed_run(2, &[&text("msg_1", "Well")], "cancelled", "The turn was aborted");
    assert_eq!(first.lines().await, cancelled);
    assert_eq!(anew.lines().await, run(1, &[&text("msg_1", "Hello.")]));
}
