//! The store in memory: nothing outlives the process.

mod calls;

use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ahash::HashMap;

use self::calls::FinishedCalls;
use super::{
    CallFilter, CallPage, CallStore, IfFull, Most, Page, RunStore, SessionFilter, SessionPlace, SessionStore,
    StorageUsed, StoreError, StoreFuture, StoredClient, StoredTool, weight,
};
use crate::id::{ClientId, MessageId, RequestId, RunId, SessionId, ToolName};
use crate::limits::Limits;
use crate::store::call::{Begun, Ended, FinishedCall, JournaledCall, Outcome};
use crate::store::message::Message;
use crate::store::run::ThreadRun;
use crate::store::session::Session;

/// Keeps the newest finished calls and the most recently used sessions. When there are too many, or they take too much
/// memory, the oldest are dropped first.
#[derive(Debug)]
pub struct MemoryStore {
    calls: FinishedCalls,
    // A std mutex is enough: nothing is awaited while it is locked.
    sessions: Mutex<KeptSessions>,
    limits: Limits,
}

#[derive(Debug, Default)]
struct KeptSessions {
    kept: HashMap<SessionId, KeptSession>,
    /// The least recently updated session comes first.
    order: BTreeSet<SessionPlace>,
    bytes: usize,
    clients: HashMap<ClientId, OfClient>,
}

/// What a client has stored. A client without sessions has no entry.
#[derive(Debug, Default)]
struct OfClient {
    sessions: usize,
    bytes: usize,
}

#[derive(Debug)]
struct KeptSession {
    session: Arc<Session>,
    messages: Vec<Arc<Message>>,
    /// The index of each message.
    places: HashMap<MessageId, usize>,
    runs: Vec<KeptRun>,
    bytes: usize,
}

#[derive(Debug)]
struct KeptRun {
    run: Arc<ThreadRun>,
    events: Vec<Arc<str>>,
}

impl KeptSession {
    // Most often the last run is looked for.
    fn run(&self, id: &RunId) -> Option<&KeptRun> {
        self.runs.iter().rev().find(|known| known.run.id == *id)
    }

    fn position(&self, message: &MessageId) -> Option<usize> {
        self.places.get(message).copied()
    }

    fn run_mut(&mut self, id: &RunId) -> Option<&mut KeptRun> {
        self.runs.iter_mut().rev().find(|known| known.run.id == *id)
    }
}

impl KeptSessions {
    fn insert(&mut self, kept: KeptSession) {
        self.bytes += kept.bytes;
        if let Some(client) = &kept.session.client {
            let of_client = self.clients.entry(client.clone()).or_default();
            of_client.sessions += 1;
            of_client.bytes += kept.bytes;
        }
        self.order.insert(SessionPlace::from(&*kept.session));
        self.kept.insert(kept.session.id.clone(), kept);
    }

    fn remove(&mut self, session: &SessionId) -> Option<KeptSession> {
        let removed = self.kept.remove(session)?;
        self.order.remove(&SessionPlace::from(&*removed.session));
        self.bytes -= removed.bytes;
        if let Some(client) = &removed.session.client
            && let Some(of_client) = self.clients.get_mut(client)
        {
            of_client.sessions -= 1;
            of_client.bytes -= removed.bytes;
            if of_client.sessions == 0 {
                self.clients.remove(client);
            }
        }
        Some(removed)
    }

    /// Counts that the content of a session changed its size.
    fn resize(&mut self, session: &SessionId, before: usize, after: usize) {
        let Some(kept) = self.kept.get_mut(session) else { return };
        kept.bytes = kept.bytes + after - before;
        self.bytes = self.bytes + after - before;
        if let Some(client) = &kept.session.client
            && let Some(of_client) = self.clients.get_mut(client)
        {
            of_client.bytes = of_client.bytes + after - before;
        }
    }

    /// Drops the oldest sessions to make room, but never the session that is being written.
    fn shrink(&mut self, limits: &Limits, writing: &SessionId) -> Vec<KeptSession> {
        let mut removed = Vec::new();
        while self.kept.len() > limits.stored_sessions || self.bytes > limits.stored_message_bytes {
            let oldest = self.order.iter().map(|place| &place.id).find(|id| *id != writing).cloned();
            let Some(oldest) = oldest else { break };
            removed.extend(self.remove(&oldest));
        }
        removed
    }
}

impl MemoryStore {
    /// Creates a store with these bounds.
    pub fn new(limits: &Limits) -> Self {
        let calls = FinishedCalls::new(limits.stored_calls, limits.stored_bytes);
        Self { calls, sessions: Mutex::default(), limits: limits.clone() }
    }

