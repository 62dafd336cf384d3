//! Prompts: each is stored, and then its turn begins or waits.

use std::sync::Arc;
use std::task::Poll;

use smol_str::SmolStr;

use super::id_locks::IdLock;
use super::live::{Enqueued, NewTurn, TurnStart};
use super::{Prompt, Prompted, Result, SessionError, Sessions, until_over};
use crate::events::SessionEvent;
use crate::id::{MessageId, SessionId};
use crate::store::{
    DEFAULT_AGENT, IfFull, Message, OpenTurn, Part, Role, Session, StoreError, StoreFuture, UserMessage,
};

impl Sessions {
    /// Prompts a session. When this returns, the message is stored and its turn is started or queued.
    pub async fn prompt(&self, session: &Arc<Session>, prompt: Prompt) -> Result<Prompted> {
        self.must_be_serving()?;
        // Held until the message is stored.
        let lock = match &prompt.message {
            Some(message) => Some(self.lock_new(&session.id, message).await?),
            None => None,
        };
        self.must_have_storage_for(session).await?;
        let adopts = self.may_be_adopted(session).await?;
        let user = Arc::new(self.user_message(session, prompt)?);
        let Enqueued { answer, feed, beginning } =
            self.enqueue(NewTurn { session, user: &user, adopts, after: None })?;
        let saving = self.save_message(&user, IfFull::Fails);
        let mut keeping = Box::pin(self.clone().keep(session.clone(), user.clone(), saving, beginning, lock));
        match futures_util::poll!(keeping.as_mut()) {
            Poll::Ready(kept) => kept?,
            // On a task of its own: the message is stored and announced even if the caller goes away meanwhile.
            Poll::Pending => self.hub().run_to_end(keeping).await?,
        }
        Ok(Prompted { user, answer, feed })
    }

    /// Whether a session becomes the first prompting client's. A session of no client that has messages stays without
    /// one, since those messages are not for the client to see.
    async fn may_be_adopted(&self, session: &Session) -> Result<bool, StoreError> {
        Ok(session.client.is_none() && self.is_empty(&session.id).await?)
    }

    /// Whether a session has no messages.
    pub(super) async fn is_empty(&self, id: &SessionId) -> Result<bool, StoreError> {
        Ok(self.hold(id).await?.history(|history| history.all().next().is_none()))
    }

    /// When a prompt is stored, sends its events and lets its turn begin.
    async fn keep(
        self,
        session: Arc<Session>,
        user: Arc<Message>,
        saving: StoreFuture<()>,
        beginning: Option<TurnStart>,
        lock: Option<IdLock>,
    ) -> Result<(), StoreError> {
        saving.await?;
        self.tell(&session, SessionEvent::Said(user));
        drop(lock);
        if let Some(beginning) = beginning {
            beginning.begin();
        }
        Ok(())
    }

    /// Locks the id of a new message. No message may have this id yet.
    async fn lock_new(&self, session: &SessionId, message: &MessageId) -> Result<IdLock> {
        let lock = self.0.id_locks.lock(session, message).await;
        if self.hold(session).await?.history(|history| history.get(message).is_some()) {
            return Err(SessionError::DuplicateMessage(message.clone()));
        }
        Ok(lock)
    }

    fn user_message(&self, session: &Session, mut prompt: Prompt) -> Result<Message> {
        let name = prompt.agent.or_else(|| session.agent.clone());
        let agent = self.agent(name.as_deref())?;
        let model = prompt.needs.model.take().or_else(|| session.model.clone()).or_else(|| agent.model.clone());
        let model = model.unwrap_or_else(|| self.setup().default_model.clone());
        self.must_know(None, Some(&model))?;
        let part = |body| Arc::new(Part { id: self.clock().part_id(), body });
        let created = self.clock().time();
        Ok(Message {
            id: prompt.message.unwrap_or_else(|| self.clock().message_id()),
            session: session.id.clone(),
            created,
            role: Role::User(UserMessage {
                agent: name.unwrap_or(SmolStr::new_static(DEFAULT_AGENT)),
                model,
                wants_reply: prompt.wants_reply,
                needs: prompt.needs,
                turn: prompt.wants_reply.then(|| OpenTurn::new(created, None)),
                next: None,
            }),
            parts: prompt.parts.into_iter().map(part).collect(),
        })
    }

    /// Prompts in place of the message with the same id: deletes that message and all later ones, and stops running and
    /// waiting turns. Completes even if the caller goes away meanwhile.
    pub async fn prompt_anew(&self, session: &Arc<Session>, prompt: Prompt) -> Result<Prompted> {
        self.replace(session, prompt, false).await
    }

    /// Prompts with a message that came again, unless it is being answered. Of several at once, one is answered.
    pub(crate) async fn prompt_again(&self, session: &Arc<Session>, prompt: Prompt) -> Result<Prompted> {
        self.replace(session, prompt, true).await
    }

    async fn replace(&self, session: &Arc<Session>, prompt: Prompt, is_repeated: bool) -> Result<Prompted> {
        self.must_be_serving()?;
        self.must_have_storage_for(session).await?;
        let adopts = self.may_be_adopted(session).await?;
        let user = Arc::new(self.user_message(session, prompt)?);
        self.hub().run_to_end(self.clone().say_anew(session.clone(), user, adopts, is_repeated)).await
    }

    async fn say_anew(
        self,
        session: Arc<Session>,
        user: Arc<Message>,
        adopts: bool,
        is_repeated: bool,
    ) -> Result<Prompted> {
        // Of several at once, each begins when the message of the one before is stored.
        let lock = self.0.id_locks.lock(&session.id, &user.id).await;
        let (saving, Enqueued { answer, feed, beginning }) = loop {
            if is_repeated && self.is_answering(&session.id, &user.id) {
                return Err(SessionError::DuplicateMessage(user.id.clone()));
            }
            until_over(self.stop_all(&session.id)).await?;
            let mut live = self.live(&session.id);
            if !live.contains_key(&session.id) {
                // The turn begins after the message is stored. A prompt that is refused deletes nothing.
                let new = NewTurn { session: &session, user: &user, adopts, after: None };
                let enqueued = self.enqueue_in(&mut live, new)?;
                // The store keeps the order of writes: later messages of others come after this one.
                break (self.0.held.replace_from(&user), enqueued);
            }
        };
        self.keep(session, user.clone(), saving, beginning, Some(lock)).await?;
        Ok(Prompted { user, answer, feed })
    }
}
