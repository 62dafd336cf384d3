//! A map in parts, each with a lock of its own, so that no lock is shared by everybody.

use std::borrow::Borrow;
use std::hash::Hash;
use std::sync::{Mutex, MutexGuard, PoisonError};

use ahash::{HashMap, RandomState};

/// How many parts there are: more than threads that serve, so that two of them seldom meet.
const PARTS: usize = 256;

/// A part, on cache lines of its own: threads that use two parts do not wait for each other.
#[derive(Debug)]
#[repr(align(128))]
struct Part<K, V>(Mutex<HashMap<K, V>>);

/// A map of which each part has its own lock.
#[derive(Debug)]
pub(crate) struct Sharded<K, V> {
    // std's mutexes: nothing is awaited inside.
    parts: Vec<Part<K, V>>,
    hasher: RandomState,
}

impl<K, V> Default for Sharded<K, V> {
    fn default() -> Self {
        let parts = std::iter::repeat_with(|| Part(Mutex::default())).take(PARTS).collect();
        Self { parts, hasher: RandomState::new() }
    }
}

impl<K: Hash + Eq, V> Sharded<K, V> {
    /// How many parts there are.
    pub(crate) fn parts(&self) -> usize {
        self.parts.len()
    }

    /// One part after the other: that of this number, and on from the start.
    pub(crate) fn part(&self, number: usize) -> MutexGuard<'_, HashMap<K, V>> {
        self.parts[number % PARTS].0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The part in which a key is, or would be.
    pub(crate) fn of<Q: Hash + ?Sized>(&self, key: &Q) -> MutexGuard<'_, HashMap<K, V>>
    where
        K: Borrow<Q>,
    {
        let part = self.hasher.hash_one(key) as usize % PARTS;
        self.parts[part].0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether there is nothing in it. Each part is looked at for itself: what moves meanwhile may be missed.
    pub(crate) fn is_empty(&self) -> bool {
        self.parts.iter().all(|part| part.0.lock().unwrap_or_else(PoisonError::into_inner).is_empty())
    }

    /// How many entries there are.
    #[cfg(test)]
    pub(crate) fn count(&self) -> usize {
        self.parts.iter().map(|part| part.0.lock().unwrap().len()).sum()
    }
}
