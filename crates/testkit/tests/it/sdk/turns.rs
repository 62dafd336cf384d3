//! Turns that outlive their connections.

use handback_client::{Error, Turn, TurnEvent};
use handback_core::sessions::ModelEvent;
use handback_core::store::{StopReason, TurnError};
use handback_testkit::server::{PATIENCE, until};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::World;

async fn next(turn: &mut Turn) -> TurnEvent {
    timeout(PATIENCE, turn.next()).await.expect("something comes in time").expect("it goes on").unwrap()
}

/// The pieces of text until something else comes, joined, and what that is.
async fn texts(turn: &mut Turn) -> (String, TurnEvent) {
    let mut joined = String::new();
    loop {
        match next(turn).await {
            TurnEvent::Text { text, .. } => joined.push_str(&text),
            other => return (joined, other),
        }
    }
}

/// Reads until so much text has come.
async fn text(turn: &mut Turn, expected: &str) {
    let mut joined = String::new();
    while joined.len() < expected.len() {
        match next(turn).await {
            TurnEvent::Text { text, .. } => joined.push_str(&text),
            other => panic!("{other:?} after {joined}"),
        }
    }
    assert_eq!(joined, expected);
}

#[tokio::test]
async fn a_connection_that_is_lost_loses_nothing_of_the_answer() {
    let world = World::start().await;
    let mut turn = world.session.stream("count");
    let asked = tokio::select! {
        asked = world.model.asked() => asked,
        event = turn.next() => panic!("{event:?}"),
    };
    // Long enough that not every piece of it comes with the whole.
    let long = "0123456789".repeat(1_000);
    let say = |text: &str| asked.say(ModelEvent::Text(text.to_owned()));
    say(&long);
    say(" two");
    text(&mut turn, &format!("{long} two")).await;
    world.proxy.close();
    let TurnEvent::Disconnected { .. } = next(&mut turn).await else { panic!("the connection is lost") };
    say(" three");
    world.proxy.open();
    let TurnEvent::Reconnected = next(&mut turn).await else { panic!("the connection is found") };
    say(" four");
    asked.say(ModelEvent::Stop(StopReason::Stop));
    let (rest, TurnEvent::Done { message, .. }) = texts(&mut turn).await else { panic!("it is done") };
    assert_eq!((rest.as_str(), message.text()), (" three four", format!("{long} two three four")));
    assert!(turn.next().await.is_none());
}

#[tokio::test]
async fn a_turn_that_ends_while_the_connection_is_lost_is_answered() {
    let world = World::start().await;
    let mut turn = world.session.stream("count");
    let asked = tokio::select! {
        asked = world.model.asked() => asked,
        event = turn.next() => panic!("{event:?}"),
    };
    asked.say(ModelEvent::Text("one".to_owned()));
    text(&mut turn, "one").await;
    world.proxy.close();
    let TurnEvent::Disconnected { .. } = next(&mut turn).await else { panic!("the connection is lost") };
    asked.answer(" two");
    world.server.until_idle(&world.session.session().id).await;
    world.proxy.open();
    assert_eq!(turn.finish().await.unwrap().text(), "one two");
    assert_eq!(world.history().await, ["user | count", "assistant | one two | <stop>"]);
}

#[tokio::test]
async fn a_prompt_whose_answer_is_lost_is_said_once() {
    let world = World::start().await;
    world.model.will_say("hello");
    // Of all the answers, only that to a prompt is this.
    world.proxy.swallow("HTTP/1.1 204");
    let answer = timeout(PATIENCE, world.session.prompt("hi")).await.expect("it is answered in time");
    assert_eq!(answer.unwrap().text(), "hello");
    assert_eq!(world.history().await, ["user | hi", "assistant | hello | <stop>"]);
}

#[tokio::test]
async fn prompts_at_the_same_time_each_get_their_own_answer_when_it_is_there() {
    let world = World::start().await;
    let is_answered = CancellationToken::new();
    let first = async {
        let answer = world.session.prompt("one").await;
        is_answered.cancel();
        answer
    };
    let second = async {
        let asked = world.model.asked().await;
        let script = async {
            until("the second waits", async || world.history().await.len() == 3).await;
            asked.answer("1");
            let asked = world.model.asked().await;
            // The session is busy with the second, and that does not keep the first.
            timeout(PATIENCE, is_answered.cancelled()).await.expect("the first is answered in time");
            asked.answer("2");
        };
        tokio::join!(world.session.prompt("two"), script).0
    };
    let (first, second) = tokio::join!(first, second);
    assert_eq!([first.unwrap().text(), second.unwrap().text()], ["1", "2"]);
}

#[tokio::test]
async fn a_turn_that_fails_is_an_error_with_what_had_come() {
    let world = World::start().await;
    let said = Ok(ModelEvent::Text("I was".to_owned()));
    world.model.will(vec![said, Err(TurnError::Other("no more".to_owned()))]);
    let Err(Error::TurnFailed(message)) = world.session.prompt("hi").await else { panic!("it failed") };
    assert_eq!(message.text(), "I was");
    assert_eq!(message.info.error.unwrap().reason(), "no more");
}

#[tokio::test]
async fn a_turn_is_aborted() {
    let world = World::start().await;
    let mut turn = world.session.stream("hi");
    let asked = tokio::select! {
        asked = world.model.asked() => asked,
        event = turn.next() => panic!("{event:?}"),
    };
    turn.abort().await.unwrap();
    asked.dropped().await;
    let Err(failed) = turn.finish().await else { panic!("it was aborted") };
    assert_eq!(failed.to_string(), "The turn was aborted");
    // The session goes on.
    world.model.will_say("again");
    assert_eq!(world.session.prompt("hi again".to_owned()).await.unwrap().text(), "again");
}
