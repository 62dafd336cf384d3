//! The bus of nodes in one process, for tests.

use std::sync::{Arc, Mutex, PoisonError};

use ahash::HashMap;

use super::{Bus, Hearing, Inbox, Note};
use crate::id::NodeId;

/// The nodes that can reach each other.
#[derive(Debug, Clone, Default)]
pub struct MemoryBuses(Arc<Mutex<HashMap<NodeId, Arc<Inbox>>>>);

/// One node's bus. Dropping it takes the node out.
#[derive(Debug)]
pub struct MemoryBus {
    node: NodeId,
    inbox: Arc<Inbox>,
    nodes: MemoryBuses,
}

impl MemoryBuses {
    /// The bus of a node.
    pub fn join(&self, node: NodeId) -> MemoryBus {
        let inbox = Arc::<Inbox>::default();
        self.with(|nodes| nodes.insert(node, inbox.clone()));
        MemoryBus { node, inbox, nodes: self.clone() }
    }

    fn with<R>(&self, act: impl FnOnce(&mut HashMap<NodeId, Arc<Inbox>>) -> R) -> R {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Bus for MemoryBus {
    fn send(&self, to: NodeId, note: Note) {
        if let Some(inbox) = self.nodes.with(|nodes| nodes.get(&to).cloned()) {
            inbox.put(note);
        }
    }

    fn broadcast(&self, note: Note) {
        let others = |nodes: &mut HashMap<NodeId, Arc<Inbox>>| {
            let others = nodes.iter().filter(|(node, _)| **node != self.node);
            others.map(|(_, inbox)| inbox.clone()).collect::<Vec<_>>()
        };
        self.nodes.with(others).into_iter().for_each(|inbox| inbox.put(note.clone()));
    }

    fn hear(&self) -> Hearing<'_> {
        Box::pin(self.inbox.take())
    }
}

impl Drop for MemoryBus {
    fn drop(&mut self) {
        self.nodes.with(|nodes| nodes.remove(&self.node));
    }
}
