//! Connections that have not sent a whole request head yet. One peer address may have only so many of them, so that it
//! cannot take all places by saying nothing.
//!
//! An address counts as it is: whoever has many of them, as hosts with IPv6 do, has the bound many times.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::future::{AbortHandle, AbortRegistration};

/// All of them, by the addresses of their peers. A cheap clone of one shared state.
#[derive(Clone)]
pub(super) struct Newcomers(Arc<Shared>);

struct Shared {
    /// How many one address may have; with one more, the oldest of them is closed.
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
        Self(Arc::new(Shared { most: most.max(1), by_peer: Mutex::default() }))
    }

    /// A connection was accepted. What serves it runs under the registration, and ends when it has to go.
    pub(super) fn enter(&self, peer: IpAddr) -> (Newcomer, AbortRegistration) {
        // An IPv4 address is the same one on a socket that listens on both.
        let peer = peer.to_canonical();
        let (handle, registration) = AbortHandle::new_pair();
        let mut by_peer = self.lock();
        by_peer.counter += 1;
        let number = by_peer.counter;
        let waiting = by_peer.peers.entry(peer).or_default();
        waiting.insert(number, handle);
        if waiting.len() > self.0.most
            && let Some((_, oldest)) = waiting.pop_first()
        {
            oldest.abort();
        }
        drop(by_peer);
        (Newcomer { newcomers: self.clone(), peer, number }, registration)
    }

    fn lock(&self) -> MutexGuard<'_, ByPeer> {
        self.0.by_peer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One of them, for as long as it is open.
pub(super) struct Newcomer {
    newcomers: Newcomers,
    peer: IpAddr,
    number: u64,
}

impl Newcomer {
    /// It has sent a whole head, and is no newcomer any more. Says whether it had not been told to go before.
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
