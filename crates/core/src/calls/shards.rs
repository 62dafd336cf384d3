//! The call table in shards by client, so that no lock is shared by all clients.
//!
//! Call ids that the server makes name their shard. Other ids are in a small index. Events of a shard are sent after
//! its lock is released, in the order in which they happened.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Waker;
use std::time::Duration;

use ahash::RandomState;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::calls::table::{Aftermath, Table};
use crate::clock::{SHARDS, named_by};
use crate::events::{Event, Topics};
use crate::id::{ClientId, RequestId};
use crate::limits::Limits;
use crate::metrics::Labels;
use crate::sharded::Sharded;
use crate::store::{CallStore, JournaledCall, StoreFuture};
use crate::tools::Owners;

/// A century, in nanoseconds.
const FOR_EVER: u64 = 100 * 365 * 86_400 * 1_000_000_000;

/// The stages of shutdown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Lifecycle {
    Serving,
    /// New calls are refused; open ones may finish.
    Draining,
    /// What is open is left to the next process: nothing ends any more, and nobody waits.
    Leaving,
    /// Connections are told to close.
    Closed,
}

/// What a change of a table leaves to be stored. Usually that is nothing.
pub(crate) struct Left {
    /// Offers to journal before they are written.
    pub(crate) notes: Vec<JournaledCall>,
    /// Writes that nobody waits for.
    pub(crate) writes: Vec<StoreFuture<()>>,
}

/// What all shards share, without a common lock.
pub(crate) struct Common {
    pub(crate) limits: Arc<Limits>,
    pub(crate) topics: Arc<Topics>,
    pub(crate) store: Arc<dyn CallStore>,
    /// Which client has which tool.
    pub(crate) owners: Arc<Owners>,
    /// The names of tools that calls are counted by.
    pub(crate) tool_names: Labels,
    /// Numbers connections, streams and frames. It is shared by all clients, so that no number is used twice.
    counter: AtomicU64,
    pub(crate) clients: AtomicUsize,
    /// The number of finished calls that are remembered.
    pub(crate) remembered: AtomicUsize,
    /// The number of open asks.
    pub(crate) asks: AtomicUsize,
    lifecycle: AtomicU8,
    began: Instant,
    /// When housekeeping looks next, in nanoseconds since `began`. Nothing is due before.
    next_look: AtomicU64,
    /// Notified when housekeeping must look sooner, or when a call ends while the server drains.
    pub(crate) changed: Notify,
}

impl Common {
    pub(crate) fn new(limits: Arc<Limits>, topics: Arc<Topics>, store: Arc<dyn CallStore>) -> Self {
        Self {
            limits,
            topics,
            store,
            owners: Arc::default(),
            tool_names: Labels::default(),
            counter: AtomicU64::new(0),
            clients: AtomicUsize::new(0),
            remembered: AtomicUsize::new(0),
            asks: AtomicUsize::new(0),
            lifecycle: AtomicU8::new(Lifecycle::Serving as u8),
            began: Instant::now(),
            next_look: AtomicU64::new(0),
            changed: Notify::new(),
        }
    }

    pub(crate) fn next_number(&self) -> u64 {
        self.counter.fetch_add(1, Ordering::Relaxed) + 1
    }

    pub(crate) fn next_look(&self) -> Instant {
        self.began + Duration::from_nanos(self.next_look.load(Ordering::Relaxed))
    }

    /// Housekeeping starts to look. Everybody who locks a shard from now on sets the next time again.
    pub(crate) fn look(&self) {
        self.next_look.store(FOR_EVER, Ordering::Relaxed);
    }

    /// Lets housekeeping look at `due` at the latest. Returns whether it must be notified.
    pub(crate) fn look_by(&self, due: Instant) -> bool {
        let due = u64::try_from(due.saturating_duration_since(self.began).as_nanos()).unwrap_or(FOR_EVER);
        // Usually it looks earlier anyway, and the shared value is not written.
        due < self.next_look.load(Ordering::Relaxed) && due < self.next_look.fetch_min(due, Ordering::Relaxed)
    }

