use std::sync::atomic::AtomicBool;

use futures_util::FutureExt;
use tokio::sync::Notify;

use super::super::history::tests::{id, user};
use super::*;
use crate::events;
use crate::id::ClientId;
use crate::id::MessageId;
use crate::store::{MemoryStore, Most, Page, PartBody, SessionFilter, SessionPlace, StorageUsed};

/// Reads take a moment, and show what was there before it, or after it when they are told to; writes fail when they are,
/// or wait for room.
#[derive(Default)]
struct Slow {
    kept: Arc<MemoryStore>,
    shows_after: AtomicBool,
    reads: AtomicUsize,
    fails: AtomicBool,
    room: Arc<Notify>,
}

impl SessionStore for Slow {
    fn messages(&self, session: &SessionId) -> StoreFuture<Vec<Arc<Message>>> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        let before = (!self.shows_after.load(Ordering::Relaxed)).then(|| self.kept.messages(session));
        let (kept, session) = (self.kept.clone(), session.clone());
        Box::pin(async move {
            tokio::task::yield_now().await;
            before.unwrap_or_else(|| kept.messages(&session)).await
        })
    }

    fn save_session(&self, session: &Arc<Session>, if_full: IfFull) -> StoreFuture<()> {
        self.kept.save_session(session, if_full)
    }

    fn save_messages(&self, messages: Vec<Arc<Message>>, if_full: IfFull) -> StoreFuture<()> {
        match self.fails.load(Ordering::Relaxed) {
            true if if_full == IfFull::Waits => {
                let (kept, room) = (self.kept.clone(), self.room.clone());
                Box::pin(async move {
                    room.notified().await;
                    kept.save_messages(messages, if_full).await
                })
            }
            true => Box::pin(async { Err(StoreError::Failed("as the test wants it".to_owned())) }),
            false => self.kept.save_messages(messages, if_full),
        }
    }

    fn replace_from(&self, message: &Arc<Message>) -> StoreFuture<()> {
        self.kept.replace_from(message)
    }

    fn delete_session(&self, session: &SessionId) -> StoreFuture<bool> {
        self.kept.delete_session(session)
    }

    fn session(&self, _: &SessionId) -> StoreFuture<Option<Arc<Session>>> {
        unreachable!()
    }

    fn list_sessions(&self, _: &SessionFilter, _: Option<&SessionPlace>, _: Most) -> StoreFuture<Page<Arc<Session>>> {
        unreachable!()
    }

    fn messages_after(&self, _: &SessionId, _: Option<&MessageId>, _: Most) -> StoreFuture<Option<Page<Arc<Message>>>> {
        unreachable!()
    }

    fn newest_messages(&self, _: &SessionId, _: Option<&MessageId>, _: usize) -> StoreFuture<Option<Vec<MessageId>>> {
        unreachable!()
    }

    fn keeps_all(&self) -> bool {
        true
    }

    fn usage(&self, _: Option<&ClientId>) -> StoreFuture<StorageUsed> {
        unreachable!()
    }

    fn open_turns(&self) -> StoreFuture<Vec<Arc<Message>>> {
        unreachable!()
    }
}

fn session(id: &str) -> Arc<Session> {
    events::tests::session(id, None)
}

/// A store with the session `ses`, of which so much may be held.
async fn held(most: usize) -> (Arc<HeldSessions>, Arc<Slow>, SessionId) {
    let store = Arc::new(Slow::default());
    let ses = session("ses");
    store.save_session(&ses, IfFull::Fails).await.unwrap();
    (Arc::new(HeldSessions::new(store.clone(), most)), store, ses.id.clone())
}

fn ids(held: &HeldSession) -> Vec<String> {
    held.history(|history| history.all().map(|message| message.id.to_string()).collect())
}

