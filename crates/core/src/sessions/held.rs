//! Sessions and their histories that are held in memory: each is read once, while it is used it stays, and afterwards for
//! as long as there is room. The store has the truth. Whatever changes a session or its messages does so through here, so
//! that what is held is what the store has, in the same order.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::future::try_join_all;
use tokio::sync::OnceCell;

use super::history::{Conversation, History};
use crate::id::{MessageId, SessionId};
use crate::sharded::Sharded;
use crate::store::{Message, Session, SessionStore, StoreError, StoreFuture, weight};

/// About how many bytes it takes to hold a session with nothing in it.
const ENTRY: usize = 512;

/// The sessions that are held.
pub(super) struct HeldSessions {
    store: Arc<dyn SessionStore>,
    held: Sharded<SessionId, Arc<HeldSession>>,
    room: Arc<Room>,
}

/// How much may be held while nobody uses it.
struct Room {
    /// About how many bytes are held.
    bytes: AtomicUsize,
    most: usize,
    /// Counts uses: what was used longest ago goes first.
    uses: AtomicU64,
    /// The part where the next eviction looks.
    next: AtomicUsize,
}

/// A session that is held.
pub(super) struct HeldSession {
    // std's mutex: nothing is awaited inside.
    state: Mutex<State>,
    is_read: OnceCell<()>,
    /// When it was used last.
    used: AtomicU64,
    room: Arc<Room>,
}

#[derive(Default)]
struct State {
    /// The session as it was saved last, if it was saved since this is held.
    session: Option<Arc<Session>>,
    history: History,
    is_read: bool,
    /// Whether what was said has changed since it is being read.
    is_changed: bool,
    /// About how many bytes are counted for it.
    counted: usize,
}

enum Change {
    Session(Arc<Session>),
    Message(Arc<Message>),
    DeletedFrom(MessageId),
}

impl State {
    fn change(&mut self, change: Change, room: &Room) {
        match change {
            Change::Session(session) => self.session = Some(session),
            _ if !self.is_read => self.is_changed = true,
            Change::Message(message) => self.history.save(&message),
            Change::DeletedFrom(message) => self.history.delete_from(&message),
        }
        self.count(room);
    }

    fn count(&mut self, room: &Room) {
        let session = self.session.as_deref().map_or(0, weight::of_session);
        let before = std::mem::replace(&mut self.counted, ENTRY + session + self.history.bytes());
        room.bytes.fetch_add(self.counted, Ordering::Relaxed);
        room.bytes.fetch_sub(before, Ordering::Relaxed);
    }
}

impl HeldSession {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The session as it is now, if that is known here.
    pub(super) fn session(&self) -> Option<Arc<Session>> {
        self.lock().session.clone()
    }

    /// Looks at what was said.
    pub(super) fn history<R>(&self, look: impl FnOnce(&History) -> R) -> R {
        look(&self.lock().history)
    }

    /// What a turn is shown that answers a message.
    pub(super) fn conversation(&self, user: &Arc<Message>) -> Conversation {
        self.lock().history.conversation(user)
    }
}

impl Drop for HeldSession {
    fn drop(&mut self) {
        let counted = self.state.get_mut().unwrap_or_else(PoisonError::into_inner).counted;
        self.room.bytes.fetch_sub(counted, Ordering::Relaxed);
    }
}

impl HeldSessions {
    pub(super) fn new(store: Arc<dyn SessionStore>, most: usize) -> Self {
        let (bytes, uses, next) = (AtomicUsize::new(0), AtomicU64::new(0), AtomicUsize::new(0));
        Self { store, held: Sharded::default(), room: Arc::new(Room { bytes, most, uses, next }) }
    }

