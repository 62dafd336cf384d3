//! The store in memory: nothing outlives the process.

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ahash::HashMap;

use super::{CallFilter, Store, StoreFuture, weight};
use crate::call::{CallHead, FinishedCall};
use crate::clock::Time;
use crate::id::{ClientId, MessageId, RequestId, SessionId};
use crate::message::{Message, Role, Session};

/// Keeps the newest finished calls and the sessions that were used last. When there are too many, or they take too
/// much room, the oldest go first.
#[derive(Debug)]
pub struct MemoryStore {
    // std's mutexes: nothing is awaited inside. Two, since calls are many and sessions are few.
    kept: Mutex<Kept>,
    sessions: Mutex<Sessions>,
    bounds: Bounds,
}

/// How much a [`MemoryStore`] keeps.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Finished calls.
    pub calls: usize,
    /// About how many bytes of finished calls.
    pub call_bytes: usize,
    /// Sessions.
    pub sessions: usize,
    /// About how many bytes of messages.
    pub message_bytes: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { calls: 10_000, call_bytes: 64 << 20, sessions: 100_000, message_bytes: 1 << 30 }
    }
}

#[derive(Debug, Default)]
struct Kept {
    calls: HashMap<RequestId, Arc<FinishedCall>>,
    order: VecDeque<RequestId>,
    bytes: usize,
}

#[derive(Debug, Default)]
struct Sessions {
    kept: HashMap<SessionId, KeptSession>,
    /// The one updated longest ago first.
    order: BTreeSet<(Time, SessionId)>,
    bytes: usize,
}

#[derive(Debug)]
struct KeptSession {
    session: Arc<Session>,
    messages: Vec<Arc<Message>>,
    bytes: usize,
}

impl Sessions {
    fn remove(&mut self, session: &SessionId) -> Option<KeptSession> {
        let removed = self.kept.remove(session)?;
        self.order.remove(&(removed.session.updated, session.clone()));
        self.bytes -= removed.bytes;
        Some(removed)
    }

    /// Makes room, but never by the session that is being written.
    fn shrink(&mut self, bounds: &Bounds, writing: &SessionId) -> Vec<KeptSession> {
        let mut removed = Vec::new();
        while self.kept.len() > bounds.sessions || self.bytes > bounds.message_bytes {
            let oldest = self.order.iter().map(|(_, id)| id).find(|id| *id != writing).cloned();
            let Some(oldest) = oldest else { break };
            removed.extend(self.remove(&oldest));
        }
        removed
    }
}

impl MemoryStore {
    /// A store that keeps at most so much.
    pub fn new(bounds: Bounds) -> Self {
        Self { kept: Mutex::default(), sessions: Mutex::default(), bounds }
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn sessions(&self) -> MutexGuard<'_, Sessions> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new(Bounds::default())
    }
}

impl Store for MemoryStore {
    fn begin(&self, _call: &Arc<CallHead>) -> StoreFuture<()> {
        // A call under way is in the call table, which lives as long as this store.
        ready(())
    }

    fn finish(&self, call: &Arc<FinishedCall>) -> StoreFuture<()> {
        let mut kept = self.lock();
        if let Some(earlier) = kept.calls.insert(call.head.request.clone(), call.clone()) {
            // Rare: an id is free again once the call table has forgotten it.
            kept.bytes -= weight::of_call(&earlier);
            kept.order.retain(|request| *request != call.head.request);
        }
        kept.bytes += weight::of_call(call);
        kept.order.push_back(call.head.request.clone());
        let mut forgotten = Vec::new();
        while kept.calls.len() > self.bounds.calls || kept.bytes > self.bounds.call_bytes {
            let Some(oldest) = kept.order.pop_front() else { break };
            if let Some(oldest) = kept.calls.remove(&oldest) {
                kept.bytes -= weight::of_call(&oldest);
                forgotten.push(oldest);
            }
        }
        // Freed after the lock is.
        drop(kept);
        drop(forgotten);
        ready(())
    }

    fn finished(&self, request: &RequestId) -> StoreFuture<Option<Arc<FinishedCall>>> {
        ready(self.lock().calls.get(request).cloned())
    }

    fn list_finished(&self, filter: &CallFilter, most: usize) -> StoreFuture<Vec<Arc<FinishedCall>>> {
        let kept = self.lock();
        let newest = kept.order.iter().rev().filter_map(|request| kept.calls.get(request));
        ready(newest.filter(|call| filter.takes(&call.head)).take(most).cloned().collect())
    }

