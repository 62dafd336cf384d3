//! Sends events to the listeners of a session, of a client, or of everything. Nobody else is woken, and no event is
//! made while nobody listens.

use std::hash::Hash;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use bytes::Bytes;
use tokio::sync::Notify;

use super::Event;
use super::waiting::{Batch, Waiting};
use crate::id::{ClientId, SessionId};
use crate::limits::Limits;
use crate::sharded::Sharded;

/// What a listener hears.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Topic {
    /// All events.
    Everything,
    /// The events of a session.
    Session(SessionId),
    /// The events of a client: its tools, its calls, its sessions.
    Client(ClientId),
}

/// An event on its way to its listeners. They share the event and its encoded form.
#[derive(Debug)]
#[non_exhaustive]
pub struct Emitted {
    /// The event itself.
    pub event: Event,
    encoded: OnceLock<Bytes>,
}

impl Emitted {
    /// The encoded event. The first listener that needs it encodes it for all.
    pub fn encoded(&self, encode: impl FnOnce(&Event) -> Bytes) -> &Bytes {
        self.encoded.get_or_init(|| encode(&self.event))
    }
}

/// The topics that have listeners. A listener that is too far behind is told so and gets no more events.
#[derive(Debug)]
pub(crate) struct Topics {
    everything: Arc<Channel>,
    sessions: Sharded<SessionId, Arc<Channel>>,
    clients: Sharded<ClientId, Arc<Channel>>,
    /// The number of listeners of sessions and clients. It is read for every event, so it needs no lock.
    narrow: AtomicUsize,
    /// The approximate number of bytes that wait in all topics.
    held: Arc<AtomicUsize>,
    most: usize,
    most_bytes: usize,
}

/// The events of one topic.
#[derive(Debug)]
struct Channel {
    // A std mutex is enough: nothing is awaited while it is locked.
    waiting: Mutex<Waiting>,
    more: Notify,
    listeners: AtomicUsize,
}

impl Channel {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn has_listeners(&self) -> bool {
        self.listeners.load(Ordering::Acquire) > 0
    }

    fn push(&self, event: &Arc<Emitted>) {
        // Dropped after the lock is released: it may be large.
        let _dropped = self.lock().push(event.clone());
        self.more.notify_waiters();
    }
}

impl Topics {
    pub(crate) fn new(limits: &Limits) -> Self {
        let held = Arc::new(AtomicUsize::new(0));
        let (most, most_bytes) = (limits.event_buffer, limits.event_bytes);
        Self {
            everything: Arc::new(Channel::new(most, most_bytes, held.clone())),
            sessions: Sharded::default(),
            clients: Sharded::default(),
            narrow: AtomicUsize::new(0),
            held,
            most,
            most_bytes,
        }
    }

    /// Whether anybody listens to this session or this client.
    pub(crate) fn are_watched(&self, session: Option<&SessionId>, client: Option<&ClientId>) -> bool {
        self.everything.has_listeners() || self.narrow(session, client).next().is_some()
    }

    /// Whether there are any listeners.
    pub(crate) fn have_listeners(&self) -> bool {
        self.everything.has_listeners() || self.narrow.load(Ordering::Acquire) > 0
    }

    /// Sends an event to its listeners.
    pub(crate) fn emit(&self, event: Event) {
        let everything = self.everything.has_listeners().then(|| self.everything.clone());
        let mut channels = everything.into_iter().chain(self.narrow(event.session(), event.client())).peekable();
        if channels.peek().is_some() {
            let event = Arc::new(Emitted { event, encoded: OnceLock::new() });
            channels.for_each(|channel| channel.push(&event));
        }
    }

    /// The topics of a session and of a client that have listeners.
    fn narrow(
        &self,
        session: Option<&SessionId>,
        client: Option<&ClientId>,
    ) -> impl Iterator<Item = Arc<Channel>> + use<> {
        let is_any = self.narrow.load(Ordering::Acquire) > 0;
        let session = session.filter(|_| is_any).and_then(|id| self.sessions.of(id).get(id).cloned());
        let client = client.filter(|_| is_any).and_then(|id| self.clients.of(id).get(id).cloned());
        session.into_iter().chain(client)
    }

    #[cfg(test)]
    pub(super) fn held(&self) -> usize {
        self.held.load(Ordering::Relaxed)
    }

    pub(crate) fn subscribe(self: &Arc<Self>, topic: Topic) -> Subscription {
        let (channel, next) = match &topic {
            Topic::Everything => (self.everything.clone(), self.everything.join()),
            Topic::Session(id) => self.join(&self.sessions, id),
            Topic::Client(id) => self.join(&self.clients, id),
        };
        Subscription { topics: self.clone(), topic, channel, next, taken: Vec::new() }
    }

    fn join<K: Hash + Eq + Clone>(&self, topics: &Sharded<K, Arc<Channel>>, id: &K) -> (Arc<Channel>, u64) {
        let mut topics = topics.of(id);
        let new = || Arc::new(Channel::new(self.most, self.most_bytes, self.held.clone()));
        let channel = topics.entry(id.clone()).or_insert_with(new);
        let next = channel.join();
        self.narrow.fetch_add(1, Ordering::AcqRel);
        (channel.clone(), next)
    }

    fn leave<K: Hash + Eq>(&self, topics: &Sharded<K, Arc<Channel>>, id: &K, channel: &Channel, next: u64) {
        // Under the lock, so that nobody joins a topic that is about to be removed.
        let mut topics = topics.of(id);
        channel.leave(next);
        self.narrow.fetch_sub(1, Ordering::AcqRel);
        if !channel.has_listeners() {
            topics.remove(id);
        }
    }
}

impl Channel {
    fn new(most: usize, most_bytes: usize, held: Arc<AtomicUsize>) -> Self {
        let waiting = Mutex::new(Waiting::new(most, most_bytes, held));
        Self { waiting, more: Notify::new(), listeners: AtomicUsize::new(0) }
    }

    /// Adds a listener. Returns the number of the first event that it will get.
    fn join(&self) -> u64 {
        let next = self.lock().join();
        self.listeners.fetch_add(1, Ordering::AcqRel);
        next
    }

    /// Removes a listener that has read everything before this number.
    fn leave(&self, next: u64) {
        self.listeners.fetch_sub(1, Ordering::AcqRel);
        let _dropped = self.lock().leave(next);
    }
}

/// A listener of a topic.
#[derive(Debug)]
pub struct Subscription {
    topics: Arc<Topics>,
    topic: Topic,
    channel: Arc<Channel>,
    /// The number of the next event to take.
    next: u64,
    /// Events that were taken and not returned yet, the last one first.
    taken: Vec<Arc<Emitted>>,
}

impl Subscription {
    /// The next event; `None` when this listener is too far behind. Cancel safe.
    pub async fn next(&mut self) -> Option<Arc<Emitted>> {
        loop {
            if let Some(event) = self.taken.pop() {
                return Some(event);
            }
            let more = self.channel.more.notified();
            tokio::pin!(more);
            // Listen before looking, so that nothing in between is missed.
            more.as_mut().enable();
            let taken = self.channel.lock().take(self.next, &mut self.taken);
            match taken {
                Batch::Events(count) => {
                    self.next += count;
                    self.taken.reverse();
                }
                Batch::Missed => return None,
                Batch::Nothing => more.await,
            }
        }
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        match &self.topic {
            Topic::Everything => self.channel.leave(self.next),
            Topic::Session(id) => self.topics.leave(&self.topics.sessions, id, &self.channel, self.next),
            Topic::Client(id) => self.topics.leave(&self.topics.clients, id, &self.channel, self.next),
        }
    }
}
