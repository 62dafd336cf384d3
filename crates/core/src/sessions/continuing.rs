//! Turns that go on: with the results of the page's calls, as a retry after a failure, or after the running turn.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use super::history::History;
use super::live::{Enqueued, NewTurn, TurnStart};
use super::{Prompted, Result, SessionError, Sessions};
use crate::events::{Feed, SessionEvent, TurnEvent};
use crate::id::{CallId, MessageId};
use crate::sessions::turn;
use crate::store::{
    IfFull, Message, NextTurn, OpenTurn, Part, PartBody, Role, Session, StoreError, ToolPart, ToolResult, TurnNeeds,
};

/// What becomes of a continuation of the running turn.
enum After {
    /// It is queued, and begins when it is told so, after this token is cancelled.
    Running(Box<Continuation>, CancellationToken),
    /// It had been queued before.
    Queued(Feed),
    /// That turn is no longer running.
    Over,
}

/// A queued turn that continues the running one.
struct Continuation {
    session: Arc<Session>,
    user: Arc<Message>,
    /// The answer that it continues from.
    last: MessageId,
    results: Vec<(CallId, ToolResult)>,
    feed: Option<Feed>,
    /// Lets it begin.
    beginning: Option<TurnStart>,
}

impl Sessions {
    /// Continues a turn that ended with yielded calls. `user` is the message that it answers, with the needs that the
    /// turn has now. `results` has the results of the calls: a call without one was not run, and calls that are over
    /// stay as they are. `last` is the answer that the page continues from: if there is a later one, the turn has
    /// already been continued.
    pub(crate) async fn go_on(
        &self,
        session: &Arc<Session>,
        user: &Arc<Message>,
        last: &MessageId,
        results: Vec<(CallId, ToolResult)>,
    ) -> Result<Prompted> {
        self.must_be_serving()?;
        let user = &user.in_turn(OpenTurn::new(self.clock().time(), Some(last.clone())));
        let Enqueued { answer, feed, beginning } =
            self.enqueue(NewTurn { session, user, adopts: false, after: None })?;
        let (session, last, its_feed) = (session.clone(), last.clone(), feed.clone());
        let continuation = Continuation { session, user: user.clone(), last, results, feed: its_feed, beginning };
        let beginning = self.clone().begin_with(continuation, IfFull::Fails);
        match self.hub().run_to_end(beginning).await? {
            true => Ok(Prompted { user: user.clone(), answer, feed }),
            false => Err(SessionError::DuplicateMessage(user.id.clone())),
        }
    }

    /// Continues a running turn, if it ends with yielded calls that `results` has. They are stored before this returns the
    /// feed of the continuation; `None` if the turn is no longer running.
    pub(super) async fn go_on_after(
        &self,
        session: &Arc<Session>,
        user: &Arc<Message>,
        last: &MessageId,
        results: Vec<(CallId, ToolResult)>,
    ) -> Result<Option<Feed>> {
        let Role::User(said) = &user.role else { return Ok(None) };
        let needs = TurnNeeds { settles_calls: true, results, ..said.needs.clone() };
        let user = user.with_next(NextTurn { after: last.clone(), needs });
        let (continuation, over) = match self.queue_after(session, &user)? {
            After::Running(continuation, over) => (*continuation, over),
            After::Queued(feed) => return Ok(Some(feed)),
            After::Over => return Ok(None),
        };
        let (sessions, session, feed) = (self.clone(), session.id.clone(), continuation.feed.clone());
        let keeping = async move {
            let keep = |history: &History| {
                let known = history.get(&user.id).filter(|known| known.turn().is_some()).zip(user.next());
                (known.map(|(known, next)| known.with_next(next.clone())).into_iter().collect(), ())
            };
            sessions.0.held.edit(&session, IfFull::Fails, keep).await?;
            sessions.begin_later(continuation, over);
            Ok::<_, StoreError>(())
        };
        self.hub().run_to_end(keeping).await?;
        Ok(feed)
    }

