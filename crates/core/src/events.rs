//! What happened, for whoever listens. How an event gets to its listeners is in `topics`; what one turn tells to whoever
//! shows it is in `feed`.

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

/// Something that happened in a session.
///
/// For one turn: the user's message is `Said`, `Busy`, what the turn tells, `Failed` if it ended early; and `Idle` when
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
    /// A user's message was taken.
    Said(Arc<Message>),
    /// What a turn tells: its steps and their parts.
    Turn(TurnEvent),
    /// A part that grows, whole: told now and then, where [`TurnEvent::Grew`] is told at once and for every piece.
    Snapshot {
        /// The message that it belongs to.
        message: MessageId,
        /// The part.
        part: Arc<Part>,
        /// What was added to its text since it was last told like this.
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

#[cfg(test)]
pub(crate) mod tests;