    /// Counts a change of a session, and removes the oldest sessions if there is no room for it.
    fn resized(
        &self,
        mut sessions: MutexGuard<'_, KeptSessions>,
        session: &SessionId,
        before: usize,
        after: usize,
    ) -> StoreFuture<()> {
        sessions.resize(session, before, after);
        let removed = sessions.shrink(&self.limits, session);
        // Freed after the lock is released.
        drop(sessions);
        drop(removed);
        ready(())
    }

    fn sessions(&self) -> MutexGuard<'_, KeptSessions> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new(&Limits::default())
    }
}

impl CallStore for MemoryStore {
    fn begin(&self, call: &JournaledCall, _: IfFull) -> StoreFuture<Begun> {
        // An open call is in the call table, which lives as long as this store.
        ready(self.calls.find(&call.head.request).map_or(Begun::New, Begun::Before))
    }

    fn change(&self, _call: &JournaledCall, _: IfFull) -> StoreFuture<()> {
        ready(())
    }

    fn open_calls(&self) -> StoreFuture<Vec<JournaledCall>> {
        ready(Vec::new())
    }

    fn save_client(&self, _client: StoredClient, _tools: Vec<(ToolName, Option<StoredTool>)>) -> StoreFuture<()> {
        ready(())
    }

    fn clients(&self) -> StoreFuture<Vec<(StoredClient, Vec<StoredTool>)>> {
        ready(Vec::new())
    }

    fn is_lasting(&self) -> bool {
        false
    }

    fn finish(&self, call: &Arc<FinishedCall>, _: IfFull) -> StoreFuture<Ended> {
        ready(self.calls.add(call))
    }

    fn keep_late(&self, request: &RequestId, late: Outcome) -> StoreFuture<bool> {
        ready(self.calls.keep_late(request, late))
    }

    fn finished(&self, request: &RequestId) -> StoreFuture<Option<Arc<FinishedCall>>> {
        ready(self.calls.find(request))
    }

    fn list_finished(&self, filter: &CallFilter, before: Option<u64>, most: Most) -> StoreFuture<CallPage> {
        done(self.calls.list(filter, before, most))
    }
}

impl SessionStore for MemoryStore {
    fn save_session(&self, session: &Arc<Session>, _: IfFull) -> StoreFuture<()> {
        let mut sessions = self.sessions();
        let weight = weight::of_session(session);
        let kept = match sessions.remove(&session.id) {
            Some(before) => KeptSession {
                session: session.clone(),
                bytes: before.bytes + weight - weight::of_session(&before.session),
                ..before
            },
            None => KeptSession {
                session: session.clone(),
                messages: Vec::new(),
                places: HashMap::default(),
                runs: Vec::new(),
                bytes: weight,
            },
        };
        sessions.insert(kept);
        let removed = sessions.shrink(&self.limits, &session.id);
        drop(sessions);
        drop(removed);
        ready(())
    }

    fn session(&self, session: &SessionId) -> StoreFuture<Option<Arc<Session>>> {
        ready(self.sessions().kept.get(session).map(|kept| kept.session.clone()))
    }

    fn list_sessions(
        &self,
        filter: &SessionFilter,
        after: Option<&SessionPlace>,
        most: Most,
    ) -> StoreFuture<Page<Arc<Session>>> {
        let sessions = self.sessions();
        let end = after.map_or(Bound::Unbounded, Bound::Excluded);
        let newest = sessions.order.range((Bound::Unbounded, end)).rev();
        let newest = newest.filter_map(|place| sessions.kept.get(&place.id)).map(|kept| &kept.session);
        let wanted = newest.filter(|session| filter.takes(session));
        done(Page::fill(wanted.map(|session| Ok((weight::of_session(session), session.clone()))), most))
    }

    fn delete_session(&self, session: &SessionId) -> StoreFuture<bool> {
        let removed = self.sessions().remove(session);
        self.calls.forget_session(session);
        ready(removed.is_some())
    }

    fn save_messages(&self, messages: Vec<Arc<Message>>, _: IfFull) -> StoreFuture<()> {
        let Some(session) = messages.first().map(|message| message.session.clone()) else { return ready(()) };
        let mut sessions = self.sessions();
        let Some(kept) = sessions.kept.get_mut(&session) else { return ready(()) };
        let (mut before, mut after) = (0, 0);
        for message in messages {
            after += weight::of_message(&message);
            match kept.position(&message.id) {
                Some(place) => {
                    let replaced = std::mem::replace(&mut kept.messages[place], message);
                    before += weight::of_message(&replaced);
                }
                None => {
                    kept.places.insert(message.id.clone(), kept.messages.len());
                    kept.messages.push(message);
                }
            }
        }
        self.resized(sessions, &session, before, after)
    }