#[tokio::test]
async fn a_history_is_read_once_and_follows_what_is_saved() {
    let (sessions, store, ses) = held(usize::MAX).await;
    sessions.save_messages(vec![user("a", "one")], IfFull::Fails).await.unwrap();
    assert_eq!(store.reads.load(Ordering::Relaxed), 0, "nobody wants to know");
    assert_eq!(ids(&sessions.hold(&ses).await.unwrap()), ["a"]);
    for name in ["b", "c"] {
        sessions.save_messages(vec![user(name, "more")], IfFull::Fails).await.unwrap();
    }
    sessions.save_messages(vec![user("a", "changed")], IfFull::Fails).await.unwrap();
    let held = sessions.hold(&ses).await.unwrap();
    assert_eq!(ids(&held), ["a", "b", "c"]);
    sessions.replace_from(&user("b", "anew")).await.unwrap();
    assert_eq!((ids(&held), store.reads.load(Ordering::Relaxed)), (vec!["a".to_owned(), "b".to_owned()], 1));
    // What is held is what is kept.
    sessions.forget(&ses);
    let again = sessions.hold(&ses).await.unwrap();
    assert_eq!((ids(&again), store.reads.load(Ordering::Relaxed)), (ids(&held), 2));
    let texts = |held: &HeldSession| held.history(|history| format!("{:?}", history.get(&id("a"))));
    assert_eq!(texts(&again), texts(&held));
    sessions.delete_session(&ses).await.unwrap();
    assert!(ids(&sessions.hold(&ses).await.unwrap()).is_empty());
}

#[tokio::test]
async fn what_changes_while_it_is_read_is_there() {
    let (sessions, store, ses) = held(usize::MAX).await;
    for name in ["a", "b", "c"] {
        sessions.save_messages(vec![user(name, "before")], IfFull::Fails).await.unwrap();
    }
    let mut reading = Box::pin(sessions.hold(&ses));
    let mut other = Box::pin(sessions.hold(&ses));
    assert!((&mut reading).now_or_never().is_none() && (&mut other).now_or_never().is_none());
    sessions.replace_from(&user("b", "anew")).await.unwrap();
    sessions.save_messages(vec![user("d", "meanwhile")], IfFull::Fails).await.unwrap();
    let mut changed = Session::clone(&session("ses"));
    changed.title = "meanwhile".to_owned();
    sessions.save_session(&Arc::new(changed), IfFull::Fails).await.unwrap();
    let (held, same) = (reading.await.unwrap(), other.await.unwrap());
    assert_eq!(ids(&held), ["a", "b", "d"]);
    assert_eq!(held.session().map(|session| session.title.clone()).as_deref(), Some("meanwhile"));
    assert!(Arc::ptr_eq(&held, &same) && store.reads.load(Ordering::Relaxed) == 2);
}

#[tokio::test]
async fn what_could_not_be_kept_is_not_held() {
    let (sessions, store, ses) = held(usize::MAX).await;
    sessions.save_messages(vec![user("a", "kept")], IfFull::Fails).await.unwrap();
    sessions.hold(&ses).await.unwrap();
    store.fails.store(true, Ordering::Relaxed);
    sessions.save_messages(vec![user("b", "lost")], IfFull::Fails).await.unwrap_err();
    assert_eq!(ids(&sessions.hold(&ses).await.unwrap()), ["a"]);
}

#[tokio::test]
async fn what_waits_for_room_is_held_although_something_else_could_not_be_kept() {
    // Nothing that nobody uses is held.
    let (sessions, store, ses) = held(0).await;
    sessions.save_messages(vec![user("a", "kept")], IfFull::Fails).await.unwrap();
    store.fails.store(true, Ordering::Relaxed);
    drop(sessions.save_messages(vec![user("b", "earlier")], IfFull::Waits));
    let saving = sessions.save_messages(vec![user("b", "waits")], IfFull::Waits);
    sessions.save_messages(vec![user("c", "lost")], IfFull::Fails).await.unwrap_err();
    let held = sessions.hold(&ses).await.unwrap();
    assert_eq!(ids(&held), ["a", "b"]);
    let said = held.history(|history| history.all().map(|message| format!("{:?}", message.parts)).collect::<String>());
    assert!(said.contains("waits") && !said.contains("earlier"), "{said}");
    store.room.notify_one();
    saving.await.unwrap();
    assert!(sessions.held.of(&ses).get(&ses).is_some_and(|held| held.lock().unsaved.is_empty()));
    sessions.forget(&ses);
    assert_eq!(ids(&sessions.hold(&ses).await.unwrap()), ["a", "b"]);
}

