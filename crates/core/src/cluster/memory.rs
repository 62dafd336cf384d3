//! The nodes of one process, for tests.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::{LEASE, Load, NodeInfo, NodeStore};
use crate::clock::{Clock, Time};
use crate::id::NodeId;
use crate::store::StoreFuture;

/// Nodes in memory, with a clock.
#[derive(Debug, Clone)]
pub struct MemoryNodes {
    clock: Clock,
    nodes: Arc<Mutex<Nodes>>,
}

#[derive(Debug, Default)]
struct Nodes {
    last: i64,
    known: BTreeMap<NodeId, Member>,
}

#[derive(Debug)]
struct Member {
    name: Arc<str>,
    since: Time,
    until: Instant,
    load: Load,
}

impl MemoryNodes {
    /// Nodes with this clock, which stands for the store's.
    pub fn new(clock: Clock) -> Self {
        Self { clock, nodes: Arc::default() }
    }

    fn with<R: Send + 'static>(&self, act: impl FnOnce(&mut Nodes) -> R) -> StoreFuture<R> {
        let result = act(&mut self.nodes.lock().unwrap_or_else(PoisonError::into_inner));
        Box::pin(std::future::ready(Ok(result)))
    }
}

impl NodeStore for MemoryNodes {
    fn join(&self, name: &str, again: Option<NodeId>) -> StoreFuture<NodeId> {
        let known = Member {
            name: name.into(),
            since: self.clock.time(),
            until: Instant::now() + LEASE,
            load: Load::default(),
        };
        self.with(|nodes| {
            let id = again.unwrap_or_else(|| {
                nodes.last += 1;
                NodeId::new(nodes.last)
            });
            nodes.known.insert(id, known);
            id
        })
    }

    fn renew(&self, node: NodeId, load: Load) -> StoreFuture<Option<std::time::SystemTime>> {
        let now = self.clock.now();
        self.with(|nodes| {
            let known = nodes.known.get_mut(&node).filter(|known| known.until > Instant::now())?;
            (known.until, known.load) = (Instant::now() + LEASE, load);
            Some(now)
        })
    }

    fn leave(&self, node: NodeId) -> StoreFuture<()> {
        self.with(|nodes| _ = nodes.known.remove(&node))
    }

    fn nodes(&self) -> StoreFuture<Vec<NodeInfo>> {
        self.with(|nodes| {
            let info = |(id, known): (&NodeId, &Member)| NodeInfo {
                id: *id,
                name: known.name.clone(),
                since: known.since,
                lease: known.until.checked_duration_since(Instant::now()).unwrap_or(Duration::ZERO),
                load: known.load,
            };
            nodes.known.iter().map(info).collect()
        })
    }
}
