//! What happened, for whoever listens. Nothing is made while nobody does.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::broadcast;

use crate::call::{CallHead, FinishedCall};
use crate::id::{ClientId, SessionId, ToolId};

/// Something that happened. For one call: `Requested`, `Executing`, then exactly one `Finished`.
#[derive(Debug, Clone)]
pub enum Event {
    /// A call was made.
    Requested(Arc<CallHead>),
    /// A call is on its way to its client.
    Executing(Arc<CallHead>),
    /// A call is over.
    Finished(Arc<FinishedCall>),
    /// Tools were registered.
    Registered(ClientId, Arc<[ToolId]>),
    /// Tools are gone.
    Unregistered(ClientId, Arc<[ToolId]>),
}

impl Event {
    /// The client that it is about.
    pub fn client(&self) -> &ClientId {
        match self {
            Self::Requested(head) | Self::Executing(head) => head.client(),
            Self::Finished(call) => call.head.client(),
            Self::Registered(client, _) | Self::Unregistered(client, _) => client,
        }
    }

    /// The session that it is about, if it is about a call.
    pub fn session(&self) -> Option<&SessionId> {
        match self {
            Self::Requested(head) | Self::Executing(head) => Some(&head.session),
            Self::Finished(call) => Some(&call.head.session),
            Self::Registered(..) | Self::Unregistered(..) => None,
        }
    }
}

/// Where events come out. A listener that is too far behind is told so and gets no more.
#[derive(Debug, Clone)]
pub(crate) struct Events {
    sender: broadcast::Sender<Event>,
    /// The channel itself tells this only under its lock, which every call would pay for.
    listeners: Arc<AtomicUsize>,
}

impl Events {
    pub(crate) fn new(buffer: usize) -> Self {
        Self { sender: broadcast::Sender::new(buffer.max(1)), listeners: Arc::default() }
    }

    /// Makes and sends an event, if anybody listens.
    pub(crate) fn emit(&self, event: impl FnOnce() -> Event) {
        if self.listeners.load(Ordering::Acquire) > 0 {
            // Fails only when the last listener has just left.
            _ = self.sender.send(event());
        }
    }

    pub(crate) fn subscribe(&self) -> Subscription {
        self.listeners.fetch_add(1, Ordering::AcqRel);
        Subscription { receiver: self.sender.subscribe(), listeners: self.listeners.clone() }
    }
}

/// A listener.
#[derive(Debug)]
pub struct Subscription {
    receiver: broadcast::Receiver<Event>,
    listeners: Arc<AtomicUsize>,
}

impl Subscription {
    /// The next event; `None` when this listener is too far behind. Safe to drop while it waits.
    pub async fn next(&mut self) -> Option<Event> {
        self.receiver.recv().await.ok()
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.listeners.fetch_sub(1, Ordering::AcqRel);
    }
}
