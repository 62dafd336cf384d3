//! Notes between the processes of one server, which share a store. A note only says where to look: what is there is in the
//! store. Any note may be lost, so whoever waits for one also looks by itself now and then.

mod inbox;
mod memory;

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::str::FromStr;

use crate::id::{ClientId, NodeId, RequestId, SessionId};

pub use self::inbox::Inbox;
pub use self::memory::{MemoryBus, MemoryBuses};

/// Says where to look.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Note {
    /// At a call: it is for the node, has changed, or is over.
    Call(RequestId),
    /// At a client: its connections have changed.
    Client(ClientId),
    /// At a session: a prompt waits, or something else is wanted of its turn.
    Session(SessionId),
    /// At the mail for the node.
    Mail,
    /// At the nodes: one has come or gone, or wants something else than before.
    Nodes,
}

/// What a node hears.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Heard {
    /// A note.
    Note(Note),
    /// Some notes may be lost: look everywhere.
    Missed,
}

/// The future of what a node hears next.
pub type Hearing<'a> = Pin<Box<dyn Future<Output = Heard> + Send + 'a>>;

/// Carries notes from one node to others, each at most once, in any order. Equal notes to a node may arrive as one.
///
/// A bus says [`Heard::Missed`] after it was cut off, and when it had to drop notes because nobody took them. Other notes may
/// be lost without a word: to a node that is not there, for example. Sending never waits, and bounds what it holds.
pub trait Bus: Send + Sync + 'static {
    /// Sends a note to another node. What it says must be in the store already.
    fn send(&self, to: NodeId, note: Note);
    /// Sends a note to all other nodes.
    fn broadcast(&self, note: Note);
    /// Waits for what this node hears next. One task hears. Cancel safe.
    fn hear(&self) -> Hearing<'_>;
}

impl fmt::Display for Note {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Call(request) => write!(formatter, "call {request}"),
            Self::Client(client) => write!(formatter, "client {client}"),
            Self::Session(session) => write!(formatter, "session {session}"),
            Self::Mail => formatter.write_str("mail"),
            Self::Nodes => formatter.write_str("nodes"),
        }
    }
}

/// The text is no note that is known here. A newer version may have sent it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("this is no note")]
pub struct NoNote;

impl FromStr for Note {
    type Err = NoNote;

    fn from_str(text: &str) -> Result<Self, NoNote> {
        let (kind, id) = text.split_once(' ').unwrap_or((text, ""));
        Ok(match kind {
            "call" => Self::Call(RequestId::parse(id).map_err(|_| NoNote)?),
            "client" => Self::Client(ClientId::parse(id).map_err(|_| NoNote)?),
            "session" => Self::Session(SessionId::parse(id).map_err(|_| NoNote)?),
            "mail" if id.is_empty() => Self::Mail,
            "nodes" if id.is_empty() => Self::Nodes,
            _ => return Err(NoNote),
        })
    }
}

#[cfg(test)]
mod tests;