    /// Continues a turn that an earlier process left open, as the page had asked for there.
    pub(super) fn continue_left(&self, session: &Arc<Session>, user: &Arc<Message>) {
        if let Ok(After::Running(continuation, over)) = self.queue_after(session, user) {
            self.begin_later(*continuation, over);
        }
    }

    /// Queues the turn that continues the running one, before all that wait. It does not begin yet.
    fn queue_after(&self, session: &Arc<Session>, user: &Arc<Message>) -> Result<After> {
        let (Some(NextTurn { after: last, needs }), Some(user)) = (user.next(), user.in_next()) else {
            return Ok(After::Over);
        };
        let mut sessions = self.live(&session.id);
        let Some(live) = sessions.get(&session.id).filter(|live| live.is_running(&user.id)) else {
            return Ok(After::Over);
        };
        if let Some(feed) = live.feed_after(last) {
            return Ok(After::Queued(feed));
        }
        let over = live.turn.over.clone();
        let new = NewTurn { session, user: &user, adopts: false, after: Some(last.clone()) };
        let Enqueued { feed, beginning, .. } = self.enqueue_in(&mut sessions, new)?;
        let (session, last, results) = (session.clone(), last.clone(), needs.results.clone());
        Ok(After::Running(Box::new(Continuation { session, user, last, results, feed, beginning }), over))
    }

    /// Lets a continuation begin when the running turn is over, if that one ends with calls that have results.
    fn begin_later(&self, continuation: Continuation, over: CancellationToken) {
        let sessions = self.clone();
        let beginning = async move {
            over.cancelled().await;
            if sessions.hub().is_leaving() {
                // The turn is not over: the next process goes on with it, and then with this.
                return Ok(false);
            }
            let left = sessions.hold(&continuation.session.id).await?.history(History::yielded);
            let is_open = |part: &Arc<Part>| part.is_yielded() && part.is_call_of(&continuation.results);
            match left.iter().flat_map(|message| &message.parts).any(is_open) {
                true => sessions.begin_with(continuation, IfFull::Waits).await,
                false => Ok(false),
            }
        };
        let beginning = async {
            if let Err(error) = beginning.await {
                tracing::error!(%error, "the results of calls could not be stored");
            }
        };
        self.hub().0.tasks.spawn_on(beginning.in_current_span(), &self.hub().0.runtime);
    }

    /// Stores the results of a turn's calls and lets the turn go on, unless it has already been continued. Returns
    /// whether it goes on.
    async fn begin_with(self, continuation: Continuation, if_full: IfFull) -> Result<bool, StoreError> {
        let Continuation { session, user, last, results, feed, beginning } = continuation;
        let answers = answers_up_to(&user.id, Some(&last));
        let settled = self.settle(&session, Some(&user), answers, &results, if_full).await?;
        let goes_on = settled.is_some();
        if let Some(feed) = feed {
            settled.into_iter().flatten().for_each(|event| feed.tell(event));
        }
        if let Some(beginning) = beginning.filter(|_| goes_on) {
            beginning.begin();
        }
        Ok(goes_on)
    }

    /// Retries a turn that failed. Its completed work counts; the unfinished message is not shown to the model.
    pub(crate) async fn try_again(&self, session: &Arc<Session>, user: &Arc<Message>) -> Result<Prompted> {
        self.must_be_serving()?;
        let is_answer = |message: &&Arc<Message>| message.answers() == Some(&user.id);
        let last = self.hold(&session.id).await?;
        let last = last.history(|history| history.all().rfind(is_answer).map(|answer| answer.id.clone()));
        let user = &user.in_turn(OpenTurn::new(self.clock().time(), last));
        let Enqueued { answer, feed, beginning } =
            self.enqueue(NewTurn { session, user, adopts: false, after: None })?;
        let saving = self.save_message(user, IfFull::Fails);
        let keeping = async {
            saving.await?;
            if let Some(beginning) = beginning {
                beginning.begin();
            }
            Ok::<_, StoreError>(())
        };
        self.hub().run_to_end(keeping).await?;
        Ok(Prompted { user: user.clone(), answer, feed })
    }

