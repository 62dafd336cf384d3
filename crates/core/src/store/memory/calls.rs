//! The finished calls of the store in memory, in the shards of the call table.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ahash::HashMap;

use crate::clock::{SHARDS, named_by};
use crate::id::{RequestId, SessionId};
use crate::store::call::{Ended, FinishedCall, Outcome};
use crate::store::{CallFilter, CallPage, Most, Page, StoreError, weight};

/// After this many calls, one shard is swept of calls that are too old. The shards take turns.
const SWEEP_EVERY: u64 = 16;

/// How often all shards are swept while as many bytes arrive as may be stored.
const SWEEPS: u64 = 4;

/// The newest finished calls. When there are too many, or they take too much memory, the oldest are dropped first.
#[derive(Debug)]
pub(super) struct FinishedCalls {
    // std mutexes are enough: nothing is awaited inside. Each shard has one, so that threads seldom collide.
    shards: Vec<Mutex<Calls>>,
    last: Last,
    most_calls: u64,
    most_bytes: u64,
}

/// The finished calls of a shard. Some may be too old by now, because of newer calls in other shards.
#[derive(Debug, Default)]
struct Calls {
    kept: HashMap<RequestId, KeptCall>,
    /// The oldest first.
    order: VecDeque<(Age, RequestId)>,
}

#[derive(Debug)]
struct KeptCall {
    call: Arc<FinishedCall>,
    age: Age,
    /// Stored here so that the call itself, which may be out of the cache, need not be read.
    bytes: usize,
}

/// How much came before a call, over all shards. A call is too old when too much has come after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Age {
    /// The call's number, from 1.
    number: u64,
    /// The size of all calls before it.
    bytes: u64,
}

/// How much has come so far.
#[derive(Debug, Default)]
struct Last {
    number: AtomicU64,
    bytes: AtomicU64,
}

impl Last {
    fn next(&self, bytes: usize) -> Age {
        let number = self.number.fetch_add(1, Ordering::Relaxed) + 1;
        Age { number, bytes: self.bytes.fetch_add(bytes as u64, Ordering::Relaxed) }
    }
}

impl Age {
    fn is_kept(self, oldest: Self) -> bool {
        self.number >= oldest.number && self.bytes >= oldest.bytes
    }
}

impl Calls {
    fn insert(&mut self, new: KeptCall) {
        self.order.push_back((new.age, new.call.head.request.clone()));
        self.kept.insert(new.call.head.request.clone(), new);
    }

    /// Removes calls that are too old.
    fn shrink(&mut self, oldest: Age) -> Vec<KeptCall> {
        let mut gone = Vec::new();
        while self.order.front().is_some_and(|(age, _)| !age.is_kept(oldest)) {
            let Some((_, request)) = self.order.pop_front() else { break };
            gone.extend(self.kept.remove(&request));
        }
        gone
    }

    /// Calls with numbers lower than `before` that are not too old, newest first.
    fn newest(&self, before: Option<u64>, oldest: Age) -> impl Iterator<Item = &KeptCall> {
        let is_before = |(age, _): &(Age, RequestId)| before.is_none_or(|before| age.number < before);
        let end = self.order.partition_point(is_before);
        let newest = self.order.range(..end).rev().take_while(move |(age, _)| age.is_kept(oldest));
        newest.filter_map(|(_, request)| self.kept.get(request))
    }
}

impl FinishedCalls {
    pub(super) fn new(most_calls: usize, most_bytes: usize) -> Self {
        let shards = std::iter::repeat_with(Mutex::default).take(SHARDS.into()).collect();
        Self { shards, last: Last::default(), most_calls: most_calls as u64, most_bytes: most_bytes as u64 }
    }

