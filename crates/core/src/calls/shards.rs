//! The call table in shards, one for each part of the clients: no lock is shared by all of them.
//!
//! The ids that we make for calls say in which shard they are. What other ids name is in a small index. What a shard has
//! to tell is told after its lock is free, in the order in which it happened there.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ahash::RandomState;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::calls::table::{Aftermath, Table};
use crate::clock::{SHARDS, named_by};
use crate::events::{Event, Topics};
use crate::id::{ClientId, RequestId};
use crate::limits::Limits;
use crate::sharded::Sharded;
use crate::tools::Owners;

/// A century, in nanoseconds.
const FOR_EVER: u64 = 100 * 365 * 86_400 * 1_000_000_000;

/// How far the server is on its way out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Lifecycle {
    Serving,
    /// No new calls; those under way may finish.
    Draining,
    /// No calls; connections are told to go.
    Closed,
}

/// What all shards share; none of it is behind a lock of all.
#[derive(Debug)]
pub(crate) struct Common {
    pub(crate) limits: Arc<Limits>,
    pub(crate) topics: Arc<Topics>,
    /// Which client has which tool.
    pub(crate) owners: Arc<Owners>,
    /// Counts connections, streams and frames. Over all clients, so that a number never means two things.
    counter: AtomicU64,
    /// How many clients are known.
    pub(crate) clients: AtomicUsize,
    /// How many finished calls are remembered.
    pub(crate) remembered: AtomicUsize,
    /// How many asks are open.
    pub(crate) asks: AtomicUsize,
    lifecycle: AtomicU8,
    began: Instant,
    /// When housekeeping looks next at what is due, in nanoseconds since it all began; nothing is due before.
    next_look: AtomicU64,
    /// Notified when housekeeping has to look sooner, or when a call ends while the server drains.
    pub(crate) changed: Notify,
}

