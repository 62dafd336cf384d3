//! Live sessions: the queue of turns, the running turn, and the task that runs one turn after the other.

use std::collections::VecDeque;
use std::sync::Arc;

use ahash::HashMap;
use tokio::sync::oneshot;
use tokio_util::sync::{CancellationToken, DropGuard};
use tracing::{Instrument, Span};

use super::history::History;
use super::{Result, SessionError, Sessions};
use crate::events::{CloseFeed, Feed, SessionEvent, TurnEvent};
use crate::id::{ClientId, MessageId, RunId, SessionId};
use crate::sessions::turn;
use crate::store::{IfFull, Message, PartBody, Role, Session, StoreError, StoreFuture, TurnError, TurnNeeds};
use crate::text::shortened;

/// The title of a session until its first prompt.
pub(super) const UNTITLED: &str = "New session";
/// How many characters of the first prompt become the title.
const TITLE_CHARACTERS: usize = 60;

/// A session with turns to run.
pub(super) struct Live {
    /// The session's client, or else the first client that prompts.
    client: Option<ClientId>,
    /// The current session, once its first turn has begun.
    pub(super) session: Option<Arc<Session>>,
    /// The user's message of the running turn.
    running: MessageId,
    /// The run that tells of the running turn.
    pub(super) run: Option<RunId>,
    pub(super) turn: Handles,
    /// The feed of the running turn, if the turn can be followed.
    pub(super) feed: Option<Feed>,
    /// Whether readers leave when the turn waits only for asks.
    yields_asks: bool,
    /// Whether the turn's message or results are stored. Until then nobody can follow the turn.
    is_stored: bool,
    /// Whether the turn's message or results could not be stored: it is over at once.
    is_taken_back: bool,
    queue: VecDeque<Queued>,
}

/// A running turn that can be followed.
pub(super) struct RunningTurn {
    /// The user's message that the turn answers.
    pub(super) user: MessageId,
    pub(super) feed: Feed,
    /// The feed of the turn that continues it, if one waits.
    pub(super) next: Option<Feed>,
    /// Whether readers leave when the turn waits only for asks.
    pub(super) yields_asks: bool,
}

impl Live {
    /// Stops the running turn. The token is cancelled when the turn is over.
    pub(super) fn stop(&self) -> CancellationToken {
        self.turn.abort.cancel();
        self.turn.over.clone()
    }

    /// Stops the running turn and takes out all that wait. The token is cancelled when the turn is over.
    pub(super) fn stop_all(&mut self) -> (CancellationToken, VecDeque<Queued>) {
        (self.stop(), std::mem::take(&mut self.queue))
    }

    /// Stops the turn with this feed, or takes it out of the queue.
    fn stop_turn(&mut self, feed: &Feed) -> Option<Queued> {
        if self.feed.as_ref().is_some_and(|running| running.is(feed)) {
            self.turn.abort.cancel();
            return None;
        }
        let is_it = |queued: &Queued| queued.feed.as_ref().is_some_and(|waiting| waiting.is(feed));
        let place = self.queue.iter().position(is_it)?;
        self.queue.remove(place)
    }

    /// Takes back a turn whose message or results could not be stored.
    fn take_back(&mut self, user: &Arc<Message>) -> Option<Queued> {
        if let Some(place) = self.queue.iter().position(|queued| Arc::ptr_eq(&queued.user, user)) {
            return self.queue.remove(place);
        }
        self.is_taken_back |= self.running == user.id && !self.is_stored;
        None
    }

    /// The number of prompts that wait.
    pub(super) fn waiting(&self) -> usize {
        self.queue.len()
    }

    /// Whether the running turn or a waiting one answers a message.
    pub(super) fn is_answering(&self, user: &MessageId) -> bool {
        let is_running = self.running == *user && !self.is_taken_back;
        is_running || self.queue.iter().any(|queued| queued.user.id == *user)
    }

    /// Whether the running turn answers a message.
    pub(super) fn is_running(&self, user: &MessageId) -> bool {
        self.running == *user
    }

    /// The feed of the turn that answers a message.
    pub(super) fn feed_of(&self, user: &MessageId) -> Option<Feed> {
        let running = self.feed.as_ref().filter(|_| self.running == *user);
        let waiting = || self.queue.iter().find(|queued| queued.user.id == *user)?.feed.as_ref();
        running.or_else(waiting).cloned()
    }

    /// The feeds of the turns that a run tells of.
    pub(super) fn feeds_of_run(&self, run: &RunId) -> Vec<Feed> {
        let running = self.feed.clone().filter(|_| self.run.as_ref() == Some(run));
        let waiting = self.queue.iter().filter(|queued| queued.user.run() == Some(run));
        running.into_iter().chain(waiting.filter_map(|queued| queued.feed.clone())).collect()
    }

