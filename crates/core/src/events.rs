//! Events for listeners. `topics` sends an event to its listeners; `feed` has the events of one turn.

mod feed;
mod topics;
mod waiting;

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tokio_util::sync::DropGuard;

pub(crate) use self::feed::CloseFeed;
pub use self::feed::{Feed, Follower, TurnEvent};
pub(crate) use self::topics::Topics;
pub use self::topics::{Emitted, Subscription, Topic};
use crate::id::{ClientId, MessageId, SessionId, ToolId};
use crate::store::{Ask, CallHead, FinishedCall, Message, Part, Reply, Session, TurnError};

/// Something that happened. Each call has one `Requested`, one `Executing`, then exactly one `Finished`.
#[derive(Debug, Clone)]
pub enum Event {
    /// A call was made.
    Requested(Arc<CallHead>),
    /// A call is on its way to its client.
    Executing(Arc<CallHead>),
    /// A call is over.
    Finished(Arc<FinishedCall>),
    /// An answer to a call came too late, and is kept.
    Late(Arc<FinishedCall>),
    /// Tools were registered, for one session or for all.
    Registered(ClientId, Option<SessionId>, Arc<[ToolId]>),
    /// Tools are gone from one session or from all.
    Unregistered(ClientId, Option<SessionId>, Arc<[ToolId]>),
    /// A call waits for somebody to allow it.
    Asked(Arc<Ask>),
    /// An ask was answered, or ended in another way.
    Answered(Arc<Ask>, Reply),
    /// Something happened in a session.
    Session(Arc<Session>, SessionEvent),
}

/// Something that happened in a session.
///
/// For one turn: `Said` for the user's message, `Busy`, the turn's own events, `Failed` if it ended early, and `Idle`
/// when no other turn waits.
#[derive(Debug, Clone)]
pub enum SessionEvent {
    /// The session was created.
    Created,
    /// Something about the session changed.
    Updated,
    /// The session was deleted.
    Deleted,
    /// A turn begins.
    Busy,
    /// All turns are over.
    Idle,
    /// The turn ended early.
    Failed(Arc<TurnError>),
    /// A user's message was stored.
    Said(Arc<Message>),
    /// An event of a turn: its steps and their parts.
    Turn(TurnEvent),
    /// A growing part as a whole. It is sent now and then, while [`TurnEvent::Grew`] is sent at once for every piece.
    Snapshot {
        /// The message that the part belongs to.
        message: MessageId,
        /// The part.
        part: Arc<Part>,
        /// What was added to the text since the last snapshot.
        delta: Arc<str>,
    },
    /// Carries no news. When every listener has dropped it, all of them have read everything sent before it.
    Mark(Arc<DropGuard>),
}

/// Which field of a part grows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Field {
    /// The text of an answer.
    Text,
    /// The text of the model's reasoning.
    Reasoning,
    /// The arguments of a call.
    Arguments,
}

impl Event {
    /// The client that the event is about; `None` if it is about a session of no client.
    pub fn client(&self) -> Option<&ClientId> {
        match self {
            Self::Requested(head) | Self::Executing(head) => Some(head.client()),
            Self::Finished(call) | Self::Late(call) => Some(call.head.client()),
            Self::Registered(client, ..) | Self::Unregistered(client, ..) => Some(client),
            Self::Asked(ask) | Self::Answered(ask, _) => Some(ask.call.client()),
            Self::Session(session, _) => session.client.as_ref(),
        }
    }

    /// Whether the event concerns a session: it is about that session, or tools are now offered there. Tools that are
    /// removed everywhere may belong to another session.
    pub fn concerns(&self, session: &SessionId) -> bool {
        match self {
            Self::Registered(_, None, _) => true,
            _ => self.session() == Some(session),
        }
    }

    /// The session that the event is about, if there is one.
    pub fn session(&self) -> Option<&SessionId> {
        match self {
            Self::Requested(head) | Self::Executing(head) => Some(&head.session),
            Self::Finished(call) | Self::Late(call) => Some(&call.head.session),
            Self::Registered(_, session, _) | Self::Unregistered(_, session, _) => session.as_ref(),
            Self::Asked(ask) | Self::Answered(ask, _) => Some(&ask.call.session),
            Self::Session(session, _) => Some(&session.id),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