impl Common {
    pub(crate) fn new(limits: Arc<Limits>, topics: Arc<Topics>) -> Self {
        Self {
            limits,
            topics,
            owners: Arc::default(),
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

    /// When housekeeping looks next.
    pub(crate) fn next_look(&self) -> Instant {
        self.began + Duration::from_nanos(self.next_look.load(Ordering::Relaxed))
    }

    /// Housekeeping starts. Anyone who locks a shard from now on sets the next time again.
    pub(crate) fn look(&self) {
        self.next_look.store(FOR_EVER, Ordering::Relaxed);
    }

    /// Something is due then: housekeeping looks at that time, if not before. Says whether it has to be told.
    pub(crate) fn look_by(&self, due: Instant) -> bool {
        let due = u64::try_from(due.saturating_duration_since(self.began).as_nanos()).unwrap_or(FOR_EVER);
        // Most often it looks before, and nobody writes what all of them read.
        due < self.next_look.load(Ordering::Relaxed) && due < self.next_look.fetch_min(due, Ordering::Relaxed)
    }

    pub(crate) fn lifecycle(&self) -> Lifecycle {
        match self.lifecycle.load(Ordering::Acquire) {
            0 => Lifecycle::Serving,
            1 => Lifecycle::Draining,
            _ => Lifecycle::Closed,
        }
    }
}

/// The shards.
#[derive(Debug)]
pub(crate) struct Shards {
    shards: Vec<Shard>,
    common: Arc<Common>,
    /// Where the calls are whose ids do not say so.
    elsewhere: Sharded<RequestId, Elsewhere>,
    /// How many those are; most often none.
    count_elsewhere: AtomicUsize,
}

/// Where a call is whose id does not say so.
#[derive(Debug, Clone, Copy)]
struct Elsewhere {
    shard: u16,
    /// The call's number once it is in the table: an id may be used anew. When the call is no longer known there, its id
    /// is free.
    number: Option<u64>,
}

#[derive(Debug)]
struct Shard {
    // std's mutexes: sections are short and nothing is awaited inside.
    table: Mutex<Table>,
    outgoing: Mutex<Outgoing>,
}

/// What a shard has to tell. Whoever has changed something tells it, in the order of the changes: what comes too early
/// waits for what happened before it.
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

    /// Does something to the table of a shard; then tells what happened, and wakes whom it concerns.
    fn locked<R>(&self, shard: u16, act: impl FnOnce(&mut Table) -> R) -> R {
        let shard = &self.shards[usize::from(shard)];
        let mut table = shard.table.lock().unwrap_or_else(PoisonError::into_inner);
        let result = act(&mut table);
        let Aftermath { told, wakers, forgotten, is_due_sooner } = table.take_aftermath();
        drop(table);
        if let Some((ticket, events)) = told {
            shard.tell(&self.common.topics, ticket, events);
        }
        wakers.wake();
        if is_due_sooner {
            self.common.changed.notify_waiters();
        }
        forgotten.iter().for_each(|(request, number)| self.give_back(request, Some(*number)));
        result
    }

    /// Acts on the shard of a client.
    pub(crate) fn of_client<R>(&self, client: &ClientId, act: impl FnOnce(&mut Table) -> R) -> R {
        self.locked(shard_of(client), act)
    }

    /// Acts on the shard of a call. For an unknown id, some shard in which it is not found.
    pub(crate) fn of_call<R>(&self, request: &RequestId, act: impl FnOnce(&mut Table) -> R) -> R {
        let elsewhere = match self.count_elsewhere.load(Ordering::Acquire) {
            0 => None,
            // An id that is only reserved has no call yet.
            _ => self.elsewhere.of(request).get(request).filter(|it| it.number.is_some()).map(|it| it.shard),
        };
        self.locked(elsewhere.or_else(|| named_by(request)).unwrap_or_default(), act)
    }

    /// Does something in each shard, one after the other.
    pub(crate) fn each<R>(&self, mut act: impl FnMut(&mut Table) -> R) -> impl Iterator<Item = R> {
        (0..SHARDS).map(move |shard| self.locked(shard, &mut act))
    }

    /// Takes an id for a call of a client; says whether nobody else has it. Where the id says in which shard the call is,
    /// that is left to the shard, which looks whether it [is elsewhere](Self::is_elsewhere).
    pub(crate) fn take(&self, request: &RequestId, client: &ClientId) -> bool {
        let shard = shard_of(client);
        if named_by(request) == Some(shard) {
            return true;
        }
        loop {
            let before = self.elsewhere.of(request).get(request).copied();
            let is_known = |shard: u16| self.locked(shard, |table| table.knows(request));
            if before.is_some_and(|before| before.number.is_none() || is_known(before.shard)) {
                return false;
            }
            let mut elsewhere = self.elsewhere.of(request);
            // Unless somebody else was quicker.
            if elsewhere.get(request).map(|known| known.number) != before.map(|before| before.number) {
                continue;
            }
            if elsewhere.insert(request.clone(), Elsewhere { shard, number: None }).is_none() {
                self.count_elsewhere.fetch_add(1, Ordering::Release);
            }
            drop(elsewhere);
            // Only now: whoever is entered in the shard that it names after this finds that it is taken.
            let is_free = !named_by(request).is_some_and(is_known);
            if !is_free {
                self.give_back(request, None);
            }
            return is_free;
        }
    }

    /// Whether an id that names the shard of this client is that of a call in another one. Asked under the lock of the
    /// client's shard.
    pub(crate) fn is_elsewhere(&self, request: &RequestId, client: &ClientId) -> bool {
        self.count_elsewhere.load(Ordering::Acquire) > 0
            && named_by(request) == Some(shard_of(client))
            && self.elsewhere.of(request).contains_key(request)
    }

    /// A call whose id was taken is in its shard, under this number.
    pub(crate) fn entered(&self, request: &RequestId, client: &ClientId, number: u64) {
        if named_by(request) != Some(shard_of(client))
            && let Some(known) = self.elsewhere.of(request).get_mut(request)
        {
            known.number = Some(number);
        }
    }

    /// Gives back the id of a call that was taken, and was not made.
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

    /// Moves to a later stage of shutting down. When this returns, every shard has seen it.
    pub(crate) fn enter(&self, lifecycle: Lifecycle) {
        self.common.lifecycle.fetch_max(lifecycle as u8, Ordering::AcqRel);
        // Whoever has its lock now may have looked before.
        self.each(|_| {}).for_each(drop);
    }
}

/// The shard in which the calls of a client are.
pub(crate) fn shard_of(client: &ClientId) -> u16 {
    // The same in every process, so that the ids that an earlier one made name the same shards.
    let hash = RandomState::with_seeds(1, 2, 3, 4).hash_one(client);
    (hash % u64::from(SHARDS)) as u16
}

#[cfg(test)]
mod tests;
