//! A map in parts, each with its own lock, so that no lock is shared by everybody.

use std::borrow::Borrow;
use std::hash::Hash;
use std::sync::{Mutex, MutexGuard, PoisonError};

use ahash::{HashMap, RandomState};

/// The number of parts: more than serving threads, so that two of them seldom collide.
const PARTS: usize = 256;

/// A part of the map on its own cache lines, so that threads that use different parts do not slow each other down.
#[derive(Debug)]
#[repr(align(128))]
struct Slot<K, V>(Mutex<HashMap<K, V>>);

#[derive(Debug)]
pub(crate) struct Sharded<K, V> {
    // std mutexes are enough: nothing is awaited while they are locked.
    parts: Vec<Slot<K, V>>,
    hasher: RandomState,
}

impl<K, V> Default for Sharded<K, V> {
    fn default() -> Self {
        let parts = std::iter::repeat_with(|| Slot(Mutex::default())).take(PARTS).collect();
        Self { parts, hasher: RandomState::new() }
    }
}

impl<K: Hash + Eq, V> Sharded<K, V> {
    pub(crate) fn parts(&self) -> usize {
        self.parts.len()
    }

    /// The part with this number, modulo the number of parts.
    pub(crate) fn part(&self, number: usize) -> MutexGuard<'_, HashMap<K, V>> {
        self.parts[number % PARTS].0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The part that has a key, or would have it.
    pub(crate) fn of<Q: Hash + ?Sized>(&self, key: &Q) -> MutexGuard<'_, HashMap<K, V>>
    where
        K: Borrow<Q>,
    {
        let part = self.hasher.hash_one(key) as usize % PARTS;
        self.parts[part].0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the map is empty. Each part is checked on its own, so entries that change meanwhile may be missed.
    pub(crate) fn is_empty(&self) -> bool {
        self.parts.iter().all(|part| part.0.lock().unwrap_or_else(PoisonError::into_inner).is_empty())
    }

    #[cfg(test)]
    pub(crate) fn count(&self) -> usize {
        self.parts.iter().map(|part| part.0.lock().unwrap().len()).sum()
    }
}