    /// The running turn, if it can be followed.
    pub(super) fn running(&self) -> Option<RunningTurn> {
        let feed = self.feed.clone().filter(|_| self.is_stored)?;
        let next = self.queue.front().filter(|next| next.after.is_some()).and_then(|next| next.feed.clone());
        Some(RunningTurn { user: self.running.clone(), feed, next, yields_asks: self.yields_asks })
    }

    /// The feed of the waiting turn that continues from an answer of the running turn.
    pub(super) fn feed_after(&self, answer: &MessageId) -> Option<Feed> {
        self.queue.iter().find(|queued| queued.after.as_ref() == Some(answer))?.feed.clone()
    }
}

/// A turn that was started or queued.
pub(super) struct Enqueued {
    /// Receives the answer, if one is wanted.
    pub(super) answer: Option<oneshot::Receiver<Arc<Message>>>,
    /// The feed of the turn, if it can be followed.
    pub(super) feed: Option<Feed>,
    /// Lets the turn begin; `None` if no answer is wanted.
    pub(super) beginning: Option<TurnStart>,
}

/// Lets a turn begin when its message or results are stored. If this is dropped before, they could not be stored: then the
/// turn is taken back, and the same message may come again.
pub(super) struct TurnStart {
    sessions: Sessions,
    user: Arc<Message>,
    /// Whether an earlier process left the turn open.
    is_left: bool,
    stored: Option<oneshot::Sender<()>>,
}

impl TurnStart {
    /// Lets the turn begin.
    pub(super) fn begin(mut self) {
        let Message { session, id, .. } = &*self.user;
        let stage = if self.is_left { "reopened" } else { "accepted" };
        tracing::info!(target: "handback::turn", session = session.as_str(), turn = id.as_str(), "{stage}");
        if let Some(stored) = self.stored.take() {
            // Nobody receives this if the session was deleted meanwhile.
            _ = stored.send(());
        }
    }
}

impl Drop for TurnStart {
    fn drop(&mut self) {
        if self.stored.is_some() {
            let taken_back = self
                .sessions
                .live(&self.user.session)
                .get_mut(&self.user.session)
                .and_then(|live| live.take_back(&self.user));
            drop(taken_back);
        }
    }
}

/// Stops a turn, and tells when it is over.
#[derive(Clone)]
pub(super) struct Handles {
    pub(super) abort: CancellationToken,
    /// Cancelled when the turn is over.
    pub(super) over: CancellationToken,
}

/// A turn to run.
pub(super) struct NewTurn<'a> {
    pub(super) session: &'a Arc<Session>,
    /// The user's message that the turn answers.
    pub(super) user: &'a Arc<Message>,
    /// Whether a session without a client becomes the prompting client's.
    pub(super) adopts: bool,
    /// The answer of the running turn to continue from. Such a turn goes to the front of the queue.
    pub(super) after: Option<MessageId>,
}

/// A turn that has not begun.
pub(crate) struct Queued {
    /// The session at the time of the prompt.
    pub(crate) session: Arc<Session>,
    pub(crate) user: Arc<Message>,
    /// Whether a session without a client becomes the prompting client's.
    adopts: bool,
    pub(crate) feed: Option<Feed>,
    /// Closes the feed after the turn.
    _close_feed: Option<CloseFeed>,
    /// The answer of the previous turn to continue from.
    after: Option<MessageId>,
    /// Whether an earlier process left the turn open.
    pub(crate) is_left: bool,
    /// The request that asked for the turn.
    span: Span,
    /// Receives when the turn's message or results are stored. The turn waits for this before it begins.
    stored: oneshot::Receiver<()>,
    done: oneshot::Sender<Arc<Message>>,
}

impl Queued {
    fn new(
        sessions: &Sessions,
        session: &Arc<Session>,
        user: &Arc<Message>,
        adopts: bool,
        after: Option<MessageId>,
        is_left: bool,
    ) -> (Self, Enqueued) {
        let ((tell_stored, stored), (done, answer)) = (oneshot::channel(), oneshot::channel());
        let is_followed = matches!(&user.role, Role::User(said) if said.needs.is_followed);
        let feed = is_followed.then(Feed::default);
        let (sessions, user) = (sessions.clone(), user.clone());
        let beginning = TurnStart { sessions, user: user.clone(), is_left, stored: Some(tell_stored) };
        let enqueued = Enqueued { answer: Some(answer), feed: feed.clone(), beginning: Some(beginning) };
        let _close_feed = feed.as_ref().map(Feed::closer);
        let (session, span) = (session.clone(), Span::current());
        (Self { session, user, adopts, feed, _close_feed, after, is_left, span, stored, done }, enqueued)
    }