    fn messages(&self, session: &SessionId) -> StoreFuture<Vec<Arc<Message>>> {
        ready(self.sessions().kept.get(session).map(|kept| kept.messages.clone()).unwrap_or_default())
    }

    fn messages_after(
        &self,
        session: &SessionId,
        after: Option<&MessageId>,
        most: Most,
    ) -> StoreFuture<Option<Page<Arc<Message>>>> {
        let sessions = self.sessions();
        let Some(kept) = sessions.kept.get(session) else { return ready(None) };
        let start = match after {
            Some(after) => kept.position(after).map(|place| place + 1),
            None => Some(0),
        };
        let Some(rest) = start.and_then(|start| kept.messages.get(start..)) else { return ready(None) };
        let weighed = rest.iter().map(|message| Ok((weight::of_message(message), message.clone())));
        done(Page::fill(weighed, most).map(Some))
    }

    fn newest_messages(
        &self,
        session: &SessionId,
        before: Option<&MessageId>,
        most: usize,
    ) -> StoreFuture<Option<Vec<MessageId>>> {
        let sessions = self.sessions();
        let messages = sessions.kept.get(session).map(|kept| kept.messages.as_slice()).unwrap_or_default();
        let end = match before {
            Some(before) => sessions.kept.get(session).and_then(|kept| kept.position(before)),
            None => Some(messages.len()),
        };
        let before = end.and_then(|end| messages.get(..end));
        ready(before.map(|before| before.iter().rev().take(most).map(|message| message.id.clone()).collect()))
    }

    fn replace_from(&self, message: &Arc<Message>) -> StoreFuture<()> {
        let mut sessions = self.sessions();
        let Some(kept) = sessions.kept.get_mut(&message.session) else { return ready(()) };
        let place = kept.position(&message.id).unwrap_or(kept.messages.len());
        let removed = kept.messages.split_off(place);
        removed.iter().for_each(|message| _ = kept.places.remove(&message.id));
        kept.places.insert(message.id.clone(), place);
        kept.messages.push(message.clone());
        let before = removed.iter().map(|message| weight::of_message(message)).sum();
        let resized = self.resized(sessions, &message.session, before, weight::of_message(message));
        // Freed after the lock is released.
        drop(removed);
        resized
    }

    fn keeps_all(&self) -> bool {
        false
    }

    fn usage(&self, client: Option<&ClientId>) -> StoreFuture<StorageUsed> {
        let sessions = self.sessions();
        let of_client = client.and_then(|client| sessions.clients.get(client));
        ready(StorageUsed {
            client_sessions: of_client.map_or(0, |of_client| of_client.sessions as u64),
            client_bytes: of_client.map_or(0, |of_client| of_client.bytes as u64),
            bytes: sessions.bytes as u64,
        })
    }

    fn open_turns(&self) -> StoreFuture<Vec<Arc<Message>>> {
        let sessions = self.sessions();
        let messages = sessions.kept.values().flat_map(|kept| &kept.messages);
        ready(messages.filter(|message| message.turn().is_some()).cloned().collect())
    }
}

impl RunStore for MemoryStore {
    fn save_run(&self, run: &Arc<ThreadRun>, _: IfFull) -> StoreFuture<()> {
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
        self.resized(sessions, &run.session, before, weight)
    }

    fn run(&self, session: &SessionId, run: &RunId) -> StoreFuture<Option<Arc<ThreadRun>>> {
        let sessions = self.sessions();
        ready(sessions.kept.get(session).and_then(|kept| kept.run(run)).map(|known| known.run.clone()))
    }

    fn runs(&self, session: &SessionId) -> StoreFuture<Vec<Arc<ThreadRun>>> {
        let sessions = self.sessions();
        let runs = sessions.kept.get(session).into_iter().flat_map(|kept| &kept.runs);
        ready(runs.map(|known| Arc::new(known.run.without_input())).collect())
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
        self.resized(sessions, session, 0, bytes)
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
}

fn failed<T: Send + 'static>(cause: String) -> StoreFuture<T> {
    done(Err(StoreError::Failed(cause)))
}

fn ready<T: Send + 'static>(value: T) -> StoreFuture<T> {
    done(Ok(value))
}

fn done<T: Send + 'static>(result: Result<T, StoreError>) -> StoreFuture<T> {
    Box::pin(std::future::ready(result))
}
