//! A session to talk in: what is said once is said once, and the answer comes whatever happens to the connection.
//!
//! | module | responsibility |
//! | --- | --- |
//! | `turn` | one turn, from what is said until it is answered |
//! | `driver` | what makes a turn go on |
//! | `transcript` | events and messages in, what is new of them out |
//! | `event` | what a turn tells |
//! | `ask` | a call that waits until somebody allows it |

mod ask;
mod driver;
mod event;
mod transcript;
mod turn;

use handback_wire::session::{MessageWithParts, Prompt, Session};

use crate::api::Api;
use crate::error::Error;
use crate::tools::{ClientTools, ToolsLease};

pub use self::ask::Ask;
pub use self::event::TurnEvent;
pub use self::turn::Turn;

impl Api {
    /// Says something in a session, and tells what comes of it. [`SessionHandle::stream`] does the same; this is for
    /// whoever has nothing but a session's id.
    pub fn turn(&self, session: &str, prompt: impl Into<Prompt>) -> Turn {
        Turn::new(self, session, prompt.into(), None)
    }
}

impl ClientTools {
    /// Says something in a session of this client, and tells what comes of it: as [`Api::turn`], but it is said when the
    /// server has the tools, and their calls run here rather than by another process that is the same client.
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
    /// If the tools were connected for sessions.
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

    /// Says something, and waits for the last message of the answer; [`MessageWithParts::text`] is what it says. What is
    /// said is a text, or a whole [`Prompt`] (a model or an agent of its own, files).
    ///
    /// Calls that ask to be allowed are left to others; to answer them, see [`SessionHandle::stream`]. Dropping the
    /// future stops waiting and nothing else: see [`SessionHandle::abort`].
    ///
    /// # Errors
    /// [`Error::TurnFailed`], with that message, if the turn ended early; else as [`Turn::next`].
    pub async fn prompt(&self, prompt: impl Into<Prompt>) -> Result<MessageWithParts, Error> {
        self.stream(prompt).finish().await
    }

    /// Says something, and tells what comes of it as it comes.
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

    /// Is done with the session, which stays on the server. If the client's tools were connected for sessions and no
    /// other needs them, they are disconnected; a handle that is dropped instead leaves them to their client.
    pub async fn close(self) {
        ToolsLease::end(self.lease).await;
    }
}
