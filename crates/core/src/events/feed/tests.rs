//! A turn's feed.

use futures_util::FutureExt;

use super::*;

fn feed() -> (Feed, CloseFeed) {
    let feed = Feed::default();
    (feed.clone(), feed.closer())
}

fn piece(part: &str, delta: &str) -> TurnEvent {
    let (message, part) = (MessageId::parse("m").unwrap(), PartId::parse(part).unwrap());
    TurnEvent::Grew { message, part, field: Field::Text, delta: delta.into() }
}

fn end() -> TurnEvent {
    TurnEvent::Ended(None)
}

fn brief(event: &TurnEvent) -> String {
    match event {
        TurnEvent::Grew { part, delta, .. } => format!("{part}:{delta}"),
        TurnEvent::Ended(_) => "end".to_owned(),
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
    let mut early = feed.follow(0);
    feed.tell(piece("a", "1"));
    assert_eq!(got(&mut early), (vec!["a:1".to_owned()], false));
    feed.tell(piece("a", "2"));
    let mut late = feed.follow(0);
    assert_eq!(got(&mut late).0, ["a:1", "a:2"]);
    drop(end);
    assert_eq!(got(&mut early), (vec!["a:2".to_owned()], true));
    assert_eq!(got(&mut late), (Vec::new(), true));
    assert_eq!(got(&mut feed.follow(0)), (vec!["a:1".to_owned(), "a:2".to_owned()], true));
}

#[tokio::test]
async fn a_follower_wakes_up() {
    let (feed, end) = feed();
    let mut follower = feed.follow(0);
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
async fn a_number_always_means_the_same_event() {
    let (feed, _end) = feed();
    for (part, delta) in [("a", "1"), ("a", "2"), ("b", "3"), ("a", "4"), ("a", "ö"), ("b", "")] {
        feed.tell(piece(part, delta));
    }
    feed.tell(end());
    let all = ["a:1", "a:2", "b:3", "a:4", "a:ö", "b:", "end"];
    for from in 0..=all.len() {
        assert_eq!(got(&mut feed.follow(from)).0, all[from..]);
    }
    assert_eq!(got(&mut feed.follow(99)).0, [""; 0]);
    assert_eq!(
        feed.milestones().iter().map(|(number, event)| (*number, brief(event))).collect::<Vec<_>>(),
        [(6, "end".to_owned())]
    );
}

#[tokio::test]
async fn many_pieces_take_little_more_than_their_text() {
    let (feed, _end) = feed();
    for _ in 0..200_000 {
        feed.tell(piece("a", "x"));
    }
    let told = feed.lock();
    assert_eq!((told.events.len(), told.texts.len(), told.texts[0].text.len()), (200_000, 1, 200_000));
    assert!(std::mem::size_of::<FeedEntry>() <= 16);
}

#[test]
fn of_all_who_leave_a_turn_the_last_is_told_so() {
    let (feed, _end) = feed();
    let [mut one, mut two] = [feed.follow(0), feed.follow(0)];
    assert!(!one.leave());
    assert!(two.leave());
    // Somebody else has their place before they are gone.
    let (mut three, mut four) = (feed.follow(0), feed.follow(0));
    drop((one, two));
    feed.tell(piece("p", "hello"));
    for follower in [&mut three, &mut four] {
        assert!(matches!(follower.next().now_or_never(), Some(Some(_))));
    }
    assert!(!three.leave() && four.leave());
}
