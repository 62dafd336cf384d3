//! The call table in shards, one for each part of the clients: no lock is shared by all of them.
//!
//! The ids that we make for calls say in which shard they are. What other ids name is in a small index. What a shard has
//! to tell is told after its lock is free, in the order in which it happened there.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::clock::{SHARD_LETTER, digit, letter};
use crate::event::{Event, Topics};
use crate::id::{ClientId, RequestId};
use crate::limits::Limits;
use crate::registry::Owners;
use crate::sharded::Sharded;
use crate::table::{Aftermath, Table};

/// How many shards there are: as many as one letter of an id can name.
const SHARDS: u8 = 64;

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
    pub(crate) owners: Owners,
    /// Counts calls, connections, streams and frames. Over all clients, so that a number never means two things.
    counter: AtomicU64,
    /// How many clients are known.
    pub(crate) clients: AtomicUsize,
    /// How many finished calls are remembered.
    pub(crate) remembered: AtomicUsize,
    lifecycle: AtomicU8,
}

impl Common {
    pub(crate) fn new(limits: Arc<Limits>, topics: Arc<Topics>) -> Self {
        Self {
            limits,
            topics,
            owners: Owners::default(),
            counter: AtomicU64::new(0),
            clients: AtomicUsize::new(0),
            remembered: AtomicUsize::new(0),
            lifecycle: AtomicU8::new(Lifecycle::Serving as u8),
        }
    }

    pub(crate) fn next_number(&self) -> u64 {
        self.counter.fetch_add(1, Ordering::Relaxed) + 1
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
}

/// Where a call is whose id does not say so.
#[derive(Debug, Clone, Copy)]
struct Elsewhere {
    shard: u8,
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
        Self { shards, common, elsewhere: Sharded::default() }
    }

    pub(crate) fn common(&self) -> &Common {
        &self.common
    }

    /// Does something to the table of a shard; then tells what happened, and wakes whom it concerns.
    fn locked<R>(&self, shard: u8, act: impl FnOnce(&mut Table) -> R) -> R {
        let shard = &self.shards[usize::from(shard)];
        let mut table = shard.table.lock().unwrap_or_else(PoisonError::into_inner);
        let result = act(&mut table);
        let Aftermath { told, wakers, forgotten } = table.take_aftermath();
        drop(table);
        if let Some((ticket, events)) = told {
            shard.tell(&self.common.topics, ticket, events);
        }
        wakers.wake();
        forgotten.iter().for_each(|(request, number)| self.give_back(request, Some(*number)));
        result
    }

    /// Does something where a client is.
    pub(crate) fn of_client<R>(&self, client: &ClientId, act: impl FnOnce(&mut Table) -> R) -> R {
        self.locked(shard_of(client), act)
    }

    /// Does something where a call is; if there is no such call, where it is not found.
    pub(crate) fn of_call<R>(&self, request: &RequestId, act: impl FnOnce(&mut Table) -> R) -> R {
        let elsewhere = self.elsewhere.of(request).get(request).map(|elsewhere| elsewhere.shard);
        self.locked(elsewhere.or_else(|| named_by(request)).unwrap_or_default(), act)
    }

    /// Does something in each shard, one after the other.
    pub(crate) fn each<R>(&self, mut act: impl FnMut(&mut Table) -> R) -> impl Iterator<Item = R> {
        (0..SHARDS).map(move |shard| self.locked(shard, &mut act))
    }

    /// Takes an id for a call of a client; says whether nobody else has it. Where the id says in which shard the call is,
    /// that is left to the shard.
    pub(crate) fn take(&self, request: &RequestId, client: &ClientId) -> bool {
        let shard = shard_of(client);
        if named_by(request) == Some(shard) {
            return true;
        }
        loop {
            let before = self.elsewhere.of(request).get(request).copied();
            let is_known = |shard: u8| self.locked(shard, |table| table.knows(request));
            if before.is_some_and(|before| before.number.is_none() || is_known(before.shard))
                || named_by(request).is_some_and(is_known)
            {
                return false;
            }
            let mut elsewhere = self.elsewhere.of(request);
            // Unless somebody else was quicker.
            if elsewhere.get(request).map(|known| known.number) == before.map(|before| before.number) {
                elsewhere.insert(request.clone(), Elsewhere { shard, number: None });
                return true;
            }
        }
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
        }
    }

    /// Goes on on the way out. When this returns, every shard knows.
    pub(crate) fn enter(&self, lifecycle: Lifecycle) {
        self.common.lifecycle.fetch_max(lifecycle as u8, Ordering::AcqRel);
        // Whoever has its lock now may have looked before.
        self.each(|_| {}).for_each(drop);
    }
}

/// The letter of an id that says in which shard the calls of a client are.
pub(crate) fn letter_of(client: &ClientId) -> u8 {
    letter(shard_of(client))
}

fn shard_of(client: &ClientId) -> u8 {
    let mut hasher = DefaultHasher::new();
    client.hash(&mut hasher);
    (hasher.finish() % u64::from(SHARDS)) as u8
}

/// The shard that an id names, if it is one of ours or looks like it.
pub(crate) fn named_by(request: &RequestId) -> Option<u8> {
    digit(*request.as_str().as_bytes().get(SHARD_LETTER)?)
}

#[cfg(test)]
mod tests;
