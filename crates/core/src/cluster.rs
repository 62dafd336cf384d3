//! The processes of one server that share a store: its nodes. Each has a lease, which it renews again and again. What a node
//! owns is its own for as long as its lease is valid; then others take it over.
//!
//! The store's clock decides when a lease is over. A node that cannot renew its lease stops a while before that, by its own
//! clock: it is fenced. Once it can, it joins again, and owns nothing.

mod memory;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use tokio::time::{Instant, sleep_until, timeout_at};

pub use self::memory::MemoryNodes;
use crate::clock::{Clock, Time};
use crate::id::NodeId;
use crate::store::{StoreError, StoreFuture};

/// How long a lease is valid after it was renewed, by the store's clock.
pub const LEASE: Duration = Duration::from_secs(8);
/// After which time without a renewal a node is fenced. The difference is for what is on its way, and for clocks that differ in
/// speed.
const FENCED_AFTER: Duration = Duration::from_secs(6);
/// How often a lease is renewed.
const HEARTBEAT: Duration = Duration::from_secs(2);
/// How soon a renewal that failed is tried again.
const TRIED_AGAIN: Duration = Duration::from_millis(500);

/// What a node has to do, which it says with each renewal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Load {
    /// Sessions whose turns run there.
    pub sessions: u64,
    /// Clients that are connected there.
    pub clients: u64,
    /// Calls that are under way there.
    pub calls: u64,
}

/// A node, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeInfo {
    /// The node.
    pub id: NodeId,
    /// Where it runs.
    pub name: Arc<str>,
    /// When it joined.
    pub since: Time,
    /// How long its lease is still valid; nothing if it is over.
    pub lease: Duration,
    /// What it had to do when it renewed the lease.
    pub load: Load,
}

/// The nodes that share a store. All times are by the store's clock.
pub trait NodeStore: Send + Sync + 'static {
    /// Gives a new node a lease, or an earlier one, which owns nothing from now on.
    fn join(&self, name: &str, again: Option<NodeId>) -> StoreFuture<NodeId>;
    /// Renews the lease of a node, and returns the time. `None` if the lease is over: others may own what the node owned.
    fn renew(&self, node: NodeId, load: Load) -> StoreFuture<Option<SystemTime>>;
    /// Ends the lease of a node at once.
    fn leave(&self, node: NodeId) -> StoreFuture<()>;
    /// The nodes that have joined and not left, in the order in which they first joined. Those whose lease has been over for long
    /// may be missing.
    fn nodes(&self) -> StoreFuture<Vec<NodeInfo>>;
}

/// This process as a node.
pub struct Membership {
    node: NodeId,
    name: String,
    store: Arc<dyn NodeStore>,
    clock: Clock,
    is_fenced: AtomicBool,
    joined: Instant,
}

impl Membership {
    /// Joins the nodes that share a store.
    pub async fn join(store: Arc<dyn NodeStore>, clock: Clock, name: &str) -> Result<Self, StoreError> {
        let joined = Instant::now();
        let node = store.join(name, None).await?;
        let is_fenced = AtomicBool::new(false);
        let membership = Self { node, name: name.to_owned(), store, clock, is_fenced, joined };
        // It says what time it is.
        membership.store.renew(node, Load::default()).await?.into_iter().for_each(|now| membership.clock.set(now));
        Ok(membership)
    }

    /// This node.
    pub fn node(&self) -> NodeId {
        self.node
    }

    /// Whether this node may go on with what it owns.
    pub fn is_member(&self) -> bool {
        !self.is_fenced.load(Ordering::Acquire)
    }

    /// Renews the lease for as long as this is polled. `fence` drops all that the node owns; only after that the node joins
    /// again.
    pub async fn keep(&self, load: impl Fn() -> Load, fence: impl Fn()) {
        let (mut renewed, mut next) = (self.joined, Instant::now() + HEARTBEAT);
        loop {
            let wake = if self.is_member() { next.min(renewed + FENCED_AFTER) } else { next };
            sleep_until(wake).await;
            let sent = Instant::now();
            // The process may have been stopped for any time.
            if sent >= renewed + FENCED_AFTER {
                self.fence(&fence);
            }
            let patience = (sent + TRIED_AGAIN).max(renewed + FENCED_AFTER);
            next = sent + HEARTBEAT;
            if self.is_member() {
                match timeout_at(patience, self.store.renew(self.node, load())).await {
                    Ok(Ok(Some(now))) => {
                        self.clock.set(now);
                        renewed = sent;
                    }
                    Ok(Ok(None)) => {
                        tracing::error!(node = self.node.number(), "the lease of this node is over");
                        self.fence(&fence);
                        next = sent;
                    }
                    Ok(Err(error)) => {
                        tracing::warn!(%error, "the lease of this node could not be renewed");
                        next = Instant::now() + TRIED_AGAIN;
                    }
                    Err(_elapsed) => next = Instant::now(),
                }
            } else {
                match timeout_at(sent + HEARTBEAT, self.store.join(&self.name, Some(self.node))).await {
                    Ok(Ok(_)) => {
                        renewed = sent;
                        self.is_fenced.store(false, Ordering::Release);
                        tracing::info!(node = self.node.number(), "this node has joined again");
                    }
                    Ok(Err(_)) => next = Instant::now() + TRIED_AGAIN,
                    Err(_elapsed) => {}
                }
            }
        }
    }

    fn fence(&self, fence: &impl Fn()) {
        if !self.is_fenced.swap(true, Ordering::AcqRel) {
            let node = self.node.number();
            tracing::error!(node, "this node cannot renew its lease, and stops what it has under way");
            fence();
        }
    }

    /// Gives the lease up, so that others take over at once what this node owned. Call this when nobody keeps it any more.
    pub async fn leave(&self) -> Result<(), StoreError> {
        self.is_fenced.store(true, Ordering::Release);
        self.store.leave(self.node).await
    }
}

#[cfg(test)]
mod tests;
