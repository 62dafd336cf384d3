//! A turn's feed.

use futures_util::FutureExt;

use super::*;
use crate::event::Field;
use crate::id::PartId;
use crate::message::{Message, Role, UserMessage};

fn feed() -> (Feed, EndOfFeed) {
    Feed::new(MessageId::parse("user").unwrap(), false)
}

fn piece(part: &str, delta: &str) -> RunEvent {
    RunEvent::Session(SessionEvent::Delta {
        message: MessageId::parse("m").unwrap(),
        part: PartId::parse(part).unwrap(),
        field: Field::Text,
        delta: delta.into(),
    })
}

/// Stands for the end of a message.
fn message() -> RunEvent {
    let role = UserMessage {
        agent: "a".into(),
        model: crate::message::ModelRef::parse("a/b").unwrap(),
        system: None,
        tools: Default::default(),
        wants_reply: true,
        connection: None,
    };
    RunEvent::Session(SessionEvent::Message(Arc::new(Message {
        id: MessageId::parse("m").unwrap(),
        session: crate::id::SessionId::parse("s").unwrap(),
        created: crate::clock::Time(0),
        role: Role::User(role),
        parts: Vec::new(),
    })))
}

fn brief(event: &RunEvent) -> String {
    match event {
        RunEvent::Session(SessionEvent::Delta { part, delta, .. }) => format!("{part}:{delta}"),
        RunEvent::Session(SessionEvent::Message(_)) => "message".to_owned(),
        other => format!("{other:?}"),
    }
}

/// What a follower can get without waiting; whether the feed is over.
fn got(follower: &mut Follower) -> (Vec<String>, bool) {
    let mut events = Vec::new();
    loop {
        match follower.next().now_or_never() {
            Some(Some(event)) => events.push(brief(&event)),
            Some(None) => return (events, true),
            None => return (events, false),
        }
    }
}

#[tokio::test]
async fn whoever_comes_late_gets_all_of_it() {
    let (feed, end) = feed();
    let mut early = feed.follow();
    feed.tell(piece("a", "1"));
    assert_eq!(got(&mut early), (vec!["a:1".to_owned()], false));
    feed.tell(piece("a", "2"));
    let mut late = feed.follow();
    assert_eq!(got(&mut late).0, ["a:1", "a:2"]);
    drop(end);
    assert_eq!(got(&mut early), (vec!["a:2".to_owned()], true));
    assert_eq!(got(&mut late), (Vec::new(), true));
    assert_eq!(got(&mut feed.follow()), (vec!["a:1".to_owned(), "a:2".to_owned()], true));
}

#[tokio::test]
async fn a_follower_wakes_up() {
    let (feed, end) = feed();
    let mut follower = feed.follow();
    let waiting = async { (follower.next().await.is_some(), follower.next().await.is_none()) };
    let telling = async {
        tokio::task::yield_now().await;
        feed.tell(piece("a", "1"));
        tokio::task::yield_now().await;
        drop(end);
    };
    assert_eq!(tokio::join!(waiting, telling).0, (true, true));
}

#[tokio::test]
async fn pieces_that_all_have_got_are_put_together_and_nobody_misses_or_repeats_one() {
    let (feed, _end) = feed();
    let (mut quick, mut slow) = (feed.follow(), feed.follow());
    for (part, delta) in [("a", "1"), ("a", "2"), ("b", "3"), ("a", "4"), ("a", "5")] {
        feed.tell(piece(part, delta));
    }
    assert_eq!(got(&mut quick).0, ["a:1", "a:2", "b:3", "a:4", "a:5"]);
    assert_eq!(slow.next().now_or_never().flatten().as_ref().map(brief).as_deref(), Some("a:1"));
    feed.tell(message());
    // The slow one still needs the others as they are.
    assert_eq!(got(&mut feed.follow()).0, ["a:1", "a:2", "b:3", "a:4", "a:5", "message"]);
    assert_eq!(got(&mut slow).0, ["a:2", "b:3", "a:4", "a:5", "message"]);
    assert_eq!(got(&mut quick).0, ["message"]);
    feed.tell(message());
    assert_eq!(got(&mut feed.follow()).0, ["a:12", "b:3", "a:45", "message", "message"]);
    assert_eq!((got(&mut slow).0, got(&mut quick).0), (vec!["message".to_owned()], vec!["message".to_owned()]));
}

#[tokio::test]
async fn one_who_leaves_holds_nothing_up_and_makes_room() {
    let (feed, _end) = feed();
    let gone = feed.follow();
    feed.tell(piece("a", "1"));
    feed.tell(piece("a", "2"));
    drop(gone);
    feed.tell(message());
    assert_eq!(got(&mut feed.follow()).0, ["a:12", "message"]);
    assert_eq!(feed.lock().followers.len(), 1);
}

#[tokio::test]
async fn many_pieces_cost_in_proportion_to_their_number() {
    let (feed, _end) = feed();
    let mut follower = feed.follow();
    for number in 0..200_000 {
        feed.tell(piece("a", "x"));
        if number % 2 == 0 {
            _ = got(&mut follower);
        }
    }
    _ = got(&mut follower);
    feed.tell(message());
    assert_eq!(feed.lock().events.len(), 2);
}

#[test]
fn of_all_who_leave_a_turn_the_last_is_told_so() {
    let (feed, _end) = feed();
    let [mut one, mut two] = [feed.follow(), feed.follow()];
    assert!(!one.leave());
    assert!(two.leave());
    // Somebody else has their place before they are gone.
    let (mut three, mut four) = (feed.follow(), feed.follow());
    drop((one, two));
    feed.tell(piece("p", "hello"));
    for follower in [&mut three, &mut four] {
        assert!(matches!(follower.next().now_or_never(), Some(Some(_))));
    }
    assert!(!three.leave() && four.leave());
}

#[tokio::test]
async fn what_a_turn_begins_with_is_waited_for_until_it_is_kept_or_the_turn_is_over() {
    let (feed, end) = feed();
    assert!(feed.until_kept().now_or_never().is_none());
    feed.kept();
    feed.until_kept().await;
    let (given_up, its_end) = self::feed();
    drop((end, its_end));
    given_up.until_kept().await;
}
