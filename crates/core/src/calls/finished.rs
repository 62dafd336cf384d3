//! Calls that have ended, remembered for late and repeated answers: their client and a hash of the answer. `delegate`
//! compares a repeated answer with it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::time::Instant;

use crate::calls::shards::Common;
use crate::clock::SHARDS;
use crate::id::{ClientId, RequestId, SessionId};
use crate::store::{Executor, FinishedCall};
use ahash::RandomState;
use hashbrown::HashTable;

/// How many calls one insert forgets at most, so that it stays quick in a shard with many more than its share.
const AT_ONCE: usize = 8;

/// How a remembered call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// With an answer that has this hash.
    Answered(u64),
    /// In any other way.
    Otherwise,
}

#[derive(Debug)]
pub(crate) struct Remembered {
    request: RequestId,
    pub(crate) client: ClientId,
    pub(crate) session: SessionId,
    pub(crate) executor: Executor,
    pub(crate) end: End,
    pub(crate) may_have_run: bool,
    /// The call itself, until it is journaled.
    pub(crate) unjournaled: Option<Arc<FinishedCall>>,
    number: u64,
    at: Instant,
}

/// The last finished calls of a shard. They are remembered for a limited time, and about a limited number over all
/// shards: above it, an insert forgets the oldest calls of its shard. A shard always keeps its share, so that clients
/// of other shards cannot displace its calls.
///
/// There are very many calls, and most are never looked up. So they are in a ring, with an index that fits the cache.
pub(crate) struct Finished {
    /// The oldest first.
    calls: VecDeque<Remembered>,
    /// How many calls were forgotten before the oldest one.
    gone: usize,
    /// The position of each call, counted from the first call ever.
    places: HashTable<usize>,
    hasher: RandomState,
    common: Arc<Common>,
}

impl Finished {
    pub(crate) fn new(common: Arc<Common>) -> Self {
        let (calls, places, hasher) = (VecDeque::new(), HashTable::new(), RandomState::new());
        Self { calls, gone: 0, places, hasher, common }
    }

    fn place(&self, request: &RequestId) -> Option<usize> {
        let is_it = |place: &usize| self.calls[place - self.gone].request == *request;
        Some(self.places.find(self.hasher.hash_one(request), is_it)? - self.gone)
    }

    /// Remembers a call that is not journaled yet. Returns the calls that are forgotten for it.
    #[must_use]
    pub(crate) fn insert(
        &mut self,
        call: &Arc<FinishedCall>,
        number: u64,
        end: End,
        now: Instant,
    ) -> Vec<(RequestId, u64)> {
        let head = &call.head;
        let mut forgotten = self.take_old(now);
        let (place, hash) = (self.gone + self.calls.len(), self.hasher.hash_one(&head.request));
        self.calls.push_back(Remembered {
            request: head.request.clone(),
            client: head.client().clone(),
            session: head.session.clone(),
            executor: head.tool.executor,
            end,
            may_have_run: call.may_have_run,
            unjournaled: Some(call.clone()),
            number,
            at: now,
        });
        let Self { calls, gone, places, hasher, .. } = self;
        places.insert_unique(hash, place, |place| hasher.hash_one(&calls[place - *gone].request));
        let (most, in_all) = (self.common.limits.remembered_calls, self.common.remembered.load(Ordering::Relaxed) + 1);
        let share = (most / usize::from(SHARDS)).max(1);
        for _ in 0..AT_ONCE {
            if in_all > most + forgotten.len() && self.calls.len() > share {
                forgotten.extend(self.take_oldest());
            }
        }
        // Usually one call is forgotten for each new one, and the shared counter need not change.
        match forgotten.len() {
            0 => _ = self.common.remembered.fetch_add(1, Ordering::Relaxed),
            gone => self.count_gone(gone - 1),
        }
        forgotten
    }

    pub(crate) fn get(&self, request: &RequestId, now: Instant) -> Option<&Remembered> {
        let call = self.calls.get(self.place(request)?)?;
        (now < call.at + self.common.limits.remembered_for).then_some(call)
    }

    /// Notes that a call is journaled, with the end that counts.
    pub(crate) fn journaled(&mut self, call: &FinishedCall) {
        if let Some(known) = self.place(&call.head.request).and_then(|place| self.calls.get_mut(place)) {
            known.end = call.outcome.answer_hash().map_or(End::Otherwise, End::Answered);
            (known.may_have_run, known.unjournaled) = (call.may_have_run, None);
        }
    }

    /// Forgets calls that are too old, and returns them. No id is remembered twice, since it cannot be used anew.
    #[must_use]
    pub(crate) fn forget_old(&mut self, now: Instant) -> Vec<(RequestId, u64)> {
        let forgotten = self.take_old(now);
        self.count_gone(forgotten.len());
        forgotten
    }

    fn count_gone(&self, gone: usize) {
        if gone > 0 {
            self.common.remembered.fetch_sub(gone, Ordering::Relaxed);
        }
    }

    fn take_old(&mut self, now: Instant) -> Vec<(RequestId, u64)> {
        let mut forgotten = Vec::new();
        while self.calls.front().is_some_and(|call| now >= call.at + self.common.limits.remembered_for) {
            forgotten.extend(self.take_oldest());
        }
        forgotten
    }

    fn take_oldest(&mut self) -> Option<(RequestId, u64)> {
        let call = self.calls.pop_front()?;
        let place = self.places.find_entry(self.hasher.hash_one(&call.request), |place| *place == self.gone);
        if let Ok(place) = place {
            place.remove();
        }
        self.gone += 1;
        Some((call.request, call.number))
    }
}
