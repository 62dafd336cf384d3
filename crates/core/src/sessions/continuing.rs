//! A turn goes on: with what came of the page's calls, once more after a failure, or after the turn that is under way.

use std::sync::Arc;

use tokio::sync::oneshot;

use super::history::History;
use super::live::{Enqueued, NewTurn, RunningTurn};
use super::{Audience, Prompted, SessionError, Sessions};
use crate::events::{Feed, SessionEvent, TurnEvent};
use crate::id::{CallId, MessageId, SessionId};
use crate::sessions::turn;
use crate::store::{Message, Part, PartBody, Session, StoreError, ToolPart, ToolResult};

impl Sessions {
    /// Goes on with a turn that ended with calls of its page: `results` says what came of them. Calls that are over
    /// stay as they are; a page that says nothing of one of its calls has not run it. `last` is the answer that the
    /// page goes on from: if there is a later one, somebody else has gone on already.
    pub(crate) async fn go_on(
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
        let new = NewTurn { session, user, prompter: audience.prompter(), audience, after: None, kept };
        let Enqueued { answer, feed } = self.enqueue(new)?;
        let keeping = self.clone().keep_results(session.clone(), user.id.clone(), Some(last.clone()), results);
        let told = feed.clone();
        let keeping = async move {
            let settled = keeping.await?;
            let is_kept = settled.is_some();
            if let Some(feed) = told {
                settled.into_iter().flatten().for_each(|event| feed.tell(event));
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

    /// The same with a turn that is under way, when it ends with calls of its page that `results` says something of. Gives
    /// what that will tell; `None` if the turn is not under way any more.
    pub(super) fn go_on_after(
        &self,
        session: &Arc<Session>,
        user: &Arc<Message>,
        last: &MessageId,
        audience: Audience,
        results: Vec<(CallId, ToolResult)>,
    ) -> Result<Option<Feed>, SessionError> {
        let mut sessions = self.live(&session.id);
        let Some(live) = sessions.get(&session.id).filter(|live| live.is_running(&user.id)) else { return Ok(None) };
        if let Some(feed) = live.feed_after(last) {
            return Ok(Some(feed));
        }
        let over = live.turn.over.clone();
        let (tell_kept, kept) = oneshot::channel();
        let after = Some(last.clone());
        let new = NewTurn { session, user, prompter: audience.prompter(), audience, after, kept };
        let Enqueued { feed, .. } = self.enqueue_in(&mut sessions, new)?;
        drop(sessions);
        let told = feed.clone();
        let (sessions, session, user, last) = (self.clone(), session.clone(), user.id.clone(), Some(last.clone()));
        let keeping = async move {
            over.cancelled().await;
            let keeping = async {
                let is_open = |part: &Arc<Part>| part.is_yielded() && part.is_call_of(&results);
                let left = sessions.hold(&session.id).await?.history(History::yielded);
                match left.iter().flat_map(|message| &message.parts).any(is_open) {
                    true => sessions.keep_results(session, user, last, results).await,
                    false => Ok(None),
                }
            };
            let settled = keeping.await.unwrap_or_else(|error| {
                tracing::error!(%error, "what came of calls could not be kept");
                None
            });
            let is_kept = settled.is_some();
            if let Some(feed) = told {
                settled.into_iter().flatten().for_each(|event| feed.tell(event));
            }
            // Nobody waits for it if the session was deleted meanwhile.
            _ = tell_kept.send(is_kept);
        };
        self.hub().0.tasks.spawn_on(keeping, &self.hub().0.runtime);
        Ok(feed)
    }

    /// Takes up a turn again that failed. What it did counts; the model is not shown what it was saying when it failed.
    pub(crate) fn try_again(
        &self,
        session: &Arc<Session>,
        user: &Arc<Message>,
        audience: Audience,
    ) -> Result<Prompted, SessionError> {
        if !self.hub().is_serving() {
            return Err(SessionError::ShuttingDown);
        }
        let (tell_kept, kept) = oneshot::channel();
        let new = NewTurn { session, user, prompter: audience.prompter(), audience, after: None, kept };
        let Enqueued { answer, feed } = self.enqueue(new)?;
        // Nobody waits for it if the session was deleted meanwhile.
        _ = tell_kept.send(true);
        Ok(Prompted { user: user.clone(), answer, feed })
    }

    /// Messages of a turn that broke off, with what came of their calls meanwhile: a client may have answered one before
    /// that was known here.
    pub(super) async fn recall(
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
                Arc::make_mut(part).recall(turn::told(&finished, None));
                let part = part.clone();
                self.save_message(message).await?;
                self.tell(&session, SessionEvent::Turn(TurnEvent::Part { message: message.id.clone(), part }));
            }
        }
        Ok(messages)
    }

    /// Whether a message is being answered, or will be when its time comes.
    pub(super) fn is_answering(&self, id: &SessionId, user: &MessageId) -> bool {
        self.live(id).get(id).is_some_and(|live| live.is_answering(user))
    }

    /// Stops the turn that tells this, whether it is under way or waits; others go on, also of the same message.
    pub(crate) fn stop_turn(&self, id: &SessionId, feed: &Feed) {
        if let Some(live) = self.live(id).get_mut(id) {
            live.stop_turn(feed);
        }
    }

    /// Keeps what a page says of its calls in a turn that nobody goes on with.
    pub(super) async fn keep_late(
        &self,
        session: &Arc<Session>,
        user: &MessageId,
        results: Vec<(CallId, ToolResult)>,
    ) -> Result<(), SessionError> {
        let keeping = self.clone().keep_results(session.clone(), user.clone(), None, results);
        Ok(self.hub().finish(keeping).await.map(|_| ())?)
    }

    /// Keeps what a page says of its calls in a turn, and tells of it; `None` if there is an answer after the last that it
    /// knows. Gives the ends of the calls that it says nothing of.
    async fn keep_results(
        self,
        session: Arc<Session>,
        user: MessageId,
        last: Option<MessageId>,
        results: Vec<(CallId, ToolResult)>,
    ) -> Result<Option<Vec<TurnEvent>>, StoreError> {
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
    ) -> Result<Vec<TurnEvent>, StoreError> {
        let settled = self.settle(session, |history| Some(history.yielded()), results).await?;
        Ok(settled.unwrap_or_default())
    }

    /// Ends the calls of some messages that are the page's to run, with what it says of them or as failed; keeps that,
    /// and tells of it. Gives the ends of those that it says nothing of; `None` if there are no such messages.
    async fn settle(
        &self,
        session: &Arc<Session>,
        messages: impl FnOnce(&History) -> Option<Vec<Arc<Message>>>,
        results: &[(CallId, ToolResult)],
    ) -> Result<Option<Vec<TurnEvent>>, StoreError> {
        let now = self.clock().time();
        let answer = |history: &History| {
            let Some(messages) = messages(history) else { return (Vec::new(), None) };
            let (mut changed, mut told) = (Vec::new(), Vec::new());
            for mut message in messages.into_iter().map(Arc::unwrap_or_clone) {
                let before = told.len();
                for part in &mut message.parts {
                    if part.answer(results, now) {
                        told.push(TurnEvent::Part { message: message.id.clone(), part: part.clone() });
                    }
                }
                if told.len() > before {
                    changed.push(Arc::new(message));
                }
            }
            (changed, Some(told))
        };
        let Some(mut told) = self.0.held.edit(&session.id, answer).await? else { return Ok(None) };
        for event in &told {
            self.tell(session, SessionEvent::Turn(event.clone()));
        }
        told.retain(|event| matches!(event, TurnEvent::Part { part, .. } if !part.is_call_of(results)));
        Ok(Some(told))
    }

    /// The turn that is under way, if it can be followed.
    pub(super) fn running(&self, id: &SessionId) -> Option<RunningTurn> {
        self.live(id).get(id)?.running()
    }

    /// What the turn that answers a message tells, or will when its time comes.
    pub fn feed_of(&self, id: &SessionId, user: &MessageId) -> Option<Feed> {
        self.live(id).get(id)?.feed_of(user)
    }

    /// Whether another prompt may wait in a session, or is run at once.
    pub(super) fn must_have_room(&self, id: &SessionId) -> Result<(), SessionError> {
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
}
