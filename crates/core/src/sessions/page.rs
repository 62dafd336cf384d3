//! What pages need of sessions besides prompting: ids of their own, turns that go on with the page's results, turns that
//! are followed, and conversations that begin anew somewhere.

use std::sync::Arc;

use tokio::sync::oneshot;

use super::history::History;
use super::live::{Enqueued, Live, Prompter};
use super::{Audience, Feed, NewSession, Prompt, Prompted, RunEvent, SessionError, Sessions};
use crate::event::SessionEvent;
use crate::id::{CallId, MessageId, SessionId};
use crate::message::{Message, Part, PartBody, Session, ToolPart, ToolResult};
use crate::run;
use crate::store::{Beginning, StoreError};

impl Sessions {
    /// The session of an id that somebody else chose; made when there is none.
    pub async fn get_or_create(&self, id: SessionId, new: NewSession) -> Result<Arc<Session>, SessionError> {
        if let Some(session) = self.find(&id).await? {
            return Ok(session);
        }
        let _naming = self.0.claims.claim_session(&id).await;
        match self.find(&id).await? {
            Some(session) => Ok(session),
            None => self.create(NewSession { id: Some(id), ..new }).await,
        }
    }

    /// Says something in place of what was said under the same id: that and all after it is forgotten, and what is
    /// under way or waits is stopped. Happens as a whole, whether or not whoever prompts goes meanwhile.
    pub async fn prompt_anew(&self, session: &Arc<Session>, prompt: Prompt) -> Result<Prompted, SessionError> {
        self.replace(session, prompt, false).await
    }