    fn shard(&self, shard: u16) -> MutexGuard<'_, Calls> {
        self.shards[usize::from(shard)].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The age of the oldest call that is kept.
    fn oldest(&self) -> Age {
        let (number, bytes) = (self.last.number.load(Ordering::Relaxed), self.last.bytes.load(Ordering::Relaxed));
        Age { number: (number + 1).saturating_sub(self.most_calls), bytes: bytes.saturating_sub(self.most_bytes) }
    }

    pub(super) fn add(&self, call: &Arc<FinishedCall>) -> Ended {
        let bytes = weight::of_call(call);
        let mut calls = self.shard(shard_of(&call.head.request));
        if let Some(before) = calls.kept.get(&call.head.request).filter(|kept| kept.age.is_kept(self.oldest())) {
            return Ended::after(before.call.clone(), call);
        }
        // Numbered under the lock, so that a shard's calls are in the order of their numbers.
        let age = self.last.next(bytes);
        calls.insert(KeptCall { call: call.clone(), age, bytes });
        let oldest = self.oldest();
        let gone = calls.shrink(oldest);
        // Freed after the lock is released.
        drop(calls);
        drop(gone);
        // A shard without new calls does not shrink by itself.
        let (shards, step) = (u64::from(SHARDS), (self.most_bytes / SWEEPS / u64::from(SHARDS)).max(1));
        let by_number = age.number / SWEEP_EVERY..(age.number + 1) / SWEEP_EVERY;
        let by_bytes = age.bytes / step..(age.bytes + bytes as u64) / step;
        for turn in by_number.chain(by_bytes.take(SHARDS.into())) {
            let gone = self.shard((turn % shards) as u16).shrink(oldest);
            drop(gone);
        }
        Ended::First
    }

    pub(super) fn keep_late(&self, request: &RequestId, late: Outcome) -> bool {
        let mut calls = self.shard(shard_of(request));
        let known = calls.kept.get_mut(request).filter(|kept| kept.call.late.is_none());
        let Some(kept) = known else { return false };
        kept.call = Arc::new(FinishedCall { late: Some(late), ..FinishedCall::clone(&kept.call) });
        true
    }

    pub(super) fn find(&self, request: &RequestId) -> Option<Arc<FinishedCall>> {
        let (calls, oldest) = (self.shard(shard_of(request)), self.oldest());
        calls.kept.get(request).filter(|kept| kept.age.is_kept(oldest)).map(|kept| kept.call.clone())
    }

    /// A page of calls with numbers lower than `before`, each with its number, newest first.
    pub(super) fn list(&self, filter: &CallFilter, before: Option<u64>, most: Most) -> Result<CallPage, StoreError> {
        // All shards are locked at the same time, so that no call is missed in favour of a later one.
        let shards: Vec<MutexGuard<'_, Calls>> = (0..SHARDS).map(|shard| self.shard(shard)).collect();
        let oldest = self.oldest();
        let wanted =
            |calls| Calls::newest(calls, before, oldest).filter(|kept| filter.takes(&kept.call.head)).peekable();
        let mut shards: Vec<_> = shards.iter().map(|calls| wanted(calls)).collect();
        let newest = std::iter::from_fn(|| {
            let numbers = shards.iter_mut().map(|calls| calls.peek().map(|kept| kept.age.number));
            let (newest, _) = numbers.enumerate().max_by_key(|(_, number)| *number)?;
            shards.get_mut(newest)?.next()
        });
        Page::fill(newest.map(|kept| Ok((kept.bytes, (kept.age.number, kept.call.clone())))), most)
    }

    pub(super) fn forget_session(&self, session: &SessionId) {
        for shard in 0..SHARDS {
            let mut calls = self.shard(shard);
            let Calls { kept, order } = &mut *calls;
            let before = kept.len();
            kept.retain(|_, kept| kept.call.head.session != *session);
            if kept.len() < before {
                order.retain(|(_, request)| kept.contains_key(request));
            }
        }
    }
}

/// The shard of a call: usually the one of its client.
fn shard_of(request: &RequestId) -> u16 {
    named_by(request).unwrap_or_default()
}
