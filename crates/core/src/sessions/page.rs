//! What pages need of sessions besides prompting: ids of their own, turns that go on with the page's results, turns that
//! are followed, and conversations that begin anew somewhere.

use std::sync::Arc;

use tokio::sync::oneshot;

use super::live::Enqueued;
use super::{Audience, Feed, NewSession, Prompted, SessionError, Sessions};
use crate::event::SessionEvent;
use crate::id::{CallId, ClientId, MessageId, SessionId};
use crate::message::{Message, Part, Role, Session, ToolResult};
use crate::store::StoreError;

impl Sessions {
    /// The session of an id that somebody else chose; made when there is none.
    pub async fn get_or_create(&self, id: SessionId, new: NewSession) -> Result<Arc<Session>, SessionError> {
        let _naming = self.0.naming.lock().await;
        match self.store().session(&id).await? {
            Some(session) => Ok(session),
            None => self.create(NewSession { id: Some(id), ..new }).await,
        }
    }

    /// Goes on with a turn that ended with calls of its page: `results` says what came of them. Calls that are over
    /// stay as they are; a page that says nothing of one of its calls has not run it.
    pub async fn go_on(
        &self,
        session: &Arc<Session>,
        user: &Arc<Message>,
        client: Option<ClientId>,
        audience: Audience,
        results: Vec<(CallId, ToolResult)>,
    ) -> Result<Prompted, SessionError> {
        if !self.hub().is_serving() {
            return Err(SessionError::ShuttingDown);
        }
        let (tell_kept, kept) = oneshot::channel();
        let Enqueued { answer, feed } = self.enqueue(session, user, client, audience, kept)?;
        self.hub().finish(self.clone().keep_results(session.clone(), user.id.clone(), results, tell_kept)).await?;
        Ok(Prompted { user: user.clone(), answer, feed })
    }

    /// Keeps what a page says of its calls, tells of it, and lets the turn go on.
    async fn keep_results(
        self,
        session: Arc<Session>,
        user: MessageId,
        results: Vec<(CallId, ToolResult)>,
        tell_kept: oneshot::Sender<bool>,
    ) -> Result<(), StoreError> {
        let now = self.clock().time();
        for message in self.store().messages(&session.id).await? {
            if !matches!(&message.role, Role::Assistant(said) if said.parent == user) {
                continue;
            }
            let mut changed = Message::clone(&message);
            let is_changed = |part: &mut Arc<Part>| part.answer(&results, now).then(|| part.clone());
            let answered: Vec<Arc<Part>> = changed.parts.iter_mut().filter_map(is_changed).collect();
            if !answered.is_empty() {
                self.store().save_message(&Arc::new(changed)).await?;
            }
            for part in answered {
                self.tell(&session, SessionEvent::Part { message: message.id.clone(), part, delta: None });
            }
        }
        // Nobody waits for it if the session was deleted meanwhile.
        _ = tell_kept.send(true);
        Ok(())
    }

    /// What the turn that is under way tells, if somebody followed it from its beginning.
    pub fn feed(&self, id: &SessionId) -> Option<Feed> {
        self.lock().get(id)?.feed.clone()
    }

    /// What the turn that answers a message tells, or will when its time comes.
    pub fn feed_of(&self, id: &SessionId, user: &MessageId) -> Option<Feed> {
        self.lock().get(id)?.feed_of(user)
    }

    /// Forgets a message and all after it, so that the conversation goes on from before. What is under way is stopped.
    pub async fn rewind(&self, id: &SessionId, to: &MessageId) -> Result<(), SessionError> {
        self.abort(id).await;
        Ok(self.store().delete_messages_from(id, to).await?)
    }

    /// Whether there is a message of that id in a session.
    pub async fn knows(&self, id: &SessionId, message: &MessageId) -> Result<bool, SessionError> {
        Ok(self.store().has_message(id, message).await?)
    }

    /// Keeps the messages of an earlier conversation in a session that has none.
    pub async fn import(&self, id: &SessionId, earlier: impl FnOnce() -> Vec<Message>) -> Result<(), SessionError> {
        let _naming = self.0.naming.lock().await;
        if !self.store().messages(id).await?.is_empty() {
            return Ok(());
        }
        for message in earlier() {
            self.store().save_message(&Arc::new(message)).await?;
        }
        Ok(())
    }
}
