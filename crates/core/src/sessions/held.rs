//! Sessions with their histories in memory. Each is read from the store once, stays while it is used, and is evicted
//! later when room is needed. The store has the truth. All changes to sessions and messages go through here, so that
//! memory and store see the same changes in the same order.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::OnceCell;

use super::history::{Conversation, History};
use crate::id::SessionId;
use crate::sharded::Sharded;
use crate::store::{IfFull, Message, Session, SessionStore, StoreError, StoreFuture, weight};

/// The approximate size in bytes of a held session without messages.
const ENTRY: usize = 512;

/// The held sessions.
pub(super) struct HeldSessions {
    store: Arc<dyn SessionStore>,
    held: Sharded<SessionId, Arc<HeldSession>>,
    room: Arc<Room>,
}

/// The bound on memory for sessions that nobody uses.
struct Room {
    /// The approximate number of bytes that are held.
    bytes: AtomicUsize,
    most: usize,
    /// Counts uses. The least recently used session is evicted first.
    uses: AtomicU64,
    /// The part of the map in which the next eviction looks.
    next: AtomicUsize,
}

/// A held session.
pub(super) struct HeldSession {
    // A std mutex is enough: nothing is awaited while it is locked.
    state: Mutex<State>,
    is_read: OnceCell<()>,
    /// The value of `Room::uses` at the last use.
    used: AtomicU64,
    room: Arc<Room>,
}

#[derive(Default)]
struct State {
    /// The session as last saved, if it was saved while it was held.
    session: Option<Arc<Session>>,
    history: History,
    is_read: bool,
    /// Whether the messages have changed since the read began.
    is_changed: bool,
    /// Messages whose saves wait for room, perhaps, and are not read from the store until then.
    unsaved: Vec<Arc<Message>>,
    /// The approximate number of bytes that `Room` counts for this session.
    counted: usize,
}

enum Change {
    Session(Arc<Session>),
    Messages(Vec<Arc<Message>>),
    ReplacedFrom(Arc<Message>),
}

