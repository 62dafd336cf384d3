//! What happened, for whoever listens. Nothing is made while nobody does.

use std::sync::Arc;

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
pub(crate) struct Events(broadcast::Sender<Event>);

impl Events {
    pub(crate) fn new(buffer: usize) -> Self {
        Self(broadcast::Sender::new(buffer.max(1)))
    }

    /// Makes and sends an event, if anybody listens.
    pub(crate) fn emit(&self, event: impl FnOnce() -> Event) {
        if self.0.receiver_count() > 0 {
            // Fails only when the last listener has just left.
            _ = self.0.send(event());
        }
    }

    pub(crate) fn subscribe(&self) -> broadcast::Receiver<Event> {
        self.0.subscribe()
    }
}