    /// What the turn's lines in the log belong to: the turn, and the request that asked for it.
    fn turn_span(&self) -> Span {
        tracing::info_span!(target: "handback::turn", parent: &self.span, "turn", turn = self.user.id.as_str())
    }

    fn needs(&self) -> Option<&TurnNeeds> {
        match &self.user.role {
            Role::User(said) => Some(&said.needs),
            Role::Assistant(_) => None,
        }
    }

    /// The client that prompts.
    fn prompter(&self) -> Option<&ClientId> {
        self.needs()?.client.as_ref()
    }
}

impl Sessions {
    /// Starts a turn if the session is idle, else queues it.
    pub(super) fn enqueue(&self, new: NewTurn<'_>) -> Result<Enqueued> {
        self.enqueue_in(&mut self.live(&new.session.id), new)
    }

    /// The same, with the live sessions already locked.
    pub(super) fn enqueue_in(&self, live: &mut HashMap<SessionId, Live>, new: NewTurn<'_>) -> Result<Enqueued> {
        let NewTurn { session, user, adopts, after } = new;
        let known = live.get(&session.id);
        let owner = known.and_then(|live| live.client.as_ref()).or(session.client.as_ref());
        let Role::User(said) = &user.role else { return Err(SessionError::DuplicateMessage(user.id.clone())) };
        if let (Some(owner), Some(prompter)) = (owner, &said.needs.client)
            && owner != prompter
        {
            return Err(SessionError::Forbidden);
        }
        if !said.wants_reply {
            return Ok(Enqueued { answer: None, feed: None, beginning: None });
        }
        if let Some(known) = known {
            let most = self.hub().limits().queued_prompts;
            if known.is_answering(&user.id) && after.is_none() {
                return Err(SessionError::DuplicateMessage(user.id.clone()));
            }
            if known.queue.len() >= most {
                return Err(SessionError::QueueFull(most));
            }
        }
        let (queued, enqueued) = Queued::new(self, session, user, adopts, after, false);
        self.run_or_queue(live, queued);
        Ok(enqueued)
    }

    /// Enters a turn that an earlier process left open, and returns what lets it begin. Its message is stored, and it was
    /// allowed then.
    pub(super) fn enter_again(&self, session: &Arc<Session>, user: &Arc<Message>) -> Option<TurnStart> {
        let (queued, enqueued) = Queued::new(self, session, user, true, None, true);
        self.run_or_queue(&mut self.live(&session.id), queued);
        enqueued.beginning
    }

    /// Runs a turn if the session is idle, else queues it.
    fn run_or_queue(&self, live: &mut HashMap<SessionId, Live>, queued: Queued) {
        let (id, prompter) = (queued.session.id.clone(), queued.prompter().filter(|_| queued.adopts).cloned());
        match live.get_mut(&id) {
            Some(live) => {
                live.client = live.client.take().or_else(|| queued.session.client.clone()).or(prompter);
                match queued.after {
                    Some(_) => live.queue.push_front(queued),
                    None => live.queue.push_back(queued),
                }
            }
            None => {
                let turn = self.new_handles();
                let new = Live {
                    client: queued.session.client.clone().or(prompter),
                    session: None,
                    running: queued.user.id.clone(),
                    run: queued.user.run().cloned(),
                    turn: turn.clone(),
                    feed: queued.feed.clone(),
                    yields_asks: queued.needs().is_some_and(|needs| needs.yields_asks),
                    is_stored: queued.is_left,
                    is_taken_back: false,
                    queue: VecDeque::new(),
                };
                live.insert(id.clone(), new);
                self.hub().0.tasks.spawn_on(drive(self.clone(), id, queued, turn), &self.hub().0.runtime);
            }
        }
    }

    /// Whether a message is being answered, or waits to be answered.
    pub(super) fn is_answering(&self, id: &SessionId, user: &MessageId) -> bool {
        self.live(id).get(id).is_some_and(|live| live.is_answering(user))
    }

    /// Stops the turn with this feed, running or waiting. Other turns go on, even those of the same message.
    pub(crate) fn stop_turn(&self, id: &SessionId, feed: &Feed) {
        let stopped = self.live(id).get_mut(id).and_then(|live| live.stop_turn(feed));
        stopped.into_iter().for_each(|queued| self.give_up(queued));
    }