#[tokio::test]
async fn when_there_is_too_much_what_was_used_longest_ago_goes_but_nothing_that_is_in_use() {
    let (sessions, store, ses) = held(1).await;
    let in_use = sessions.hold(&ses).await.unwrap();
    for number in 0..100 {
        let other = session(&format!("other-{number}"));
        store.save_session(&other, IfFull::Fails).await.unwrap();
        sessions.hold(&other.id).await.unwrap();
    }
    assert_eq!(store.reads.load(Ordering::Relaxed), 101);
    let held = || (0..sessions.held.parts()).map(|part| sessions.held.part(part).len()).sum::<usize>();
    // The one in use, and the last one.
    assert!(held() <= 2, "{}", held());
    assert!(Arc::ptr_eq(&in_use, &sessions.hold(&ses).await.unwrap()));
    assert_eq!(store.reads.load(Ordering::Relaxed), 101);
    drop(in_use);
    sessions.forget(&ses);
    assert!(sessions.room.bytes.load(Ordering::Relaxed) <= 2 * ENTRY);
}

/// Whoever reads has gone; what is changed afterwards is neither collected nor missed.
#[tokio::test]
async fn a_reading_that_was_given_up_costs_nothing_and_is_done_by_the_next() {
    let (sessions, _store, ses) = held(usize::MAX).await;
    assert!(sessions.hold(&ses).now_or_never().is_none());
    let before = sessions.room.bytes.load(Ordering::Relaxed);
    for number in 0..100 {
        sessions.save_messages(vec![user(&format!("m{number:02}"), &"x".repeat(1_000))], IfFull::Fails).await.unwrap();
    }
    assert!(sessions.room.bytes.load(Ordering::Relaxed) <= before + ENTRY);
    assert_eq!(ids(&sessions.hold(&ses).await.unwrap()).len(), 100);
}

/// What is read may be from any moment between the changes.
#[tokio::test]
async fn whatever_changes_while_it_is_read_what_is_held_is_what_is_kept() {
    for (shown_after, shows_after) in (0..4).flat_map(|changes| [(changes, false), (changes, true)]) {
        let (sessions, store, ses) = held(usize::MAX).await;
        store.shows_after.store(shows_after, Ordering::Relaxed);
        sessions.save_messages(vec![user("a", "before")], IfFull::Fails).await.unwrap();
        let mut reading = Box::pin(sessions.hold(&ses));
        assert!((&mut reading).now_or_never().is_none());
        let mut read = None;
        for change in 0..3 {
            match change {
                0 => sessions.save_messages(vec![user("b", "meanwhile")], IfFull::Fails).await.unwrap(),
                1 => sessions.replace_from(&user("a", "anew")).await.unwrap(),
                _ => sessions.save_messages(vec![user("c", "later")], IfFull::Fails).await.unwrap(),
            }
            if change + 1 == shown_after {
                // The reader takes up here, and may see what is there now.
                read = (&mut reading).now_or_never();
            }
        }
        let kept: Vec<String> =
            store.kept.messages(&ses).await.unwrap().iter().map(|message| message.id.to_string()).collect();
        let held = match read {
            Some(held) => held,
            None => reading.await,
        };
        assert_eq!(ids(&held.unwrap()), kept, "shown after {shown_after} changes");
        assert_eq!(kept, ["a", "c"]);
    }
}

#[tokio::test]
async fn an_edit_sees_the_one_before_it_although_nobody_has_waited_for_that() {
    let (sessions, _store, ses) = held(usize::MAX).await;
    sessions.save_messages(vec![user("a", "0")], IfFull::Fails).await.unwrap();
    sessions.hold(&ses).await.unwrap();
    let count = |history: &History| {
        let said = history.get(&id("a")).unwrap().clone();
        let PartBody::Text { text, .. } = &said.parts[0].body else { panic!("{said:?}") };
        let next = text.parse::<usize>().unwrap() + 1;
        (vec![user("a", &next.to_string())], next)
    };
    let mut edits: Vec<_> = (0..10).map(|_| Box::pin(sessions.edit(&ses, IfFull::Fails, count))).collect();
    let results: Vec<usize> =
        futures_util::future::join_all(edits.drain(..)).await.into_iter().map(Result::unwrap).collect();
    assert_eq!(results, (1..=10).collect::<Vec<_>>());
}
