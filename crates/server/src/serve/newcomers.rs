//! Connections that have not sent a whole request head yet. One peer address may have only so many of them, so that it
//! cannot take all places without saying anything.
//!
//! Each address counts alone, so a peer with many addresses, as hosts with IPv6 have, gets the bound many times.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::future::{AbortHandle, AbortRegistration};

/// All newcomers.
pub(super) struct Newcomers {
    /// How many one address may have. Beyond it the oldest of them is closed.
    most: usize,
    // std's mutex: nothing is awaited inside.
    by_peer: Mutex<ByPeer>,
}

#[derive(Default)]
struct ByPeer {
    counter: u64,
    peers: HashMap<IpAddr, BTreeMap<u64, AbortHandle>>,
}

impl Newcomers {
    pub(super) fn new(most: usize) -> Self {
        Self { most: most.max(1), by_peer: Mutex::default() }
    }

    /// Adds a connection. The task that serves it runs under the registration, which aborts it if it has to go.
    pub(super) fn enter(self: &Arc<Self>, peer: IpAddr) -> (Newcomer, AbortRegistration) {
        // An IPv4 address is the same one on a socket that listens on both.
        let peer = peer.to_canonical();
        let (handle, registration) = AbortHandle::new_pair();
        let mut by_peer = self.lock();
        by_peer.counter += 1;
        let number = by_peer.counter;
        let waiting = by_peer.peers.entry(peer).or_default();
        waiting.insert(number, handle);
        if waiting.len() > self.most
            && let Some((_, oldest)) = waiting.pop_first()
        {
            oldest.abort();
        }
        drop(by_peer);
        (Newcomer { newcomers: self.clone(), peer, number }, registration)
    }

    fn lock(&self) -> MutexGuard<'_, ByPeer> {
        self.by_peer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One newcomer, for as long as its connection is open.
pub(super) struct Newcomer {
    newcomers: Arc<Newcomers>,
    peer: IpAddr,
    number: u64,
}

impl Newcomer {
    /// Removes it, because its head has come. Returns whether it was still there, and not told to go.
    pub(super) fn has_spoken(&self) -> bool {
        let mut by_peer = self.newcomers.lock();
        let Some(waiting) = by_peer.peers.get_mut(&self.peer) else { return false };
        let was_there = waiting.remove(&self.number).is_some();
        if waiting.is_empty() {
            by_peer.peers.remove(&self.peer);
        }
        was_there
    }
}

impl Drop for Newcomer {
    fn drop(&mut self) {
        self.has_spoken();
    }
}