    /// Stops the running turn, if there is one, and gives up all that wait. The token is cancelled when the turn is over.
    pub(super) fn stop_all(&self, id: &SessionId) -> Option<CancellationToken> {
        let (over, waiting) = self.live(id).get_mut(id).map(Live::stop_all)?;
        waiting.into_iter().for_each(|queued| self.give_up(queued));
        Some(over)
    }

    /// Notes that a turn is over that never began, so that no later process runs it.
    fn give_up(&self, queued: Queued) {
        let span = queued.turn_span();
        let (sessions, Queued { session, user, stored, .. }) = (self.clone(), queued);
        let noting = async move {
            if stored.await.is_err() {
                return;
            }
            let close = |history: &History| {
                // The message may have been deleted, or another turn may answer it by now.
                let known = history.get(&user.id).filter(|known| known.turn() == user.turn());
                (known.map(|known| known.after_turn(None)).into_iter().collect(), ())
            };
            if let Err(error) = sessions.0.held.edit(&session.id, IfFull::Waits, close).await {
                tracing::error!(session = session.id.as_str(), %error, "a turn that was given up could not be noted");
            }
            turn::never_began(&sessions, &session.id, "aborted");
        };
        self.hub().0.tasks.spawn_on(noting.instrument(span), &self.hub().0.runtime);
    }

    /// Reports that a turn is over that never began, because its session is deleted.
    pub(super) fn drop_turn(&self, queued: Queued) {
        let span = queued.turn_span();
        let (sessions, Queued { session, stored, .. }) = (self.clone(), queued);
        let reporting = async move {
            // Otherwise the prompt is refused.
            if stored.await.is_ok() {
                turn::never_began(&sessions, &session.id, "deleted");
            }
        };
        self.hub().0.tasks.spawn_on(reporting.instrument(span), &self.hub().0.runtime);
    }

    /// The running turn, if it can be followed.
    pub(super) fn running(&self, id: &SessionId) -> Option<RunningTurn> {
        self.live(id).get(id)?.running()
    }

    /// The feed of the turn that answers a message, whether it is running or waits.
    pub fn feed_of(&self, id: &SessionId, user: &MessageId) -> Option<Feed> {
        self.live(id).get(id)?.feed_of(user)
    }

    /// Checks that another prompt may run or wait in a session.
    pub(super) fn must_have_room(&self, id: &SessionId) -> Result<()> {
        let most = self.hub().limits().queued_prompts;
        match self.live(id).get(id).is_some_and(|live| live.waiting() >= most) {
            true => Err(SessionError::QueueFull(most)),
            false => Ok(()),
        }
    }

    fn new_handles(&self) -> Handles {
        Handles { abort: self.0.stop.child_token(), over: CancellationToken::new() }
    }

    /// Changes a live session. Returns the changed session and the future of its save; `None` if the session is gone. A
    /// change that returns false is saved with the next one: every turn ends with a save.
    pub(crate) fn change(
        &self,
        id: &SessionId,
        change: impl FnOnce(&mut Session) -> bool,
    ) -> Option<(Arc<Session>, StoreFuture<()>)> {
        let mut live = self.live(id);
        let session = live.get_mut(id)?.session.as_mut()?;
        let now = self.clock().time();
        let changed = Arc::make_mut(session);
        let is_kept = change(changed);
        changed.updated = now;
        let session = session.clone();
        let saving = if is_kept {
            self.0.held.save_session(&session, IfFull::Waits)
        } else {
            Box::pin(std::future::ready(Ok(())))
        };
        drop(live);
        self.tell(&session, SessionEvent::Updated);
        Some((session, saving))
    }

    /// The current session for the turn that begins, and the future of its save; `None` if the session was deleted.
    pub(crate) async fn begin_turn(
        &self,
        id: &SessionId,
        queued: &Queued,
    ) -> Result<Option<(Arc<Session>, StoreFuture<()>)>, TurnError> {
        // Only the turn that is running now may begin. Otherwise a deleted session could come back.
        let is_known = match self.live(id).get(id) {
            Some(live) if live.running == queued.user.id => live.session.is_some(),
            _ => return Ok(None),
        };
        if !is_known {
            let stored = self.find(id).await.map_err(|error| turn::failed(&error))?;
            let mut live = self.live(id);
            let live = live.get_mut(id).filter(|live| live.running == queued.user.id);
            let (Some(live), Some(stored)) = (live, stored) else { return Ok(None) };
            live.session = Some(stored);
        }
        // Another message may have come first since `adopts` was decided.
        let adopts = queued.adopts && self.is_first(id, &queued.user.id).await.map_err(|error| turn::failed(&error))?;
        let adopting = queued.prompter().filter(|_| adopts);
        let changed = self.change(id, |session| {
            let client = session.client.as_ref().or(adopting).cloned();
            let has_frontend = session.has_frontend || queued.needs().is_some_and(|needs| needs.has_frontend);
            let title = title_of(&queued.user).filter(|_| session.title == UNTITLED);
            let is_new = client != session.client || has_frontend != session.has_frontend || title.is_some();
            (session.client, session.has_frontend) = (client, has_frontend);
            if let Some(title) = title {
                session.title = title;
            }
            is_new
        });
        if let Some((session, _)) = &changed
            && let (Some(owner), Some(prompter)) = (&session.client, queued.prompter())
            && owner != prompter
        {
            // The session had no client when the prompt came.
            return Err(TurnError::Other(SessionError::Forbidden.to_string()));
        }
        Ok(changed)
    }

