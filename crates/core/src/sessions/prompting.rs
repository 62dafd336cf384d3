//! Something is said in a session: it is kept, and its turn begins or waits.

use std::sync::Arc;
use std::task::Poll;

use smol_str::SmolStr;
use tokio::sync::oneshot;

use super::claims::Claim;
use super::live::{Enqueued, Live, NewTurn, Prompter};
use super::{Audience, Prompt, Prompted, SessionError, Sessions};
use crate::events::SessionEvent;
use crate::id::{MessageId, SessionId};
use crate::store::{DEFAULT_AGENT, Message, Part, Role, Session, StoreError, UserMessage};

impl Sessions {
    /// Says something in a session. When this returns, it is kept and its turn will come.
    pub async fn prompt(&self, session: &Arc<Session>, prompt: Prompt) -> Result<Prompted, SessionError> {
        if !self.hub().is_serving() {
            return Err(SessionError::ShuttingDown);
        }
        // Held until the message is kept.
        let claim = match &prompt.message {
            Some(message) => Some(self.claim(&session.id, message).await?),
            None => None,
        };
        self.must_have_storage_for(session).await?;
        let (client, audience) = (self.prompter(session, &prompt).await?, prompt.audience.clone());
        let user = Arc::new(self.user_message(session, prompt)?);
        let (tell_kept, kept) = oneshot::channel();
        let new = NewTurn { session, user: &user, prompter: client, audience, after: None, kept };
        let Enqueued { answer, feed } = self.enqueue(new)?;
        let mut keeping = Box::pin(self.clone().keep(session.clone(), user.clone(), tell_kept, claim));
        match futures_util::poll!(keeping.as_mut()) {
            Poll::Ready(kept) => kept?,
            // On a task of its own: it is kept and told even if whoever prompts goes meanwhile.
            Poll::Pending => self.hub().finish(keeping).await?,
        }
        Ok(Prompted { user, answer, feed })
    }

    /// The client that a prompt names, and whether the session becomes its own. A session of no client that has messages
    /// stays nobody's: they are not the client's to see.
    async fn prompter(&self, session: &Session, prompt: &Prompt) -> Result<Option<Prompter>, StoreError> {
        let Some(client) = prompt.client.clone() else { return Ok(None) };
        let adopts = session.client.is_none() && self.is_empty(&session.id).await?;
        Ok(Some(Prompter { client, adopts }))
    }

    /// Whether nothing was said in a session.
    pub(super) async fn is_empty(&self, id: &SessionId) -> Result<bool, StoreError> {
        Ok(self.hold(id).await?.history(|history| history.all().next().is_none()))
    }

    /// Keeps a prompt, tells of it, and lets its turn begin.
    async fn keep(
        self,
        session: Arc<Session>,
        user: Arc<Message>,
        tell_kept: oneshot::Sender<bool>,
        claim: Option<Claim>,
    ) -> Result<(), StoreError> {
        let kept = self.save_message(&user).await;
        if kept.is_ok() {
            self.tell(&session, SessionEvent::Said(user));
        }
        drop(claim);
        // Nobody waits for it where no answer is wanted.
        _ = tell_kept.send(kept.is_ok());
        kept
    }

    /// Claims an id for a message; nobody else may have it, or had it before.
    async fn claim(&self, session: &SessionId, message: &MessageId) -> Result<Claim, SessionError> {
        let claim = self.0.claims.claim(session, message).await;
        if self.hold(session).await?.history(|history| history.get(message).is_some()) {
            return Err(SessionError::DuplicateMessage(message.clone()));
        }
        Ok(claim)
    }

    fn user_message(&self, session: &Session, prompt: Prompt) -> Result<Message, SessionError> {
        let name = prompt.agent.or_else(|| session.agent.clone());
        let agent = self.agent(name.as_deref())?;
        let model = prompt.model.as_ref().or(session.model.as_ref()).or(agent.model.as_ref());
        let model = model.unwrap_or(&self.setup().default_model);
        self.must_know(None, Some(model))?;
        let part = |body| Arc::new(Part { id: self.clock().part_id(), body });
        Ok(Message {
            id: prompt.message.unwrap_or_else(|| self.clock().message_id()),
            session: session.id.clone(),
            created: self.clock().time(),
            role: Role::User(UserMessage {
                agent: name.unwrap_or(SmolStr::new_static(DEFAULT_AGENT)),
                model: model.clone(),
                system: prompt.system,
                tools: prompt.tools,
                wants_reply: prompt.wants_reply,
                connection: prompt.audience.connection,
            }),
            parts: prompt.parts.into_iter().map(part).collect(),
        })
    }

    /// Says something in place of what was said under the same id: that and all after it is forgotten, and what is
    /// under way or waits is stopped. Happens as a whole, whether or not whoever prompts goes meanwhile.
    pub async fn prompt_anew(&self, session: &Arc<Session>, prompt: Prompt) -> Result<Prompted, SessionError> {
        self.replace(session, prompt, false).await
    }

    /// The same of a message that comes again, unless it is being answered: of several at once, one is.
    pub(crate) async fn prompt_again(&self, session: &Arc<Session>, prompt: Prompt) -> Result<Prompted, SessionError> {
        self.replace(session, prompt, true).await
    }

    async fn replace(
        &self,
        session: &Arc<Session>,
        prompt: Prompt,
        is_repeated: bool,
    ) -> Result<Prompted, SessionError> {
        if !self.hub().is_serving() {
            return Err(SessionError::ShuttingDown);
        }
        self.must_have_storage_for(session).await?;
        let (client, audience) = (self.prompter(session, &prompt).await?, prompt.audience.clone());
        let user = Arc::new(self.user_message(session, prompt)?);
        self.hub().finish(self.clone().say_anew(session.clone(), user, client, audience, is_repeated)).await
    }

    async fn say_anew(
        self,
        session: Arc<Session>,
        user: Arc<Message>,
        client: Option<Prompter>,
        audience: Audience,
        is_repeated: bool,
    ) -> Result<Prompted, SessionError> {
        // Of several at once, each begins when the one before it is kept.
        let claim = self.0.claims.claim(&session.id, &user.id).await;
        let (tell_kept, kept) = oneshot::channel();
        let (deleting, Enqueued { answer, feed }) = loop {
            if is_repeated && self.is_answering(&session.id, &user.id) {
                return Err(SessionError::DuplicateMessage(user.id.clone()));
            }
            let over = self.live(&session.id).get_mut(&session.id).map(Live::stop_all);
            if let Some(over) = over {
                over.cancelled().await;
            }
            let mut live = self.live(&session.id);
            if !live.contains_key(&session.id) {
                // Its turn does not begin before it is kept, and who may not have one forgets nothing.
                let new = NewTurn { session: &session, user: &user, prompter: client, audience, after: None, kept };
                let enqueued = self.enqueue_in(&mut live, new)?;
                // The store keeps the order: what others say from now on comes after this.
                break (self.0.held.delete_messages_from(&session.id, &user.id), enqueued);
            }
        };
        deleting.await?;
        self.keep(session, user.clone(), tell_kept, Some(claim)).await?;
        Ok(Prompted { user, answer, feed })
    }
}