    /// The same of a message that comes again, unless it is being answered: of several at once, one is.
    pub async fn prompt_again(&self, session: &Arc<Session>, prompt: Prompt) -> Result<Prompted, SessionError> {
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
                let enqueued = self.enqueue_in(&mut live, &session, &user, client, audience, kept)?;
                // The store keeps the order: what others say from now on comes after this.
                break (self.0.held.delete_messages_from(&session.id, &user.id), enqueued);
            }
        };
        deleting.await?;
        self.keep(session, user.clone(), tell_kept, Some(claim)).await?;
        Ok(Prompted { user, answer, feed })
    }

    /// Goes on with a turn that ended with calls of its page: `results` says what came of them. Calls that are over
    /// stay as they are; a page that says nothing of one of its calls has not run it. `last` is the answer that the
    /// page goes on from: if there is a later one, somebody else has gone on already.
    pub async fn go_on(
        &self,
        session: &Arc<Session>,
        user: &Arc<Message>,
        last: &MessageId,
        audience: Audience,
        results: Vec<(CallId, ToolResult)>,
    ) -> Result<Prompted, SessionError> {
        if !self.hub().is_serving() {
            return Err(SessionError::ShuttingDown);
        }
        let (tell_kept, kept) = oneshot::channel();
        let Enqueued { answer, feed } = self.enqueue(session, user, audience.prompter(), audience, kept)?;
        let keeping = self.clone().keep_results(session.clone(), user.id.clone(), Some(last.clone()), results);
        let told = feed.clone();
        let keeping = async move {
            let settled = keeping.await?;
            let is_kept = settled.is_some();
            if let Some(feed) = told {
                settled.into_iter().flatten().for_each(|part| feed.tell(RunEvent::Settled(part)));
            }
            // Nobody waits for it if the session was deleted meanwhile.
            _ = tell_kept.send(is_kept);
            Ok::<_, StoreError>(is_kept)
        };
        match self.hub().finish(keeping).await? {
            true => Ok(Prompted { user: user.clone(), answer, feed }),
            false => Err(SessionError::DuplicateMessage(user.id.clone())),
        }
    }

    /// Takes up a turn again that failed. What it did counts; the model is not shown what it was saying when it failed.
    pub fn try_again(
        &self,
        session: &Arc<Session>,
        user: &Arc<Message>,
        audience: Audience,
    ) -> Result<Prompted, SessionError> {
        if !self.hub().is_serving() {
            return Err(SessionError::ShuttingDown);
        }
        let (tell_kept, kept) = oneshot::channel();
        let Enqueued { answer, feed } = self.enqueue(session, user, audience.prompter(), audience, kept)?;
        // Nobody waits for it if the session was deleted meanwhile.
        _ = tell_kept.send(true);
        Ok(Prompted { user: user.clone(), answer, feed })
    }

    /// Messages of a turn that broke off, with what came of their calls meanwhile: a client may have answered one before
    /// that was known here.
    pub async fn recall(
        &self,
        session: &Arc<Session>,
        messages: Vec<Arc<Message>>,
    ) -> Result<Vec<Arc<Message>>, SessionError> {
        self.hub().finish(self.clone().recall_results(session.clone(), messages)).await
    }

    async fn recall_results(
        self,
        session: Arc<Session>,
        mut messages: Vec<Arc<Message>>,
    ) -> Result<Vec<Arc<Message>>, SessionError> {
        for message in &mut messages {
            for place in 0..message.parts.len() {
                let PartBody::Tool(ToolPart { is_cut: true, request: Some(request), .. }) = &message.parts[place].body
                else {
                    continue;
                };
                let Some(finished) = self.hub().finished(request).await? else { continue };
                if !finished.outcome.is_answer() {
                    continue;
                }
                let part = &mut Arc::make_mut(message).parts[place];
                Arc::make_mut(part).recall(run::told(&finished, None));
                let part = part.clone();
                self.save_message(message).await?;
                self.tell(&session, SessionEvent::Part { message: message.id.clone(), part, delta: None });
            }
        }
        Ok(messages)
    }

    /// Whether a message is being answered, or will be when its time comes.
    pub fn is_answering(&self, id: &SessionId, user: &MessageId) -> bool {
        self.live(id).get(id).is_some_and(|live| live.is_answering(user))
    }

    /// Stops the turn that tells this, whether it is under way or waits; others go on, also of the same message.
    pub fn stop_turn(&self, id: &SessionId, feed: &Feed) {
        if let Some(live) = self.live(id).get_mut(id) {
            live.stop_turn(feed);
        }
    }

    /// Keeps what a page says of its calls in a turn that nobody goes on with.
    pub async fn keep_late(
        &self,
        session: &Arc<Session>,
        user: &MessageId,
        results: Vec<(CallId, ToolResult)>,
    ) -> Result<(), SessionError> {
        let keeping = self.clone().keep_results(session.clone(), user.clone(), None, results);
        Ok(self.hub().finish(keeping).await.map(|_| ())?)
    }

    /// Keeps what a page says of its calls in a turn, and tells of it; `None` if there is an answer after the last that
    /// it knows. Gives the calls that it says nothing of.
    async fn keep_results(
        self,
        session: Arc<Session>,
        user: MessageId,
        last: Option<MessageId>,
        results: Vec<(CallId, ToolResult)>,
    ) -> Result<Option<Vec<Arc<Part>>>, StoreError> {
        // Answers come after what they answer.
        let answers = |history: &History| -> Option<Vec<Arc<Message>>> {
            let since = history.all().rev().take_while(|message| message.id != user);
            let newest_first = since.filter(|message| message.answers() == Some(&user)).cloned();
            let mut answers: Vec<_> = newest_first.collect();
            answers.reverse();
            let is_last = last.is_none() || answers.last().map(|answer| &answer.id) == last.as_ref();
            is_last.then_some(answers)
        };
        self.settle(&session, answers, &results).await
    }

    /// Ends the calls that earlier turns have left to the page; gives those that it says nothing of.
    pub(crate) async fn settle_yielded(
        &self,
        session: &Arc<Session>,
        results: &[(CallId, ToolResult)],
    ) -> Result<Vec<Arc<Part>>, StoreError> {
        let settled = self.settle(session, |history| Some(history.yielded()), results).await?;
        Ok(settled.unwrap_or_default())
    }

    /// Ends the calls of some messages that are the page's to run, with what it says of them or as failed; keeps that,
    /// and tells of it. Gives those that it says nothing of; `None` if there are no such messages.
    async fn settle(
        &self,
        session: &Arc<Session>,
        messages: impl FnOnce(&History) -> Option<Vec<Arc<Message>>>,
        results: &[(CallId, ToolResult)],
    ) -> Result<Option<Vec<Arc<Part>>>, StoreError> {
        let now = self.clock().time();
        let answer = |history: &History| {
            let Some(messages) = messages(history) else { return (Vec::new(), None) };
            let (mut changed, mut answered) = (Vec::new(), Vec::new());
            for mut message in messages.into_iter().map(Arc::unwrap_or_clone) {
                let before = answered.len();
                for part in &mut message.parts {
                    if part.answer(results, now) {
                        answered.push((message.id.clone(), part.clone()));
                    }
                }
                if answered.len() > before {
                    changed.push(Arc::new(message));
                }
            }
            (changed, Some(answered))
        };
        let Some(answered) = self.0.held.edit(&session.id, answer).await? else { return Ok(None) };
        let mut unanswered = Vec::new();
        for (message, part) in answered {
            if !part.is_call_of(results) {
                unanswered.push(part.clone());
            }
            self.tell(session, SessionEvent::Part { message, part, delta: None });
        }
        Ok(Some(unanswered))
    }

    /// What the turn that is under way tells, if somebody followed it from its beginning.
    pub fn feed(&self, id: &SessionId) -> Option<Feed> {
        self.live(id).get(id)?.feed.clone().filter(Feed::is_kept)
    }

    /// What the turn that answers a message tells, or will when its time comes.
    pub fn feed_of(&self, id: &SessionId, user: &MessageId) -> Option<Feed> {
        self.live(id).get(id)?.feed_of(user)
    }

    /// Whether another prompt may wait in a session, or is run at once.
    pub fn must_have_room(&self, id: &SessionId) -> Result<(), SessionError> {
        let most = self.hub().limits().queued_prompts;
        match self.live(id).get(id).is_some_and(|live| live.waiting() >= most) {
            true => Err(SessionError::QueueFull(most)),
            false => Ok(()),
        }
    }

    /// Whether there is a message of that id in a session.
    pub async fn knows(&self, id: &SessionId, message: &MessageId) -> Result<bool, SessionError> {
        Ok(self.hold(id).await?.history(|history| history.get(message).is_some()))
    }

    /// Keeps the messages of an earlier conversation in a session that has none; all of them, whether or not whoever
    /// brings them goes meanwhile.
    pub async fn import(&self, id: &SessionId, earlier: Vec<Message>) -> Result<(), SessionError> {
        Ok(self.hub().finish(self.clone().keep_earlier(id.clone(), earlier)).await?)
    }

    async fn keep_earlier(self, id: SessionId, earlier: Vec<Message>) -> Result<(), StoreError> {
        let _naming = self.0.claims.claim_session(&id).await;
        if earlier.is_empty() || !self.is_empty(&id).await? {
            return Ok(());
        }
        let session = self.find(&id).await?;
        let client = session.as_ref().and_then(|session| session.client.as_ref());
        self.must_have_storage(client, Beginning::InSession).await?;
        // The store keeps their order, and writes many at once.
        let saving: Vec<_> = earlier.into_iter().map(|message| self.save_message(&Arc::new(message))).collect();
        futures_util::future::try_join_all(saving).await?;
        Ok(())
    }
}