    /// Adds journaled results to the messages of a turn that broke off, which may not have seen a client's answer.
    pub(super) async fn recall(
        &self,
        session: &Arc<Session>,
        messages: Vec<Arc<Message>>,
    ) -> Result<Vec<Arc<Message>>> {
        self.hub().run_to_end(self.clone().recall_results(session.clone(), messages)).await
    }

    async fn recall_results(self, session: Arc<Session>, mut messages: Vec<Arc<Message>>) -> Result<Vec<Arc<Message>>> {
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
                Arc::make_mut(part).recall(turn::result_for_model(&finished));
                let part = part.clone();
                self.save_message(message, IfFull::Fails).await?;
                self.tell(&session, SessionEvent::Turn(TurnEvent::Part { message: message.id.clone(), part }));
            }
        }
        Ok(messages)
    }

    /// Stores a page's results for calls of a turn that is not continued.
    pub(super) async fn keep_late(
        &self,
        session: &Arc<Session>,
        user: &MessageId,
        results: Vec<(CallId, ToolResult)>,
    ) -> Result<()> {
        let (sessions, session, user) = (self.clone(), session.clone(), user.clone());
        let keeping =
            async move { sessions.settle(&session, None, answers_up_to(&user, None), &results, IfFull::Fails).await };
        Ok(self.hub().run_to_end(keeping).await.map(|_| ())?)
    }

    /// Ends the calls that earlier turns yielded to the page. Returns the ends of the calls without a result.
    pub(crate) async fn settle_yielded(
        &self,
        session: &Arc<Session>,
        results: &[(CallId, ToolResult)],
    ) -> Result<Vec<TurnEvent>, StoreError> {
        let settled = self.settle(session, None, |history| Some(history.yielded()), results, IfFull::Waits).await?;
        Ok(settled.unwrap_or_default())
    }

    /// Ends the yielded calls of some messages, with the page's results or as failed, stores them together with the
    /// user's message, and sends events. Returns the ends of the calls without results. `None` if there are no such
    /// messages; then nothing is stored.
    async fn settle(
        &self,
        session: &Arc<Session>,
        user: Option<&Arc<Message>>,
        messages: impl FnOnce(&History) -> Option<Vec<Arc<Message>>>,
        results: &[(CallId, ToolResult)],
        if_full: IfFull,
    ) -> Result<Option<Vec<TurnEvent>>, StoreError> {
        let now = self.clock().time();
        let answer = |history: &History| {
            let Some(messages) = messages(history) else { return (Vec::new(), None) };
            let (mut changed, mut told): (Vec<_>, _) = (user.cloned().into_iter().collect(), Vec::new());
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
        let Some(mut told) = self.0.held.edit(&session.id, if_full, answer).await? else { return Ok(None) };
        for event in &told {
            self.tell(session, SessionEvent::Turn(event.clone()));
        }
        told.retain(|event| matches!(event, TurnEvent::Part { part, .. } if !part.is_call_of(results)));
        Ok(Some(told))
    }
}

/// Finds the answers to a message; `None` if there are answers after `last`.
fn answers_up_to<'a>(
    user: &'a MessageId,
    last: Option<&'a MessageId>,
) -> impl FnOnce(&History) -> Option<Vec<Arc<Message>>> + 'a {
    move |history| {
        // Answers are stored after the message that they answer.
        let since = history.all().rev().take_while(|message| message.id != *user);
        let mut answers: Vec<_> = since.filter(|message| message.answers() == Some(user)).cloned().collect();
        answers.reverse();
        let is_last = last.is_none() || answers.last().map(|answer| &answer.id) == last;
        is_last.then_some(answers)
    }
}
