use std::collections::BTreeSet;
use std::sync::Weak;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Wake, Waker};

use futures_util::FutureExt;

use super::*;
use crate::clock::Time;
use crate::id::PartId;
use crate::limits::Limits;

const MIB: usize = 1 << 20;

/// Events of which a few bytes may wait.
fn topics(event_bytes: usize) -> Arc<Topics> {
    Arc::new(Topics::new(&Limits { event_bytes, ..Limits::default() }))
}

/// Tells of a growing text, a mebibyte each time; gives what is left of it as long as somebody holds on to it.
fn tell(topics: &Topics, times: usize) -> Vec<Weak<str>> {
    tell_of(topics, &session("ses_1", None), times)
}

pub(crate) fn session(id: &str, client: Option<&str>) -> Arc<Session> {
    let now = Time(0);
    Arc::new(Session {
        id: SessionId::parse(id).unwrap(),
        client: client.map(|client| ClientId::parse(client).unwrap()),
        title: String::new(),
        parent: None,
        agent: None,
        model: None,
        metadata: None,
        has_frontend: false,
        approved: BTreeSet::new(),
        created: now,
        updated: now,
    })
}

fn tell_of(topics: &Topics, session: &Arc<Session>, times: usize) -> Vec<Weak<str>> {
    let mut told = Vec::new();
    for _ in 0..times {
        let delta: Arc<str> = "x".repeat(MIB).into();
        told.push(Arc::downgrade(&delta));
        let (message, part) = (MessageId::parse("msg_1").unwrap(), PartId::parse("prt_1").unwrap());
        let event = SessionEvent::Turn(TurnEvent::Grew { message, part, field: Field::Text, delta });
        topics.emit(Event::Session(session.clone(), event));
    }
    told
}

fn live(told: &[Weak<str>]) -> usize {
    told.iter().filter(|text| text.strong_count() > 0).count()
}

#[tokio::test]
async fn a_listener_that_does_not_listen_holds_on_to_a_bounded_number_of_bytes_and_has_missed_something() {
    let topics = topics(8 * MIB);
    let mut slow = topics.subscribe(Topic::Everything);
    let mut quick = topics.subscribe(Topic::Everything);
    let mut told = Vec::new();
    for _ in 0..100 {
        told.extend(tell(&topics, 1));
        assert!(quick.next().now_or_never().flatten().is_some(), "who keeps up gets everything");
        assert!(live(&told) <= 8 && topics.held() <= 8 * MIB, "{}", live(&told));
    }
    assert_eq!(live(&told), 7, "seven fit, each with what an event takes itself");
    assert!(slow.next().await.is_none());
    // Nothing is left when nobody waits for it.
    drop(slow);
    assert_eq!((live(&told), topics.held()), (0, 0));
}

#[tokio::test]
async fn what_every_listener_has_had_is_forgotten_at_once() {
    let topics = topics(64 * MIB);
    let (mut one, mut other) = (topics.subscribe(Topic::Everything), topics.subscribe(Topic::Everything));
    let told = tell(&topics, 10);
    for left in (0..10).rev() {
        assert!(one.next().await.is_some());
        assert_eq!(live(&told), left + 1);
        assert!(other.next().await.is_some());
        assert_eq!(live(&told), left);
    }
    // One that comes later gets what comes later, and one that leaves waits for nothing.
    let later = tell(&topics, 2);
    let mut new = topics.subscribe(Topic::Everything);
    let newest = tell(&topics, 1);
    drop((one, other));
    assert_eq!((live(&later), live(&newest)), (0, 1));
    assert!(new.next().await.is_some());
    assert_eq!(live(&newest), 0);
    assert!(new.next().now_or_never().is_none());
}

#[tokio::test]
async fn an_event_that_weighs_more_than_all_may_is_had_by_those_who_keep_up() {
    let topics = topics(1);
    let mut listener = topics.subscribe(Topic::Everything);
    tell(&topics, 1);
    assert!(listener.next().await.is_some());
    tell(&topics, 2);
    assert!(listener.next().await.is_none());
}