    fn save_session(&self, session: &Arc<Session>) -> StoreFuture<()> {
        let mut sessions = self.sessions();
        let (messages, message_bytes) = match sessions.remove(&session.id) {
            Some(before) => (before.messages, before.bytes - weight::of_session(&before.session)),
            None => (Vec::new(), 0),
        };
        let bytes = weight::of_session(session) + message_bytes;
        sessions.bytes += bytes;
        sessions.order.insert((session.updated, session.id.clone()));
        sessions.kept.insert(session.id.clone(), KeptSession { session: session.clone(), messages, bytes });
        let removed = sessions.shrink(&self.bounds, &session.id);
        drop(sessions);
        drop(removed);
        ready(())
    }

    fn session(&self, session: &SessionId) -> StoreFuture<Option<Arc<Session>>> {
        ready(self.sessions().kept.get(session).map(|kept| kept.session.clone()))
    }

    fn list_sessions(&self, client: Option<&ClientId>, most: usize) -> StoreFuture<Vec<Arc<Session>>> {
        let sessions = self.sessions();
        let newest = sessions.order.iter().rev().filter_map(|(_, id)| sessions.kept.get(id)).map(|kept| &kept.session);
        let wanted = newest.filter(|session| client.is_none_or(|client| session.client.as_ref() == Some(client)));
        ready(wanted.take(most).cloned().collect())
    }

    fn delete_session(&self, session: &SessionId) -> StoreFuture<bool> {
        let removed = self.sessions().remove(session);
        let mut kept = self.lock();
        let before = kept.calls.len();
        let Kept { calls, order, bytes } = &mut *kept;
        calls.retain(|_, call| {
            let stays = call.head.session != *session;
            *bytes -= if stays { 0 } else { weight::of_call(call) };
            stays
        });
        if calls.len() < before {
            order.retain(|request| calls.contains_key(request));
        }
        ready(removed.is_some())
    }

    fn save_message(&self, message: &Arc<Message>) -> StoreFuture<()> {
        let mut sessions = self.sessions();
        let Some(kept) = sessions.kept.get_mut(&message.session) else { return ready(()) };
        let weight = weight::of_message(message);
        // What changes is most often the last.
        let before = match kept.messages.iter_mut().rev().find(|known| known.id == message.id) {
            Some(known) => {
                let before: Arc<Message> = std::mem::replace(known, message.clone());
                weight::of_message(&before)
            }
            None => {
                kept.messages.push(message.clone());
                0
            }
        };
        kept.bytes = kept.bytes + weight - before;
        sessions.bytes = sessions.bytes + weight - before;
        let removed = sessions.shrink(&self.bounds, &message.session);
        drop(sessions);
        drop(removed);
        ready(())
    }

    fn messages(&self, session: &SessionId) -> StoreFuture<Vec<Arc<Message>>> {
        ready(self.sessions().kept.get(session).map(|kept| kept.messages.clone()).unwrap_or_default())
    }

    fn has_message(&self, session: &SessionId, message: &MessageId) -> StoreFuture<bool> {
        let sessions = self.sessions();
        let known = sessions.kept.get(session);
        ready(known.is_some_and(|kept| kept.messages.iter().any(|known| known.id == *message)))
    }

    fn delete_messages_from(&self, session: &SessionId, message: &MessageId) -> StoreFuture<()> {
        let mut sessions = self.sessions();
        let Some(kept) = sessions.kept.get_mut(session) else { return ready(()) };
        let Some(place) = kept.messages.iter().position(|known| known.id == *message) else { return ready(()) };
        let removed = kept.messages.split_off(place);
        let bytes: usize = removed.iter().map(|message| weight::of_message(message)).sum();
        kept.bytes -= bytes;
        sessions.bytes -= bytes;
        // Freed after the lock is.
        drop(sessions);
        drop(removed);
        ready(())
    }

    fn flush(&self) -> StoreFuture<()> {
        ready(())
    }

    fn unanswered(&self) -> StoreFuture<Vec<Arc<Message>>> {
        let sessions = self.sessions();
        let mut left = Vec::new();
        for KeptSession { messages, .. } in sessions.kept.values() {
            let answered: BTreeSet<&MessageId> = messages.iter().filter_map(|message| message.answers()).collect();
            let is_left = |message: &Message| match &message.role {
                Role::Assistant(assistant) => assistant.completed.is_none(),
                Role::User(user) => user.wants_reply && !answered.contains(&message.id),
            };
            left.extend(messages.iter().filter(|message| is_left(message)).cloned());
        }
        ready(left)
    }
}

fn ready<T: Send + 'static>(value: T) -> StoreFuture<T> {
    Box::pin(std::future::ready(Ok(value)))
}