    async fn is_first(&self, id: &SessionId, message: &MessageId) -> Result<bool, StoreError> {
        Ok(self.hold(id).await?.history(|history| history.is_first(message)))
    }

    /// The error of turns that are stopped now.
    pub(crate) fn stopped(&self) -> TurnError {
        if self.0.stop.is_cancelled() {
            TurnError::Stopped("The server was stopped while this turn was under way".to_owned())
        } else {
            TurnError::Aborted("The turn was aborted".to_owned())
        }
    }

    /// Takes the next turn from the queue. If there is none, the session is no longer live.
    fn next_turn(&self, id: &SessionId, last: &Queued) -> Option<(Queued, Handles)> {
        let mut sessions = self.live(id);
        // The session may have been deleted.
        let live = sessions.get_mut(id).filter(|live| live.running == last.user.id)?;
        let Some(queued) = live.queue.pop_front() else {
            // Send this under the lock, before the session can become busy again.
            self.tell(live.session.as_ref().unwrap_or(&last.session), SessionEvent::Idle);
            sessions.remove(id);
            drop(sessions);
            self.0.idle.notify_waiters();
            return None;
        };
        (live.running, live.run) = (queued.user.id.clone(), queued.user.run().cloned());
        live.turn = self.new_handles();
        live.feed.clone_from(&queued.feed);
        live.yields_asks = queued.needs().is_some_and(|needs| needs.yields_asks);
        (live.is_stored, live.is_taken_back) = (queued.is_left, false);
        Some((queued, live.turn.clone()))
    }
}

/// Runs the turns of a session, one after the other, until no more prompts wait.
async fn drive(sessions: Sessions, id: SessionId, first: Queued, turn: Handles) {
    let mut next = Some((first, turn));
    let mut alive = Alive { sessions: &sessions, id: &id, running: None };
    while let Some((mut queued, turn)) = next {
        alive.running = Some((queued.user.id.clone(), turn.over.drop_guard()));
        let is_stored = (&mut queued.stored).await.is_ok();
        if let Some(live) = sessions.live(&id).get_mut(&id) {
            live.is_stored = is_stored;
        }
        let span = queued.turn_span();
        let answer = match is_stored {
            true => turn::turn(&sessions, &id, &mut queued, &turn.abort).instrument(span).await,
            false => None,
        };
        if sessions.hub().is_leaving() {
            return;
        }
        next = sessions.next_turn(&id, &queued);
        if let Some(answer) = answer {
            if let Some(feed) = &queued.feed {
                // The session's state is updated first, so that a reader of this event finds the turn over.
                feed.tell(TurnEvent::Ended(answer.error().cloned().map(Arc::new)));
            }
            // The receiver may be gone.
            _ = queued.done.send(answer);
        }
    }
    alive.running = None;
}

/// However the task of a session ends, this guard makes sure that the session does not stay busy for ever.
struct Alive<'a> {
    sessions: &'a Sessions,
    id: &'a SessionId,
    running: Option<(MessageId, DropGuard)>,
}

impl Drop for Alive<'_> {
    fn drop(&mut self) {
        if let Some((running, _over)) = self.running.take() {
            let mut sessions = self.sessions.live(self.id);
            if sessions.get(self.id).is_some_and(|live| live.running == running) {
                sessions.remove(self.id);
            }
            drop(sessions);
            self.sessions.0.idle.notify_waiters();
        }
    }
}

/// The first line of a user's message, shortened.
fn title_of(user: &Message) -> Option<String> {
    let text = user.parts.iter().find_map(|part| match &part.body {
        PartBody::Text { text, .. } => text.lines().map(str::trim).find(|line| !line.is_empty()),
        _ => None,
    })?;
    Some(shortened(text, TITLE_CHARACTERS))
}