    /// Whether what is open is left to the next process.
    pub(crate) fn is_leaving(&self) -> bool {
        self.lifecycle() >= Lifecycle::Leaving
    }

    pub(crate) fn lifecycle(&self) -> Lifecycle {
        match self.lifecycle.load(Ordering::Acquire) {
            0 => Lifecycle::Serving,
            1 => Lifecycle::Draining,
            2 => Lifecycle::Leaving,
            _ => Lifecycle::Closed,
        }
    }
}

pub(crate) struct Shards {
    shards: Vec<Shard>,
    common: Arc<Common>,
    /// The shards of calls whose ids do not name the right shard.
    elsewhere: Sharded<RequestId, Elsewhere>,
    /// The number of those calls; usually 0.
    count_elsewhere: AtomicUsize,
}

/// The shard of a call whose id does not name it.
#[derive(Debug, Clone, Copy)]
struct Elsewhere {
    shard: u16,
    /// The call's number once it is in the table, because an id may be reused. The id is free when the table no longer
    /// knows the call.
    number: Option<u64>,
}

struct Shard {
    // std mutexes are enough: sections are short and nothing is awaited inside.
    table: Mutex<Table>,
    outgoing: Mutex<Outgoing>,
}

/// The events that a shard has to send. Whoever changed the table sends its events, in the order of the changes: events
/// that come too early wait for the earlier ones.
#[derive(Debug, Default)]
struct Outgoing {
    next: u64,
    early: BTreeMap<u64, Vec<Event>>,
}

impl Shard {
    fn tell(&self, topics: &Topics, ticket: u64, events: Vec<Event>) {
        let mut outgoing = self.outgoing.lock().unwrap_or_else(PoisonError::into_inner);
        outgoing.early.insert(ticket, events);
        let Outgoing { next, early } = &mut *outgoing;
        while let Some(events) = early.remove(next) {
            events.into_iter().for_each(|event| topics.emit(event));
            *next += 1;
        }
    }
}

impl Shards {
    pub(crate) fn new(common: Arc<Common>) -> Self {
        let shard =
            |number| Shard { table: Mutex::new(Table::new(number, common.clone())), outgoing: Mutex::default() };
        let shards = (0..SHARDS).map(shard).collect();
        Self { shards, common, elsewhere: Sharded::default(), count_elsewhere: AtomicUsize::new(0) }
    }

    pub(crate) fn common(&self) -> &Common {
        &self.common
    }

    /// Acts on the table of a shard, then sends the events and wakes the tasks. Also returns what is to be stored.
    fn locked<R>(&self, shard: u16, act: impl FnOnce(&mut Table) -> R) -> (R, Left) {
        let shard = &self.shards[usize::from(shard)];
        let mut table = shard.table.lock().unwrap_or_else(PoisonError::into_inner);
        let result = act(&mut table);
        let Aftermath { told, ticket, wakers, forgotten, is_due_sooner, notes, writes } = table.take_aftermath();
        drop(table);
        if !told.is_empty() {
            shard.tell(&self.common.topics, ticket, told);
        }
        wakers.into_iter().for_each(Waker::wake);
        if is_due_sooner {
            self.common.changed.notify_waiters();
        }
        forgotten.iter().for_each(|(request, number)| self.give_back(request, Some(*number)));
        (result, Left { notes, writes })
    }

    /// Acts on the shard of a client.
    pub(crate) fn of_client<R>(&self, client: &ClientId, act: impl FnOnce(&mut Table) -> R) -> (R, Left) {
        self.locked(shard_of(client), act)
    }

