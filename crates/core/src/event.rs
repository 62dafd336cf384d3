//! What happened, for whoever listens. Nothing is made while nobody does.

mod waiting;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use self::waiting::{Taken, Waiting};
use crate::call::{CallHead, FinishedCall};
use crate::id::{ClientId, MessageId, PartId, SessionId, ToolId};
use crate::limits::Limits;
use crate::message::{Message, Part, Session, TurnError};
use crate::permission::{Ask, Reply};

/// Something that happened. For one call: `Requested`, `Executing`, then exactly one `Finished`.
#[derive(Debug, Clone)]
pub enum Event {
    /// A call was made.
    Requested(Arc<CallHead>),
    /// A call is on its way to its client.
    Executing(Arc<CallHead>),
    /// A call is over.
    Finished(Arc<FinishedCall>),
    /// Tools were registered, for one session or for all.
    Registered(ClientId, Option<SessionId>, Arc<[ToolId]>),
    /// Tools are gone from one session or from all.
    Unregistered(ClientId, Option<SessionId>, Arc<[ToolId]>),
    /// A call waits until somebody allows it.
    Asked(Arc<Ask>),
    /// An ask was answered, or ended otherwise.
    Answered(Arc<Ask>, Reply),
    /// Something happened in a session.
    Session(Arc<Session>, SessionEvent),
}

/// Something that happened in a session: the run events, which protocols encode.
///
/// For one turn: the user's `Message` and its `Part`s, `Busy`, then for each step the assistant's `Message`, its parts
/// as they grow and change, the `Message` again when it is complete; `Failed` if the turn ended early; and `Idle` when
/// nothing more is to be done.
#[derive(Debug, Clone)]
pub enum SessionEvent {
    /// It was made.
    Created,
    /// Something about it changed.
    Updated,
    /// It is gone.
    Deleted,
    /// A turn begins.
    Busy,
    /// All turns are over.
    Idle,
    /// The turn ended early.
    Failed(Arc<TurnError>),
    /// A message was made or changed; its parts are told apart from it.
    Message(Arc<Message>),
    /// A part of a user's message was made.
    UserPart {
        /// The message that it belongs to.
        message: MessageId,
        /// The part.
        part: Arc<Part>,
    },
    /// A part of an answer was made or changed, and is now so.
    Part {
        /// The message that it belongs to.
        message: MessageId,
        /// The part.
        part: Arc<Part>,
        /// What was added to its text since it was last told like this.
        delta: Option<Arc<str>>,
    },
    /// A part is gone: its provider has begun the answer anew.
    PartRemoved {
        /// The message that it belonged to.
        message: MessageId,
        /// The part.
        part: PartId,
    },
    /// A part has grown: told at once and for every piece, where [`SessionEvent::Part`] is told now and then.
    Delta {
        /// The message that it belongs to.
        message: MessageId,
        /// The part.
        part: PartId,
        /// What grew.
        field: Field,
        /// What was added.
        delta: Arc<str>,
    },
}

/// What of a part grows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Field {
    /// The text of an answer.
    Text,
    /// The text of what the model thinks.
    Reasoning,
    /// The arguments of a call.
    Arguments,
}

impl Event {
    /// The client that it is about; `None` if it is about a session of no client.
    pub fn client(&self) -> Option<&ClientId> {
        match self {
            Self::Requested(head) | Self::Executing(head) => Some(head.client()),
            Self::Finished(call) => Some(call.head.client()),
            Self::Registered(client, ..) | Self::Unregistered(client, ..) => Some(client),
            Self::Asked(ask) | Self::Answered(ask, _) => Some(ask.call.client()),
            Self::Session(session, _) => session.client.as_ref(),
        }
    }

    /// Whether it concerns a session: it is about that one, or tools are offered there from now on. Tools that go from
    /// everywhere may be those of another session.
    pub fn concerns(&self, session: &SessionId) -> bool {
        match self {
            Self::Registered(_, None, _) => true,
            _ => self.session() == Some(session),
        }
    }

    /// The session that it is about, if it is about one.
    pub fn session(&self) -> Option<&SessionId> {
        match self {
            Self::Requested(head) | Self::Executing(head) => Some(&head.session),
            Self::Finished(call) => Some(&call.head.session),
            Self::Registered(_, session, _) | Self::Unregistered(_, session, _) => session.as_ref(),
            Self::Asked(ask) | Self::Answered(ask, _) => Some(&ask.call.session),
            Self::Session(session, _) => Some(&session.id),
        }
    }
}

/// Where events come out. A listener that is too far behind is told so and gets no more.
#[derive(Debug, Clone)]
pub(crate) struct Events(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    // std's mutex: nothing is awaited inside.
    waiting: Mutex<Waiting>,
    more: Notify,
    /// Asked with every event, and not to be paid for with the lock.
    listeners: AtomicUsize,
}

impl Events {
    pub(crate) fn new(limits: &Limits) -> Self {
        let waiting = Mutex::new(Waiting::new(limits.event_buffer, limits.event_bytes));
        Self(Arc::new(Shared { waiting, more: Notify::new(), listeners: AtomicUsize::new(0) }))
    }

    pub(crate) fn is_watched(&self) -> bool {
        self.0.listeners.load(Ordering::Acquire) > 0
    }

    /// Makes and sends an event, if anybody listens.
    pub(crate) fn emit(&self, event: impl FnOnce() -> Event) {
        if self.is_watched() {
            let event = event();
            // Dropped after the lock: it may be large.
            let _dropped = self.lock().push(event);
            self.0.more.notify_waiters();
        }
    }

    pub(crate) fn subscribe(&self) -> Subscription {
        let next = self.lock().join();
        self.0.listeners.fetch_add(1, Ordering::AcqRel);
        Subscription { events: self.clone(), next }
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A listener.
#[derive(Debug)]
pub struct Subscription {
    events: Events,
    /// The number of the event that it gets next.
    next: u64,
}

impl Subscription {
    /// The next event; `None` when this listener is too far behind. Safe to drop while it waits.
    pub async fn next(&mut self) -> Option<Event> {
        loop {
            let more = self.events.0.more.notified();
            tokio::pin!(more);
            // Listens before it looks, so that nothing is missed in between.
            more.as_mut().enable();
            match self.events.lock().take(self.next) {
                Taken::Event(event) => {
                    self.next += 1;
                    return Some(event);
                }
                Taken::Missed => return None,
                Taken::Nothing => {}
            }
            more.await;
        }
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.events.0.listeners.fetch_sub(1, Ordering::AcqRel);
        self.events.lock().leave(self.next);
    }
}

#[cfg(test)]
mod tests;