impl State {
    fn change(&mut self, change: Change, room: &Room) {
        match change {
            Change::Session(session) => self.session = Some(session),
            _ if !self.is_read => self.is_changed = true,
            Change::Messages(messages) => messages.iter().for_each(|message| self.history.save(message)),
            Change::ReplacedFrom(message) => {
                self.history.delete_from(&message.id);
                self.history.save(&message);
            }
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

    /// The current session, if it is known here.
    pub(super) fn session(&self) -> Option<Arc<Session>> {
        self.lock().session.clone()
    }

    /// Gives access to the messages.
    pub(super) fn history<R>(&self, look: impl FnOnce(&History) -> R) -> R {
        look(&self.lock().history)
    }

    /// The conversation that the model is shown in the turn that answers a message.
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

    /// Holds a session with its messages. Reads them if the session is not held already.
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

    /// Reads the messages. If they change meanwhile, the result may or may not have the change, so they are read again.
    async fn read(&self, id: &SessionId, held: &HeldSession) -> Result<(), StoreError> {
        loop {
            held.lock().is_changed = false;
            let messages = self.store.messages(id).await?;
            let mut state = held.lock();
            if !state.is_changed {
                (state.history, state.is_read) = (History::of(messages), true);
                let State { history, unsaved, .. } = &mut *state;
                unsaved.iter().for_each(|message| history.save(message));
                state.count(&self.room);
                return Ok(());
            }
        }
    }

    pub(super) fn get(&self, id: &SessionId) -> Option<Arc<HeldSession>> {
        self.held.of(id).get(id).filter(|held| held.is_read.initialized()).cloned()
    }

    /// Drops a session from memory, except what waits to be stored. It is read again when it is needed.
    pub(super) fn forget(&self, id: &SessionId) {
        let mut part = self.held.of(id);
        let forgotten = part.remove(id);
        let unsaved = forgotten.as_ref().map(|held| std::mem::take(&mut held.lock().unsaved)).unwrap_or_default();
        if !unsaved.is_empty() {
            let held = self.new_entry();
            held.lock().unsaved = unsaved;
            part.insert(id.clone(), held);
        }
        drop(part);
        drop(forgotten);
    }

    /// If too much is held, drops sessions that nobody uses: part by part, least recently used first.
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

    /// Stores a session and replaces its earlier version.
    pub(super) fn save_session(self: &Arc<Self>, session: &Arc<Session>, if_full: IfFull) -> StoreFuture<()> {
        self.write(&session.id, || Change::Session(session.clone()), |store| store.save_session(session, if_full))
    }

    /// Stores messages of one session, all or none, and replaces their earlier versions.
    pub(super) fn save_messages(self: &Arc<Self>, messages: Vec<Arc<Message>>, if_full: IfFull) -> StoreFuture<()> {
        let Some(id) = messages.first().map(|message| message.session.clone()) else {
            return Box::pin(std::future::ready(Ok(())));
        };
        let mut part = self.held.of(&id);
        let held = match if_full {
            // What waits to be stored is known here meanwhile.
            IfFull::Waits => part.entry(id).or_insert_with(|| self.new_entry()).clone(),
            IfFull::Fails => match part.get(&id) {
                Some(held) => held.clone(),
                None => return self.store.save_messages(messages, if_full),
            },
        };
        let mut state = held.lock();
        self.save_locked(&held, &mut state, messages, if_full)
    }

    /// The same, with the session already locked.
    fn save_locked(
        self: &Arc<Self>,
        held: &Arc<HeldSession>,
        state: &mut State,
        messages: Vec<Arc<Message>>,
        if_full: IfFull,
    ) -> StoreFuture<()> {
        state.change(Change::Messages(messages.clone()), &self.room);
        if if_full == IfFull::Waits {
            // The save of an earlier version may never be awaited.
            state.unsaved.retain(|unsaved| messages.iter().all(|message| message.id != unsaved.id));
            state.unsaved.extend(messages.iter().cloned());
        }
        let saving = self.store.save_messages(messages.clone(), if_full);
        let (sessions, held) = (self.clone(), held.clone());
        Box::pin(async move {
            let saved = saving.await;
            // Until then it stays in memory.
            drop(held);
            sessions.settle(&messages, saved)
        })
    }

    /// Notes that a save is over.
    fn settle(&self, messages: &[Arc<Message>], saved: Result<(), StoreError>) -> Result<(), StoreError> {
        let Some(id) = messages.first().map(|message| &message.session) else { return saved };
        if let Some(held) = self.held.of(id).get(id) {
            let is_one = |unsaved: &Arc<Message>| messages.iter().any(|message| Arc::ptr_eq(message, unsaved));
            held.lock().unsaved.retain(|unsaved| !is_one(unsaved));
        }
        if saved.is_err() {
            // Memory no longer equals the store.
            self.forget(id);
        }
        saved
    }

    /// Stores a message in place of the one with its id and of all messages that were first saved after that.
    pub(super) fn replace_from(self: &Arc<Self>, message: &Arc<Message>) -> StoreFuture<()> {
        self.write(&message.session, || Change::ReplacedFrom(message.clone()), |store| store.replace_from(message))
    }

    /// Changes messages depending on the history, atomically. `edit` returns the messages to store, and a result.
    pub(super) async fn edit<R>(
        self: &Arc<Self>,
        id: &SessionId,
        if_full: IfFull,
        edit: impl FnOnce(&History) -> (Vec<Arc<Message>>, R),
    ) -> Result<R, StoreError> {
        loop {
            let held = self.hold(id).await?;
            let (result, saving) = {
                let part = self.held.of(id);
                // The entry may have been replaced; changes are made to the current one.
                if !part.get(id).is_some_and(|known| Arc::ptr_eq(known, &held)) {
                    continue;
                }
                let mut state = held.lock();
                let (changed, result) = edit(&state.history);
                if changed.is_empty() {
                    return Ok(result);
                }
                let saving = self.save_locked(&held, &mut state, changed, if_full);
                (result, saving)
            };
            drop(held);
            return saving.await.map(|()| result);
        }
    }

    /// Deletes a session.
    pub(super) fn delete_session(&self, session: &SessionId) -> StoreFuture<bool> {
        let mut part = self.held.of(session);
        let forgotten = part.remove(session);
        let deleting = self.store.delete_session(session);
        drop(part);
        drop(forgotten);
        deleting
    }

    /// Changes memory and store, in the same order for all callers.
    fn write(
        self: &Arc<Self>,
        id: &SessionId,
        change: impl FnOnce() -> Change,
        store: impl FnOnce(&dyn SessionStore) -> StoreFuture<()>,
    ) -> StoreFuture<()> {
        // The part of the map stays locked, so that a new read begins after this write.
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
                // Memory no longer equals the store.
                sessions.forget(&id);
            }
            written
        })
    }
}

#[cfg(test)]
mod tests;
