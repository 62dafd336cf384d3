use std::collections::BTreeSet;
use std::sync::Weak;

use futures_util::FutureExt;

use super::*;
use crate::clock::Time;

const MIB: usize = 1 << 20;

/// Events of which a few bytes may wait.
fn events(event_bytes: usize) -> Events {
    Events::new(&Limits { event_bytes, ..Limits::default() })
}

/// Tells of a growing text, a mebibyte each time; gives what is left of it as long as somebody holds on to it.
fn tell(events: &Events, times: usize) -> Vec<Weak<str>> {
    let now = Time(0);
    let session = Arc::new(Session {
        id: SessionId::parse("ses_1").unwrap(),
        client: None,
        title: String::new(),
        parent: None,
        agent: None,
        model: None,
        metadata: None,
        has_frontend: false,
        approved: BTreeSet::new(),
        created: now,
        updated: now,
    });
    let mut told = Vec::new();
    for _ in 0..times {
        let delta: Arc<str> = "x".repeat(MIB).into();
        told.push(Arc::downgrade(&delta));
        let (message, part) = (MessageId::parse("msg_1").unwrap(), PartId::parse("prt_1").unwrap());
        let event = SessionEvent::Delta { message, part, field: Field::Text, delta };
        events.emit(|| Event::Session(session.clone(), event));
    }
    told
}

fn live(told: &[Weak<str>]) -> usize {
    told.iter().filter(|text| text.strong_count() > 0).count()
}

#[tokio::test]
async fn a_listener_that_does_not_listen_holds_on_to_a_bounded_number_of_bytes_and_has_missed_something() {
    let events = events(8 * MIB);
    let mut slow = events.subscribe();
    let mut quick = events.subscribe();
    let mut told = Vec::new();
    for _ in 0..100 {
        told.extend(tell(&events, 1));
        assert!(quick.next().now_or_never().flatten().is_some(), "who keeps up gets everything");
        assert!(live(&told) <= 8 && events.lock().bytes() <= 8 * MIB, "{}", live(&told));
    }
    assert_eq!(live(&told), 7, "seven fit, each with what an event takes itself");
    assert!(slow.next().await.is_none());
    // Nothing is left when nobody waits for it.
    drop(slow);
    assert_eq!((live(&told), events.lock().bytes()), (0, 0));
}

#[tokio::test]
async fn what_every_listener_has_had_is_forgotten_at_once() {
    let events = events(64 * MIB);
    let (mut one, mut other) = (events.subscribe(), events.subscribe());
    let told = tell(&events, 10);
    for left in (0..10).rev() {
        assert!(one.next().await.is_some());
        assert_eq!(live(&told), left + 1);
        assert!(other.next().await.is_some());
        assert_eq!(live(&told), left);
    }
    // One that comes later gets what comes later, and one that leaves waits for nothing.
    let later = tell(&events, 2);
    let mut new = events.subscribe();
    let newest = tell(&events, 1);
    drop((one, other));
    assert_eq!((live(&later), live(&newest)), (0, 1));
    assert!(new.next().await.is_some());
    assert_eq!(live(&newest), 0);
    assert!(new.next().now_or_never().is_none());
}

#[tokio::test]
async fn an_event_that_weighs_more_than_all_may_is_had_by_those_who_keep_up() {
    let events = events(1);
    let mut listener = events.subscribe();
    tell(&events, 1);
    assert!(listener.next().await.is_some());
    tell(&events, 2);
    assert!(listener.next().await.is_none());
}

#[test]
fn nothing_is_made_while_nobody_listens() {
    let events = events(MIB);
    events.emit(|| unreachable!("nobody listens"));
    drop(events.subscribe());
    events.emit(|| unreachable!("nobody listens any more"));
    assert!(!events.is_watched());
}
