//! A session to talk in: a prompt is sent once, and its answer arrives even if connections are lost.
//!
//! | module | responsibility |
//! | --- | --- |
//! | `turn` | one turn, from the prompt to its answer |
//! | `driver` | the state machine of a turn |
//! | `transcript` | finds what is new in events and messages |
//! | `event` | the events of a turn |
//! | `ask` | a call that waits until somebody allows it |
//! | `conversation` | a session that others talk in |

mod ask;
mod conversation;
mod driver;
mod event;
mod transcript;
mod turn;

use handback_wire::event::Event;
use handback_wire::session::{MessageWithParts, Prompt, Session};

use crate::api::Api;
use crate::error::Error;
use crate::tools::{ClientTools, ToolsLease};

pub use self::ask::Ask;
pub use self::conversation::{Conversation, SessionEvent};
pub use self::event::TurnEvent;
use self::transcript::Transcript;
pub use self::turn::Turn;

/// Returns what events add to the turn that answers the message `question`.
pub(crate) fn hear(question: &str, events: &[Event]) -> Vec<TurnEvent> {
    let mut transcript = Transcript::new(question.to_owned());
    events.iter().filter_map(|event| transcript.hear(event)).collect()
}

impl Api {
    /// Sends a prompt to a session, and returns the events of its turn, as [`SessionHandle::stream`] does.
    pub fn turn(&self, session: &str, prompt: impl Into<Prompt>) -> Turn {
        Turn::new(self, session, prompt.into(), None)
    }

    /// Follows a session that others talk in: what was said so far, and what is said from now on. The stream connects
    /// when it is first polled, and reconnects whenever the connection is lost. Safe to drop while it waits.
    ///
    /// # Errors
    /// [`Error::Refused`] if the session is another's or not there, [`Error::NoAnswer`] when it is deleted,
    /// [`Error::GivenUp`] after a minute without an answer. An error is the last item.
    pub fn follow(&self, session: &str) -> Conversation {
        conversation::follow(self.clone(), session.to_owned())
    }
}

impl ClientTools {
    /// As [`Api::turn`], for a session of this client: the prompt is sent when the server has the tools, and their
    /// calls run here rather than in another process of the same client.
    pub fn turn(&self, session: &str, prompt: impl Into<Prompt>) -> Turn {
        Turn::new(self.api(), session, prompt.into(), Some(self.clone()))
    }
}

/// A session to talk in.
#[derive(Debug)]
pub struct SessionHandle {
    api: Api,
    session: Session,
    /// The tools that the model may call.
    tools: Option<ClientTools>,
    /// Present if the tools were connected for sessions.
    lease: Option<ToolsLease>,
}

impl SessionHandle {
    pub(crate) fn new(api: Api, session: Session, tools: Option<ClientTools>, lease: Option<ToolsLease>) -> Self {
        Self { api, session, tools, lease }
    }

    /// The session as it was when it was started.
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// Sends a prompt, and waits for the last message of the answer, whose text is [`MessageWithParts::text`]. The
    /// prompt is a text, or a whole [`Prompt`] (with a model or an agent of its own, or files).
    ///
    /// Calls that need approval are left to others; to answer them, see [`SessionHandle::stream`]. Dropping the future
    /// only stops waiting: see [`SessionHandle::abort`].
    ///
    /// # Errors
    /// [`Error::TurnFailed`], with that message, if the turn ended early; else as [`Turn::next`].
    pub async fn prompt(&self, prompt: impl Into<Prompt>) -> Result<MessageWithParts, Error> {
        self.stream(prompt).finish().await
    }

    /// Sends a prompt, and returns the events of its turn.
    pub fn stream(&self, prompt: impl Into<Prompt>) -> Turn {
        match &self.tools {
            Some(tools) => tools.turn(&self.session.id, prompt),
            None => self.api.turn(&self.session.id, prompt),
        }
    }

    /// Stops the turn that is under way, if there is one, and returns when it is over.
    ///
    /// # Errors
    /// As [`Turn::abort`].
    pub async fn abort(&self) -> Result<(), Error> {
        driver::abort(&self.api, &self.session.id).await
    }

    /// Ends the use of the session, which stays on the server. Tools that were connected for sessions are disconnected
    /// if no other session needs them; dropping the handle leaves them connected.
    pub async fn close(self) {
        ToolsLease::end(self.lease).await;
    }
}