    /// Acts on the shard of a call. An unknown id leads to some shard, which does not have it.
    pub(crate) fn of_call<R>(&self, request: &RequestId, act: impl FnOnce(&mut Table) -> R) -> (R, Left) {
        let elsewhere = match self.count_elsewhere.load(Ordering::Acquire) {
            0 => None,
            // An id that is only reserved has no call yet.
            _ => self.elsewhere.of(request).get(request).filter(|it| it.number.is_some()).map(|it| it.shard),
        };
        self.locked(elsewhere.or_else(|| named_by(request)).unwrap_or_default(), act)
    }

    /// Acts on each shard, one after the other.
    pub(crate) fn each<R>(&self, mut act: impl FnMut(&mut Table) -> R) -> impl Iterator<Item = (R, Left)> {
        (0..SHARDS).map(move |shard| self.locked(shard, &mut act))
    }

    /// Reserves an id for a call of a client, and returns whether it was free. If the id names the client's shard, the
    /// check is left to the shard, with [`is_elsewhere`](Self::is_elsewhere).
    pub(crate) fn take(&self, request: &RequestId, client: &ClientId) -> bool {
        let shard = shard_of(client);
        if named_by(request) == Some(shard) {
            return true;
        }
        loop {
            let before = self.elsewhere.of(request).get(request).copied();
            let is_known = |shard: u16| self.locked(shard, |table| table.knows(request)).0;
            if before.is_some_and(|before| before.number.is_none() || is_known(before.shard)) {
                return false;
            }
            let mut elsewhere = self.elsewhere.of(request);
            // Another caller may have changed the entry meanwhile.
            if elsewhere.get(request).map(|known| known.number) != before.map(|before| before.number) {
                continue;
            }
            if elsewhere.insert(request.clone(), Elsewhere { shard, number: None }).is_none() {
                self.count_elsewhere.fetch_add(1, Ordering::Release);
            }
            drop(elsewhere);
            // Check the named shard only now: a call that enters there after this check finds the id reserved.
            let is_free = !named_by(request).is_some_and(is_known);
            if !is_free {
                self.give_back(request, None);
            }
            return is_free;
        }
    }

    /// Whether an id that names the shard of this client belongs to a call in another shard. The caller holds the lock
    /// of the client's shard.
    pub(crate) fn is_elsewhere(&self, request: &RequestId, client: &ClientId) -> bool {
        self.count_elsewhere.load(Ordering::Acquire) > 0
            && named_by(request) == Some(shard_of(client))
            && self.elsewhere.of(request).contains_key(request)
    }

    /// Notes that the call with a reserved id has entered its shard, under this number.
    pub(crate) fn entered(&self, request: &RequestId, client: &ClientId, number: u64) {
        if named_by(request) != Some(shard_of(client))
            && let Some(known) = self.elsewhere.of(request).get_mut(request)
        {
            known.number = Some(number);
        }
    }

    /// Releases the reserved id of a call that was not made.
    pub(crate) fn not_entered(&self, request: &RequestId, client: &ClientId) {
        if named_by(request) != Some(shard_of(client)) {
            self.give_back(request, None);
        }
    }

    fn give_back(&self, request: &RequestId, number: Option<u64>) {
        let mut elsewhere = self.elsewhere.of(request);
        if elsewhere.get(request).is_some_and(|known| known.number == number) {
            elsewhere.remove(request);
            self.count_elsewhere.fetch_sub(1, Ordering::Release);
        }
    }

    /// Moves to a later stage of shutdown. When this returns, every shard has seen it.
    pub(crate) fn enter(&self, lifecycle: Lifecycle) {
        self.common.lifecycle.fetch_max(lifecycle as u8, Ordering::AcqRel);
        // Lock each shard once: a current holder of its lock may have read the old stage.
        self.each(|_| {}).for_each(drop);
    }
}

/// The shard of a client's calls.
pub(crate) fn shard_of(client: &ClientId) -> u16 {
    // The same hash in every process, so that ids of earlier processes name the same shards.
    let hash = RandomState::with_seeds(1, 2, 3, 4).hash_one(client);
    (hash % u64::from(SHARDS)) as u16
}

#[cfg(test)]
mod tests;
