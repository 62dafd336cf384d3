//! Locks for plain data.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks data that is never left half changed, so a poisoned lock is harmless.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