#[test]
fn only_those_who_listen_to_it_are_watching() {
    let topics = topics(MIB);
    let (own, other) = (session("ses_1", Some("tab")), session("ses_2", Some("tab")));
    let watched = |session: &Session| topics.are_watched(Some(&session.id), session.client.as_ref());
    assert!(!topics.have_listeners() && !watched(&own));
    let listener = topics.subscribe(Topic::Session(own.id.clone()));
    assert!(topics.have_listeners() && watched(&own) && !watched(&other));
    let of_client = topics.subscribe(Topic::Client(ClientId::parse("tab").unwrap()));
    assert!(watched(&own) && watched(&other) && !watched(&session("ses_3", None)));
    drop(of_client);
    assert!(watched(&own) && !watched(&other));
    drop(listener);
    assert!(!topics.have_listeners() && !watched(&own));
    let everything = topics.subscribe(Topic::Everything);
    assert!(watched(&own) && watched(&other));
    drop(everything);
    assert!(!topics.have_listeners());
}

#[tokio::test]
async fn an_event_goes_to_its_session_its_client_and_everything_and_nobody_else_is_woken() {
    let topics = topics(64 * MIB);
    let (own, other) = (session("ses_1", Some("tab")), session("ses_2", Some("phone")));
    let mut of_session = topics.subscribe(Topic::Session(own.id.clone()));
    let mut of_client = topics.subscribe(Topic::Client(ClientId::parse("tab").unwrap()));
    let mut of_everything = topics.subscribe(Topic::Everything);
    let mut waiting = Box::pin(of_session.next());
    let (waker, woken) = counting_waker();
    assert!(waiting.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    tell_of(&topics, &other, 1);
    assert_eq!(woken.load(Ordering::Relaxed), 0, "another session's event");
    tell_of(&topics, &own, 1);
    assert_eq!(woken.load(Ordering::Relaxed), 1);
    let first = waiting.await.unwrap();
    assert_eq!(first.event.session(), Some(&own.id));
    let same = of_client.next().await.unwrap();
    assert!(Arc::ptr_eq(&first, &same), "it is one event, however many hear of it");
    assert!(of_session.next().now_or_never().is_none() && of_client.next().now_or_never().is_none());
    let seen = [of_everything.next().await.unwrap(), of_everything.next().await.unwrap()];
    assert_eq!(seen.map(|emitted| emitted.event.session().cloned()), [Some(other.id.clone()), Some(own.id.clone())]);
    // It is encoded once.
    let mut times = 0;
    for _ in 0..3 {
        let encoded = first.encoded(|_| {
            times += 1;
            "frame".into()
        });
        assert_eq!(&encoded[..], b"frame");
    }
    assert_eq!(times, 1);
}

#[tokio::test]
async fn those_who_hold_on_to_little_are_not_cut_for_the_sake_of_others() {
    let topics = topics(4 * MIB);
    let mut greedy: Vec<Subscription> = Vec::new();
    for number in 0..8 {
        let session = session(&format!("greedy {number}"), None);
        greedy.push(topics.subscribe(Topic::Session(session.id.clone())));
        tell_of(&topics, &session, 8);
    }
    assert!(topics.held() <= 12 * MIB, "{}: each of them holds on to one at least", topics.held());
    let modest = session("modest", None);
    let mut listener = topics.subscribe(Topic::Session(modest.id.clone()));
    for _ in 0..10 {
        topics.emit(Event::Session(modest.clone(), SessionEvent::Busy));
    }
    for _ in 0..10 {
        assert!(listener.next().await.is_some());
    }
    for mut listener in greedy {
        assert!(listener.next().await.is_none());
    }
}

/// A waker that counts.
fn counting_waker() -> (Waker, Arc<AtomicUsize>) {
    struct Counting(Arc<AtomicUsize>);
    impl Wake for Counting {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
    let woken = Arc::new(AtomicUsize::new(0));
    (Arc::new(Counting(woken.clone())).into(), woken)
}
