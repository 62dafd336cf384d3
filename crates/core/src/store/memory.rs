//! The store in memory: nothing outlives the process.

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ahash::HashMap;

use super::{CallFilter, SessionFilter, Store, StoreError, StoreFuture, weight};
use crate::call::{CallHead, FinishedCall};
use crate::clock::Time;
use crate::id::{MessageId, RequestId, RunId, SessionId};
use crate::message::{Message, Role, Session};
use crate::thread_run::ThreadRun;

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
    /// About how many bytes of sessions, with their messages, runs and events.
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
    runs: Vec<KeptRun>,
    bytes: usize,
}

#[derive(Debug)]
struct KeptRun {
    run: Arc<ThreadRun>,
    events: Vec<Arc<str>>,
}

impl KeptSession {
    // Whatever is looked for or changes is most often the last.
    fn run(&self, id: &RunId) -> Option<&KeptRun> {
        self.runs.iter().rev().find(|known| known.run.id == *id)
    }

    fn run_mut(&mut self, id: &RunId) -> Option<&mut KeptRun> {
        self.runs.iter_mut().rev().find(|known| known.run.id == *id)
    }
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
        let weight = weight::of_session(session);
        let kept = match sessions.remove(&session.id) {
            Some(before) => KeptSession {
                session: session.clone(),
                bytes: before.bytes + weight - weight::of_session(&before.session),
                ..before
            },
            None => KeptSession { session: session.clone(), messages: Vec::new(), runs: Vec::new(), bytes: weight },
        };
        sessions.bytes += kept.bytes;
        sessions.order.insert((session.updated, session.id.clone()));
        sessions.kept.insert(session.id.clone(), kept);
        let removed = sessions.shrink(&self.bounds, &session.id);
        drop(sessions);
        drop(removed);
        ready(())
    }

    fn session(&self, session: &SessionId) -> StoreFuture<Option<Arc<Session>>> {
        ready(self.sessions().kept.get(session).map(|kept| kept.session.clone()))
    }

    fn list_sessions(&self, filter: &SessionFilter, most: usize) -> StoreFuture<Vec<Arc<Session>>> {
        let sessions = self.sessions();
        let newest = sessions.order.iter().rev().filter_map(|(_, id)| sessions.kept.get(id)).map(|kept| &kept.session);
        ready(newest.filter(|session| filter.takes(session)).take(most).cloned().collect())
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

    fn save_run(&self, run: &Arc<ThreadRun>) -> StoreFuture<()> {
        let mut sessions = self.sessions();
        let Some(kept) = sessions.kept.get_mut(&run.session) else { return ready(()) };
        let weight = weight::of_run(run);
        let before = match kept.run_mut(&run.id) {
            Some(known) => {
                let before: Arc<ThreadRun> = std::mem::replace(&mut known.run, run.clone());
                weight::of_run(&before)
            }
            None => {
                kept.runs.push(KeptRun { run: run.clone(), events: Vec::new() });
                0
            }
        };
        kept.bytes = kept.bytes + weight - before;
        sessions.bytes = sessions.bytes + weight - before;
        let removed = sessions.shrink(&self.bounds, &run.session);
        drop(sessions);
        drop(removed);
        ready(())
    }

    fn run(&self, session: &SessionId, run: &RunId) -> StoreFuture<Option<Arc<ThreadRun>>> {
        let sessions = self.sessions();
        ready(sessions.kept.get(session).and_then(|kept| kept.run(run)).map(|known| known.run.clone()))
    }

    fn runs(&self, session: &SessionId) -> StoreFuture<Vec<Arc<ThreadRun>>> {
        let sessions = self.sessions();
        let runs = sessions.kept.get(session).into_iter().flat_map(|kept| &kept.runs);
        ready(runs.map(|known| known.run.clone()).collect())
    }

    fn append_run_events(
        &self,
        session: &SessionId,
        run: &RunId,
        first: usize,
        mut events: Vec<Arc<str>>,
    ) -> StoreFuture<()> {
        let mut sessions = self.sessions();
        let Some(kept) = sessions.kept.get_mut(session) else { return ready(()) };
        let Some(known) = kept.run_mut(run) else { return ready(()) };
        let told = known.events.len();
        if first > told {
            return failed(format!("event {first} of the run {run} cannot be kept: only {told} are kept before it"));
        }
        let repeated = events.len().min(told - first);
        events.drain(..repeated);
        let bytes = weight::of_events(&events);
        known.events.append(&mut events);
        kept.bytes += bytes;
        sessions.bytes += bytes;
        let removed = sessions.shrink(&self.bounds, session);
        drop(sessions);
        drop(removed);
        ready(())
    }

    fn run_events(&self, session: &SessionId, run: &RunId, from: usize) -> StoreFuture<Vec<Arc<str>>> {
        let sessions = self.sessions();
        let events =
            sessions.kept.get(session).and_then(|kept| kept.run(run)).and_then(|known| known.events.get(from..));
        ready(events.unwrap_or_default().to_vec())
    }

    fn unfinished_runs(&self) -> StoreFuture<Vec<Arc<ThreadRun>>> {
        let sessions = self.sessions();
        let runs = sessions.kept.values().flat_map(|kept| &kept.runs).map(|known| &known.run);
        ready(runs.filter(|run| run.is_unfinished()).cloned().collect())
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

fn failed<T: Send + 'static>(cause: String) -> StoreFuture<T> {
    Box::pin(std::future::ready(Err(StoreError(cause))))
}

fn ready<T: Send + 'static>(value: T) -> StoreFuture<T> {
    Box::pin(std::future::ready(Ok(value)))
}