    /// Holds a session with all that was said in it; reads it if it is not held already.
    pub(super) async fn hold(&self, id: &SessionId) -> Result<Arc<HeldSession>, StoreError> {
        let held = self.held.of(id).entry(id.clone()).or_insert_with(|| self.new_entry()).clone();
        held.used.store(self.room.uses.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
        let read = held.is_read.get_or_try_init(|| self.read(id, &held)).await;
        if let Err(error) = read {
            self.forget(id);
            return Err(error);
        }
        self.make_room();
        Ok(held)
    }

    fn new_entry(&self) -> Arc<HeldSession> {
        Arc::new(HeldSession {
            state: Mutex::default(),
            is_read: OnceCell::new(),
            used: AtomicU64::new(0),
            room: self.room.clone(),
        })
    }

    /// Reads what was said. What is changed meanwhile may be among it or not: then it is read again.
    async fn read(&self, id: &SessionId, held: &HeldSession) -> Result<(), StoreError> {
        loop {
            held.lock().is_changed = false;
            let messages = self.store.messages(id).await?;
            let mut state = held.lock();
            if !state.is_changed {
                (state.history, state.is_read) = (History::of(messages), true);
                state.count(&self.room);
                return Ok(());
            }
        }
    }

    /// A session that is held already.
    pub(super) fn get(&self, id: &SessionId) -> Option<Arc<HeldSession>> {
        self.held.of(id).get(id).filter(|held| held.is_read.initialized()).cloned()
    }

    /// Lets go of a session: it is read again when it is needed.
    pub(super) fn forget(&self, id: &SessionId) {
        let forgotten = self.held.of(id).remove(id);
        drop(forgotten);
    }

    /// Lets go of what nobody uses, if there is too much: one part after the other, what was used longest ago first.
    fn make_room(&self) {
        for _ in 0..self.held.parts() {
            if self.room.bytes.load(Ordering::Relaxed) <= self.room.most {
                return;
            }
            let mut part = self.held.part(self.room.next.fetch_add(1, Ordering::Relaxed));
            let unused = part.iter().filter(|(_, held)| Arc::strong_count(held) == 1);
            let oldest = unused.min_by_key(|(_, held)| held.used.load(Ordering::Relaxed)).map(|(id, _)| id.clone());
            let forgotten = oldest.and_then(|id| part.remove(&id));
            drop(part);
            drop(forgotten);
        }
    }

    /// Keeps a session, in place of what was known of it.
    pub(super) fn save_session(self: &Arc<Self>, session: &Arc<Session>) -> StoreFuture<()> {
        self.write(&session.id, || Change::Session(session.clone()), |store| store.save_session(session))
    }

    /// Keeps a message, in place of what was known of it.
    pub(super) fn save_message(self: &Arc<Self>, message: &Arc<Message>) -> StoreFuture<()> {
        self.write(&message.session, || Change::Message(message.clone()), |store| store.save_message(message))
    }

    /// Forgets a message and all that were first saved after it.
    pub(super) fn delete_messages_from(self: &Arc<Self>, session: &SessionId, message: &MessageId) -> StoreFuture<()> {
        let change = || Change::DeletedFrom(message.clone());
        self.write(session, change, |store| store.delete_messages_from(session, message))
    }

    /// Changes messages by what was said, with nothing in between: `edit` gives those that are to be kept, and something
    /// for whoever asked.
    pub(super) async fn edit<R>(
        self: &Arc<Self>,
        id: &SessionId,
        edit: impl FnOnce(&History) -> (Vec<Arc<Message>>, R),
    ) -> Result<R, StoreError> {
        loop {
            let held = self.hold(id).await?;
            let (result, saving) = {
                let part = self.held.of(id);
                // Whoever changes it looks for it there.
                if !part.get(id).is_some_and(|known| Arc::ptr_eq(known, &held)) {
                    continue;
                }
                let mut state = held.lock();
                let (changed, result) = edit(&state.history);
                let save = |message: Arc<Message>| {
                    let saving = self.store.save_message(&message);
                    state.change(Change::Message(message), &self.room);
                    saving
                };
                (result, changed.into_iter().map(save).collect::<Vec<_>>())
            };
            let saved = try_join_all(saving).await;
            if saved.is_err() {
                self.forget(id);
            }
            return saved.map(|_| result);
        }
    }

    /// Forgets a session.
    pub(super) fn delete_session(&self, session: &SessionId) -> StoreFuture<bool> {
        let mut part = self.held.of(session);
        let forgotten = part.remove(session);
        let deleting = self.store.delete_session(session);
        drop(part);
        drop(forgotten);
        deleting
    }

    /// Changes what is held, and what the store has, in the same order for everybody.
    fn write(
        self: &Arc<Self>,
        id: &SessionId,
        change: impl FnOnce() -> Change,
        store: impl FnOnce(&dyn SessionStore) -> StoreFuture<()>,
    ) -> StoreFuture<()> {
        // Under the lock of its part: whoever reads it anew does so afterwards.
        let part = self.held.of(id);
        let Some(held) = part.get(id) else { return store(&*self.store) };
        let mut state = held.lock();
        state.change(change(), &self.room);
        let writing = store(&*self.store);
        drop(state);
        drop(part);
        let (sessions, id) = (self.clone(), id.clone());
        Box::pin(async move {
            let written = writing.await;
            if written.is_err() {
                // What is held is not what is kept.
                sessions.forget(&id);
            }
            written
        })
    }
}

#[cfg(test)]
mod tests;
